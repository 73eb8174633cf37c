"""`railyard site …`: the commands for a site of several stacks.

To split or join, each new state is proven by a preview without changes, and then stored by an
update, before the old one is emptied. Every failure before that leaves the old stack as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from subprocess import CompletedProcess
from typing import Annotated, Any, Final, cast

import typer
import yaml

from components.artefacts.lock import lock_path
from components.checks.site import check_config_value, load_checked_site
from components.cli import stack as stacks
from components.cli.app import StackName, StackOrFile, command_app, option, say
from components.cli.preview import preview_stack
from components.cli.status import look_for_drift
from components.core.errors import RailyardError, UsageError
from components.core.limits import read_text
from components.core.plain_text import counted, shortened
from components.core.problem import Json
from components.core.templates import fault_text
from components.model.cluster import CLUSTER
from components.model.places import list_secrets
from components.model.texts import fold_names
from components.plan.make import make_plan
from components.plan.pieces import PAGE, STAGES, Piece, names_of_piece, pieces_of, plan_piece
from components.preview.report import render_text
from components.project import operator as operators
from components.project import split_state as splitting
from components.project.engine import OWN_LOGIN, backend_of, wanted_versions
from components.project.write import REQUIREMENTS
from components.reading.site_path import CONFIG_FILE, SITE_KEY, config_file
from components.update.pieces import OF_PIECES
from components.update.secrets import secret_names

app = command_app("Run, split, join and export a site of several stacks.")
Work = Callable[[Piece], tuple[int, str]]
"""Does the work of one stack; returns the exit code, and the result in words."""
_BACKUPS: Final = Path(".railyard")
_QUIET: Final = {"RAILYARD_OBSERVE": "never", "RAILYARD_ACCEPT": "never"}
"""The proof compares records with the file: it reads no device, and starts no job."""
_SHARED: Final = frozenset(name for stage in STAGES for name in (stage, f"{stage}-ready"))
_SHOWN: Final = 5


@app.command("list")
def list_pieces(stack: StackOrFile = "") -> None:
    """List the stacks of a site in the order of an update, with their switches and hosts."""
    for each in _pieces(stacks.load_stack_or_file(stack)):
        devices = fold_names((*each.switches, *each.hosts)) or "none"
        say(f"{each.wave + 1}  {each.stack}  {', '.join(each.parts)}: {devices}")


@app.command()
def up(stack: StackName = "") -> None:
    """Update the stacks of a site in order: spines, units in waves, cluster.

    A failed stack stops the waves after it. Run it again to continue: a finished stack has nothing
    to do. Exit codes: 0 all are updated, 1 one failed.
    """
    if code := _run(stack, _up, stop=True):
        say(f"Fix the cause, then continue: railyard site up {stack}")
    raise typer.Exit(code)


@app.command()
def preview(stack: StackName = "") -> None:
    """Show the effects of an update of each stack of a site, in order.

    Exit codes: 0 shown, 1 a preview failed.
    """
    raise typer.Exit(_run(stack, _preview, stop=False))


@app.command()
def drift(stack: StackName = "") -> None:
    """Compare the devices of each stack of a site with their last applied state.

    Exit codes: 0 no drift, 3 drift, 4 something could not be read, or an update is running.
    """
    raise typer.Exit(_run(stack, _drift, stop=False, failed=4))


def _run(stack: str, work: Work, *, stop: bool, failed: int = 1) -> int:
    """Work on the waves of a site in order, print a table, and return the worst exit code.

    UsageError: one of its stacks does not exist.
    """
    loaded, pieces = _load_site(stack)
    here = _survey(stack, pieces)
    if here.get(stack):
        _refuse_twice(stack, pieces, here)
        raise UsageError(fault_text(__file__, "not-split", stack=stack))
    if gone := [each.stack for each in pieces if each.stack not in here]:
        words = {"names": ", ".join(gone), "stack": stack}
        raise UsageError(fault_text(__file__, "stacks-gone", **words))

    def attempt(piece: Piece) -> tuple[int, str]:
        try:
            _tell_other_secrets(loaded, piece)
            return work(piece)
        except RailyardError as error:
            say(f"{piece.stack}: {error}", err=True)
            return failed, "FAILED, see above"

    results: dict[str, tuple[int, str]] = {}
    for _, members in groupby(pieces, lambda each: each.wave):
        if stop and any(code for code, _ in results.values()):
            break
        wave = tuple(members)
        with ThreadPoolExecutor(max_workers=len(wave)) as pool:
            done = pool.map(attempt, wave)
            results |= {each.stack: found for each, found in zip(wave, done, strict=True)}
    rows = [(each.stack, results.get(each.stack, (0, "not run"))[1]) for each in pieces]
    width = max(len(name) for name, _ in rows)
    say("\n" + "\n".join(f"{name:<{width}}  {words}" for name, words in rows))
    return max(code for code, _ in results.values())


def _tell_other_secrets(site: stacks.Stack, piece: Piece) -> None:
    """Name the secrets whose values differ in the stack of a piece and in the site's own."""
    own = {**site.secrets, **stacks.read_config(piece.stack).secrets}
    kept = [name for name in secret_names(site.spec) if name in site.secrets]
    if names := [name for name in kept if own[name] != site.secrets[name]]:
        words = {"stack": piece.stack, "names": ", ".join(names), "first": names[0]}
        say(fault_text(__file__, "other-secrets", site=site.name, **words), err=True)


def _up(piece: Piece) -> tuple[int, str]:
    from pulumi import automation  # noqa: PLC0415, TID251 - only an update needs the engine

    class Project(automation.LocalWorkspace):
        """The project in this folder."""

        def select_stack(self, stack_name: str) -> None:
            """Leave the user's selected stack as it is; every command names its own."""

    def tell(line: str) -> None:
        if line.strip():
            say(f"{piece.stack}: {line}")

    flags = stacks.config_flags(piece.stack)
    project = automation.Stack.select(piece.stack, Project(work_dir=str(Path.cwd())))
    try:
        done = project.up(
            on_output=tell, on_error=tell, config_file=flags[-1] if flags else None, color="never"
        )
    except automation.CommandError:
        return 1, "FAILED, see above"
    changes = done.summary.resource_changes or {}
    counts = [f"{count} {automation.OpType(op).value}" for op, count in changes.items()]
    return 0, f"updated: {', '.join(counts)}"


def _preview(piece: Piece) -> tuple[int, str]:
    found = preview_stack(piece.stack)
    say(render_text(found))
    if found.failed:
        return 1, "FAILED, see above"
    counts = ((len(found.edits), "of the file"), (len(found.repairs), "of drift"))
    return 0, ", ".join(f"{count} {what}" for count, what in counts if count) or "no change"


def _drift(piece: Piece) -> tuple[int, str]:
    code, text = look_for_drift(piece.stack)
    say(f"{piece.stack}\n{text}", nl=False, paint=True)
    return code, {0: "no drift", 3: "drift, see above"}.get(code, "not known, see above")


def _load_site(stack: str) -> tuple[stacks.Stack, tuple[Piece, ...]]:
    """Load the stack of a whole site, and list its pieces; refuse the stack of one piece."""
    loaded = stacks.load_stack(stack)
    if loaded.plan.piece:
        raise UsageError(fault_text(__file__, "piece-of", stack=stack, plan=loaded.plan))
    if loaded.spec.stacks is None:
        _survey(stack, ())  # the file may have lost the units of a split site
    return loaded, _pieces(loaded)


def _pieces(loaded: stacks.Stack) -> tuple[Piece, ...]:
    pieces = pieces_of(loaded.spec, loaded.plan.stack)
    if not pieces:
        raise UsageError(fault_text(__file__, "one-stack", site=loaded.spec.name, page=PAGE))
    return pieces


def _resources() -> Mapping[str, int]:
    """Map each stack of the project to its number of resources."""
    listed = json.loads(stacks.pulumi(["stack", "ls", "--json"]))
    return {each["name"].rpartition("/")[2]: each.get("resourceCount") or 0 for each in listed}


def _survey(stack: str, pieces: Sequence[Piece]) -> Mapping[str, int]:
    """Return the number of resources of each stack of the project.

    UsageError: a stack with the name of a piece is of another site, or one of this site is a piece
    that the file lacks.
    """
    here, known = _resources(), {each.stack: each.name for each in pieces}
    site = _site_of(stack)
    for name, count in here.items():
        is_ours = name != stack and stacks.archive_of(name) == stack
        if name in known and not is_ours and (count or _site_of(name) != site):
            words = {"name": name, "unit": known[name], "file": config_file(name)}
            raise UsageError(fault_text(__file__, "unknown-piece", stack=stack, **words))
        if count and is_ours and name not in known:
            words = {"name": name, "count": counted(count, "resource"), "page": PAGE}
            raise UsageError(fault_text(__file__, "unlisted-piece", stack=stack, **words))
    return here


def _site_of(stack: str) -> object:
    file = config_file(stack)
    return _stack_file(file)[1].get(SITE_KEY) if file.exists() else None


@app.command()
def split(stack: StackName = "") -> None:
    """Give each unit of a site its own stack, with the records that it has in this one.

    Nothing changes on devices. A failure leaves the stack as it was. Exit codes: 0 split, 1 a
    proof failed, 2 the stack cannot be split.
    """
    loaded, pieces = _load_site(stack)
    _refuse_foreign_config()
    here = _survey(stack, pieces)
    state = _export(stack)
    if not splitting.records_of(state):
        made = _make_missing(stack, pieces, here)
        say(f"made {', '.join(made)}: run `railyard site up {stack}`." if made else "nothing to do")
        return
    _refuse_twice(stack, pieces, here)
    empty = {each.stack: _export(each.stack) for each in pieces if each.stack in here}
    _refuse_unfinished({stack: state, **empty})
    if changes := _changes(stack):
        words = {"stack": stack, "names": shortened(changes, _SHOWN)}
        raise UsageError(fault_text(__file__, "not-up-to-date", **words))
    backup = _keep(stack, "before-split", {stack: state})
    # The cluster also gets the records that no plan names.
    plans = ((each, plan_piece(loaded.plan, each)) for each in pieces)
    shares = [
        splitting.Share(each.stack, names_of_piece(plan), each.name == CLUSTER)
        for each, plan in plans
    ]
    new = [each.stack for each in pieces if each.stack not in empty]
    with _undone(stack, backup, empty, new):
        _make_missing(stack, pieces, here)
        parts = splitting.split_state(state, stack, shares, _SHARED, OF_PIECES)
        for name, part in parts.items():
            _store(name, part)
    _import(stack, splitting.without_records(state))
    say(f"{stack} is split: {', '.join(each.stack for each in pieces)}. Its old state is {backup}.")
    say(f"Each has its own copy of every secret. Update the site with `railyard site up {stack}`.")


@app.command()
def join(stack: StackName = "") -> None:
    """Give all records of a split site back to one stack, and remove the stacks of its pieces.

    Nothing changes on devices. A failure leaves all stacks as they were. Exit codes: 0 joined, 1 a
    proof failed, 2 the stacks cannot be joined.
    """
    _, pieces = _load_site(stack)
    _refuse_foreign_config()
    here = _survey(stack, pieces)
    empty = _export(stack)
    if splitting.records_of(empty):
        _refuse_twice(stack, pieces, here)
        raise UsageError(fault_text(__file__, "not-split", stack=stack))
    if gone := [each.stack for each in pieces if each.stack not in here]:
        raise UsageError(fault_text(__file__, "cannot-join", names=", ".join(gone), page=PAGE))
    states = {each.stack: _export(each.stack) for each in pieces}
    _refuse_unfinished(states)
    backup = _keep(stack, "before-join", states)
    with _undone(stack, backup, {stack: splitting.without_records(empty)}):
        # Each stack has its own key, so the secrets are opened here and sealed by the import.
        opened = {each.stack: _export(each.stack, "--show-secrets") for each in pieces}
        _store(stack, splitting.join_states(opened, stack, OF_PIECES))
    _forget(states)
    say(f"{stack} has the whole site again. The states of its pieces are in {backup}.")
    say(f"Remove `stacks` from the site file to keep one stack; then `pulumi up --stack {stack}`.")


@contextmanager
def _undone(
    stack: str, backup: Path, states: Mapping[str, splitting.State], new: Sequence[str] = ()
) -> Generator[None]:
    """Give stacks their states back and remove the new ones if the work within fails."""
    try:
        yield
    except BaseException as error:
        for name, state in states.items():
            _import(name, state)
        if new:
            _forget(new)
        if isinstance(error, RailyardError):
            kept = f"{stack} is as it was before. Its states were kept in {backup}."
            raise RailyardError(f"{error}\nNothing was changed: {kept}") from error
        raise


def _refuse_foreign_config() -> None:
    if CONFIG_FILE in os.environ:
        raise UsageError(fault_text(__file__, "foreign-config", variable=CONFIG_FILE))


def _refuse_unfinished(states: Mapping[str, splitting.State]) -> None:
    for stack, state in states.items():
        if unfinished := splitting.pending_of(state):
            words = {"stack": stack, "names": shortened(unfinished, _SHOWN)}
            raise UsageError(fault_text(__file__, "unfinished", **words))


def _refuse_twice(stack: str, pieces: Sequence[Piece], here: Mapping[str, int]) -> None:
    if full := [each.stack for each in pieces if here.get(each.stack)]:
        words = {"names": ", ".join(full), "stack": stack, "first": full[0]}
        raise UsageError(fault_text(__file__, "twice", **words))


def _make_missing(stack: str, pieces: Sequence[Piece], here: Mapping[str, int]) -> tuple[str, ...]:
    """Make the stacks that do not exist, with the configuration of the site's own."""
    made: list[str] = []
    for each in pieces:
        if each.stack not in here:
            stacks.pulumi(["stack", "init", each.stack, "--copy-config-from", stack, "--no-select"])
            made.append(each.stack)
        stacks.pulumi(["config", "set", "railyard:piece", each.name, "--stack", each.stack])
    return tuple(made)


def _forget(names: Iterable[str]) -> None:
    """Remove the stacks of pieces and their configuration; their devices keep everything."""
    here = _resources()
    for name in (each for each in names if each in here):
        stacks.pulumi(["stack", "rm", name, "--yes", "--force"])


def _store(stack: str, state: splitting.State) -> None:
    """Import a state, prove that an update changes nothing, and let it seal the secrets."""
    _import(stack, state)
    if changes := _changes(stack):
        raise UsageError(f"an update of {stack} would change {shortened(changes, _SHOWN)}")
    done = _run_quietly(stack, "up", "--yes", "--skip-preview", deadline_s=None)
    if done.returncode:
        raise UsageError(f"an update of {stack} failed:\n{(done.stderr or done.stdout).strip()}")
    say(f"{stack}: {len(splitting.records_of(_export(stack)))} records, nothing to change")


def _changes(stack: str) -> list[str]:
    """List what an update would change, without records of stages: these count their members."""
    done = _run_quietly(stack, "preview", "--json", deadline_s=stacks.PREVIEW_DEADLINE_S)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise UsageError(f"{stack}: {(done.stderr or done.stdout).strip()}") from None
    if done.returncode:
        notes: list[dict[str, str]] = found.get("diagnostics") or []
        texts = [each["message"] for each in notes if each["severity"] == "error"]
        raise UsageError(f"{stack}: " + ("\n".join(texts) or done.stderr).strip())
    steps: list[dict[str, Any]] = found.get("steps") or []
    steps = [step for step in steps if step["op"] not in {"same", "refresh"}]
    steps = [step for step in steps if step["op"] != "update" or step["newState"].get("custom")]
    return [*map(splitting.name_of, steps)]


def _run_quietly(stack: str, *words: str, deadline_s: float | None) -> CompletedProcess[str]:
    flags = ["--non-interactive", "--stack", stack, *stacks.config_flags(stack)]
    return stacks.run_pulumi([*words, *flags], environment=_QUIET, deadline_s=deadline_s)


def _export(stack: str, *flags: str) -> splitting.State:
    return json.loads(stacks.pulumi(["stack", "export", "--stack", stack, *flags]))


def _import(stack: str, state: splitting.State) -> None:
    """Import a state from stdin: it can have its secrets in clear, so no file may have it."""
    stacks.pulumi(["stack", "import", "--stack", stack], stdin=json.dumps(state))


def _keep(stack: str, name: str, states: Mapping[str, splitting.State]) -> Path:
    """Write the exports into the archive; secrets stay encrypted."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = _BACKUPS / stack / f"{name}-{now}"
    try:
        folder.mkdir(parents=True)
        for each, state in states.items():
            file = folder / f"{each}.json"
            file.touch(mode=0o600)
            file.write_text(json.dumps(state, indent=1), encoding="utf-8")
    except OSError as error:
        words = {"error": error, "folder": folder}
        raise UsageError(fault_text(__file__, "no-backup", **words)) from error
    return folder


@app.command()
def export(  # noqa: PLR0913 - one parameter for each option
    stack: StackName = "",
    *,
    operator: Annotated[
        bool, option("For the Pulumi Kubernetes Operator; needed.", "--operator")
    ] = False,
    namespace: Annotated[str, option("Namespace of all objects.")] = "railyard",
    image: Annotated[str, option("Image with Pulumi and Python; default Pulumi's own.")] = "",
    repo: Annotated[
        str, option("Git address as the cluster reaches it; default that of `origin`.")
    ] = "",
    git_token: Annotated[
        bool, option("The Secret has GIT_TOKEN for an https address.", "--git-token")
    ] = False,
    backend: Annotated[str, option("Address of the states as the pods reach it.")] = "",
    preview: Annotated[bool, option("Only preview; change nothing.", "--preview")] = False,
    operator_version: Annotated[str, option("Release of the operator.")] = "",
    kubeconfig: Annotated[
        Path | None, option("Cluster with the operator; its definition is read.")
    ] = None,
) -> None:
    """Print the objects with which the Pulumi Kubernetes Operator runs a site.

    No device is contacted, and no secret is read. Exit codes: 0 printed, 1 the file has problems,
    2 the operator could not run it.
    """
    if not operator:
        raise UsageError("the form of the export is missing.\n  fix    add --operator")
    if operator_version:
        operators.refuse_old(operator_version)
    if kubeconfig:
        _refuse_old_cluster(kubeconfig)
    file = config_file(stack)
    written, config = _stack_file(file)
    if piece := config.get(f"{stacks.PREFIX}piece"):
        fix = f"name the site: {stack.removesuffix(f'-{piece}')}"
        raise UsageError(f"{stack} is one piece of a site.\n  fix    {fix}")
    states = backend or backend_of(os.environ, Path.cwd())
    if not states:
        raise UsageError(f"Pulumi is not logged in, so no state is known.\n  fix    {OWN_LOGIN}")
    if states.startswith("file:") and not backend:
        raise UsageError(fault_text(__file__, "states-here", states=states))
    exports = _stacks(stack, file.parent, config, operators.engine_variables(states, written))
    site = Path(str(config.get(SITE_KEY, "")))
    needed = ["Pulumi.yaml", REQUIREMENTS, *map(str, filter(Path.is_file, (site, lock_path(site))))]
    exported = operators.Export(
        source=operators.read_source(Path.cwd(), needed, repo, token=git_token),
        backend="" if operators.has_password(states) else states,
        provider=str(written.get("secretsprovider", "")),
        image=image or f"pulumi/pulumi:{wanted_versions()['pulumi']}-nonroot",
        namespace=namespace, secret=f"railyard-{operators.object_name(stack)}", preview=preview,
    )  # fmt: skip
    tested = "checked" if operator_version or kubeconfig else "not checked: --kubeconfig FILE"
    files = " ".join(f"--from-file={key}" for key in exported.keys(exports))
    order, oldest = fold_names(each.name for each in exports), operators.OLDEST
    commit, secret = exported.source.commit[:12], exported.secret
    head = (
        f"{stack} at {commit}, in the order of an update: {order}",
        f"The operator must be {oldest} or later ({tested}). docs/howto/operator.md explains all.",
        "First, in a folder with one file for each key, without a line break at its end:",
        f"  kubectl create namespace {namespace}",
        f"  kubectl -n {namespace} create secret generic {secret} {files}",
        "Then: kubectl apply -f THIS_FILE",
    )
    say(exported.render(exports, head), nl=False)


def _refuse_old_cluster(kubeconfig: Path) -> None:
    from components.kubernetes.client import KubernetesCalls  # noqa: PLC0415 - rarely needed

    try:
        answer = KubernetesCalls(read_text(kubeconfig)).call("GET", operators.DEFINITION)
    except OSError as error:
        raise UsageError(f"--kubeconfig {kubeconfig}: it cannot be read: {error}") from error
    where = f"{operators.DEFINITION.rpartition('/')[2]} in the cluster of {kubeconfig}"
    if answer.status == HTTPStatus.NOT_FOUND:
        raise UsageError(fault_text(__file__, "no-operator", place=where))
    if "spec" not in answer.body:
        raise UsageError(fault_text(__file__, "no-definition", answer=answer, place=where))
    operators.refuse_old_definition(answer.body, where)


def _stack_file(file: Path) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Read a stack's file, and its configuration without the encrypted values."""
    try:
        read: Any = yaml.safe_load(read_text(file))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = fault_text(__file__, "unread-stack-file", file=file, error=error)
        raise UsageError(text) from error
    written = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if not isinstance(config := written.get("config") or {}, dict):
        raise UsageError(fault_text(__file__, "no-mapping"))
    config = cast("dict[str, Any]", config)
    sealed = {key for key, value in config.items() if isinstance(value, dict) and "secure" in value}
    return written, {key: value for key, value in config.items() if key not in sealed}


def _stacks(
    name: str, folder: Path, config: Mapping[str, object], engine: Sequence[str]
) -> list[operators.OperatorStack]:
    """List the stacks of the site in the order of an update, each with what it needs."""
    # Without the stack's file: the Secret has the values that this file may lack.
    if site := config.get(SITE_KEY):
        checked = load_checked_site(folder / str(site))
    else:
        checked = check_config_value(cast("Json", config.get(f"{stacks.PREFIX}cluster")), None)
    spec = checked.spec_or_raise()
    variables = [*engine, *sorted({ref.env for ref, _ in list_secrets(spec) if ref.env})]
    secrets = secret_names(spec)
    pieces = pieces_of(spec, name)
    if not pieces:
        return [operators.OperatorStack(name, config, secrets, variables)]
    plan, names = make_plan(spec, name, checked.lock), {each.name: each.stack for each in pieces}
    needs = {each.name: plan_piece(plan, each).secret_names for each in pieces}
    needs[CLUSTER] |= {*secrets}  # its acceptance reads every switch
    found: list[operators.OperatorStack] = []
    for each in pieces:
        own = {**config, f"{stacks.PREFIX}piece": each.name}
        after = [names[other] for other in each.after]
        needed = [key for key in secrets if key in needs[each.name]]
        found.append(operators.OperatorStack(each.stack, own, needed, variables, after))
    return found

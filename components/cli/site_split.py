"""`railyard site split|join`: give the records of one stack to several, and back.

Each new state is proven by a preview without changes, and then stored by an update, before the old
one is emptied. Every failure before that leaves the old stack as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from components.cli.app import StackName, say
from components.cli.stack import (
    UPDATE_DEADLINE_S,
    Stack,
    config_flags,
    load_stack,
    pulumi,
    run_pulumi,
)
from components.core.errors import RailyardError, UsageError
from components.model.cluster import CLUSTER
from components.plan.pieces import PAGE, STAGES, Piece, names_of_piece, pieces_of, plan_piece
from components.project.split_state import (
    Share,
    State,
    join_states,
    pending_of,
    records_of,
    split_state,
    without_records,
)
from components.reading.site_path import CONFIG_FILE

BACKUPS: Final = Path(".railyard")
QUIET: Final = {"RAILYARD_OBSERVE": "never", "RAILYARD_ACCEPT": "never"}
"""The proof compares records with the file: it reads no device, and starts no job."""
_SHARED: Final = frozenset(name for stage in STAGES for name in (stage, f"{stage}-ready"))
_SHOWN: Final = 5


def load_site(stack: str) -> tuple[Stack, tuple[Piece, ...]]:
    """Load the stack of a whole site, and list its pieces.

    Raises:
        UsageError: Its file has no `stacks`, or it is the stack of one piece.
    """
    loaded = load_stack(stack)
    if loaded.plan.piece:
        raise UsageError(
            f"stack {stack} is the piece {loaded.plan.piece} of the site {loaded.plan.stack}.\n"
            f"  fix    name the stack of the site: {loaded.plan.stack}"
        )
    return loaded, pieces_or_refuse(loaded)


def pieces_or_refuse(loaded: Stack) -> tuple[Piece, ...]:
    """List the pieces of a site.

    Raises:
        UsageError: Its file has no `stacks`.
    """
    pieces = pieces_of(loaded.spec, loaded.plan.stack)
    if not pieces:
        raise UsageError(
            f"the site {loaded.spec.name} has one stack: its file has no `stacks`.\n"
            "  fix    write the leaves of each unit: stacks: {units: {a: {leaves: [leaf-01]}}}"
            f" ({PAGE}); or use `pulumi up` and `railyard preview`."
        )
    return pieces


def existing_stacks() -> Mapping[str, int]:
    """Map each stack of the project to its number of resources."""
    listed = json.loads(pulumi(["stack", "ls", "--json"]))
    return {
        str(each["name"]).rpartition("/")[2]: int(each.get("resourceCount") or 0)
        for each in cast("list[dict[str, Any]]", listed)
    }


def split(stack: StackName = "") -> None:
    """Give each unit of a site its own stack, with the records that it has in this one.

    Nothing changes on devices. A failure leaves the stack as it was. Exit codes: 0 split, 1 a
    proof failed, 2 the stack cannot be split.
    """
    loaded, pieces = load_site(stack)
    _refuse_foreign_config()
    here = existing_stacks()
    state = _export(stack)
    if not records_of(state):
        made = _make_missing(stack, pieces, here)
        say(f"made {', '.join(made)}: run `railyard site up {stack}`." if made else "nothing to do")
        return
    _refuse_unready(stack, state)
    if full := [each.stack for each in pieces if here.get(each.stack)]:
        raise UsageError(
            f"{', '.join(full)} has resources, and so has {stack}: the site would exist twice.\n"
            f"  fix    after a split that was ended by force: pulumi stack rm --force {full[0]}; it"
            " forgets the stack, and changes no device"
        )
    backup = _keep(stack, "before-split", {stack: state})
    try:
        _make_missing(stack, pieces, here)
        for name, part in split_state(state, stack, _shares(loaded, pieces), _SHARED).items():
            _store(name, part)
    except BaseException as error:
        _forget([each.stack for each in pieces])
        if not isinstance(error, RailyardError):
            raise
        raise _unchanged(error, stack, backup) from error
    _import(stack, without_records(state))
    say(f"{stack} is split: {', '.join(each.stack for each in pieces)}. Its old state is {backup}.")
    say(f"Update the site with `railyard site up {stack}`.")


def join(stack: StackName = "") -> None:
    """Give all records of a split site back to one stack, and remove the stacks of its pieces.

    Nothing changes on devices. A failure leaves all stacks as they were. Exit codes: 0 joined, 1 a
    proof failed, 2 the stacks cannot be joined.
    """
    _, pieces = load_site(stack)
    _refuse_foreign_config()
    here = existing_stacks()
    if gone := [each.stack for each in pieces if each.stack not in here]:
        raise UsageError(
            f"{', '.join(gone)} does not exist, so its records cannot be joined.\n"
            f"  fix    restore its state: pulumi stack init, then pulumi stack import ({PAGE})"
        )
    empty = _export(stack)
    if records_of(empty):
        raise UsageError(
            f"stack {stack} has resources, so it is not split.\n"
            f"  fix    to split it: railyard site split {stack}"
        )
    states = {each.stack: _export(each.stack) for each in pieces}
    for name, state in states.items():
        _refuse_unfinished(name, state)
    backup = _keep(stack, "before-join", states)
    try:
        # Each stack has its own key, so the secrets are opened here and sealed by the import.
        opened = {each.stack: _export(each.stack, "--show-secrets") for each in pieces}
        _store(stack, join_states(opened, stack))
    except BaseException as error:
        _import(stack, without_records(empty))
        if not isinstance(error, RailyardError):
            raise
        raise _unchanged(error, stack, backup) from error
    _forget([each.stack for each in pieces])
    say(f"{stack} has the whole site again. The states of its pieces are in {backup}.")
    say(f"Remove `stacks` from the site file to keep one stack; then `pulumi up --stack {stack}`.")


def _refuse_foreign_config() -> None:
    if CONFIG_FILE in os.environ:
        raise UsageError(
            f"{CONFIG_FILE} names the configuration of one stack, and a split site has several.\n"
            f"  fix    keep the configurations in the project's folder, and unset {CONFIG_FILE}"
        )


def _refuse_unfinished(stack: str, state: State) -> None:
    if unfinished := pending_of(state):
        raise UsageError(
            f"an update of stack {stack} did not finish its work on {_few(unfinished)}.\n"
            f"  fix    complete it first: pulumi up --stack {stack}"
        )


def _refuse_unready(stack: str, state: State) -> None:
    """Refuse to split a stack whose records are not those of the site file."""
    _refuse_unfinished(stack, state)
    if changes := _changes(stack):
        raise UsageError(
            f"stack {stack} is not up to date: an update would change {_few(changes)}.\n"
            f"  fix    run `pulumi up --stack {stack}` first; `stacks` itself changes the groups of"
            " hosts that reboot together"
        )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _shares(loaded: Stack, pieces: Sequence[Piece]) -> list[Share]:
    """Return the resources of each piece; the cluster also gets those that no plan names."""
    return [
        Share(each.stack, names_of_piece(plan_piece(loaded.plan, each)), each.name == CLUSTER)
        for each in pieces
    ]


def _make_missing(stack: str, pieces: Sequence[Piece], here: Mapping[str, int]) -> tuple[str, ...]:
    """Make the stacks that do not exist, with the configuration of the site's own."""
    made: list[str] = []
    for each in pieces:
        if each.stack not in here:
            pulumi(["stack", "init", each.stack, "--copy-config-from", stack, "--no-select"])
            made.append(each.stack)
        pulumi(["config", "set", "railyard:piece", each.name, "--stack", each.stack])
    return tuple(made)


def _forget(stacks: Sequence[str]) -> None:
    """Remove stacks and their configuration; their devices keep everything."""
    here = existing_stacks()
    for name in stacks:
        if name in here:
            pulumi(["stack", "rm", name, "--yes", "--force"])


def _store(stack: str, state: State) -> None:
    """Import a state, prove that an update has nothing to do, and let the engine write it.

    The update encrypts the secrets for the stack itself, and records stages and outputs.

    Raises:
        UsageError: The engine would change something.
    """
    _import(stack, state)
    if changes := _changes(stack):
        raise UsageError(f"an update of {stack} would change {_few(changes)}")
    flags = ["--yes", "--skip-preview", "--non-interactive", "--stack", stack]
    done = run_pulumi(
        ["up", *flags, *config_flags(stack)], environment=QUIET, deadline_s=UPDATE_DEADLINE_S
    )
    if done.returncode:
        raise UsageError(f"an update of {stack} failed:\n{(done.stderr or done.stdout).strip()}")
    say(f"{stack}: {len(records_of(_export(stack)))} records, nothing to change")


def _changes(stack: str) -> list[str]:
    """Return the resources that an update would change; stages, which do nothing, are left out."""
    flags = ["--json", "--non-interactive", "--stack", stack, *config_flags(stack)]
    done = run_pulumi(["preview", *flags], environment=QUIET, deadline_s=UPDATE_DEADLINE_S)
    try:
        found = cast("dict[str, Any]", json.loads(done.stdout))
    except ValueError:
        raise UsageError(f"{stack}: {(done.stderr or done.stdout).strip()}") from None
    if done.returncode:
        notes = cast("list[dict[str, str]]", found.get("diagnostics") or [])
        texts = [each["message"] for each in notes if each["severity"] == "error"]
        raise UsageError(f"{stack}: " + ("\n".join(texts) or done.stderr).strip())
    return [
        str(step["urn"]).rpartition("::")[2]
        for step in cast("list[dict[str, Any]]", found.get("steps") or [])
        if step["op"] not in {"same", "refresh"} and not _is_stage(step)
    ]


def _is_stage(step: Mapping[str, Any]) -> bool:
    """Whether a change is only of a stage's own record, which counts its members."""
    state = cast("Mapping[str, Any]", step.get("newState") or {})
    return step["op"] == "update" and not state.get("custom")


def _export(stack: str, *flags: str) -> State:
    return cast("State", json.loads(pulumi(["stack", "export", "--stack", stack, *flags])))


def _import(stack: str, state: State) -> None:
    """Import a state from stdin: it can have its secrets in clear, so no file may have it."""
    pulumi(["stack", "import", "--stack", stack], stdin=json.dumps(state))


def _keep(stack: str, name: str, states: Mapping[str, State]) -> Path:
    """Write the exports into the archive; secrets stay encrypted."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = BACKUPS / stack / f"{name}-{now}"
    try:
        folder.mkdir(parents=True)
        for each, state in states.items():
            _write(folder / f"{each}.json", json.dumps(state, indent=1))
    except OSError as error:
        raise UsageError(
            f"the backup of the states cannot be written: {error.strerror}: {folder}. Nothing was"
            " changed.\n  fix    free space there or correct its rights, then run it again"
        ) from error
    return folder


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _unchanged(error: RailyardError, stack: str, backup: Path) -> RailyardError:
    return RailyardError(
        f"{error}\nNothing was changed: {stack} is as it was before. Its states were kept in"
        f" {backup}."
    )

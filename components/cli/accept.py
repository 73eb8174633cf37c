"""`railyard accept|ready|report`: prove again, list unready objects, and show the last report."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import webbrowser
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from components.acceptance.evidence import Evidence, parse_evidence
from components.acceptance.handover import EVIDENCE_STEP, Named, as_of, parse_named, read_proof
from components.acceptance.judge.site import judge_evidence
from components.acceptance.judge.verdict import EXIT_CODES
from components.acceptance.report.archive import EVIDENCE, latest_evidence, run_folder
from components.acceptance.report.publish import proof_samples, render_metrics
from components.acceptance.report.text import compare_lines, render_table
from components.acceptance.report.write import write_report
from components.cli import stack as stacks
from components.cli.app import StackName, TextOrJson, option, say
from components.core.errors import RailyardError, UsageError
from components.core.problem import UNREACHABLE
from components.core.templates import fault_text
from components.core.to_json import to_json
from components.drift.applied import applied_from_export
from components.kubernetes.client import Calls, KubernetesCalls, fetch_kubeconfig
from components.kubernetes.live.look import Asked, await_ready, find_not_ready
from components.kubernetes.live.read import ReleaseRef
from components.remote.step import secrets_from
from components.update.secrets import resolve


def accept(
    stack: StackName = "",
    scope: Annotated[
        str, option("Only these parts: host=, rail=, leaf= or unit=, with their names.")
    ] = "",
) -> None:
    """Run the acceptance probes of a stack again, as things are now.

    Repairs nothing first, and leaves busy devices alone. Exit codes: 0 passed, 1 failed, 4 could
    not be judged.
    """
    archive = stacks.archive_of(stack)
    before = latest_evidence(archive)
    targets = ["--target", "**acceptance-evidence", "--target", "**acceptance-gate"]
    flags = ["--yes", "--skip-preview", "--non-interactive", "--stack", stack]
    words = ["up", *flags, *stacks.config_flags(stack), *targets]
    environment = {"RAILYARD_ACCEPT": "always", "RAILYARD_ACCEPT_SCOPE": scope}
    done = stacks.run_pulumi(words, environment=environment, deadline_s=None)
    found = latest_evidence(archive)
    if found is None or found == before:
        what = f"acceptance did not run; pulumi ended with status {done.returncode}:"
        say(f"{what}\n{done.stdout}{done.stderr}".rstrip(), err=True)
        raise typer.Exit(EXIT_CODES["error"])
    report = judge_evidence(found)
    page = run_folder(archive, found.run) / "report.html"
    say(f"{render_table(report)}\nreport: {page}", paint=True)
    raise typer.Exit(report.exit_code)


def ready(
    stack: StackName = "",
    wait_s: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for it.")] = 0.0,
    output: TextOrJson = "text",
) -> None:
    """List what keeps a stack's cluster waiting, and why: pods, images, events, finalizers.

    Changes nothing. Exit codes: 0 everything is ready, 1 something is not, 2 unknown stack, 4 the
    cluster did not answer.
    """
    loaded = stacks.load_stack(stack)
    asked = asked_of(loaded)
    try:
        calls = connect(loaded)
        sleep = time.sleep  # noqa: TID251 - `await_ready` ends by its deadline
        found = await_ready(lambda: find_not_ready(calls, asked), wait_s, time.monotonic, sleep)
    except UsageError:
        raise
    except RailyardError as error:
        say(f"cluster: {error}", err=True)
        raise typer.Exit(UNREACHABLE) from error
    if output == "json":
        say(json.dumps({"stack": stack, "not_ready": to_json(found)}, indent=1))
    else:
        summary = f"{len(found)} not ready" if found else "all is ready"
        read = f"objects read: {len(asked.objects)}, Helm releases: {len(asked.releases)}"
        say("\n".join([*map(str, found), f"{summary} ({read})."]))
    raise typer.Exit(int(bool(found)))


def asked_of(loaded: stacks.Stack) -> Asked:
    """Return the objects and Helm releases of the plan, which must be ready."""
    plan = loaded.plan
    return Asked(
        objects=tuple(each.body for each in plan.manifests if not each.kind.endswith("NodePatch")),
        releases=tuple(ReleaseRef(each.release, each.namespace) for each in plan.operators.charts),
    )


def connect(loaded: stacks.Stack, secrets: Mapping[str, str] | None = None) -> Calls:
    """Connect to the API; UsageError without a started cluster, DeviceError without an answer."""
    secrets = loaded.reach_secrets if secrets is None else secrets
    access = loaded.plan.acceptance.access
    if access is None:
        raise UsageError(fault_text(__file__, "no-cluster", stack=loaded.name))
    kubeconfig = fetch_kubeconfig(access.known(loaded.applied.instances), secrets)
    if kubeconfig is None:
        raise UsageError(f"{loaded.name}: no server of its cluster has started yet.")
    return KubernetesCalls(kubeconfig)


def report(
    stack: StackName = "",
    against: Annotated[
        int | None, option("number of another run of this stack to compare with")
    ] = None,
    show: Annotated[bool, option("open a browser", "--open/--no-open")] = True,  # noqa: FBT002 - a flag of the command line
    form: Annotated[Literal["text", "prometheus"], typer.Option("--format")] = "text",
) -> None:
    """Show the last acceptance report of a stack and open its page."""
    named = _named(stack)
    # The secrets that reading the store needs: of the stack, and from outside.
    needed = named.store.secrets if named and named.store else ()
    own: Mapping[str, str] = {}
    if any(each.secret for each in needed):
        own = stacks.read_config(stack).secrets
    outside = resolve([(each, ("evidence_store", "login")) for each in needed], os.environ)
    secrets = {**own, **outside, **secrets_from(os.environ)}
    evidence = latest_evidence(stacks.archive_of(stack)) if named is None else None
    if named is not None:
        evidence = parse_evidence(read_proof(named, secrets))
    elif evidence is not None:
        say("not compared with the state of the stack: it cannot be read here", err=True)
    else:
        raise UsageError(fault_text(__file__, "no-report", stack=stack))
    judged = as_of(judge_evidence(evidence), datetime.now(UTC))
    if form == "prometheus":
        say(render_metrics(evidence.cluster, proof_samples(judged)), nl=False)
        return
    page = (run_folder(stacks.archive_of(stack), evidence.run) / "report.html").absolute()
    other = None if against is None else judge_evidence(_run(stack, against, named, secrets))
    if other is not None or not page.exists():
        write_report(judged, page.parent, other)
    compared = "".join(f"{line}\n" for line in (compare_lines(judged, other) if other else ()))
    say(f"{render_table(judged)}\n{compared}report: {page}", paint=True)
    if show and sys.stdout.isatty():
        webbrowser.open(page.as_uri())


def _run(stack: str, number: int, named: Named | None, secrets: Mapping[str, str]) -> Evidence:
    if named and named.store:
        from components.acceptance.report.store import open_store  # noqa: PLC0415 - most sites lack it

        return parse_evidence(open_store(named.store, secrets).fetch(named.stack, number))
    path = run_folder(stacks.archive_of(stack), number) / EVIDENCE
    try:
        return parse_evidence(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        here = (each.parent.name[4:] for each in path.parents[1].glob(f"run-*/{EVIDENCE}"))
        runs = sorted({int(each.partition("-")[0]) for each in here})
        known = ", ".join(map(str, runs)) or "none: run acceptance first"
        words = {"number": number, "stack": stack, "path": path, "runs": known}
        raise UsageError(fault_text(__file__, "no-run", **words)) from None


def _named(stack: str) -> Named | None:
    """The evidence that the state names; None without the CLI, the stack or a digest in it."""
    if shutil.which("pulumi") is None:
        return None
    try:
        exported = stacks.pulumi(["stack", "export", "--stack", stack])
        step = applied_from_export(exported).step(EVIDENCE_STEP)
        return parse_named(step.stdout) if step else None
    except UsageError:
        return None

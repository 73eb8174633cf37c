"""`railyard status` and `drift`, and `baseline` for earlier values of switches.

Hosts keep their earlier values themselves, in `/var/lib/railyard/<stack>/baseline`; a switch cannot
do that.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from components.acceptance.evidence import days_since, parse_evidence
from components.acceptance.handover import EVIDENCE_STEP, as_of, parse_named, read_proof
from components.acceptance.judge.site import Report, judge_evidence
from components.acceptance.logs.lines import number
from components.acceptance.report.text import unproven_lines, unsettled_lines
from components.checks.site_files import refused_unpinned
from components.cli.accept import asked_of, connect
from components.cli.app import StackName, TextOrJson, ToLook, command_app, say, stack_names
from components.cli.stack import Stack, load_stack, under_way
from components.cli.versions import describe_age, list_outdated, version_problems
from components.core.errors import RailyardError, UsageError
from components.core.limits import read_file
from components.core.plain_text import counted, plain_text
from components.core.problem import DIFFERS, UNREACHABLE
from components.core.record import field, record, replace
from components.core.templates import fault_text
from components.core.to_json import to_json
from components.drift.device_drift import DeviceDrift, drift_exit_code, render_drift
from components.fabric.edit import baseline_file, read_baseline
from components.fabric.state import SwitchState
from components.kubernetes.live.look import CLUSTER, ClusterDrift, find_not_ready
from components.kubernetes.live.why import NotReady
from components.model.owners import not_touched
from components.model.texts import fold_names
from components.plan.pieces import pieces_of
from components.project.engine import is_lab
from components.project.under_way import UnderWay
from components.update.cluster import judge_cluster
from components.update.decide import judge_drift
from components.update.observe import observe_site
from components.update.seen import Seen

SCHEMA_VERSION: Final = 1
"""Version of the JSON form; it rises when a key changes its meaning or goes."""
Verdict = Literal["failed", "error", "warning", "skipped", "passed"]
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("failed", "error", "warning", "skipped", "passed")
_WIDTH: Final = 80
"""Columns of the text, as the smallest usual terminal has them."""
_SHOWN: Final = 6
"""Most entries of a part, and most lines of an entry, in the text; JSON has all."""
_COLUMN: Final = 13
"""Columns of the names, as in `railyard drift`."""
_NAMES: Final = 60
"""Most characters of a list of names in the text."""
_DAYS: Final = 2
"""A proof of fewer days has its age in hours."""
baseline_app = command_app(
    "Keep the values that destroy puts back on switches, or bring them back."
)
_FILE = TypeAdapter(dict[str, SwitchState])


@record
class Entry:
    """One statement, and all names for which it is the same."""

    names: tuple[str, ...]
    lines: tuple[str, ...]


@record
class Part:
    """One part of the page."""

    name: str
    verdict: Verdict
    """`error`: not read, or not judged. `skipped`: not asked for, or absent."""
    summary: str
    entries: tuple[Entry, ...] = ()
    fix: str = ""
    exit_code: int = 0


@record
class Status:
    """The whole page."""

    stack: str
    cluster: str
    at: str
    """When it was made, in UTC."""
    parts: tuple[Part, ...]

    @property
    def exit_code(self) -> int:
        """0 well, 1 something waits or is not proven, 3 drift, 4 something was not read."""
        return max(part.exit_code for part in self.parts)

    @property
    def headline(self) -> str:
        """Name the parts with a fault, the worst first."""
        bad = [each.name for each in self.parts if each.verdict in _WORST_FIRST[:3]]
        return f"{self.stack}: " + (f"look at {', '.join(bad)}" if bad else "all is well")


@record
class Look:
    """The facts of devices and cluster."""

    seen: Seen = field(default_factory=Seen)
    running: UnderWay = field(default_factory=UnderWay)
    """The work of an update that began in the meantime."""
    waiting: tuple[NotReady, ...] | str | None = None
    """Objects not yet ready; a text: why none was read; None: the stack has none."""


def _load_updated(stack: str) -> Stack:
    """Load a stack; UsageError if its site is split, so that other stacks have its devices."""
    loaded = load_stack(stack)
    if loaded.spec.stacks and not loaded.plan.piece and not loaded.applied.steps:
        names = ", ".join(each.stack for each in pieces_of(loaded.spec, stack))
        raise UsageError(fault_text(__file__, "emptied", stack=stack, names=names))
    return loaded


def status(stack: StackName = "", *, look: ToLook = True, form: TextOrJson = "text") -> None:
    """Show a stack on one page: devices, drift, cluster, proof, versions; the worst first.

    Changes nothing. Exit codes: 0 all is well, 1 something is not ready or not proven, 2 unknown
    stack, 3 drift, 4 something could not be read, or an update is running; the highest counts.
    """
    loaded = _load_updated(stack)
    found = make_status(loaded, look_at(loaded) if look else None, datetime.now(UTC))
    if form == "json":
        head = {"schema_version": SCHEMA_VERSION, "exit_code": found.exit_code}
        say(json.dumps({**head, **to_json(found)}, indent=1))
    else:
        say(render_text(found), paint=True)
    raise typer.Exit(found.exit_code)


def look_at(loaded: Stack) -> Look:
    """Read the devices and the cluster of a stack as `drift` and `ready` do; changes nothing."""
    seen = observe_site(loaded.plan, loaded.reach_secrets, loaded.applied)
    waiting: tuple[NotReady, ...] | str | None = None
    if loaded.plan.acceptance.access and (loaded.applied.objects or loaded.applied.releases):
        try:
            waiting = find_not_ready(connect(loaded), asked_of(loaded))
        except RailyardError as error:
            waiting = str(error)
    return Look(seen, under_way(loaded.name), waiting)


def make_status(loaded: Stack, look: Look | None, now: datetime) -> Status:
    """Judge the facts; None: the state alone."""
    plan, applied, name = loaded.plan, loaded.applied, loaded.name
    seen = (look or Look()).seen
    drifts, cluster = judge_drift(plan, applied, seen), judge_cluster(plan, applied, seen)
    running = loaded.under_way if loaded.under_way.is_any or look is None else look.running
    edited = tuple(dict.fromkeys(each.device for each in drifts if each.edited))
    if look is None:
        parts = [Part(part, "skipped", "not looked at") for part in ("devices", "drift", "cluster")]
    else:
        parts = [_devices(drifts, plan.unreached), _drift(name, drifts, cluster)]
        parts.append(_cluster(name, look.waiting))
    if running.is_any:
        entry = Entry((), (running.render(name),))
        parts.append(Part("update", "error", "not finished", (entry,), "", UNREACHABLE))
    elif edited:
        is_new = not any(each.applied for each in drifts)
        what = "nothing was applied yet" if is_new else "the file changes these devices:"
        fix = f"pulumi preview -s {name}"
        parts.append(Part("update", "warning", what, (Entry(edited, ()),), fix))
    else:
        parts.append(Part("update", "passed", "finished; the file changes no device"))
    parts.append(_proof(loaded, "" if edited else plan.digest, now, look=look is not None))
    parts.append(_versions(loaded, now))
    parts.sort(key=lambda part: _WORST_FIRST.index(part.verdict))
    return Status(name, loaded.spec.name, f"{now:%Y-%m-%d %H:%M}", tuple(parts))


def _devices(drifts: Sequence[DeviceDrift], unreached: Sequence[str]) -> Part:
    silent = {_host(each): _split(each.unreachable) for each in drifts if each.unreachable}
    answered = {_host(each): None for each in drifts if each.observed}
    summary = f"{len({*answered} - {*silent})} of {len({*answered} | {*silent})} answered"
    entries = [*_grouped(silent.items(), alike=True)]
    entries += [Entry(tuple(answered), ())] if answered else []
    entries += [Entry((), (line,)) for line in not_touched(unreached)]
    if silent:
        return Part("devices", "error", summary, tuple(entries), "", UNREACHABLE)
    return Part("devices", "passed" if answered else "skipped", summary, tuple(entries))


def _host(drift: DeviceDrift) -> str:
    return drift.device.partition(" ")[0]


def _drift(stack: str, drifts: Sequence[DeviceDrift], cluster: ClusterDrift) -> Part:
    known = [each for each in drifts if each.applied and each.observed]
    codes = {each.device: drift_exit_code((each,)) for each in known}
    wrong = [each for each in known if codes[each.device]]
    found = [(each.device, _split(render_drift((replace(each, device=""),)))) for each in wrong]
    lines = (*cluster.lost, *cluster.lines)
    read = counted(len({*map(_host, known)}), "device")
    if not found and not lines:
        return Part("drift", "passed" if known else "skipped", f"{read} as last applied")
    where = [f"{len({_host(each) for each in wrong})} of {read}"] * bool(known)
    summary = ", ".join([*where, *(["the cluster"] if lines else [])])
    entries = (*_grouped(found), *([Entry((CLUSTER,), lines)] if lines else []))
    verdict = "failed" if lines or DIFFERS in codes.values() else "error"
    fix = f"`railyard drift {stack}` lists all of it, `pulumi up -s {stack}` repairs it"
    return Part("drift", verdict, summary, entries, fix, max((DIFFERS, *codes.values())))


def _cluster(stack: str, waiting: tuple[NotReady, ...] | str | None) -> Part:
    if waiting is None:
        return Part("cluster", "skipped", "the stack has no objects in a cluster")
    if isinstance(waiting, str):
        entry = Entry((), _split(waiting))
        return Part("cluster", "error", "it was not read", (entry,), "", UNREACHABLE)
    if not waiting:
        return Part("cluster", "passed", "all objects and Helm releases are ready")
    entries = tuple(Entry((), _split(str(each))) for each in waiting)
    fix = f"railyard ready {stack} --wait 600"
    return Part("cluster", "failed", f"{len(entries)} not ready", entries, fix, 1)


def _proof(loaded: Stack, asked: str, now: datetime, *, look: bool) -> Part:
    fix, step = f"railyard accept {loaded.name}", loaded.applied.step(EVIDENCE_STEP)
    if not loaded.plan.acceptance.probes:
        return Part("proof", "skipped", "the site plans no probe")
    if step is None or not step.stdout:
        return Part("proof", "failed", "never proven", (), fix, 1)
    named = parse_named(step.stdout)
    age = "of unknown age"
    if (days := days_since(named.proven_at, now)) is not None:
        hours = counted(max(round(days * 24), 0), "hour")
        age = f"{hours} old" if days < _DAYS else f"{days:.0f} days old"
    summary = f"run {named.run}, {age}: {named.verdict.partition(': ')[2]}"
    try:
        if named.store is not None and not look:
            raise UsageError("the evidence store was not asked")
        evidence = parse_evidence(read_proof(named, loaded.all_secrets if named.store else {}))
    except RailyardError as error:
        is_good = named.verdict.startswith("passed")
        entry = Entry((), _split(str(error)))
        verdict = "warning" if is_good else "failed"
        return Part("proof", verdict, summary, (entry,), fix, 1 - is_good)
    report = as_of(judge_evidence(evidence), now, asked)
    entries = tuple(_of_report(report))
    if report.verdict == "passed":
        return Part("proof", "passed", summary, entries)
    verdict = "error" if report.verdict == "error" else "failed"
    return Part("proof", verdict, summary, entries, fix, 1)


def _of_report(report: Report) -> Iterator[Entry]:
    """Yield the faults, then for each rail and kind of probe their number and the least value."""
    yield from (Entry((), (line,)) for line in unsettled_lines(report))
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for item in report.evidence.probes:
        groups.setdefault((item.probe.rails, item.probe.kind), []).append(item.probe.name)
    for (rails, kind), names in groups.items():
        good = sum(report.verdict_of(name) == "passed" for name in names)
        found = [each.actual for name in names if (each := report.measure_of(name))]
        least = min(found, key=lambda text: number(text.partition(" ")[0]) or 0.0, default="")
        words = f"{kind}: {good} of {len(names)} passed"
        yield Entry(rails, (f"{words}, least {least}" if least else words,))
    if unproven := unproven_lines(report):
        yield Entry((), (f"{counted(len(unproven), 'probe')} not proven in this run",))


def _versions(loaded: Stack, now: datetime) -> Part:
    spec, lock, age = loaded.spec, loaded.lock, describe_age(now.date())
    lines = [*list_outdated(spec), *(each.what for each in version_problems(spec, loaded.lines))]
    lines += [age] if "Newer" in age else []
    unpinned = refused_unpinned(spec, lock, lab=is_lab(loaded.secrets.get("lab")))
    lines += [f"without a checksum: {len(unpinned.artefacts)} artefacts"] if unpinned else []
    dates = sorted(each.pinned for each in lock.entries.values())
    summary = f"{len(dates)} artefacts pinned, the oldest on {dates[0]}" if dates else "no pins"
    if not lines:
        return Part("versions", "passed", summary)
    fix = unpinned.fix if unpinned else "`railyard versions FILE` lists what works together"
    return Part("versions", "warning", summary, tuple(Entry((), (each,)) for each in lines), fix)


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(line.strip() for line in (text or "").splitlines())


def _grouped(
    found: Iterable[tuple[str, tuple[str, ...]]], *, alike: bool = False
) -> tuple[Entry, ...]:
    """Join names with the same lines; with `alike`, also if only their names and numbers differ."""
    groups: dict[object, Entry] = {}
    for name, lines in found:
        key = re.sub(r"\d+", "", "\n".join(lines).replace(name, "")) if alike else lines
        before = groups.get(key, Entry((), lines))
        groups[key] = replace(before, names=(*before.names, name))
    return tuple(groups.values())


def render_text(found: Status) -> str:
    """Write the page for a terminal of 80 columns."""
    lines = [found.headline, f"{found.cluster}, {found.at} UTC", ""]
    for part in found.parts:
        lines += _wrap(f"{part.verdict.upper():<8} {part.name:<9}", part.summary)
        for each in part.entries[:_SHOWN]:
            # The names are beside the first line, or above it if they are long.
            services: dict[str, list[str]] = {}  # such as `gpu01 k3s`, folded by their hosts
            for name in each.names:
                host, _, service = name.partition(" ")
                services.setdefault(service, []).append(host)
            folded = (f"{fold_names(hosts)} {what}".strip() for what, hosts in services.items())
            names, rest = re.sub(r",(?![^\[]*\])", ", ", ",".join(folded)), each.lines[:_SHOWN]
            if len(names) > _NAMES:
                shown = names[:_NAMES].rpartition(",")[0]
                names = f"{shown},… ({len(each.names)} in all)"
            if len(names) < _COLUMN and rest:
                lines += _wrap(f"  {names:<{_COLUMN}}", rest[0])
                rest = rest[1:]
            elif names:
                lines += _wrap("  ", names)
            for line in rest:
                lines += _wrap(f"  {'':<{_COLUMN}}", line)
            lines += _more(len(each.lines))
        lines += _more(len(part.entries))
        lines += _wrap("  fix    ", part.fix) if part.fix else []
    return "\n".join(lines)


def _wrap(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain_text(text), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _more(count: int) -> list[str]:
    return [f"    and {count - _SHOWN} more"] if count > _SHOWN else []


def drift(stack: StackName = "", output: TextOrJson = "text") -> None:
    """Compare every device and every object of Kubernetes with its last applied state.

    Exit code 0: no drift, 3: drift, 4: something could not be read, or an update is running.
    """
    code, text = look_for_drift(stack, output)
    say(text, nl=False, paint=output == "text")
    raise typer.Exit(code)


def look_for_drift(stack: str, output: Literal["text", "json"] = "text") -> tuple[int, str]:
    """Compare a stack, and return the exit code and the report."""
    loaded = _load_updated(stack)
    seen = observe_site(loaded.plan, loaded.reach_secrets, loaded.applied)
    body, text = report_drift(loaded, seen, under_way(stack))
    if output == "json":
        text = json.dumps(body, indent=1, sort_keys=True) + "\n"
    return body["exit_code"], text


def report_drift(loaded: Stack, seen: Seen, running: UnderWay) -> tuple[dict[str, Any], str]:
    """Return the report as JSON data and as text; `running` is the present work of an update."""
    plan, applied = loaded.plan, loaded.applied
    drifts, cluster = judge_drift(plan, applied, seen), judge_cluster(plan, applied, seen)
    running = loaded.under_way if loaded.under_way.is_any else running
    words = f"{running.render(loaded.name)}\n" if running.is_any else ""
    found = max(drift_exit_code(drifts), cluster.exit_code)
    body = {
        "stack": loaded.name, "exit_code": UNREACHABLE if running.is_any else found,
        "under_way": words.rstrip(), "no_login": list(plan.unreached),
        "devices": to_json(drifts), "cluster": to_json(cluster),
    }  # fmt: skip
    left_out = "".join(f"{line}\n" for line in not_touched(plan.unreached))
    return body, render_drift(drifts) + cluster.render() + left_out + words


@baseline_app.command("export")
def export_baseline(stack: StackName = "") -> None:
    """Print the values that destroy would restore, by switch, as JSON. Keep a copy elsewhere."""
    loaded = load_stack(stack)
    found: dict[str, object] = {}
    for switch in loaded.plan.switches:
        recorded = loaded.applied.step(f"{switch.name}-baseline")
        if recorded is not None and recorded.stdout:
            found[switch.name] = read_baseline(recorded.stdout)
    say(json.dumps(found, indent=1, sort_keys=True))


@baseline_app.command("import")
def import_baseline(
    stack: Annotated[str, typer.Argument(help="Name of the stack.", autocompletion=stack_names)],
    file: Annotated[Path, typer.Argument(help="what `export` printed")],
) -> None:
    """Use exported values for switches whose baseline is missing in the stack's state."""
    try:
        states = _FILE.validate_json(read_file(file))
    except OSError as error:
        raise UsageError(f"{file}: it cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{file} is not an exported baseline: {error}") from error
    for name, state in states.items():
        path = baseline_file(stack, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(state.model_dump_json(indent=1) + "\n")
        say(f"{name}: the next first apply of stack {stack} records {path}")

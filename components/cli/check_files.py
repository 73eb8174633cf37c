"""The work of `railyard check`: rules and refusals of each file, without Typer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from components.checks.registry import RULES
from components.checks.render import count_problems, render_reports, render_sarif, render_text
from components.checks.rule import Findings, at, named
from components.checks.site import CheckedSite, check_loaded
from components.checks.site_files import refused_unpinned
from components.cli.say import say
from components.core.errors import UsageError
from components.core.limits import FILE_BYTES
from components.core.plain_text import counted
from components.core.problem import Finding, Place
from components.core.record import record, replace
from components.model.cluster import ClusterSpec
from components.model.owners import left_alone
from components.project.lab_marks import devices_outside_lab
from components.reading.load import Loaded, load_site, parse_site
from components.reading.site_path import stack_of

STDIN: Final = "<stdin>"
"""The name of standard input in messages."""
Form = Literal["text", "json", "sarif"]


@record
class Report:
    """All that `check` says of one file."""

    checked: CheckedSite
    refused: tuple[Finding, ...] = ()
    """What an update would refuse although all rules hold."""

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Refusals first, then the warnings of the rules; but errors before all others."""
        found = self.checked.problems
        return (*self.refused, *found) if self.checked.spec else (*found, *self.refused)

    @property
    def is_good(self) -> bool:
        """Whether an update would take the file; warnings are allowed."""
        return self.checked.spec is not None and not self.refused


def check_files(files: Sequence[str], output: Form = "text") -> int:
    """Check files, print their reports, and return the worst exit code."""
    reports: list[Report] = []
    worst = 0
    files = tuple(dict.fromkeys(files))
    for file in files:
        try:
            reports.append(check_file(file))
        except UsageError as error:
            say(str(error), err=True)
            worst = error.exit_code
    worst = max(worst, int(not all(each.is_good for each in reports)))
    problems = [problem for each in reports for problem in each.problems]
    if output == "text":
        lines = [_render(each, several=len(files) > 1) for each in reports]
        if len(files) > 1:
            unread = f", {len(files) - len(reports)} not read" if len(reports) < len(files) else ""
            lines.append(f"{len(files)} files{unread}: {count_problems(problems)}")
        say("\n".join(lines), nl=bool(lines), paint=True)
    elif output == "json":
        parts = [(each.checked.file, each.problems, each.checked.waived) for each in reports]
        say(render_reports(parts))
    else:
        say(json.dumps(render_sarif(problems, Path.cwd()), indent=2))
    return worst


def check_file(file: str) -> Report:
    """Run the rules on a file or standard input, and find refusals; UsageError if unread."""
    if file == "-":
        content = sys.stdin.buffer.read(FILE_BYTES + 1)
        if len(content) > FILE_BYTES:
            raise UsageError(f"{STDIN}: more than {FILE_BYTES >> 20} MiB.")
        try:
            loaded = parse_site(content.decode(), STDIN)
        except UnicodeDecodeError as error:
            raise UsageError(f"{STDIN}: not a text in UTF-8 (byte {error.start}).") from error
        return report_of(loaded, STDIN)
    return report_of(load_site(Path(file)), file)


def report_of(loaded: Loaded, file: str) -> Report:
    """Run the rules on a loaded file, and find refusals."""
    checked = check_loaded(loaded, file)
    found: list[Finding] = []
    # The lock of a text on standard input is not known, so nothing is refused there.
    if (spec := loaded.spec or loaded.partial) and checked.lock.path is not None:
        unpinned = refused_unpinned(spec, checked.lock, lab=_is_lab(spec, loaded))
        if unpinned:
            where = (at(each.path, each.address) for each in unpinned.artefacts)
            finding = Finding(unpinned.what, tuple(dict.fromkeys(where)), unpinned.fix)
            found += named("unpinned", [finding])
    if checked.spec and (stack := stack_of(Path(file))):
        found += named("lab-parts", _lab_parts(checked.spec, loaded, stack, file))
    return Report(checked, tuple(checked.lines.locate_all(problem) for problem in found))


def _is_lab(spec: ClusterSpec, loaded: Loaded) -> bool:
    """Whether an update would count as one of the lab; only a stack file says it."""
    if loaded.secrets is not None:
        return loaded.secrets.switches.get("lab", "").lower() == "true"  # as Pulumi reads it
    return not devices_outside_lab(spec)


def _lab_parts(spec: ClusterSpec, loaded: Loaded, stack: str, file: str) -> Findings:
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - a stack alone needs it

    from components.project.engine import lab_findings  # noqa: PLC0415 - the same

    says = _is_lab(spec, loaded)
    try:
        found = lab_findings(spec, stack, is_lab=says, file=Path(file))
    except PackageNotFoundError:  # without Pulumi's packages, no update can run here
        return
    for each in found:
        yield replace(each, where=(Place((), None, file, 1),))


def _render(report: Report, *, several: bool) -> str:
    checked, spec = report.checked, report.checked.spec
    file = checked.file if several else ""
    found = [render_text(report.problems, checked.waived, file)] if report.problems else []
    if spec is None:
        return "\n".join(found)
    hosts, rails = counted(len(spec.hosts), "host"), counted(len(spec.rails), "rail")
    counts = f"{hosts}, {counted(len(spec.switches), 'switch', 'switches')}, {rails}"
    read = f"({spec.name}: {counts}; {len(RULES)} rules)"
    alone = f"Left alone: {'; '.join(left_alone(spec))}."
    if report.refused:
        verdict = f"{checked.file}: the rules hold {read}, but an update is refused: see above."
        return "\n".join([*found, alone, verdict])
    if report.problems:
        return "\n".join([*found, f"{checked.file}: good but for warnings {read}."])
    return "\n".join([*map(str, checked.waived), f"{checked.file}: no problems {read}.", alone])

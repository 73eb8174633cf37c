"""`railyard check FILE…` and `railyard explain RULE`: the rules, without any device."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from components.checks.registry import NEVER_WAIVED, RULES, rule_pages
from components.checks.render import RULES_PAGE, render_reports, render_text
from components.checks.rule import Findings, at, named
from components.checks.site import CheckedSite, check_loaded
from components.checks.site_files import refused_unpinned
from components.cli.app import command_app, say
from components.core.errors import UsageError
from components.core.limits import FILE_BYTES
from components.core.plain_text import counted
from components.core.problem import Finding, Place
from components.model.cluster import ClusterSpec
from components.model.owners import left_alone
from components.project.lab_marks import devices_outside_lab
from components.reading.load import Loaded, load_site, parse_site
from components.reading.wording import did_you_mean

app = command_app()
STDIN: Final = "<stdin>"
"""The name of standard input in messages."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that `check` says of one file."""

    checked: CheckedSite
    refused: tuple[Finding, ...] = ()
    """What an update would refuse although all rules hold."""

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Refusals first, then the findings of the rules."""
        return (*self.refused, *self.checked.problems)

    @property
    def is_good(self) -> bool:
        """Whether an update would take the file; warnings are allowed."""
        return self.checked.spec is not None and not self.refused


@app.command()
def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="site.yaml, Pulumi.<stack>.yaml, or -")
    ],
    output: Annotated[Literal["text", "json", "sarif"], typer.Option("--format")] = "text",
) -> None:
    """Check site files and report all their problems, each with its line and a fix.

    A problem is also what an update would refuse. `-` reads standard input. Exit codes: 0 all files
    are good (there may be warnings), 1 problems, 2 a file cannot be read.
    """
    reports: list[Report] = []
    worst = 0
    for file in dict.fromkeys(files):
        try:
            reports.append(check_file(file))
        except UsageError as error:
            say(str(error), err=True)
            worst = error.exit_code
    worst = max(worst, int(not all(each.is_good for each in reports)))
    if output == "text":
        say("\n".join(map(_render, reports)), nl=bool(reports), paint=True)
    elif output == "json":
        parts = [(each.checked.file, each.problems, each.checked.waived) for each in reports]
        say(render_reports(parts))
    else:
        from components.checks.sarif import render_sarif  # noqa: PLC0415 - rarely needed

        problems = [problem for each in reports for problem in each.problems]
        say(json.dumps(render_sarif(problems, Path.cwd()), indent=2))
    raise typer.Exit(worst)


def check_file(file: str) -> Report:
    """Run the rules on one file, or on standard input, and find what an update would refuse.

    Raises:
        UsageError: The file does not exist or cannot be read.
    """
    loaded = parse_site(_read_stdin(), STDIN) if file == "-" else load_site(Path(file))
    checked = check_loaded(loaded, STDIN if file == "-" else file)
    if checked.spec is None:
        return Report(checked)
    stack = _stack_of(Path(file))
    found = (
        *named("unpinned", _unpinned(checked.spec, checked, loaded)),
        *(named("lab-parts", _lab_parts(checked.spec, loaded, stack, file)) if stack else ()),
    )
    return Report(checked, tuple(checked.lines.locate_all(problem) for problem in found))


def _read_stdin() -> str:
    content = sys.stdin.buffer.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise UsageError(f"{STDIN}: more than {FILE_BYTES >> 20} MiB.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{STDIN}: not a text in UTF-8 (byte {error.start}).") from error


def _stack_of(file: Path) -> str:
    parts = file.name.split(".", 1)
    return parts[1].removesuffix(".yaml") if parts[0] == "Pulumi" and len(parts) > 1 else ""


def _is_lab(spec: ClusterSpec, loaded: Loaded) -> bool:
    """Whether an update would count as one of the lab; only a stack file says it."""
    if loaded.secrets is not None:
        return loaded.secrets.switches.get("lab", "").lower() == "true"  # as Pulumi reads it
    return not devices_outside_lab(spec)


def _unpinned(spec: ClusterSpec, checked: CheckedSite, loaded: Loaded) -> Findings:
    """The lock of a text on standard input is not known, so nothing is refused there."""
    unpinned = refused_unpinned(spec, checked.lock, lab=_is_lab(spec, loaded))
    if unpinned and checked.lock.path is not None:
        where = tuple(at(each.path, each.address) for each in unpinned.artefacts)
        yield Finding(unpinned.what, tuple(dict.fromkeys(where)), unpinned.fix)


def _lab_parts(spec: ClusterSpec, loaded: Loaded, stack: str, file: str) -> Findings:
    from components.project.engine import lab_findings  # noqa: PLC0415 - a stack alone needs it

    says = _is_lab(spec, loaded)
    try:
        found = lab_findings(spec, stack, is_lab=says, file=Path(file))
    except PackageNotFoundError:  # without Pulumi's packages, no update can run here
        return
    for each in found:
        yield replace(each, where=(Place((), None, file, 1),))


def _render(report: Report) -> str:
    checked = report.checked
    spec = checked.spec
    found = [render_text(report.problems, checked.waived)] if report.problems else []
    if spec is None:
        return "\n".join(found)
    hosts, rails = counted(len(spec.hosts), "host"), counted(len(spec.rails), "rail")
    counts = f"{hosts}, {counted(len(spec.switches), 'switch', 'switches')}, {rails}"
    read = f"({spec.name}: {counts}; {len(RULES)} rules)"
    if report.refused:
        return "\n".join([*found, f"{checked.file}: the rules hold {read}; an update is refused."])
    if report.problems:
        return "\n".join([*found, f"{checked.file}: good but for warnings {read}."])
    alone = f"Left alone: {'; '.join(left_alone(spec))}."
    return "\n".join([*map(str, checked.waived), f"{checked.file}: no problems {read}.", alone])


explain_app = command_app()
WAIVABLE: Final = {each.name for each in RULES} - {*NEVER_WAIVED}


def _rules(incomplete: str) -> Iterator[str]:
    return (name for name in rule_pages() if name.startswith(incomplete))


@explain_app.command()
def explain(
    rule: Annotated[
        str, typer.Argument(help="Name of the rule, as a report has it.", autocompletion=_rules)
    ] = "",
) -> None:
    """Print the page of a rule: what it demands, and why; without a name, the list of rules.

    Exit codes: 0 printed, 2 unknown rule.
    """
    pages = rule_pages()
    if not rule:
        width = max(map(len, pages))
        firsts = {name: " ".join(text.partition("\n\n")[0].split()) for name, text in pages.items()}
        say("\n".join(f"{name:<{width}}  {first}" for name, first in firsts.items()))
        return
    if rule not in pages:
        hint = did_you_mean(rule, [*pages])
        fix = "`railyard explain` without a name lists all rules."
        raise UsageError(f"there is no rule {rule!r}.{hint}\n  fix    {fix}")
    way = f'A site may waive it with a reason: `waive: {{{rule}: "…"}}`.\n\n'
    more = way if rule in WAIVABLE else ""
    fix = "`railyard check FILE` prints the lines, the actual values and the fix of each finding."
    say(f"{rule}\n{'=' * len(rule)}\n\n{pages[rule]}\n\n{more}{fix}\n{RULES_PAGE}#{rule}")

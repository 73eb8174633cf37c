"""The cases of `tests/cases`: a site, what is changed in it, and the exact report of that."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, cast

import yaml

from components.artefacts.lock import parse_lock
from components.checks.registry import FILE_RULES, RULES
from components.checks.render import render_text
from components.checks.site import CheckedSite, check_loaded
from components.core.record import record, replace
from components.reading.load import CONFIG_KEY, parse_site
from tests.checks.patch import patched

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "tests" / "cases"
CLEAN: Final = FOLDER / "base" / "site.yaml"
"""A small site without a single problem: the base of a case that names none."""
RULE_NAMES: Final = [*(rule.name for rule in RULES), *(rule.name for rule in FILE_RULES)]
REGENERATE: Final = os.environ.get("RAILYARD_GOLDENS") == "1"
LOCK: Final = CLEAN.with_name("site.lock.yaml")
"""The lock of the clean site; its digests are made up."""
_STACK_FILE: Final = "Pulumi.dev.yaml"
_KEYS: Final = {"why", "base", "stack_file", "patch", "lock", "expected"}


@record
class Case:
    """One changed site, and what `railyard check` says of it."""

    name: str
    """The rule that it breaks, and `--variant` where a rule has several cases."""
    source: Path
    """The file of the case."""
    base: Path
    """The site that is changed."""
    patch: str
    """What is changed; `tests.checks.patch` has its form."""
    stack_file: str
    """The stack file around the site, above `railyard:cluster:`; empty: a plain site file."""
    lock: str | None
    """What is changed in the lock of the clean site, which is then beside the site; None: none."""
    expected: str
    """The recorded report."""

    @property
    def rule(self) -> str:
        return self.name.partition("--")[0]

    @property
    def file(self) -> str:
        """The name of the file in the report."""
        return _STACK_FILE if self.stack_file else self.base.name

    def text(self) -> str:
        """The changed site, or the stack file around it.

        Raises:
            PatchError: The patch does not name one place, or changes nothing.
        """
        site = self.base.read_text(encoding="utf-8")
        if self.patch or not (self.stack_file or self.lock):
            site = patched(site, self.patch)
        if not self.stack_file:
            return site
        inner = "".join(f"    {line}\n" for line in site.splitlines())
        return f"{self.stack_file}  {CONFIG_KEY}:\n{inner}"

    def check(self) -> CheckedSite:
        loaded = parse_site(self.text(), self.file)
        if self.lock is None:
            return check_loaded(loaded, self.file)
        text = LOCK.read_text(encoding="utf-8")
        changed = patched(text, self.lock) if self.lock else text
        lock, problems = parse_lock(changed, Path(LOCK.name))
        loaded = replace(loaded, problems=(*loaded.problems, *problems))
        return check_loaded(loaded, self.file, lock)


def report_of(checked: CheckedSite) -> str:
    return render_text(checked.problems) + "\n"


def read_cases(path: Path) -> dict[str, Case]:
    """Read the cases of one file, by name."""
    text = path.read_text(encoding="utf-8")
    written = cast("Mapping[str, Mapping[str, str]]", yaml.load(text, Loader=yaml.CSafeLoader))
    names = Counter(_name(part) for part in _parts(text))
    twice = [name for name, count in names.items() if count > 1]
    assert not twice, f"{path.name} has two cases {twice}"
    return {name: _case(name, path, case) for name, case in written.items()}


def _case(name: str, path: Path, written: Mapping[str, str]) -> Case:
    assert written.keys() <= _KEYS, f"{path.name}: {name} has {sorted(written.keys() - _KEYS)}"
    assert written.get("why"), f"{path.name}: {name} does not say what is wrong"
    return Case(
        name=name,
        source=path,
        base=ROOT / written["base"] if "base" in written else CLEAN,
        patch=written.get("patch", ""),
        lock=written.get("lock"),
        stack_file=written.get("stack_file", ""),
        expected=written.get("expected", ""),
    )


def with_reports(text: str, reports: Mapping[str, str]) -> str:
    """The text of a file of cases with these reports; all else stays as it is written."""
    parts = (_with_report(part, reports.get(_name(part))) for part in _parts(text))
    return "".join(parts).rstrip("\n") + "\n"


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"(?m)^(?=[a-z])", text) if part]


def _name(part: str) -> str:
    return part.partition(":")[0]


def _with_report(part: str, report: str | None) -> str:
    if report is None:
        return part
    kept = re.sub(r"(?m)^  expected:.*\n(?:(?:    .*)?\n)*", "", part).rstrip("\n")
    inner = "".join(f"    {line}\n" for line in report.splitlines())
    return f"{kept}\n  expected: |\n{inner}\n"


FILES: Final = sorted(FOLDER.glob("*.yaml"))
CASES: Final = {name: case for path in FILES for name, case in read_cases(path).items()}


@cache
def write_reports(path: Path) -> dict[str, Case]:
    """Write the reports of one file as they are now, once a run; give its cases back."""
    reports = {name: report_of(case.check()) for name, case in read_cases(path).items()}
    text = with_reports(path.read_text(encoding="utf-8"), reports)
    path.write_text(text, encoding="utf-8")
    return read_cases(path)


def recorded(name: str) -> Case:
    """A case as it is recorded; as it is now, while goldens are written."""
    case = CASES[name]
    return write_reports(case.source)[name] if REGENERATE else case

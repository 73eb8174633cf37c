"""All rules, in the order of the reference, and waivers with the number of problems they hide."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple

from components.checks import site_files
from components.checks.rows import ROWS, Rows
from components.checks.rule import Check, Finding, Findings, Rule, at, find, rule_of
from components.core.record import record, replace
from components.core.templates import typed_table
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean

_MODULES: Final = (
    "packets", "cabling", "links", "routing", "capability", "lacks", "addresses",
    "access", "machines", "drivers", "gpu_drivers", "kernel", "pod_networks", "operators",
    "software", "planes", "jobs", "cloud", "infiniband",
)  # fmt: skip
"""The modules of this folder with rules, in the order of the reference."""
_AUDIT_TEXTS: Final[Mapping[str, str]] = {
    "setting": "A setting that the file decides has its value on the device.",
    "cabling": "LLDP names the device behind each port that the file names.",
    "placement": "Each card and GPU is in the PCIe slot that the file names.",
    "foreign": "No setting outside the file breaks RDMA traffic.",
    "routing": "Each BGP session is established, and carries enough routes.",
    "cluster": "Each object, Helm release and node of the cluster is as in the file.",
    "unread": "Each device of the file, and the cluster, answers.",
}
NEVER_WAIVED: Final[Mapping[str, str]] = {
    rule: why
    for why, rules in typed_table(dict[str, str], __file__, "never_waived").items()
    for rule in sorted(rules.split())
}
"""Rule to the reason. The rules on the file decide how it is read, and cannot be waived either."""


def _rules_of(name: str) -> Iterator[Rule]:
    module, rows = import_module(f"components.checks.{name}"), ROWS.get(name, {})
    yield from getattr(module, "RULES", ())
    for rule, row in rows.items():
        if row.text:
            yield Rule(row, rule, row.text.strip(), row.needs)
    for key, check in vars(module).items():
        if key.startswith("check_") and check.__module__ == module.__name__:
            made = rule_of(check)
            row = rows.get(made.name)
            yield replace(made, check=partial(_run_both, row, check)) if row else made


def _run_both(row: Rows, check: Check, spec: ClusterSpec) -> Iterator[Finding]:
    yield from row(spec)
    yield from check(spec)


RULES: Final = tuple(rule for name in _MODULES for rule in _rules_of(name))
"""The rules on a spec."""


class FileRule(NamedTuple):
    """A demand on the file itself, before it becomes a spec."""

    name: str
    text: str


def _file_rules(part: str) -> tuple[FileRule, ...]:
    texts = typed_table(dict[str, str], __file__, part)
    found = {name: getattr(site_files, f"check_{name.replace('-', '_')}", None) for name in texts}
    docs = {name: inspect.getdoc(check) or "" for name, check in found.items() if check}
    return tuple(FileRule(name, text.strip() or docs[name]) for name, text in texts.items())


FILE_RULES: Final = _file_rules("file_rules")
"""The rules on the text, and on the stack file around the site."""
UPDATE_RULES: Final = _file_rules("update_rules")
"""What else an update refuses before it contacts a device: `check` reports it too."""
AUDIT_RULES: Final = tuple(FileRule(f"audit-{kind}", text) for kind, text in _AUDIT_TEXTS.items())
"""What `railyard audit` finds, by the names in its SARIF."""


def rule_pages() -> Mapping[str, str]:
    """The name of each rule and the text of its page, in the order of the reference."""
    pages = {
        each.name: each.text.strip() for each in (*RULES, *FILE_RULES, *UPDATE_RULES, *AUDIT_RULES)
    }
    ends = {name: f"\n\nIt cannot be waived: {why}." for name, why in NEVER_WAIVED.items()}
    return {name: text + ends.get(name, "") for name, text in pages.items()}


@record
class Waived:
    """One valid waiver of the file."""

    rule: str
    reason: str
    hides: int
    """Number of problems and warnings that it hides."""

    def __str__(self) -> str:
        """The words of every report."""
        count = f"{self.hides} problem{'' if self.hides == 1 else 's'}"
        return f"waived: {self.rule} ({count} not reported): {self.reason}"


def waive(
    spec: ClusterSpec, problems: Sequence[Finding]
) -> tuple[list[Finding], tuple[Waived, ...]]:
    """Leave out problems of rules that the file waives.

    Returns:
        The other problems, and each valid waiver, in the order of the file.
    """
    valid = {rule: reason for rule, reason in spec.waive.items() if _why_not(rule) is None}
    kept = [problem for problem in problems if problem.rule not in valid]
    hidden = [problem.rule for problem in problems if problem.rule in valid]
    return kept, tuple(Waived(rule, why, hidden.count(rule)) for rule, why in valid.items())


def check_waiver(spec: ClusterSpec, waived: Sequence[Waived] | None) -> Findings:
    """Find invalid waivers, and those that hide nothing.

    `waived` are the problems that the waivers hide; None if some rules could not run.
    """
    for rule, reason in spec.waive.items():
        why = _why_not(rule)
        if why is not None:
            yield Finding(why, (at(("waive", rule), reason),), "remove the waiver.")
    for each in waived or ():
        if not each.hides:
            yield find("waiver", at(("waive", each.rule), each.reason), each=each)


def _why_not(rule: str) -> str | None:
    """Explain why a rule cannot be waived; None if it can."""
    if rule in NEVER_WAIVED:
        return f"{rule} cannot be waived: {NEVER_WAIVED[rule]}."
    names = [each.name for each in RULES]
    if rule in names:
        return None
    if rule in {each.name for each in FILE_RULES}:
        return f"{rule} cannot be waived: it says how the file is read."
    return f"the waiver names {rule!r}, which is no rule.{did_you_mean(rule, names)}"

"""The reference page of all rules, generated from the rules themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from components.checks.registry import (
    AUDIT_RULES,
    FILE_RULES,
    RULES,
    UPDATE_RULES,
    FileRule,
    rule_pages,
)
from components.checks.rule import Rule

_HEAD = """\
# Rules

`railyard check FILE` runs these rules on a site file and reports all problems at once, each with
its line and a fix. `pulumi preview` and `pulumi up` run the same rules first. This page is
generated from the functions in `components/checks/`, and `railyard explain RULE` prints one rule.
"""
_PARTS: Final[Mapping[str, Sequence[Rule | FileRule]]] = {
    "Rules on the site": RULES,
    "Rules on the file": FILE_RULES,
    "Refusals of an update": UPDATE_RULES,
    "Findings of an audit": AUDIT_RULES,
}


def render_rules_page() -> str:
    """Write the page: Markdown with one heading for each rule, to which its messages link."""
    pages, sections = rule_pages(), [_HEAD]
    for title, rules in _PARTS.items():
        sections.append(f"## {title}\n")
        sections += [f"### {rule.name}\n\n{pages[rule.name]}\n" for rule in rules]
    return "\n".join(sections)

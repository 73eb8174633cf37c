"""The reference page of all rules, generated from the rules themselves."""

from __future__ import annotations

from components.checks.registry import FILE_RULES, NEVER_WAIVED, RULES
from components.checks.rule import Rule

_HEAD = """\
# Rules

`railyard check FILE` runs these rules on a site file and reports all problems at once, each with
its line and a fix. `pulumi preview` and `pulumi up` run the same rules first. This page is
generated from the functions in `components/checks/`.
"""


def render_rules_page() -> str:
    """Write the page: Markdown with one heading for each rule, to which its messages link."""
    sections = [_HEAD, "## Rules on the site\n"]
    sections += [_section(rule.name, _with_waiver(rule)) for rule in RULES]
    sections.append("## Rules on the file\n")
    sections += [_section(rule.name, rule.text) for rule in FILE_RULES]
    return "\n".join(sections)


def _with_waiver(rule: Rule) -> str:
    why = NEVER_WAIVED.get(rule.name)
    return f"{rule.text.strip()}\n\nIt cannot be waived: {why}." if why else rule.text


def _section(name: str, text: str) -> str:
    return f"### {name}\n\n{text.strip()}\n"

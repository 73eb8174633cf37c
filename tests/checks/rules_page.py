"""The reference page of all rules, generated from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.checks.registry import FILE_RULES, NEVER_WAIVED, RULES
from components.checks.rule import Rule

_HEAD = """\
# Rules

What `railyard check FILE` demands of a site file. All rules run, and all problems are reported at
once; `pulumi preview` and `pulumi up` run the same rules before anything is touched. This page is
generated from the rules: edit their functions in `components/checks/`.
"""


def render_rules_page(examples: Mapping[str, str]) -> str:
    """Write the page.

    Args:
        examples: A report by rule name, from the cases of the tests.

    Returns:
        Markdown with one heading a rule: problems link to it by the rule's name.
    """
    sections = [_HEAD, "## Rules on the site\n"]
    sections += [_section(rule.name, _with_waiver(rule), examples) for rule in RULES]
    sections.append("## Rules on the file\n")
    sections += [_section(rule.name, rule.text, examples) for rule in FILE_RULES]
    return "\n".join(sections)


def _with_waiver(rule: Rule) -> str:
    why = NEVER_WAIVED.get(rule.name)
    return f"{rule.text.strip()}\n\nIt cannot be waived: {why}." if why else rule.text


def _section(name: str, text: str, examples: Mapping[str, str]) -> str:
    report = "\n".join(_own_part(name, examples.get(name, "")))
    example = f"\n```text\n{report}\n```\n" if report else ""
    return f"### {name}\n\n{text.strip()}\n{example}"


def _own_part(name: str, report: str) -> Iterator[str]:
    """The first problem of that rule in a report, without the link to this page."""
    inside = False
    for line in report.splitlines():
        starts = not line.startswith(" ")
        if starts and inside:
            return
        inside = inside or (starts and line.split(" ")[0].rstrip(":") == name)
        if inside:
            yield line.partition("  (docs/")[0]

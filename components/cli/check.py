"""`railyard check FILE…`, `explain RULE` and `schema`: the rules and the form of a site file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from components.checks.registry import NEVER_WAIVED, RULES, rule_pages
from components.checks.render import RULES_PAGE
from components.cli.app import say
from components.cli.check_files import Form, check_files
from components.core.errors import UsageError
from components.core.plain_text import shortened
from components.reading.schema import publish_schema
from components.reading.wording import did_you_mean

WAIVABLE: Final = {each.name for each in RULES} - {*NEVER_WAIVED}
_SHOWN: Final = 12
"""Names of rules in the hint for an unknown one: two lines of a terminal."""


def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="site.yaml, Pulumi.<stack>.yaml, or -")
    ],
    output: Annotated[Form, typer.Option("--format")] = "text",
) -> None:
    """Check site files and report all their problems, each with its line and a fix.

    A problem is also what an update would refuse. `-` reads standard input. Exit codes: 0 all files
    are good (there may be warnings), 1 problems, 2 a file cannot be read.
    """
    raise typer.Exit(check_files(files, output))


def _rules(incomplete: str) -> Iterator[str]:
    return (name for name in rule_pages() if name.startswith(incomplete))


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
        alike = [f"`{name}`" for name in pages if rule.lower() in name.split("-")]
        several = f" Rules with this word: {shortened(alike, _SHOWN)}." if len(alike) > 1 else ""
        hint = several or did_you_mean(rule, [*pages])
        fix = "`railyard explain` without a name lists all rules."
        raise UsageError(f"there is no rule {rule!r}.{hint}\n  fix    {fix}")
    way = f'A site may waive it with a reason: `waive: {{{rule}: "…"}}`.\n\n'
    more = way if rule in WAIVABLE else ""
    verb = "audit" if rule.startswith("audit-") else "check"
    fix = f"`railyard {verb} FILE` prints the lines, the actual values and the fix of each finding."
    say(f"{rule}\n{'=' * len(rule)}\n\n{pages[rule]}\n\n{more}{fix}\n{RULES_PAGE}#{rule}")


def schema() -> None:
    """Print the JSON schema of the site file."""
    say(json.dumps(publish_schema(), indent=2))

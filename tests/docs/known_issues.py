"""The table of known issues: what goes wrong for others, what prevents it, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml
from pydantic import TypeAdapter

from components.model.units import Frozen
from tests.docs.markdown import ROOT

TABLE: Final = Path(__file__).parent / "known_issues.yaml"
PAGE: Final = ROOT / "docs" / "reference" / "known-issues.md"
_HEAD: Final = """\
# Known issues of the stack

Problems of K3s, NVIDIA's operators, Multus and SR-IOV, each with its source and its prevention: a
rule of `railyard check`, or an order or value of the plan. Each has a test. This page is generated
from `tests/docs/known_issues.yaml`.

"""
_TAIL: Final = """
## Not prevented

- If the node's own traffic uses a Mellanox card, the card disappears while the network operator's
  driver container loads (Mellanox/network-operator#2176). The file does not name that card: let the
  hosts own the driver.
- The file can ask for the SR-IOV network operator and nv-ipam (`vfs: operator`, `ipam: nv-ipam`).
  This page does not cover their open issues.
"""


class Issue(Frozen):
    """One way in which a cluster of others fails."""

    issue: str
    source: str
    rule: str | None = None
    """A rule of `railyard check`."""
    order: str | None = None
    """What of the plan's order or values prevents it."""
    tests: tuple[str, ...]


def load_issues() -> tuple[Issue, ...]:
    """Read the table."""
    return TypeAdapter(tuple[Issue, ...]).validate_python(yaml.safe_load(TABLE.read_text("utf-8")))


def render_page(issues: tuple[Issue, ...]) -> str:
    """Write the page."""
    rows = (
        f"- **{each.issue}** ({each.source}). Prevention: {_by(each)}.<br>"
        f"{'<br>'.join(f'`{test}`' for test in each.tests)}\n"
        for each in issues
    )
    return f"{_HEAD}{''.join(rows)}{_TAIL}"


def _by(issue: Issue) -> str:
    return f"[{issue.rule}](rules.md#{issue.rule})" if issue.rule else issue.order or ""

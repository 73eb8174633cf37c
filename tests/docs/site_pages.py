"""The pages of the four reference systems, read as far as tests need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.docs.markdown import ROOT, Block, blocks

SITES: Final = {
    "site-000": "dgx-roce",
    "site-001": "esxi-roce",
    "site-002": "shared-rdma",
    "site-003": "crusoe-k3s",
}
_RESOURCES: Final = re.compile(r"^\| first `pulumi up` \| \d+ s, (\d+) resources", re.MULTILINE)


def page_of(example: str) -> str:
    """The page that is about an example."""
    return next(page for page, name in SITES.items() if name == example)


def page_text(page: str) -> str:
    """The whole page."""
    return (ROOT / "docs" / "howto" / f"{page}.md").read_text()


def consoles(page: str, begins: str) -> Iterator[Block]:
    """The blocks with what a command printed that begin so."""
    for block in blocks(ROOT / "docs" / "howto" / f"{page}.md"):
        if block.language == "console" and block.text.startswith(begins):
            yield block


def shown_verdicts(page: str) -> list[str]:
    """The lines of verdicts that a page shows, with single blanks."""
    lines = page_text(page).splitlines()
    return [" ".join(line.split()) for line in lines if line.startswith("PASSED ")]


def shown_resources(page: str) -> int:
    """How many resources the first update of the page makes."""
    (found,) = _RESOURCES.findall(page_text(page))
    return int(found)

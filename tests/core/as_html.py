"""Markdown as a reader of CommonMark shows it: what of it is live, and what is code."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from markdown_it import MarkdownIt

EVIL: Final = (
    "<img src=https://evil.example/p.png> @org/owners ![x](https://evil.example/a.png) "
    "[fix](https://evil.example) #123 ```` `@all`\n\n</details>\n# Approved by security\n/merge\n"
    "```\nleaf-02: drift: faked | cell \\| another |"
)
"""What a neighbour on LLDP may call itself."""
_OURS: Final = frozenset({"p", "h1", "h2", "h3", "ul", "li", "em", "strong", "code", "pre"})
_TABLE: Final = frozenset({"blockquote", "table", "thead", "tbody", "tr", "th", "td"})
_LIVE: Final = re.compile(r"@\w+|#\d+|^/\w+|https?:\S+", re.MULTILINE)


def as_html(text: str) -> str:
    """HTML of a Markdown text, with HTML in it let through, as GitHub does for many elements."""
    return MarkdownIt("commonmark").enable("table").render(text)


class _Outside(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._code += tag == "code"
        self.found.add(tag)

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found.update(_LIVE.findall(data))


def outside_code(text: str) -> set[str]:
    """The elements of a text, and the mentions, references, addresses and commands outside code."""
    reader = _Outside()
    reader.feed(as_html(text))
    return reader.found


def assert_harmless(text: str) -> None:
    """Nothing but our own headings, lists, tables and code is in a text."""
    assert outside_code(text) <= _OURS | _TABLE
    assert not re.search(r"^\s*/\w", text, re.MULTILINE), "GitLab reads quick actions there"

"""Make texts from outside safe for a terminal, and fill holes for created instances.

A host name, a port's description or a line of a log may hold control characters: they clear the
screen, set the title, or reverse the direction of text, and the reader sees another text than the
real one. This module makes such characters visible.

Comments and reports must not interpret the same text as Markdown: it may hold HTML, links, images,
mentions, references to issues, or a GitLab quick action at the start of a line. Code spans and code
blocks show everything literally: CommonMark 0.31 6.1 and 4.5 read no markup inside them, and GitHub
and GitLab ignore mentions there.

A plan is finished before any instance exists, so it cannot know an address that a cloud will
assign. It holds `@{crusoe-k3s-0.public_ip}` instead; a component fills in the address once the
instance has answered, and decides nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from components.core.errors import Bug

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""ECMA-48's C0 and C1 but for tab and newline; Unicode's marks of direction and its invisible ones
(UAX 9, UTR 36 2.11), tags too; half a surrogate pair, which no terminal can be sent."""
_LONGEST: Final = 2_000
"""Characters of one code span: a whole log in one line would push the rest out of a comment."""
_BREAK: Final = re.compile(r"\s*[\r\n]+\s*")
_HOLE: Final = re.compile(r"@\{([a-z0-9-]+)\.([a-z_]+)\}")
Facts = Mapping[str, Mapping[str, str]]
"""Name of an instance to its facts: `public_ip`, `private_ip`, `host_key`."""


def plain_text(text: str) -> str:
    r"""Show each character that a terminal would obey as its escape, for example `\x1b`."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Do as `plain_text`, and show line breaks and tabs too: a value cannot begin another line."""
    return plain_text(text).replace("\n", r"\n").replace("\t", r"\t")


def indented(text: str) -> str:
    """Indent every line but the first: no later line then looks like another message."""
    return "\n    ".join(text.splitlines())


def counted(count: int, word: str, plural: str = "") -> str:
    """Write a number with its noun: `1 row`, `2 rows`."""
    return f"{count} {word if count == 1 else plural or f'{word}s'}"


def shortened(texts: Sequence[str], most: int, by: str = ", ") -> str:
    """Join the first texts, and count the rest: `a, b and 3 more`, or `a; b; and 3 more`."""
    left = len(texts) - most
    return by.join(texts[:most]) + (f"{by.strip(', ')} and {left} more" if left > 0 else "")


def code_span(text: str) -> str:
    """Render a text as one code span on one line.

    The fence is longer than every run of backticks inside. A space on each side, which CommonMark
    strips again, separates a backtick or a space at an end from the fence. A line break becomes a
    visible mark. An empty text becomes a span with one space: CommonMark has no empty span. A text
    is cut after 2,000 characters, and its length is added.
    """
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text):,} characters)"
    line = one_line(_BREAK.sub(" ⏎ ", text.strip("\r\n")))
    fence = "`" * (_longest_run(line) + 1)
    has_words = bool(line.strip(" "))
    pad = " " if not line or (has_words and (line[0] in "` " or line[-1] in "` ")) else ""
    return f"{fence}{pad}{line}{pad if line else ''}{fence}"


def code_cell(text: str) -> str:
    """Render a text as a code span in a cell of a table.

    GitHub Flavored Markdown 4.10 splits cells at each `|` without a backslash, also in a span. A
    backslash of the text right before one is set apart by a space, because readers disagree on two.
    """
    return code_span(text).replace("\\|", "\\ |").replace("|", "\\|")


def code_block(lines: Iterable[str]) -> str:
    """Render lines as one fenced block; its fence is longer than every run of backticks inside."""
    body = "\n".join(map(one_line, lines))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}text\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def placeholder(instance: str, fact: str) -> str:
    """The hole for one fact of one instance."""
    return f"@{{{instance}.{fact}}}"


def has_placeholder(text: str) -> bool:
    """Whether a text has a hole for a fact of an instance."""
    return _HOLE.search(text) is not None


def instances_in(text: str) -> tuple[str, ...]:
    """Return the instances whose facts a text needs, sorted."""
    return tuple(sorted({match[1] for match in _HOLE.finditer(text)}))


def fill_known(text: str, facts: Facts) -> str:
    """Fill the holes whose facts are known; the others stay."""

    def known(match: re.Match[str]) -> str:
        return facts.get(match[1], {}).get(match[2], match[0])

    return _HOLE.sub(known, text)


def matches(text: str, recorded: str) -> bool:
    """Whether a recorded text equals this one with some text in every hole."""
    if _HOLE.search(text) is None:  # most texts: no expression of the whole text is compiled
        return text == recorded
    parts: list[str] = []
    end = 0
    for hole in _HOLE.finditer(text):
        parts += [re.escape(text[end : hole.start()]), ".*"]
        end = hole.end()
    return re.fullmatch("".join(parts) + re.escape(text[end:]), recorded) is not None


def fill(text: str, facts: Facts) -> str:
    """Fill every hole of the text; Bug if an instance, or one of its facts, is missing."""

    def known(match: re.Match[str]) -> str:
        try:
            return facts[match[1]][match[2]]
        except KeyError as error:
            raise Bug(f"nothing is known of {match[0]}. Please open an issue.") from error

    return _HOLE.sub(known, text)


def parse_facts(names: Sequence[str], texts: Sequence[str | None]) -> Facts:
    """Read the facts that the instances' steps printed, in the order of the names.

    With `--continue-on-error` a step after a failed one is skipped and gives None; steps that need
    its facts are skipped too, so its facts do not matter.
    """
    read = [cast("Mapping[str, str]", json.loads(text)) if text else _Anything() for text in texts]
    return dict(zip(names, read, strict=True))


class _Anything(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""

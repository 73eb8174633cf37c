"""Text from outside as a terminal or a page may get it.

A host name, a description of a port or a line of a log may hold what a terminal obeys: it clears
the screen, sets the title, or turns the direction of what follows, so that a reader sees another
text than the one that is there. Here such a character is shown as what it is.
"""

from __future__ import annotations

import re
from typing import Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""ECMA-48's C0 and C1 but for tab and newline; Unicode's marks of direction and its invisible ones
(UAX 9, UTR 36 2.11); half a surrogate pair, which no terminal can be sent."""


def plain_text(text: str) -> str:
    r"""Show each character that a terminal would obey as its escape, for example `\x1b`."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Do the same, and show line breaks and tabs too: a value cannot start a line of its own."""
    return plain_text(text).replace("\n", r"\n").replace("\t", r"\t")


def indented(text: str) -> str:
    """Indent every line but the first, so that no later line looks like a message of its own."""
    return "\n    ".join(text.splitlines())

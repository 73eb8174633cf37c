"""Is a log one of JSON? Then it is read whole, up to a limit, and not line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from components.acceptance.logs.log_model import ParseProblem

_MOST_CHARACTERS: Final = 64 << 20
"""A run's JSON has some hundred kilobytes."""
_DOCKER_LINE: Final = '{"log":'


def first_text(chunks: Iterator[str]) -> str:
    """The first piece that is not blank; of JSON, from its first character on."""
    for chunk in chunks:
        head = chunk.lstrip("\ufeff \t\r\n\x00")
        if head:
            blanks = len(chunk) - len(head)
            return head if head.startswith("{") else chunk[max(blanks - 1, 0) :]
    return ""


def is_json(head: str) -> bool:
    """Does a log that begins so hold JSON documents? Lines of Docker's driver are a text."""
    return head.startswith("{") and not head.startswith(_DOCKER_LINE)


def whole_text(head: str, chunks: Iterable[str]) -> str | ParseProblem:
    """All pieces together; a problem where they are too many for a run's JSON."""
    parts = [head]
    size = len(head)
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > _MOST_CHARACTERS:
            return ParseProblem(kind="unrecognised", what="it is a JSON document of over 64 MiB")
    return "".join(parts)

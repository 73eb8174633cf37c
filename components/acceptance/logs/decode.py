"""Turns the bytes of a log into text, piece by piece: logs of a gigabyte are never held whole."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final, Protocol

_CHUNK_BYTES: Final = 1 << 20
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks (Unicode, chapter 23.8); that of UTF-32 begins as that of UTF-16 does."""
_PROBE_BYTES: Final = 4096
_ZERO_SHARE: Final = 0.3
"""Of the bytes at odd or at even places: ASCII in UTF-16 has a zero at all of them, a text without
zeros at none."""


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_chunks(file: _Reader) -> Iterator[str]:
    """The text of a file in pieces: UTF-8, or UTF-16 and UTF-32 as Windows' redirection writes it.

    Args:
        file: Open for reading bytes. What is no text becomes replacement characters.
    """
    first = file.read(_CHUNK_BYTES)
    decoder = codecs.getincrementaldecoder(_encoding_of(first))(errors="replace")
    while first:
        yield decoder.decode(first)
        first = file.read(_CHUNK_BYTES)
    yield decoder.decode(b"", final=True)


def _encoding_of(start: bytes) -> str:
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    probe = start[:_PROBE_BYTES]
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = probe[offset::2]
        if half and half.count(0) > _ZERO_SHARE * len(half) and probe.count(0) < len(probe):
            return encoding
    return "utf-8"

"""Releases of switch systems, for what came with one of them."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d+")


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a release: `3.9.2504` is (3, 9, 2504), `4.32.1F` is (4, 32, 1)."""
    return tuple(int(part) for part in _NUMBER.findall(text))

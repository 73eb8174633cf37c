"""What a campaign remembers, so that a history costs less: pure functions of the product."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Final
from unittest.mock import patch

from components.kubernetes import kubeconfig
from components.remote import lines

_KEPT: Final = 1 << 16
_REMEMBERED: Final[tuple[tuple[Any, str], ...]] = (
    (lines, "_read"),
    (lines, "_spell"),
    (kubeconfig, "client_certificate_end"),
)
"""Module and function: each gives the same for the same, and what it gives is not changed."""


@contextmanager
def remembering() -> Generator[None]:
    """Remember what these functions gave, and compiled expressions, while histories are played."""
    with ExitStack() as stack:
        for module, name in _REMEMBERED:
            known = lru_cache(_KEPT)(getattr(module, name))
            stack.enter_context(patch.object(module, name, known))
        stack.enter_context(patch.object(re, "_MAXCACHE", _KEPT))
        yield

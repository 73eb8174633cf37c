"""The lab that stands for all histories of tier 3."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from lab.up import choose_site, load_spec, start_lab
from tests.site.leftovers import MARK
from tests.site.playground import STACK, Playground, take_snapshot

_STANDING: Final[list[Playground]] = []


@contextmanager
def opened() -> Generator[None]:
    """Start the lab of the dev stack, and stop it at the end.

    Its addresses are of the loopback network: `unshare -n` gives a campaign one of its own.
    """
    from tests.site.conftest import stop_and_check  # noqa: PLC0415 - pytest's own, for tier 3 alone

    os.environ[MARK] = mark = uuid.uuid4().hex
    spec = load_spec(choose_site([]))
    start_lab(spec, STACK)
    try:
        site = Playground(mark, take_snapshot())
        site.up().must()
        _STANDING.append(site)
        yield
    finally:
        _STANDING.clear()
        stop_and_check(mark)
        del os.environ[MARK]


@contextmanager
def standing() -> Generator[Playground]:
    """The lab that stands; a seed by itself gets one of its own."""
    if _STANDING:
        yield _STANDING[0]
        return
    with opened():
        yield _STANDING[0]

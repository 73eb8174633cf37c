"""The lab that stands for all histories of tier 3."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from lab import control
from lab.up import choose_site, load_spec, start_lab
from tests.site.leftovers import MARK
from tests.site.playground import STACK, Playground, lab_folder, take_snapshot

OTHERS: Final[tuple[tuple[str, ...], ...]] = (
    ("leaf-01", "cli", "vlan 3001"),
    ("leaf-01", "cli", "interface ethernet 1/20 mtu 4200 force"),
    ("leaf-01", "cli", "interface ethernet 1/1 description theirs"),
    ("leaf-01", "cli", "configuration write"),
    ("gpu01", "file-changed", "/etc/hosts", "10.0.0.9 stray"),
)
"""What is there before Railyard, and must be there after each update and after `destroy`."""
_STANDING: Final[list[Playground]] = []


@contextmanager
def opened() -> Generator[None]:
    """Start the lab of the dev stack from nothing, and stop it at the end.

    Its addresses are of the loopback network: `unshare -n` gives a campaign one of its own. The lab
    and the stack that a person has in this clone are put aside, and back at the end.
    """
    from tests.site.conftest import (  # noqa: PLC0415 - pytest's own, for tier 3 alone
        own_state_aside,
        refuse_a_running_lab,
        stop_and_check,
    )

    os.environ[MARK] = mark = uuid.uuid4().hex
    spec = load_spec(choose_site([]))
    with own_state_aside():
        refuse_a_running_lab(spec, STACK)
        start_lab(spec, STACK)
        try:
            _plant_others()
            site = Playground(mark, take_snapshot())
            site.up().must()
            _STANDING.append(site)
            yield
        finally:
            _STANDING.clear()
            stop_and_check(mark)
            del os.environ[MARK]


def _plant_others() -> None:
    """Other people set something on the switch and on a host before Railyard comes."""
    for device, *change in OTHERS:
        request: dict[str, object] = {"op": "fault", "device": device, "args": change}
        control.request(lab_folder(STACK) / "control.sock", request)


@contextmanager
def standing() -> Generator[Playground]:
    """The lab that stands; a seed by itself gets one of its own."""
    if _STANDING:
        yield _STANDING[0]
        return
    with opened():
        yield _STANDING[0]

"""The fixed seeds of the suite: 100 of edits, 24 of switches, 2 of hosts, shared by the workers."""

from __future__ import annotations

import pytest

from campaign.command import fixed

INTENT = [range(first, first + 50) for first in range(1, 101, 50)]
DEVICE = [range(first, first + 12) for first in range(1, 25, 12)]
HOST = range(1, 3)


@pytest.mark.parametrize("seeds", INTENT, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_edit_breaks_an_invariant(seeds: range) -> None:
    assert fixed(1, seeds) == []


@pytest.mark.parametrize("seeds", DEVICE, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_fault_of_a_switch_breaks_an_invariant(seeds: range) -> None:
    assert fixed(2, seeds) == []


def test_no_fault_of_a_host_breaks_an_invariant() -> None:
    assert fixed(4, HOST) == []

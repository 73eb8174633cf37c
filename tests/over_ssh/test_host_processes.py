"""What a look and a first run start on a host: processes, counted as the benchmark counts them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.converge import bring_all
from bench.host_room import running_room

pytestmark = pytest.mark.lab
FIRST_RUN = 400
"""Processes of a host's first run: the look, the change, and the look after it."""
NOTHING_TO_DO = 70
"""Processes of a run that only looks."""


def test_a_worker_is_looked_at_and_set_up_with_few_processes(tmp_path: Path) -> None:
    with running_room(1, tmp_path / "lab") as room:
        values = room.plans[0].desired.values
        settings = ("vfs", "vf_mtu_bytes", "mtu_bytes", "trust", "pfc", "roce_tos", "global_pause")
        cards = {key.removesuffix(".vfs") for key in values if key.endswith(".vfs")}
        assert len(cards) == 2
        assert {f"{card}.{setting}" for card in cards for setting in settings} <= set(values)

        def processes(converged: int) -> int:
            before = room.counted().processes
            assert asyncio.run(bring_all(room.plans, room.secrets, 1)) == converged
            return room.counted().processes - before

        first, again = processes(converged=1), processes(converged=0)
        unmodelled = room.of_each("unmodelled")
    assert unmodelled == {"gpu001": []}
    assert first <= FIRST_RUN
    assert again <= NOTHING_TO_DO

"""How long to wait for a probe, by the cause of its wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from components.acceptance.collect.waits import STUCK, Api, Body, find_waits

LOOK_S: Final = 30.0
"""Seconds between two checks why a probe waits: they list its pods and the warnings."""
GIVE_UP_S: Final = 180.0
"""Seconds after which a probe ends if its wait will not end without help. A kubelet tries a pull
again 10, 30, 70 and 150 s after the first; a device plugin registers seconds after its start."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a probe, and how to report the wait."""

    place_s: float | None = None
    """Seconds until it is given up if its pods cannot be placed; None for its whole deadline."""
    lacks: Callable[[], bool] = bool
    """Whether its pods would get no place even if all others ended; by default not."""
    tell: Callable[[str], object] = str
    """Receives the reason of the wait; by default it is discarded."""


ALONE: Final = Patience()


class ProbeWait:
    """The wait for one probe."""

    def __init__(self, clock: Callable[[], float], deadline_s: float, patience: Patience) -> None:
        self._clock, self._deadline_s, self._patience = clock, deadline_s, patience
        self._begun_s = self._looked_s = self._hoped_s = clock()
        self._limit_s = inf

    def is_over(self, api: Api, objects: Sequence[Body]) -> bool:
        """Whether the deadline has passed, or the wait has lasted too long to end without help."""
        now = self._clock()
        if now - self._looked_s >= LOOK_S:
            self._looked_s, self._limit_s = now, self._look(api, objects)
            self._hoped_s = now if self._limit_s == inf else self._hoped_s
        return now - self._hoped_s >= self._limit_s or now - self._begun_s >= self._deadline_s

    @property
    def words(self) -> str:
        """Say after how long the probe was given up, if before its deadline."""
        waited_s = self._clock() - self._begun_s
        return f"given up after {waited_s:.0f} s" if waited_s < self._deadline_s else ""

    def _look(self, api: Api, objects: Sequence[Body]) -> float:
        waits = find_waits(api, objects)
        kinds = {each.kind for each in waits}
        if waits:
            self._patience.tell(waits[0].words)
        if "place" in kinds and self._patience.place_s is not None:
            return self._patience.place_s
        stuck = kinds & STUCK or ("place" in kinds and self._patience.lacks())
        return GIVE_UP_S if stuck else inf

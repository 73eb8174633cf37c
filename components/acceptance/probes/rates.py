"""What the links of one probe carry, where workers differ, and how their probes are called."""

from __future__ import annotations

from collections.abc import Mapping

from components.model.cluster import ClusterSpec
from components.model.once import once
from components.model.worker_kinds import WorkerKind, gpu_kinds, speed_classes


@once
def rail_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """Each rail to the slowest speed of a worker there, in Gbit/s; 0 where no worker is on it."""
    return {rail.name: min(speed_classes(spec, rail), default=0) for rail in spec.rails}


def other_rates(spec: ClusterSpec, speeds: Mapping[str, int]) -> dict[str, float]:
    """The rails of a probe that are faster than the slowest worker of the rail, in Gbit/s.

    Without them a fast pair would pass with what the slowest worker of its rail has.
    """
    slowest = rail_speeds(spec)
    return {rail: float(speed) for rail, speed in speeds.items() if speed != slowest[rail]}


def kind_suffix(spec: ClusterSpec, kind: WorkerKind) -> str:
    """What tells the probes of one kind from those of others; empty where there is one kind."""
    return f"-{kind.name}" if len(gpu_kinds(spec)) > 1 else ""

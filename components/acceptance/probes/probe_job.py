"""The probes of a cluster as jobs: numbered when they run, deleted afterwards.

They run in pods on the rails' own attachments: a test on the PF would prove a path that no job
uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.acceptance.evidence import Probe
from components.core.to_json import OMIT_EMPTY
from components.jobs.templates import JsonObject, make_pod
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.once import once
from components.model.worker_kinds import WorkerKind, gpu_kinds, speed_classes


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe and its objects."""

    probe: Probe
    objects: tuple[Body, ...]
    """The objects in the order of creation; their names have a placeholder for the run's number."""
    watched: int
    """Index of the object that ends the probe, and whose log is the result."""
    command: tuple[str, ...]
    """Its command, for people."""
    image: str
    """The image that it runs in."""
    runs_s: int = field(default=0, metadata=OMIT_EMPTY)
    """Seconds of its intended run, which are added to its deadline."""


def memlock_job(spec: ClusterSpec, host: Host) -> Body:
    """Print the locked-memory limit of a pod on one worker; it should be `unlimited`."""
    container: JsonObject = {
        "name": "memlock",
        "image": spec.jobs.image,
        "command": ["/bin/sh", "-c", "ulimit -l"],
    }
    pod: JsonObject = {
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": host.node},
            "containers": [container],
        }
    }
    return make_pod(spec, f"memlock-{host.name}", pod)


@once
def rail_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """Each rail to the slowest speed of a worker there, in Gbit/s; 0 if the rail has no worker."""
    return {rail.name: min(speed_classes(spec, rail), default=0) for rail in spec.rails}


def other_rates(spec: ClusterSpec, speeds: Mapping[str, int]) -> dict[str, float]:
    """The rails on which a probe is faster than the slowest worker of the rail, in Gbit/s.

    Without these rates a fast pair would pass with the speed of the slowest worker.
    """
    slowest = rail_speeds(spec)
    return {rail: float(speed) for rail, speed in speeds.items() if speed != slowest[rail]}


def kind_suffix(spec: ClusterSpec, kind: WorkerKind) -> str:
    """A suffix for the probes of one kind of workers; empty if the site has one kind."""
    return f"-{kind.name}" if len(gpu_kinds(spec)) > 1 else ""

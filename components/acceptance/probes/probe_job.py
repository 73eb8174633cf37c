"""The probes of a cluster as jobs: numbered when they run, deleted afterwards.

They run in pods on the rails' own attachments: a test on the PF would prove a path that no job
uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.acceptance.evidence import Probe
from components.jobs.templates import JsonObject, make_job
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.hosts import Host


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe and what it creates."""

    probe: Probe
    objects: tuple[Body, ...]
    """In the order of creation; names hold the place of the run's number."""
    watched: int
    """Index of the object whose end is the probe's end, and whose log is its result."""
    command: tuple[str, ...]
    """What it runs, for people."""
    image: str
    """The image that it runs in."""


def memlock_job(spec: ClusterSpec, host: Host) -> Body:
    """Prints the locked-memory limit that a pod of one worker gets; `unlimited` is wanted."""
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
    return make_job(spec, f"memlock-{host.name}", pod)

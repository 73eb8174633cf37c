"""Sites whose other devices are switched off, so that a test plays one part alone."""

from __future__ import annotations

from components.artefacts.lock import Lock
from components.core.problem import Finding
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from tests.graph.locked import lock_of

OFF = {"address": "127.0.0.1", "port": 1}
"""A port on which nothing listens, so that a connection is refused at once."""


def hosts_off(spec: ClusterSpec) -> ClusterSpec:
    """The same site with hosts that no connection reaches."""
    return spec.model_copy(update={"hosts": tuple(map(_off, spec.hosts))})


def _off(host: Host) -> Host:
    return host.model_copy(update={"ssh": host.way.model_copy(update=OFF)})


def files_lock(spec: ClusterSpec) -> Lock:
    """A lock of all but charts, so that none is fetched."""
    entries = lock_of(spec).entries
    return Lock({k: e for k, e in entries.items() if e.kind != "chart"}, exists=True)


def causes(found: tuple[Finding, ...], device: str) -> dict[str, Finding]:
    """What is wrong with one device, by cause."""
    return {each.rule: each for each in found if each.device == device}

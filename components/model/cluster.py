"""`ClusterSpec`: the whole site, as the user wrote it and with defaults filled in."""

from __future__ import annotations

from typing import Literal

from components.model.fabric import Rail, Rdma, Switch
from components.model.hosts import Host, HostDefaults
from components.model.kubernetes import Acceptance, Jobs, Kubernetes, Operators, PodNetwork
from components.model.units import DnsLabel, Frozen


class OnPrem(Frozen):
    """Own switches, own Linux hosts."""

    kind: Literal["onprem"]
    """The kind of site; there is one so far."""


class Disruption(Frozen):
    """What an update may interrupt. `deny` refuses at preview, naming the port or host."""

    ports: Literal["allow", "deny"] = "deny"
    """Whether a switch port may be shut for a moment, as a new MTU needs."""
    reboots: Literal["allow", "deny"] = "deny"
    """Whether a host may be rebooted. No step of this release reboots one."""
    max_unavailable: int = 1
    """Most workers that may be out of service at once. No step of this release takes one out."""


class ClusterSpec(Frozen):
    """One site: the value of `railyard:cluster`."""

    name: DnsLabel
    """Name of the site."""
    environment: OnPrem
    """What the site runs on; it decides which other keys are possible."""
    rdma: Rdma = Rdma()
    """The one RoCE intent; switch, NIC, attachment and job follow it."""
    rails: tuple[Rail, ...]
    """The networks for RDMA, one for each NIC of a worker."""
    switches: tuple[Switch, ...] = ()
    """The switches that carry the rails."""
    hosts: tuple[Host, ...]
    """Control plane and workers."""
    host_defaults: HostDefaults = HostDefaults()
    """What all hosts share."""
    kubernetes: Kubernetes
    """How the control plane is installed."""
    disruption: Disruption = Disruption()
    """What an update may interrupt."""
    operators: Operators = Operators()
    """Operators to install."""
    pod_network: PodNetwork = PodNetwork()
    """How pods get onto the rails."""
    jobs: Jobs
    """Image and settings of the jobs."""
    acceptance: Acceptance = Acceptance()
    """What must be proven, and the least numbers."""

    def rail(self, name: str) -> Rail | None:
        """The rail of that name, or None."""
        return next((rail for rail in self.rails if rail.name == name), None)

    def host(self, name: str) -> Host | None:
        """The host of that name, or None."""
        return next((host for host in self.hosts if host.name == name), None)

    @property
    def workers(self) -> tuple[Host, ...]:
        """The hosts that run jobs, in the order of the file."""
        return tuple(host for host in self.hosts if host.role == "worker")

    @property
    def servers(self) -> tuple[Host, ...]:
        """The control-plane hosts, in the order of the file; the first one starts the cluster."""
        return tuple(host for host in self.hosts if host.role == "control_plane")

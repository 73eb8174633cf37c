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


class Disruption(Frozen):
    """What an update may interrupt. `deny` refuses at preview, naming the port or host."""

    ports: Literal["allow", "deny"] = "deny"
    reboots: Literal["allow", "deny"] = "deny"
    max_unavailable: int = 1


class ClusterSpec(Frozen):
    """One site: the value of `railyard:cluster`."""

    name: DnsLabel
    environment: OnPrem
    rdma: Rdma = Rdma()
    rails: tuple[Rail, ...]
    switches: tuple[Switch, ...] = ()
    hosts: tuple[Host, ...]
    host_defaults: HostDefaults = HostDefaults()
    kubernetes: Kubernetes
    disruption: Disruption = Disruption()
    operators: Operators = Operators()
    pod_network: PodNetwork = PodNetwork()
    jobs: Jobs
    acceptance: Acceptance = Acceptance()

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

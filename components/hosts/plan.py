"""What each host shall look like, and the one step that brings it there.

Everything is decided here; the scripts only compare and change. VLAN, spoof check and trust of
a VF are not here: with `pod_network.mode: sriov` the network attachment owns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from components.hosts.endpoint import host_endpoint
from components.hosts.scripts import boot_files_digest, script_text
from components.hosts.state import HostState, parse_state
from components.hosts.watched import Watched
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma
from components.model.hosts import DriverPackage, Host, Nic
from components.model.instances import crusoe_of
from components.remote.step import Endpoint, RemoteStep

CONVERGE_DEADLINE_S: Final = 300.0
"""Seconds for one host without a driver package: VF probing takes at most 60 s a card."""
DOCKER_DEADLINE_S: Final = 900.0
"""Seconds where Docker may have to be installed: some hundred MB of packages."""
VERIFY_DEADLINE_S: Final = 120.0
DRIVER_DEADLINE_S: Final = 1800.0
"""Seconds with a driver package: NVIDIA's installer builds modules where it has none ready."""
PARAMETERS: Final = frozenset({"stack", "repair", "driver_source", "driver_sha256"})
"""Lines on stdin that are no setting of the host but say how this run is to be done."""


_PACKAGES: Final = {
    "driver.kind": "the RDMA driver",
    "docker.engine": "docker.io (stopped and disabled where no container is left)",
    "docker.toolkit": "nvidia-container-toolkit",
}
"""Setting to what it may have installed."""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One host: the state it shall have and the steps that bring it there."""

    name: str
    endpoint: Endpoint
    desired: HostState
    steps: tuple[RemoteStep, ...]
    verify: RemoteStep | None = None
    """Proof of what only works when all below the host was restarted; to run after that."""

    @property
    def converge(self) -> RemoteStep:
        """The step that carries the host's settings."""
        return self.steps[0]

    @property
    def left_by_destroy(self) -> tuple[str, ...]:
        """The packages that stay where this stack installed them: another may need them by now."""
        return tuple(
            package
            for key, package in _PACKAGES.items()
            if self.desired.values.get(key) not in {None, "inbox"}
        )

    @property
    def watched(self) -> Watched:
        """The host as observe and drift see it."""
        return Watched(self.name, self.converge, self.desired, script_text("observe"), PARAMETERS)

    @property
    def watched_verify(self) -> Watched | None:
        """The proof as observe and drift see it: when it no longer holds, it is asked for again."""
        if self.verify is None:
            return None
        proven = HostState(
            {key: value for key, value in self._proven().items() if key not in PARAMETERS}
        )
        name = f"{self.name} ats"
        return Watched(name, self.verify, proven, script_text("observe"), PARAMETERS)

    def _proven(self) -> Mapping[str, str]:
        return parse_state(self.verify.desired).values if self.verify else {}


def plan_hosts(spec: ClusterSpec, stack: str | None = None) -> tuple[HostPlan, ...]:
    """Plan every host of the site.

    Args:
        spec: The checked site.
        stack: Names the folder of the recorded previous values; default the cluster's name.
    """
    return tuple(_plan_host(spec, host, stack or spec.name) for host in spec.hosts)


def _plan_host(spec: ClusterSpec, host: Host, stack: str) -> HostPlan:
    desired = desired_state(spec, host)
    package = spec.host_defaults.driver
    lines = {"stack": stack} | (_package_lines(package) if host.nics else {})
    with_package = package.source is not None and bool(host.nics)
    step = RemoteStep(
        name=f"{host.name}-host",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState({**desired.values, **lines}).render(),
        apply=script_text("converge"),
        undo=script_text("undo"),
        deadline_s=_deadline_s(desired, with_package=with_package),
    )
    return HostPlan(host.name, step.endpoint, desired, (step,), _verify_step(spec, host, stack))


def _deadline_s(desired: HostState, *, with_package: bool) -> float:
    if with_package:
        return DRIVER_DEADLINE_S
    return DOCKER_DEADLINE_S if "docker.engine" in desired.values else CONVERGE_DEADLINE_S


def _verify_step(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep | None:
    """The proof that ATS works in a virtual machine, by `lspci` and the firmware."""
    if not (spec.host_defaults.ats and host.nics):
        return None
    lines = {"stack": stack}
    for nic in host.nics:
        lines |= {f"nic.{nic.pci}.ats_current": "on", f"nic.{nic.pci}.ats_active": "on"}
    return RemoteStep(
        name=f"{host.name}-ats",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState(lines).render(),
        apply=script_text("verify"),
        why_no_undo="it only looks",
        deadline_s=VERIFY_DEADLINE_S,
    )


def desired_state(spec: ClusterSpec, host: Host) -> HostState:
    """All settings that one host shall have."""
    defaults = spec.host_defaults
    state = {"hostname": host.name, f"user.{defaults.user.name}.uid": str(defaults.user.uid)}
    state |= {f"hosts.{each.name}": each.address for each in _named_on(spec, host)}
    state |= _k3s_limits(spec, host) | _docker(spec, host)
    if host.nics:
        state |= _driver(defaults.driver) | _cards(spec, host)
    boot = _boot_settings(spec, host)
    if boot:
        config = "".join(f"{key}={value}\n" for key, value in sorted(boot.items()))
        state |= boot
        state["unit.railyard-nics.files"] = boot_files_digest(config)
        state["unit.railyard-nics.enabled"] = "enabled"
    return HostState(state)


def _named_on(spec: ClusterSpec, host: Host) -> tuple[Host, ...]:
    """The hosts whose names a host is told.

    Instances that we make come and go, and their cloud's DNS knows them: each is told its own name
    alone, so that one more or less touches no other.
    """
    return (host,) if crusoe_of(spec) else spec.hosts


def _k3s_limits(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The limit of the one unit that starts pods; without our K3s there is none of ours."""
    if spec.k3s is None or host.role == "balancer":
        return {}
    unit = "k3s" if host.role == "control_plane" else "k3s-agent"
    return {f"unit.{unit}.limit_memlock": "infinity"}  # systemd's word for unlimited


def _docker(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """Docker where containers run in it, and NVIDIA's runtime as its default where GPUs are."""
    by_k3s = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    if host.role == "balancer" or not (spec.host_defaults.docker or by_k3s):
        return {}
    state = {"docker.engine": "present", "docker.service": "enabled/active"}
    if host.gpus:
        state |= {
            "docker.toolkit": "present",
            "docker.runtime": "nvidia-container-runtime",
            "docker.default_runtime": "nvidia",
        }
    return state


def _cards(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """What a card keeps over a reboot: which one it is, and its firmware's settings."""
    state = {f"nic.{nic.pci}.model": nic.model for nic in host.nics}
    if spec.host_defaults.ats:
        state |= {f"nic.{nic.pci}.ats": "on" for nic in host.nics}
    return state


def _driver(package: DriverPackage) -> dict[str, str]:
    lines = {"driver.kind": package.kind}
    if package.version and package.kind != "inbox":
        lines["driver.version"] = package.version
    return lines


def _package_lines(package: DriverPackage) -> dict[str, str]:
    if not package.source or not package.sha256:
        return {}
    return {"driver_source": package.source, "driver_sha256": package.sha256}


def _boot_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """What a reboot loses: the cards' settings and the loaded modules.

    The adapters that a cloud hands in have no settings of ours, and their driver is the image's.
    """
    settings: dict[str, str] = {}
    if host.nics:
        settings["module.rdma_cm"] = "loaded"
    if host.hcas and spec.infiniband is not None:
        # Without it no program of the host reaches the subnet manager: sminfo, saquery, ibdiagnet.
        settings["module.ib_umad"] = "loaded"
    if host.gpus and (host.nics or host.hcas) and spec.host_defaults.peermem:
        settings["module.nvidia_peermem"] = "loaded"
    for nic in host.nics:
        prefix = f"nic.{nic.pci}."
        card = _card(spec.rdma, nic) | _address(spec, nic)
        settings |= {prefix + key: value for key, value in card.items()}
    return settings


def _address(spec: ClusterSpec, nic: Nic) -> dict[str, str]:
    """The PF's own address on its rail, with the rail's prefix length."""
    rail = spec.rail(nic.rail)
    if nic.address is None or rail is None:
        return {}
    return {"link": "up", "address": f"{nic.address}/{rail.subnet.prefixlen}"}


def _card(rdma: Rdma, nic: Nic) -> dict[str, str]:
    mtu_bytes = nic.mtu_bytes or rdma.mtu_bytes
    card = {
        "netdev": nic.netdev,
        "vfs": str(nic.vfs),
        "mtu_bytes": str(mtu_bytes),
        "trust": "dscp",
        f"dscp{rdma.dscp}_priority": str(rdma.priority),
        f"dscp{rdma.cnp_dscp}_priority": str(rdma.cnp_priority),
        "pfc": str(rdma.priority) if rdma.host_pfc else "none",
        f"ecn_priority_{rdma.priority}": "on",
        "cnp_dscp": str(rdma.cnp_dscp),
        "cnp_priority": str(rdma.cnp_priority),
        "roce_mode": "RoCE v2",
        "roce_tos": str(rdma.ip_traffic_class),
        "global_pause": "off",  # it excludes PFC, and would stop every class at once
    }
    if nic.vfs:
        card["vf_mtu_bytes"] = str(nic.vf_mtu_bytes or mtu_bytes)
    return card

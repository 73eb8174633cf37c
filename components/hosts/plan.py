"""What each host shall look like, and the one step that brings it there.

Everything is decided here; the scripts only compare and change. VLAN, spoof check and trust of
a VF are not here: with `pod_network.mode: sriov` the network attachment owns them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.hosts.endpoint import host_endpoint
from components.hosts.scripts import boot_files_digest, script_text
from components.hosts.state import HostState, parse_state
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma
from components.model.hosts import DriverPackage, Host, Nic
from components.remote.step import Endpoint, RemoteStep

CONVERGE_DEADLINE_S: Final = 300.0
"""Seconds for one host without a driver package: VF probing takes at most 60 s a card."""
DRIVER_DEADLINE_S: Final = 1800.0
"""Seconds with a driver package: NVIDIA's installer builds modules where it has none ready."""
PARAMETERS: Final = frozenset({"stack", "repair", "driver_source", "driver_sha256"})
"""Lines on stdin that are no setting of the host but say how this run is to be done."""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One host: the state it shall have and the steps that bring it there."""

    name: str
    endpoint: Endpoint
    desired: HostState
    steps: tuple[RemoteStep, ...]

    @property
    def converge(self) -> RemoteStep:
        """The step that carries the host's settings."""
        return self.steps[0]


def plan_hosts(spec: ClusterSpec, stack: str | None = None) -> tuple[HostPlan, ...]:
    """Plan every host of the site.

    Args:
        spec: The checked site.
        stack: Names the folder of the recorded previous values; default the cluster's name.
    """
    return tuple(_plan_host(spec, host, stack or spec.name) for host in spec.hosts)


def observe_script() -> str:
    """The read-only script: keys on stdin (a step's stdin will do), their present values out."""
    return script_text("observe")


def applied_state(stdin: str) -> HostState:
    """The settings in a recorded stdin, without the parameters of that run."""
    values = parse_state(stdin).values
    return HostState({key: value for key, value in values.items() if key not in PARAMETERS})


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
        deadline_s=DRIVER_DEADLINE_S if with_package else CONVERGE_DEADLINE_S,
    )
    return HostPlan(host.name, step.endpoint, desired, (step,))


def desired_state(spec: ClusterSpec, host: Host) -> HostState:
    """All settings that one host shall have."""
    defaults = spec.host_defaults
    unit = "k3s" if host.role == "control_plane" else "k3s-agent"
    state = {
        "hostname": host.name,
        f"user.{defaults.user.name}.uid": str(defaults.user.uid),
        f"unit.{unit}.limit_memlock": "infinity",  # systemd's word for unlimited
    }
    state |= {f"hosts.{each.name}": each.address for each in spec.hosts}
    if host.nics:
        state |= _driver(defaults.driver)
        boot = _boot_settings(spec, host)
        config = "".join(f"{key}={value}\n" for key, value in sorted(boot.items()))
        state |= boot
        state["unit.railyard-nics.files"] = boot_files_digest(config)
        state["unit.railyard-nics.enabled"] = "enabled"
    return HostState(state)


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
    """What a reboot loses: the cards' settings and the loaded modules."""
    settings = {"module.rdma_cm": "loaded"}
    if host.gpus and spec.host_defaults.peermem:
        settings["module.nvidia_peermem"] = "loaded"
    for nic in host.nics:
        prefix = f"nic.{nic.pci}."
        settings |= {prefix + key: value for key, value in _card(spec.rdma, nic).items()}
    return settings


def _card(rdma: Rdma, nic: Nic) -> dict[str, str]:
    mtu_bytes = nic.mtu_bytes or rdma.mtu_bytes
    card = {
        "netdev": nic.netdev,
        "vfs": str(nic.vfs),
        "mtu_bytes": str(mtu_bytes),
        "trust": "dscp",
        f"dscp{rdma.dscp}_priority": str(rdma.priority),
        f"dscp{rdma.cnp_dscp}_priority": str(rdma.cnp_priority),
        "pfc": str(rdma.priority) if rdma.mode == "lossless" else "none",
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

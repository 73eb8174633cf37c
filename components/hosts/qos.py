"""RoCE's quality of service on each PF, from the site's one intent."""

from __future__ import annotations

from collections.abc import Mapping

from components.hosts.settings import Settings
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma
from components.model.hosts import Host
from components.model.qos import HostQos


def qos_settings(spec: ClusterSpec, host: Host) -> Settings:
    """DCBX, trust, DSCP map, PFC, ECN, CNP marks and the traffic classes of each PF.

    The traffic class of raw verbs is set on the device only where NVIDIA's driver package is: the
    inbox driver has no place for it, and every job marks its own packets there.
    """
    defaults = spec.settings_of(host)
    each = {**_card(spec.rdma), **_buffers(defaults.qos)}
    if defaults.driver.kind != "inbox":
        each["traffic_class"] = str(spec.rdma.ip_traffic_class)
    lost = {f"nic.{nic.pci}.{key}": value for nic in host.nics for key, value in each.items()}
    # Which index the GID has differs from card to card, and moves: that there is one is asked.
    lost |= {f"nic.{nic.pci}.gid": "RoCE v2" for nic in host.nics if nic.address is not None}
    return Settings(lost=lost)


def _card(rdma: Rdma) -> Mapping[str, str]:
    return {
        "dcbx": "os",  # in firmware mode the switch's DCBX would overwrite the rest
        "lldpad": "absent",  # so would this daemon
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


def _buffers(qos: HostQos) -> Mapping[str, str]:
    """What of the receive buffers is in the file: sizes, and the buffer of each priority."""
    lost: dict[str, str] = {}
    if qos.cable_length_m is not None:
        lost["cable_length_m"] = str(qos.cable_length_m)
    if qos.buffers is not None:
        sizes = ",".join(map(str, qos.buffers.size_bytes))
        lost["buffers"] = f"{sizes}/{','.join(map(str, qos.buffers.priorities))}"
    return lost

"""RoCE's quality of service on each PF, from the site's one intent."""

from __future__ import annotations

from collections.abc import Mapping

from components.model.cards import HostQos
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma
from components.model.hosts import Host


def qos_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """DCBX, trust, DSCP map, PFC, ECN, CNP marks and the traffic classes of each PF.

    By what the driver can do (sources.md#rdma-driver). NVIDIA's has a switch of ECN for each
    priority, and the traffic class of raw verbs. The kernel's own has neither: each job marks its
    packets, and the firmware's mask says which priorities have ECN, which Railyard sets with
    `firmware.manage` and else looks at. CNP's marks it has in debugfs.
    """
    defaults = spec.settings_of(host)
    each = {**_card(spec.rdma), **_buffers(defaults.qos)}
    if spec.rdma.adaptive_routing:
        each["adaptive_routing"] = "on"  # lost where the driver starts again
    if defaults.driver.is_ofed:
        each["traffic_class"] = str(spec.rdma.ip_traffic_class)
    elif defaults.firmware.manage:
        del each[f"ecn_priority_{spec.rdma.priority}"]
    settings = {f"nic.{nic.pci}.{key}": value for nic in host.nics for key, value in each.items()}
    # Which index the GID has differs from card to card, and moves: that there is one is asked.
    return settings | {
        f"nic.{nic.pci}.gid": "RoCE v2" for nic in host.nics if nic.address is not None
    }


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
    buffers: dict[str, str] = {}
    if qos.cable_length_m is not None:
        buffers["cable_length_m"] = str(qos.cable_length_m)
    if qos.buffers is not None:
        sizes = ",".join(map(str, qos.buffers.size_bytes))
        buffers["buffers"] = f"{sizes}/{','.join(map(str, qos.buffers.priorities))}"
    return buffers

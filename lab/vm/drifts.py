"""What a person may do by hand to a host, and which settings must be named for it."""

from __future__ import annotations

from typing import Final

from components.core.record import record

CARD: Final = "0000:01:00.0"
PF: Final = "enp1s0"


@record
class Drift:
    """One change by hand."""

    words: str
    command: str
    """As root."""
    named: tuple[str, ...]
    """The settings that the next look must find changed."""
    host: str = ""
    """Only there; empty: on all hosts."""
    may_follow: str = "$never"
    """Pattern of other settings that change with it: new VFs carry nothing."""


_NIC: Final = f"nic.{CARD}"
DRIFTS: Final = (
    Drift(
        "two VFs instead of four",
        f"echo 0 >/sys/class/net/{PF}/device/sriov_numvfs;"
        f" echo 2 >/sys/class/net/{PF}/device/sriov_numvfs;"
        f" until ls -d /sys/class/net/{PF}/device/virtfn1/net/*; do sleep 1; done",
        (f"{_NIC}.vfs", f"{_NIC}.vf_mtu_bytes", f"{_NIC}.vf_mac"),
        host="gpu01",
        may_follow=rf"vf\.{CARD}\.\d\..*",
    ),
    Drift(
        "the MTU of one VF",
        f"ip link set {PF}v1 mtu 1500",
        (f"{_NIC}.vf_mtu_bytes",),
        host="gpu02",
    ),
    Drift("the MTU of the PF", f"ip link set {PF} mtu 4000", (f"{_NIC}.mtu_bytes",)),
    Drift(
        "pause frames on",
        f"ethtool -A {PF} rx on tx on",
        (f"{_NIC}.global_pause",),
    ),
    Drift("another address", f"ip addr flush dev {PF} scope global", (f"{_NIC}.address",)),
    Drift("the PF down", f"ip link set {PF} down", (f"{_NIC}.link",)),
    Drift("a module unloaded", "modprobe -r rdma_cm", ("module.rdma_cm",)),
    Drift(
        "a wrong entry in /etc/hosts",
        "sed -i 's/192.168.2.12 gpu02/192.168.2.99 gpu02/' /etc/hosts",
        ("hosts_block",),
    ),
    Drift("another host name", "hostname renamed", ("hostname",)),
    Drift("another uid", "usermod -u 1234 nvidia", ("user.nvidia.uid",)),
    Drift(
        "a smaller receive buffer",
        "sysctl -q -w net.core.rmem_max=212992",
        ("kernel.sysctl.net.core.rmem_max",),
    ),
    Drift(
        "huge pages given back",
        "echo 1 >/proc/sys/vm/nr_hugepages",
        ("kernel.hugepages.2mib",),
    ),
    Drift(
        "NUMA balancing on",
        "echo 1 >/proc/sys/kernel/numa_balancing",
        ("kernel.numa_balancing",),
    ),
    Drift(
        "the limit of logins removed",
        "rm /etc/security/limits.d/90-railyard-nvidia.conf",
        ("kernel.limits.nvidia.memlock",),
    ),
    Drift("another VLAN", f"ip link set {PF} vf 1 vlan 7", (f"vf.{CARD}.1.vlan",), host="gpu02"),
    Drift(
        "a trusted VF",
        f"ip link set {PF} vf 1 trust on",
        (f"vf.{CARD}.1.trust",),
        host="gpu02",
    ),
    Drift(
        "the boot unit disabled",
        "systemctl disable --quiet railyard-nics.service",
        ("unit.railyard-nics.enabled",),
    ),
    Drift(
        "the boot unit's settings edited",
        f"sed -i 's/^{_NIC}.vfs=4/{_NIC}.vfs=1/' /etc/railyard/nics.conf",
        ("unit.railyard-nics.files",),
    ),
)


def drifts_of(host: str, owned: frozenset[str]) -> tuple[Drift, ...]:
    """The changes for one host, of those settings that its plan owns."""
    return tuple(
        drift for drift in DRIFTS if drift.host in {"", host} and owned.issuperset(drift.named)
    )

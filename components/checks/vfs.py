"""Rules on virtual functions: who owns what they carry, and what a card can give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.checks.topology import PlacedNic, list_cables, list_nics
from components.core.problem import Place, SpecPath
from components.model.cards import HostQos, ReceiveBuffers, Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.ib_switches import vf_guids

_MBIT: Final = 1000
"""Mbit/s in one Gbit/s."""
_CARRIED: Final = ("vlan", "trust", "spoofchk", "min_rate_mbit_s", "max_rate_mbit_s")
"""What the SR-IOV CNI plugin sets on a VF for its pod, and takes back after it."""


def _carried(sriov: Sriov) -> tuple[str, ...]:
    return tuple(key for key in _CARRIED if getattr(sriov, key) is not None)


def _pods_have_vfs(spec: ClusterSpec) -> bool:
    return spec.kubernetes is not None and spec.pod_network.mode == "sriov"


def _on(nic: PlacedNic, key: str) -> SpecPath:
    return (*nic.path, "sriov", key)


def check_vf_owner(spec: ClusterSpec) -> Iterator[Finding]:
    """What a VF carries is written where its owner is: the host, or the network attachment.

    With `pod_network.mode: sriov` the attachment sets VLAN, trust, spoof check and rates of a VF
    when a pod gets it, and puts back what was there when the pod ends. A second owner would change
    them under running pods.
    """
    if not _pods_have_vfs(spec):
        return
    mode = at(("pod_network", "mode"), spec.pod_network.mode)
    for nic in list_nics(spec):
        for key in _carried(nic.nic.sriov):
            yield Finding(
                f"{nic.host.name} {nic.nic.netdev} sets {key} of its VFs, which belongs to the "
                "network attachment of the pods.",
                (at(_on(nic, key), getattr(nic.nic.sriov, key)), mode),
                f"remove {key}, or choose another pod_network.mode.",
            )


def check_vf_driver(spec: ClusterSpec) -> Iterator[Finding]:
    """VFs that pods get have a driver of the host: without one there is no network device to give.

    `autoprobe: false` is for VFs that virtual machines take.
    """
    if not _pods_have_vfs(spec):
        return
    for nic in list_nics(spec):
        if nic.nic.sriov.autoprobe is False:
            yield Finding(
                f"the VFs of {nic.host.name} {nic.nic.netdev} get no driver, and pods need their "
                "network devices.",
                (
                    at(_on(nic, "autoprobe"), value=False),
                    at(("pod_network", "mode"), spec.pod_network.mode),
                ),
                "remove autoprobe.",
            )


def check_vf_effect(spec: ClusterSpec) -> Iterator[Finding]:
    """What is written for VFs meets VFs: with none, or without their driver, it would do nothing.

    Without a driver of the host (`autoprobe: false`) a VF has no network device, and no MTU there.
    """
    for nic in list_nics(spec):
        if _pods_have_vfs(spec) and nic.host.role == "worker":
            continue  # `vf-count`, `vf-owner` and `vf-driver` tell more
        mtu_bytes, name = nic.nic.vf_mtu_bytes, f"{nic.host.name} {nic.nic.netdev}"
        mtu_place = at((*nic.path, "vf_mtu_bytes"), mtu_bytes)
        if nic.nic.vfs == 0:
            keys = [key for key in (*_CARRIED, "autoprobe") if _value(nic, key) is not None]
            places = {key: at(_on(nic, key), _value(nic, key)) for key in keys}
            places |= {"vf_mtu_bytes": mtu_place} if mtu_bytes else {}
            for key, place in places.items():
                yield Finding(
                    f"{name} has no VFs, and {key} is written for them.",
                    (place, at((*nic.path, "vfs"), nic.nic.vfs)),
                    f"set vfs to their number, or remove {key}.",
                )
        elif mtu_bytes and nic.nic.sriov.autoprobe is False:
            yield Finding(
                f"{name} gives its VFs no driver, and without one vf_mtu_bytes is set nowhere.",
                (mtu_place, at(_on(nic, "autoprobe"), value=False)),
                "remove vf_mtu_bytes: who takes a VF sets its MTU; or remove autoprobe.",
            )


def _value(nic: PlacedNic, key: str) -> object:
    return getattr(nic.nic.sriov, key)


def check_vf_rate(spec: ClusterSpec) -> Iterator[Finding]:
    """The least rate of a VF is not above its most, and all VFs together fit the port.

    The kernel refuses a least rate above the most (EINVAL). Guaranteed rates that add up to more
    than the line guarantee nothing.
    """
    for nic in list_nics(spec):
        least, most = nic.nic.sriov.min_rate_mbit_s or 0, nic.nic.sriov.max_rate_mbit_s or 0
        line = nic.nic.speed_gbit_s * _MBIT
        where, name = at(_on(nic, "min_rate_mbit_s"), least), f"{nic.host.name} {nic.nic.netdev}"
        if most and least > most:
            yield Finding(
                f"a VF of {name} has at least {least} Mbit/s and at most {most}.",
                (where, at(_on(nic, "max_rate_mbit_s"), most)),
                "lower min_rate_mbit_s, or raise max_rate_mbit_s; 0 is no limit.",
            )
        elif least * nic.nic.vfs > line:
            yield Finding(
                f"the {nic.nic.vfs} VFs of {name} are guaranteed {least * nic.nic.vfs} Mbit/s "
                f"together, and the port has {line}.",
                (where, at((*nic.path, "vfs"), nic.nic.vfs)),
                f"guarantee at most {line // max(nic.nic.vfs, 1)} Mbit/s to each.",
            )
        elif most > line:
            yield Finding(
                f"a VF of {name} has at most {most} Mbit/s, and the port has {line}.",
                (at(_on(nic, "max_rate_mbit_s"), most),),
                "lower max_rate_mbit_s, or correct speed_gbit_s.",
            )


def check_vf_vlan(spec: ClusterSpec) -> Iterator[Finding]:
    """The VLAN that a card puts on its VFs' frames is the rail's, and the switch port takes tags.

    An access port drops tagged frames; a port of another VLAN drops them too. Where the card sends
    untagged frames beside its VFs, the port has to be an access port, and the VFs need no tag.
    """
    on_the_card = spec.pod_network.mode == "rdma_shared" or spec.containers is not None
    for nic in list_nics(spec):
        vlan, rail = nic.nic.sriov.vlan, spec.rail(nic.nic.rail)
        if vlan and rail is not None and vlan != rail.vlan:
            yield Finding(
                f"the VFs of {nic.host.name} {nic.nic.netdev} are in VLAN {vlan}, and {rail.name} "
                f"is VLAN {rail.vlan}.",
                (
                    at(_on(nic, "vlan"), vlan),
                    at(("rails", spec.rails.index(rail), "vlan"), rail.vlan),
                ),
                f"set vlan to {rail.vlan}, or remove it where the port is untagged.",
            )
    for cable in list_cables(spec):
        vlan, port = cable.nic.nic.sriov.vlan, cable.port
        if vlan and port.port.mode == "access":
            yield Finding(
                f"the VFs of {cable.nic.host.name} {cable.nic.nic.netdev} send tagged frames, and "
                f"port {port.name} of {port.switch.name} is an access port, which drops them.",
                (at(_on(cable.nic, "vlan"), vlan), at((*port.path, "mode"), port.port.mode)),
                "remove vlan: the port puts what is untagged into the rail's VLAN as well."
                if on_the_card
                else "remove vlan, or set the port's mode to trunk.",
            )


def check_eswitch_mode(spec: ClusterSpec) -> Iterator[Finding]:
    """A card in switchdev mode has no VLAN, rates, trust or spoof check of VFs, and no pods on VFs.

    mlx5 refuses these settings there. A VF is reached through its representor on a bridge, which
    Railyard does not build.
    """
    for nic in list_nics(spec):
        sriov = nic.nic.sriov
        if sriov.eswitch != "switchdev":
            continue
        mode = at(_on(nic, "eswitch"), sriov.eswitch)
        for key in _carried(sriov):
            yield Finding(
                f"{nic.host.name} {nic.nic.netdev} is in switchdev mode, which has no {key} of a "
                "VF.",
                (at(_on(nic, key), getattr(sriov, key)), mode),
                f"remove {key}, or set eswitch to legacy.",
            )
        if _pods_have_vfs(spec):
            yield Finding(
                f"{nic.host.name} {nic.nic.netdev} is in switchdev mode, where its VFs reach the "
                "wire only through a bridge of representors.",
                (mode, at(("pod_network", "mode"), spec.pod_network.mode)),
                "remove eswitch, or choose another mode of the pod network.",
            )


def check_vf_guid(spec: ClusterSpec) -> Iterator[Finding]:
    """Each VF of an InfiniBand port has a GUID, which nothing else on the site has.

    Of two ports with one GUID the subnet manager takes one.
    """
    first: dict[str, Place] = {
        guid: at(("hosts", h, "hca_guids", g), guid)
        for h, host in enumerate(spec.hosts)
        for g, guid in enumerate(host.hca_guids)
    }
    for h, host in enumerate(spec.hosts):
        for p, pf in enumerate(host.hca_sriov):
            path: SpecPath = ("hosts", h, "hca_sriov", p)
            if pf.guids and len(pf.guids) != pf.vfs:
                yield Finding(
                    f"{host.name} {pf.pci} has {pf.vfs} VFs, and {len(pf.guids)} GUIDs.",
                    (at((*path, "guids")), at((*path, "vfs"), pf.vfs)),
                    "list one GUID for each VF, or none: then they are derived.",
                )
            if not pf.guids and pf.pci in {other.pci for other in host.hca_sriov[:p]}:
                continue  # one port in two places is what `hca-sriov` tells
            for g, guid in enumerate(vf_guids(spec.name, host, pf)):
                own = at((*path, "guids", g), guid) if pf.guids else at((*path, "pci"), pf.pci)
                other = first.setdefault(guid, own)
                if other is not own:
                    yield Finding(
                        f"the GUID {guid} is given twice.",
                        (own, other),
                        "give every VF a GUID of its own.",
                    )


def check_hca_sriov(spec: ClusterSpec) -> Iterator[Finding]:
    """VFs of InfiniBand ports are on hosts that have so many HCAs, each port once and no NIC's.

    A port that is under `nics` too would have two numbers of VFs.
    """
    for h, host in enumerate(spec.hosts):
        path: SpecPath = ("hosts", h, "hca_sriov")
        if len(host.hca_sriov) > host.hcas:
            yield Finding(
                f"{host.name} has {host.hcas} HCAs, and VFs on {len(host.hca_sriov)} ports.",
                (at(path), at(("hosts", h, "hcas"), host.hcas)),
                "describe Ethernet ports under nics, or correct hcas.",
            )
        twice = [pci for pci, n in Counter(pf.pci for pf in host.hca_sriov).items() if n > 1]
        for p, pf in enumerate(host.hca_sriov):
            if pf.pci in twice:
                yield Finding(
                    f"{host.name} lists the port {pf.pci} twice.",
                    (at((*path, p, "pci"), pf.pci),),
                    "list each port once, with all of its VFs.",
                )
            yield from _ethernet_port(host, h, p)


def _ethernet_port(host: Host, h: int, p: int) -> Iterator[Finding]:
    pci = host.hca_sriov[p].pci
    for n, nic in enumerate(host.nics):
        if nic.pci == pci:
            yield Finding(
                f"{pci} of {host.name} is a NIC on a rail and an InfiniBand port.",
                (
                    at(("hosts", h, "hca_sriov", p, "pci"), pci),
                    at(("hosts", h, "nics", n, "pci"), pci),
                ),
                "keep it under nics (Ethernet), or under hca_sriov (InfiniBand).",
            )


def check_receive_buffers(spec: ClusterSpec) -> Iterator[Finding]:
    """Receive buffers that are set by hand have room for every priority that is sent to them.

    A priority whose buffer has no bytes loses each of its packets.
    """
    for path, qos in _qos_settings(spec):
        buffers = qos.buffers
        if buffers is None:
            continue
        yield from _shared_buffer(spec, path, buffers)
        for priority, number in enumerate(buffers.priorities):
            if buffers.size_bytes[number] == 0:
                yield Finding(
                    f"priority {priority} is in receive buffer {number}, which has 0 bytes.",
                    (
                        at((*path, "qos", "buffers", "priorities", priority), number),
                        at((*path, "qos", "buffers", "size_bytes", number), 0),
                    ),
                    "give the buffer a size, or the priority another buffer; or remove buffers: "
                    "then the driver sizes them.",
                )


def _shared_buffer(spec: ClusterSpec, path: SpecPath, buffers: ReceiveBuffers) -> Iterator[Finding]:
    """PFC pauses one priority: others that fill the same buffer are not stopped."""
    lossless, number = spec.rdma.priority, buffers.priorities[spec.rdma.priority]
    others = [p for p, own in enumerate(buffers.priorities) if own == number and p != lossless]
    if spec.rdma.host_pfc and others:
        place = (*path, "qos", "buffers", "priorities")
        yield Finding(
            f"priority {lossless} is lossless, and shares receive buffer {number} with priority "
            f"{others[0]}, which nothing pauses.",
            (at((*place, lossless), number), at((*place, others[0]), number)),
            f"give priority {lossless} a buffer of its own.",
        )


def _qos_settings(spec: ClusterSpec) -> Iterator[tuple[SpecPath, HostQos]]:
    yield ("host_defaults",), spec.host_defaults.qos
    for g, group in enumerate(spec.host_groups):
        if group.qos is not None:
            yield ("host_groups", g), group.qos

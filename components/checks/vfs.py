"""Rules on virtual functions: who owns their settings, and which ones a card supports."""

from __future__ import annotations

from collections import Counter
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import host_blocks, list_cables, list_nics
from components.core.problem import Place, SpecPath
from components.model.cards import HostQos, ReceiveBuffers, Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.places import vf_guids

_MBIT: Final = 1000
"""Mbit/s in one Gbit/s."""
_CARRIED: Final = ("vlan", "trust", "spoofchk", "min_rate_mbit_s", "max_rate_mbit_s")
"""Settings of a VF that the SR-IOV CNI plugin makes for its pod, and undoes afterwards."""


def _carried(sriov: Sriov) -> tuple[str, ...]:
    return tuple(key for key in _CARRIED if getattr(sriov, key) is not None)


def _pods_have_vfs(spec: ClusterSpec) -> bool:
    return spec.kubernetes is not None and spec.pod_network.mode == "sriov"


def check_vf_owner(spec: ClusterSpec) -> Findings:
    """Settings of a VF are written at their owner: the host, or the network attachment.

    With `pod_network.mode: sriov` the attachment sets VLAN, trust, spoof check and rates of a VF
    when a pod gets it, and restores the old values when the pod ends. A second owner would change
    them under running pods.
    """
    if not _pods_have_vfs(spec):
        return
    mode = at(("pod_network", "mode"), spec.pod_network.mode)
    for nic in list_nics(spec):
        for key in _carried(nic.nic.sriov):
            what = f"{nic} sets {key} of its VFs, which the pods' network attachment owns."
            fix = f"remove {key}, or choose another pod_network.mode."
            yield Finding(what, (nic.at("sriov", key), mode), fix)


def check_vf_driver(spec: ClusterSpec) -> Findings:
    """VFs for pods need a driver on the host: without one they have no network device.

    `autoprobe: false` is for VFs that virtual machines use.
    """
    if not _pods_have_vfs(spec):
        return
    for nic in list_nics(spec):
        if nic.nic.sriov.autoprobe is False:
            what = f"the VFs of {nic} get no driver, and pods need their network devices."
            where = (nic.at("sriov", "autoprobe"), *places(spec, "pod_network.mode"))
            yield Finding(what, where, "remove autoprobe.")


def check_vf_effect(spec: ClusterSpec) -> Findings:
    """Settings for VFs need VFs: without VFs, or without their driver, they do nothing.

    Without a driver on the host (`autoprobe: false`) a VF has neither a network device nor an MTU.
    """
    for nic in list_nics(spec):
        if _pods_have_vfs(spec) and nic.host.role == "worker":
            continue  # `vf-count`, `vf-owner` and `vf-driver` report it
        mtu_bytes, name = nic.nic.vf_mtu_bytes, f"{nic}"
        mtu_place = at((*nic.path, "vf_mtu_bytes"), mtu_bytes)
        if nic.nic.vfs == 0:
            keys = [
                key for key in (*_CARRIED, "autoprobe") if getattr(nic.nic.sriov, key) is not None
            ]
            places = {key: nic.at("sriov", key) for key in keys}
            places |= {"vf_mtu_bytes": mtu_place} if mtu_bytes else {}
            for key, place in places.items():
                where = (place, nic.at("vfs"))
                fix = f"set vfs to their number, or remove {key}."
                yield Finding(f"{name} has no VFs, and {key} is written for them.", where, fix)
        elif mtu_bytes and nic.nic.sriov.autoprobe is False:
            what = f"{name} gives its VFs no driver, and without one vf_mtu_bytes is set nowhere."
            fix = "remove vf_mtu_bytes: who takes a VF sets its MTU; or remove autoprobe."
            yield Finding(what, (mtu_place, nic.at("sriov", "autoprobe")), fix)


def check_vf_rate(spec: ClusterSpec) -> Findings:
    """The minimum rate of a VF is not above its maximum, and all VFs together fit the port.

    The kernel refuses a minimum above the maximum (EINVAL). Guaranteed rates that add up to more
    than the line guarantee nothing.
    """
    for nic in list_nics(spec):
        least, most = nic.nic.sriov.min_rate_mbit_s or 0, nic.nic.sriov.max_rate_mbit_s or 0
        line = nic.nic.speed_gbit_s * _MBIT
        where, name = nic.at("sriov", "min_rate_mbit_s"), f"{nic}"
        if most and least > most:
            what = f"a VF of {name} has at least {least} Mbit/s and at most {most}."
            fix = "lower min_rate_mbit_s, or raise max_rate_mbit_s; 0 is no limit."
            yield Finding(what, (where, nic.at("sriov", "max_rate_mbit_s")), fix)
        elif least * nic.nic.vfs > line:
            yield Finding(
                f"{name} guarantees its VFs {least * nic.nic.vfs} Mbit/s, and the port has {line}.",
                (where, nic.at("vfs")),
                f"guarantee at most {line // max(nic.nic.vfs, 1)} Mbit/s to each.",
            )
        elif most > line:
            what = f"a VF of {name} has at most {most} Mbit/s, and the port has {line}."
            fix = "lower max_rate_mbit_s, or correct speed_gbit_s."
            yield Finding(what, (nic.at("sriov", "max_rate_mbit_s"),), fix)


def check_vf_vlan(spec: ClusterSpec) -> Findings:
    """The VLAN that a card adds to its VFs' frames is the rail's, and the switch port takes tags.

    An access port drops tagged frames, and so does a port of another VLAN. If the card sends
    untagged frames in addition to those of its VFs, use an access port, and leave the VFs untagged.
    """
    on_the_card = spec.pod_network.mode == "rdma_shared" or spec.containers is not None
    for nic in list_nics(spec):
        vlan, rail = nic.nic.sriov.vlan, spec.rail(nic.nic.rail)
        if vlan and rail is not None and vlan != rail.vlan:
            what = f"the VFs of {nic} are in VLAN {vlan}, and {rail.name} is VLAN {rail.vlan}."
            on_rail = at(("rails", spec.rails.index(rail), "vlan"), rail.vlan)
            where = (nic.at("sriov", "vlan"), on_rail)
            fix = f"set vlan to {rail.vlan}, or remove it where the port is untagged."
            yield Finding(what, where, fix)
    for cable in list_cables(spec):
        vlan, port = cable.nic.nic.sriov.vlan, cable.port
        if vlan and port.port.mode == "access":
            yield Finding(
                f"{port} is an access port, and drops the tagged frames of {cable.nic}'s VFs.",
                (cable.nic.at("sriov", "vlan"), port.at("mode")),
                "remove vlan: the port puts what is untagged into the rail's VLAN as well."
                if on_the_card
                else "remove vlan, or set the port's mode to trunk.",
            )


def check_eswitch_mode(spec: ClusterSpec) -> Findings:
    """A card in switchdev mode supports no VLAN, rates, trust or spoof check of VFs for pods.

    mlx5 refuses these settings there. Such a VF is reached through its representor on a bridge,
    which Railyard does not build.
    """
    for nic in list_nics(spec):
        sriov = nic.nic.sriov
        if sriov.eswitch != "switchdev":
            continue
        mode = nic.at("sriov", "eswitch")
        for key in _carried(sriov):
            where = (nic.at("sriov", key), mode)
            fix = f"remove {key}, or set eswitch to legacy."
            yield Finding(f"{nic} is in switchdev mode, which has no {key} of a VF.", where, fix)
        if _pods_have_vfs(spec):
            yield Finding(
                f"{nic} is in switchdev mode: VFs need a bridge of representors to reach the wire.",
                (mode, at(("pod_network", "mode"), spec.pod_network.mode)),
                "remove eswitch, or choose another mode of the pod network.",
            )


def check_vf_guid(spec: ClusterSpec) -> Findings:
    """Each VF of an InfiniBand port has a GUID that is unique on the site.

    If two ports share one GUID, the subnet manager accepts only one of them.
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
                what = f"{host.name} {pf.pci} has {pf.vfs} VFs, and {len(pf.guids)} GUIDs."
                fix = "list one GUID for each VF, or none: then they are derived."
                yield Finding(what, (at((*path, "guids")), at((*path, "vfs"), pf.vfs)), fix)
            if not pf.guids and pf.pci in {other.pci for other in host.hca_sriov[:p]}:
                continue  # `hca-sriov` reports one port in two places
            for g, guid in enumerate(vf_guids(spec.name, host, pf)):
                own = at((*path, "guids", g), guid) if pf.guids else at((*path, "pci"), pf.pci)
                other = first.setdefault(guid, own)
                if other is not own:
                    fix = "give every VF a GUID of its own."
                    yield Finding(f"the GUID {guid} is given twice.", (own, other), fix)


def check_hca_sriov(spec: ClusterSpec) -> Findings:
    """VFs of InfiniBand ports need as many HCAs, list each port once, and share none with `nics`.

    A port that is also under `nics` would have two numbers of VFs.
    """
    for h, host in enumerate(spec.hosts):
        path: SpecPath = ("hosts", h, "hca_sriov")
        if len(host.hca_sriov) > host.hcas:
            what = f"{host.name} has {host.hcas} HCAs, and VFs on {len(host.hca_sriov)} ports."
            fix = "describe Ethernet ports under nics, or correct hcas."
            yield Finding(what, (at(path), at(("hosts", h, "hcas"), host.hcas)), fix)
        twice = [pci for pci, n in Counter(pf.pci for pf in host.hca_sriov).items() if n > 1]
        for p, pf in enumerate(host.hca_sriov):
            if pf.pci in twice:
                where = (at((*path, p, "pci"), pf.pci),)
                fix = "list each port once, with all of its VFs."
                yield Finding(f"{host.name} lists the port {pf.pci} twice.", where, fix)
            yield from _ethernet_port(host, h, p)


def _ethernet_port(host: Host, h: int, p: int) -> Findings:
    pci = host.hca_sriov[p].pci
    for n, nic in enumerate(host.nics):
        if nic.pci == pci:
            what = f"{pci} of {host.name} is a NIC on a rail and an InfiniBand port."
            paths = (("hosts", h, "hca_sriov", p, "pci"), ("hosts", h, "nics", n, "pci"))
            where = tuple(at(path, pci) for path in paths)
            fix = "keep it under nics (Ethernet), or under hca_sriov (InfiniBand)."
            yield Finding(what, where, fix)


def check_receive_buffers(spec: ClusterSpec) -> Findings:
    """Receive buffers in the file have room for every priority that uses them.

    A priority whose buffer has 0 bytes loses each of its packets.
    """
    for qos_path, qos, _ in host_blocks(spec, "qos", HostQos):
        buffers, path = qos.buffers, (*qos_path, "buffers")
        if buffers is None:
            continue
        yield from _shared_buffer(spec, path, buffers)
        for priority, number in enumerate(buffers.priorities):
            if buffers.size_bytes[number] == 0:
                what = f"priority {priority} is in receive buffer {number}, which has 0 bytes."
                where = (
                    at((*path, "priorities", priority), number),
                    at((*path, "size_bytes", number), 0),
                )
                fix = "give the buffer a size or the priority another buffer, or remove buffers."
                yield Finding(what, where, fix)


def _shared_buffer(spec: ClusterSpec, path: SpecPath, buffers: ReceiveBuffers) -> Findings:
    """Report a shared buffer: PFC pauses one priority, and others that fill the buffer continue."""
    lossless, number = spec.rdma.priority, buffers.priorities[spec.rdma.priority]
    others = [p for p, own in enumerate(buffers.priorities) if own == number and p != lossless]
    if spec.rdma.host_pfc and others:
        place = (*path, "priorities")
        what = f"lossless priority {lossless} shares receive buffer {number} with {others[0]}."
        fix = f"give priority {lossless} a buffer of its own."
        yield Finding(what, (at((*place, lossless), number), at((*place, others[0]), number)), fix)

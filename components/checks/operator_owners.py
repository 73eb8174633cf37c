"""Rules on what the network operator owns in place of the hosts: VFs, and the firmware of cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.cluster_parts import PARTS, TABLE, Part
from components.checks.rule import Finding, Findings, at
from components.checks.topology import list_nics
from components.core.problem import Place, SpecPath
from components.hosts.software import offered_vfs
from components.model.cluster import ClusterSpec
from components.model.operator_owned import firmware_by_operator, vfs_by_operator
from components.model.owners import needs, owners_of, written_owner

_NETWORK: SpecPath = ("operators", "network")


def check_vf_maker(spec: ClusterSpec) -> Findings:
    """VFs are made by the hosts or by the SR-IOV network operator, never by both.

    The operator makes as many as its policy says, with one MTU for PF and VFs, and gives VFs of
    InfiniBand other GUIDs at each boot. What the file writes beyond that would not be set.
    It drains a node before it makes VFs, which `disruption` must allow, and selects by PCI address
    on all nodes alike.
    """
    network = spec.operators.network
    if network is None or network.vfs != "operator":
        return
    owner = at((*_NETWORK, "vfs"), network.vfs)
    if not vfs_by_operator(spec):
        yield Finding(
            f"the network operator makes VFs, but pods of mode {spec.pod_network.mode} get none.",
            (owner, at(("pod_network", "mode"), spec.pod_network.mode)),
            "set operators.network.vfs to host, or pod_network.mode to sriov.",
        )
        return
    yield from _needs_drain(spec, owner, "makes VFs")
    yield from _of_hosts(spec, owner)
    yield from _slots(spec, owner)


def _needs_drain(spec: ClusterSpec, owner: Place, does: str) -> Findings:
    if spec.disruption.reboots == "deny":
        yield Finding(
            f"hosts may not be drained or rebooted, but the operator that {does} may do both.",
            (owner, at(("disruption", "reboots"), spec.disruption.reboots)),
            "set disruption.reboots to allow, or leave it to the hosts, which wait for you.",
        )


def _of_hosts(spec: ClusterSpec, owner: Place) -> Findings:
    """What only the hosts' own steps would set."""
    for nic in list_nics(spec):
        if nic.host.role != "worker":
            continue
        values = {
            (*nic.path, "vf_mtu_bytes"): nic.nic.vf_mtu_bytes,
            (*nic.path, "sriov", "eswitch"): nic.nic.sriov.eswitch,
        }
        for path, value in values.items():
            if value is not None:
                yield Finding(
                    f"{nic} has {path[-1]}, and the network operator makes its VFs.",
                    (at(path, value), owner),
                    f"remove {path[-1]}, or set operators.network.vfs to host.",
                )
    for h, host in enumerate(spec.hosts):
        for p, port in enumerate(host.hca_sriov):
            if port.guids and host.role == "worker":
                yield Finding(
                    f"{host.name} {port.pci} has GUIDs for VFs, but the operator sets others.",
                    (at(("hosts", h, "hca_sriov", p, "guids")), owner),
                    "remove guids, or set operators.network.vfs to host.",
                )


def _slots(spec: ClusterSpec, owner: Place) -> Findings:
    rails: dict[str, str] = {}
    for nic in list_nics(spec):
        if nic.host.role != "worker":
            continue
        rail = rails.setdefault(nic.nic.pci, nic.nic.rail)
        if rail != nic.nic.rail:
            yield Finding(
                f"{nic.nic.pci} is {rail} on one host and {nic.nic.rail} on {nic.host.name}: a "
                "policy selects by PCI address, on all nodes alike.",
                (nic.at("rail"), owner),
                "number the rails by slot, or set operators.network.vfs to host.",
            )


def check_firmware_setter(spec: ClusterSpec) -> Findings:
    """Firmware is set by the hosts' own steps or by the NIC configuration operator.

    Its templates always write a number of VFs and a link type, name a card by its PCI device id,
    and put every other parameter of the card back to its default. 0 VFs would switch SR-IOV off.
    """
    network = spec.operators.network
    if network is None or network.firmware != "operator" or not firmware_by_operator(spec):
        return
    owner = at((*_NETWORK, "firmware"), network.firmware)
    yield from _needs_drain(spec, owner, "sets firmware")
    for h, host in enumerate(spec.hosts):
        asked = spec.settings_of(host).firmware
        if host.role != "worker" or not (host.nics or host.hca_sriov):
            continue
        if not asked.manage:
            yield Finding(
                f"the firmware of {host.name} is the operator's, and the file asks for none.",
                (owner, at(("host_defaults", "firmware"))),
                "set firmware.manage, or operators.network.firmware to host.",
            )
            continue
        yield from _cards(spec, h, owner)


def _cards(spec: ClusterSpec, h: int, owner: Place) -> Findings:
    host = spec.hosts[h]
    asked = spec.settings_of(host).firmware
    for p, port in enumerate(host.hca_sriov):
        yield Finding(
            f"{host.name} {port.pci} (hca_sriov) has no model, which a template needs.",
            (at(("hosts", h, "hca_sriov", p, "pci"), port.pci), owner),
            "set operators.network.firmware to host.",
        )
    for n, nic in enumerate(host.nics):
        path: SpecPath = ("hosts", h, "nics", n)
        if nic.pf_device is None:
            yield Finding(
                f"the PCI device id of a {nic.model} is not known, and a template names it.",
                (at((*path, "model"), nic.model), owner),
                "write pci_id under nic_models, or set operators.network.firmware to host.",
            )
        if not offered_vfs(asked, host, nic):
            yield Finding(
                f"{host.name} {nic.netdev} needs no VFs, and a template would switch SR-IOV off.",
                (at((*path, "vfs"), nic.vfs), owner),
                "write firmware.num_of_vfs, or set operators.network.firmware to host.",
            )


_BY_KEY: Final[Mapping[Part, str]] = {
    "gpu_operator": "gpu",
    "network_operator": "network",
    "gpu_device_plugin": "gpu_device_plugin",
}
"""Part to the key of `operators` that installs it."""


def _place(part: Part, owner: str) -> Place:
    return at(("kubernetes", "components", part), owner)


def check_cluster_part(spec: ClusterSpec) -> Findings:
    """Each part of an existing cluster has one owner, and what the site needs has one at all.

    `ours` installs it, `theirs` takes what is there, `none` goes without. What `operators` installs
    is not theirs too, and nothing of ours is brought that no key of the file asks for.
    """
    for part in PARTS:
        owner = written_owner(spec, part)
        title = TABLE[part].title
        if owner == "none" and needs(spec, part):
            yield Finding(
                f"{title} is none, and the site needs it.",
                (_place(part, owner), *_asking(spec, part)),
                "write theirs if it is there, or ours.",
            )
        elif owner == "ours" and not needs(spec, part):
            yield Finding(
                f"{title} is to be ours, and nothing in this file asks for it.",
                (_place(part, owner),),
                _fix_of_unasked(part),
            )
        elif owner == "theirs" and part in _BY_KEY and needs(spec, part):
            yield Finding(
                f"{title} is theirs, and operators.{_BY_KEY[part]} installs another one.",
                (_place(part, owner), *_asking(spec, part)),
                f"remove operators.{_BY_KEY[part]}, or write ours.",
            )
    yield from _two_publishers(spec)


def _asking(spec: ClusterSpec, part: Part) -> tuple[Place, ...]:
    """Where the rest of the file asks for a part."""
    if part in _BY_KEY:
        path: SpecPath = ("operators", _BY_KEY[part], "chart", "version")
        return (at(path, getattr(spec.operators, _BY_KEY[part]).chart.version),)
    if part == "mpi_operator":
        return (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),)
    return (at(("pod_network", "mode"), spec.pod_network.mode),)


def _fix_of_unasked(part: Part) -> str:
    if part in _BY_KEY:
        return f"add operators.{_BY_KEY[part]}, or write theirs or none."
    if part == "trainer":
        return "write theirs if it is there, or none: Railyard installs no Trainer."
    return "remove the line, or write none."


def _two_publishers(spec: ClusterSpec) -> Findings:
    """Two device plugins register the same resource, and the later one takes it from the other."""
    owners = owners_of(spec)
    pair: tuple[Part, Part] = ("gpu_operator", "gpu_device_plugin")
    for theirs, ours in (pair, pair[::-1]):
        if (owners[theirs], owners[ours]) != ("theirs", "ours"):
            continue
        yield Finding(
            f"{TABLE[theirs].title} (theirs) and operators.{_BY_KEY[ours]} both publish GPUs.",
            (_place(theirs, "theirs"), *_asking(spec, ours)),
            f"remove operators.{_BY_KEY[ours]}.",
        )

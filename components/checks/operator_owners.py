"""Rules on what the network operator owns in place of the hosts: VFs, and the firmware of cards."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.core.problem import Place, SpecPath
from components.hosts.firmware import offered_vfs
from components.model.cluster import ClusterSpec
from components.model.operator_owned import firmware_by_operator, vfs_by_operator

_NETWORK: SpecPath = ("operators", "network")


def check_vf_maker(spec: ClusterSpec) -> Iterator[Finding]:
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
            f"VFs are the network operator's, and pods get none: the mode is "
            f"{spec.pod_network.mode}.",
            (owner, at(("pod_network", "mode"), spec.pod_network.mode)),
            "set operators.network.vfs to host, or pod_network.mode to sriov.",
        )
        return
    yield from _needs_drain(spec, owner, "makes VFs")
    yield from _of_hosts(spec, owner)
    yield from _slots(spec, owner)


def _needs_drain(spec: ClusterSpec, owner: Place, does: str) -> Iterator[Finding]:
    if spec.disruption.reboots == "deny":
        yield Finding(
            f"hosts may not be drained or rebooted, and the operator that {does} does both when "
            "it must.",
            (owner, at(("disruption", "reboots"), spec.disruption.reboots)),
            "set disruption.reboots to allow, or leave it to the hosts, which wait for you.",
        )


def _of_hosts(spec: ClusterSpec, owner: Place) -> Iterator[Finding]:
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
                    f"{nic.host.name} {nic.nic.netdev} has {path[-1]}, and the network operator "
                    "makes its VFs.",
                    (at(path, value), owner),
                    f"remove {path[-1]}, or set operators.network.vfs to host.",
                )
    for h, host in enumerate(spec.hosts):
        for p, port in enumerate(host.hca_sriov):
            if port.guids and host.role == "worker":
                yield Finding(
                    f"{host.name} {port.pci} has GUIDs for its VFs, and the network operator gives "
                    "them others.",
                    (at(("hosts", h, "hca_sriov", p, "guids")), owner),
                    "remove guids, or set operators.network.vfs to host.",
                )


def _slots(spec: ClusterSpec, owner: Place) -> Iterator[Finding]:
    rails: dict[str, str] = {}
    for nic in list_nics(spec):
        if nic.host.role != "worker":
            continue
        rail = rails.setdefault(nic.nic.pci, nic.nic.rail)
        if rail != nic.nic.rail:
            yield Finding(
                f"{nic.nic.pci} is {rail} on one host and {nic.nic.rail} on {nic.host.name}: a "
                "policy selects by PCI address, on all nodes alike.",
                (at((*nic.path, "rail"), nic.nic.rail), owner),
                "number the rails by slot, or set operators.network.vfs to host.",
            )


def check_firmware_setter(spec: ClusterSpec) -> Iterator[Finding]:
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


def _cards(spec: ClusterSpec, h: int, owner: Place) -> Iterator[Finding]:
    host = spec.hosts[h]
    asked = spec.settings_of(host).firmware
    for p, port in enumerate(host.hca_sriov):
        yield Finding(
            f"{host.name} {port.pci} is a port of hca_sriov, which has no model: a template "
            "names the PCI device id of a card.",
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

"""Rules on the models of cards and on what their firmware is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from components.catalogue.cards import CARDS, IB_PORTS
from components.checks.rule import Finding, Findings, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath, render_path
from components.model.cards import Firmware, HostQos, version_number
from components.model.cluster import ClusterSpec
from components.model.hosts import Host


def firmware_asked(spec: ClusterSpec) -> Iterator[tuple[SpecPath, Firmware, tuple[Host, ...]]]:
    """Each place of the file that asks for firmware, and the hosts for which it holds."""
    own = {group.name for group in spec.host_groups if group.firmware is not None}
    others = tuple(host for host in spec.hosts if host.group not in own)
    yield ("host_defaults", "firmware"), spec.host_defaults.firmware, others
    for number, group in enumerate(spec.host_groups):
        if group.firmware is not None:
            hosts = tuple(host for host in spec.hosts if host.group == group.name)
            yield ("host_groups", number, "firmware"), group.firmware, hosts


def check_nic_speed(spec: ClusterSpec) -> Findings:
    """No NIC is faster than the fastest port of its card's model.

    Acceptance measures against the rate that the file says: one that no cable of this card can
    carry fails every run.
    """
    for nic in list_nics(spec):
        fastest = nic.nic.fastest_gbit_s
        if nic.nic.is_too_fast:
            able = [
                name for name, each in CARDS.items() if each.fastest_gbit_s >= nic.nic.speed_gbit_s
            ]
            yield Finding(
                f"a {nic.nic.model} has at most {fastest} Gbit/s, not {nic.nic.speed_gbit_s}.",
                (nic.at("speed_gbit_s"), nic.at("model")),
                "correct the speed, or the model"
                + (f": {', '.join(able)} have such ports." if able else "."),
            )


def check_firmware_vfs(spec: ClusterSpec) -> Findings:
    """The number of VFs that a card's firmware offers is within its limit and enough for its ports.

    It is only set where Railyard manages the firmware: elsewhere the number would be a wish.
    """
    for path, firmware, _ in firmware_asked(spec):
        guests = bool(spec.hypervisors)  # of those `firmware-guests` tells
        if firmware.num_of_vfs is not None and not firmware.manage and not guests:
            what = f"{firmware.num_of_vfs} VFs are to be offered, and the firmware is not managed."
            where = (
                at((*path, "num_of_vfs"), firmware.num_of_vfs),
                at((*path, "manage"), firmware.manage),
            )
            yield Finding(what, where, "set manage to true, or remove num_of_vfs.")
    for h, host in enumerate(spec.hosts):
        firmware = spec.settings_of(host).firmware
        if firmware.manage and firmware.num_of_vfs is not None:
            yield from _offered_findings(host, h, firmware.num_of_vfs)


def _offered_findings(host: Host, h: int, count: int) -> Findings:
    """The ports of a host that need more VFs than all are to offer, or can offer less."""
    ports = [(("nics", n), nic.vfs, nic) for n, nic in enumerate(host.nics)]
    ports += [(("hca_sriov", p), pf.vfs, None) for p, pf in enumerate(host.hca_sriov)]
    for place, vfs, card in ports:
        if vfs > count:
            what = f"a port is asked for {vfs} VFs, and its firmware is to offer {count}."
        elif card is not None and card.vf_limit is not None and count > card.vf_limit:
            what = (
                f"a {card.model} has at most {card.vf_limit} VFs a port, and is to offer {count}."
            )
        else:
            continue
        fix = "correct firmware.num_of_vfs, or remove it: each card then offers what it needs."
        yield Finding(what, (at(("hosts", h, *place, "vfs"), vfs),), fix)


def check_firmware_floor(spec: ClusterSpec) -> Findings:
    """The oldest firmware that may run is said once a model, and is one of that model's family.

    The first number of a release tells the family: a release of another family can never run
    there, and the demand would never hold.
    """
    for path, firmware, hosts in firmware_asked(spec):
        models = {nic.model for host in hosts for nic in host.nics}
        seen: dict[str, SpecPath] = {}
        for number, floor in enumerate(firmware.min_versions):
            place = (*path, "min_versions", number)
            family = CARDS[floor.model].firmware_family
            if version_number(floor.version)[0] != family:
                what = f"{floor.version} is not for a {floor.model}: its releases are {family}.x."
                fix = "write a release of that family, as the firmware's release notes name it."
                yield Finding(what, (at((*place, "version"), floor.version),), fix)
            if models and floor.model not in models:
                what = f"min_versions names {floor.model}, but none of its hosts has such a card."
                fix = f"correct the model ({', '.join(sorted(models))}), or remove the entry."
                yield Finding(what, (at((*place, "model"), floor.model),), fix, "warning")
            first = seen.setdefault(floor.model, place)
            if first != place:
                where = (at((*first, "model"), floor.model), at((*place, "model"), floor.model))
                fix = "keep one of them."
                yield Finding(f"two oldest releases are named for {floor.model}.", where, fix)


def check_port_function(spec: ClusterSpec) -> Findings:
    """A card whose firmware is managed is written by the address of a port, not of a VF.

    Ports are the first functions of a PCI device, from 0 on; VFs follow. A VF has no firmware
    settings.
    """
    for h, host in enumerate(spec.hosts):
        if not spec.settings_of(host).firmware.manage:
            continue
        ports = [
            (("nics", n), nic.pci, nic.card.ports) for n, nic in enumerate(host.nics) if nic.card
        ]
        ports += [(("hca_sriov", p), pf.pci, IB_PORTS) for p, pf in enumerate(host.hca_sriov)]
        for place, pci, count in ports:
            function = int(pci.rpartition(".")[2])
            if function >= count:
                yield Finding(
                    f"{pci} of {host.name} is function {function}, and a card of this kind has "
                    f"its ports at functions 0 to {count - 1}: higher ones are VFs.",
                    (at(("hosts", h, *place, "pci"), pci),),
                    "write the PF's address (`railyard discover` shows it).",
                )


def check_firmware_guests(spec: ClusterSpec) -> Findings:
    """In virtual machines, ATS is the one firmware setting of a card that is Railyard's.

    A card restarts when its hypervisor does, and only for ATS are the hypervisors rebooted:
    other settings would wait for ever.
    """
    if not spec.hypervisors:
        return
    for path, firmware, _ in firmware_asked(spec):
        for key in ("manage", "num_of_vfs", "relaxed_ordering"):
            if getattr(firmware, key):
                yield Finding(
                    f"{key} is asked for on virtual machines, whose cards their hypervisors start.",
                    (at((*path, key), getattr(firmware, key)),),
                    f"remove {key}; set these parameters on the hypervisor with its own tools.",
                )


def check_hca_settings(spec: ClusterSpec) -> Findings:
    """What is asked of hosts with InfiniBand adapters is what Railyard can set there.

    A card's firmware is set by PCI address, which adapters have under `hca_sriov` only. Adapters
    have no model in the file, and no RoCE. Those of a cloud come with the driver of its image.
    """
    for h, host in enumerate(spec.hosts):
        if not host.hcas:
            continue
        hcas = at(("hosts", h, "hcas"), host.hcas)
        path, driver = _written(spec, host, "driver"), spec.settings_of(host).driver
        if spec.cloud is not None and driver.is_installed:
            what = f"{driver.kind} would not be installed: the cloud's image brings the driver."
            fix = "choose an image that has the driver, and set driver.kind to present."
            yield Finding(what, (at((*path, "kind"), driver.kind), hcas), fix)
        if not host.nics:
            for finding in _unset(spec, host):
                yield Finding(finding.what, (*finding.where, hcas), finding.fix)


def _unset(spec: ClusterSpec, host: Host) -> Findings:
    """What a host without NICs could only drop."""
    settings = spec.settings_of(host)
    path = _written(spec, host, "firmware")
    for key in ("manage", "relaxed_ordering"):
        if getattr(settings.firmware, key) and not host.hca_sriov:
            yield Finding(
                f"{key} is asked for, and the file has no PCI address of the InfiniBand adapters.",
                (at((*path, key), value=True),),
                f"remove {key}, or list the ports under hca_sriov (with vfs: 0 where they need "
                "no VFs); hosts that differ are a group of host_groups.",
            )
    if settings.firmware.min_versions:
        what = "min_versions goes by card model, and the file has no model of InfiniBand adapters."
        fix = "remove min_versions, or move it to a group of host_groups whose hosts have nics."
        yield Finding(what, (at((*path, "min_versions")),), fix)
    if settings.qos != HostQos():
        where = (at(_written(spec, host, "qos")),)
        fix = "remove qos, or move it to a group of host_groups whose hosts have nics."
        yield Finding("qos is RoCE's, and these hosts have InfiniBand adapters alone.", where, fix)


def _written(spec: ClusterSpec, host: Host, block: str) -> SpecPath:
    """Where the file has a block that holds for a host."""
    for g, group in enumerate(spec.host_groups):
        if group.name == host.group and getattr(group, block) is not None:
            return ("host_groups", g, block)
    return ("host_defaults", block)


def check_guest_ats(spec: ClusterSpec) -> Findings:
    """ATS is set in the cards of virtual machines, and only there.

    A guest's GPU and card reach each other through the hypervisor's address translation: without
    ATS every message takes the way over the processor. On bare metal there is no such translation.
    """
    for path, firmware, hosts in firmware_asked(spec):
        setting = render_path((*path, "ats"))
        place = at((*path, "ats"), firmware.ats)
        if firmware.ats and not spec.hypervisors:
            what = "ATS is for virtual machines on ESXi, and this site has no hypervisors."
            fix = f"remove {setting}, or describe the hypervisors with environment kind esxi."
            yield Finding(what, (place,), fix)
        if spec.hypervisors and hosts and not firmware.ats:
            what = "the hosts are virtual machines, and ATS of their cards is off."
            fix = f"set {setting} to true, unless you measure without GPUDirect on purpose."
            yield Finding(what, (place,), fix, "warning")

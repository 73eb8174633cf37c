"""Rules on the models of cards and on what their firmware is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from components.catalogue.cards import CARDS, IB_PORTS
from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath
from components.model.cards import Firmware, version_number
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


def check_nic_speed(spec: ClusterSpec) -> Iterator[Finding]:
    """No NIC is faster than the fastest port of its card's model.

    Acceptance measures against the rate that the file says: one that no cable of this card can
    carry fails every run.
    """
    for nic in list_nics(spec):
        fastest = nic.nic.fastest_gbit_s
        if fastest is not None and nic.nic.speed_gbit_s > fastest:
            able = [
                name for name, each in CARDS.items() if each.fastest_gbit_s >= nic.nic.speed_gbit_s
            ]
            yield Finding(
                f"a NIC is said to run at {nic.nic.speed_gbit_s} Gbit/s, and no port of a "
                f"{nic.nic.model} is faster than {fastest}.",
                (
                    at((*nic.path, "speed_gbit_s"), nic.nic.speed_gbit_s),
                    at((*nic.path, "model"), nic.nic.model),
                ),
                "correct the speed, or the model"
                + (f": {', '.join(able)} have such ports." if able else "."),
            )


def check_firmware_vfs(spec: ClusterSpec) -> Iterator[Finding]:
    """The number of VFs that a card's firmware offers is within its limit and enough for its ports.

    It is only set where Railyard manages the firmware: elsewhere the number would be a wish.
    """
    for path, firmware, _ in firmware_asked(spec):
        guests = bool(spec.hypervisors)  # of those `firmware-guests` tells
        if firmware.num_of_vfs is not None and not firmware.manage and not guests:
            yield Finding(
                f"{firmware.num_of_vfs} VFs are to be offered, and the firmware is not managed.",
                (
                    at((*path, "num_of_vfs"), firmware.num_of_vfs),
                    at((*path, "manage"), firmware.manage),
                ),
                "set manage to true, or remove num_of_vfs.",
            )
    for h, host in enumerate(spec.hosts):
        firmware = spec.settings_of(host).firmware
        if firmware.manage and firmware.num_of_vfs is not None:
            yield from _offered_findings(host, h, firmware.num_of_vfs)


def _offered_findings(host: Host, h: int, count: int) -> Iterator[Finding]:
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
        yield Finding(
            what,
            (at(("hosts", h, *place, "vfs"), vfs),),
            "correct firmware.num_of_vfs, or leave it out: then each card offers what its ports "
            "need.",
        )


def check_firmware_floor(spec: ClusterSpec) -> Iterator[Finding]:
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
                yield Finding(
                    f"{floor.version} is no firmware of a {floor.model}: its releases begin "
                    f"with {family}.",
                    (at((*place, "version"), floor.version),),
                    "write a release of that family, as the firmware's release notes name it.",
                )
            if models and floor.model not in models:
                yield Finding(
                    f"an oldest release is named for {floor.model}, and no host for which it holds "
                    "has such a card: it does nothing.",
                    (at((*place, "model"), floor.model),),
                    f"correct the model ({', '.join(sorted(models))}), or remove the entry.",
                    "warning",
                )
            first = seen.setdefault(floor.model, place)
            if first != place:
                yield Finding(
                    f"two oldest releases are named for {floor.model}.",
                    (at((*first, "model"), floor.model), at((*place, "model"), floor.model)),
                    "keep one of them.",
                )


def check_port_function(spec: ClusterSpec) -> Iterator[Finding]:
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


def check_firmware_guests(spec: ClusterSpec) -> Iterator[Finding]:
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

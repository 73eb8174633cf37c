"""Rules on the hosts and their cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from components.catalogue.cards import CARDS
from components.checks.rule import Finding, at
from components.checks.topology import PlacedNic, list_nics
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.hosts import Nic
from components.model.sriov import HcaPf

_USER: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SYSTEM_USERS: Final = frozenset({"root", "daemon", "bin", "sys", "nobody", "sshd", "www-data"})
_NETDEV: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
"""Linux' IFNAMSIZ is 16 with the closing zero; the signs are those that udev's names have."""

_BOND: Final = re.compile(r"(bond|team)[0-9._-]*")
"""The names of the kernel's bonding driver and of systemd's examples, with or without a VLAN."""


def check_vf_limit(spec: ClusterSpec) -> Iterator[Finding]:
    """No NIC is asked for more VFs than its firmware can give: 127 a port, 126 on BlueField-3."""
    for nic in list_nics(spec):
        limit = CARDS[nic.nic.model].max_vfs
        if nic.nic.vfs > limit:
            yield Finding(
                f"{nic.host.name} {nic.nic.netdev} is asked for {nic.nic.vfs} VFs, and a "
                f"{nic.nic.model} port has at most {limit}.",
                (at((*nic.path, "vfs"), nic.nic.vfs),),
                f"set vfs to {limit} or less; 8 is usual.",
            )


def check_vf_count(spec: ClusterSpec) -> Iterator[Finding]:
    """With `sriov`, a worker's NIC has at least one VF: pods reach the rail through VFs only."""
    if spec.kubernetes is None or spec.pod_network.mode != "sriov":
        return
    for nic in list_nics(spec):
        if nic.host.role == "worker" and nic.nic.vfs == 0:
            yield Finding(
                f"{nic.host.name} {nic.nic.netdev} has no VFs, so no pod reaches {nic.nic.rail}.",
                (at((*nic.path, "vfs"), nic.nic.vfs),),
                "set vfs to the number of pods that share the NIC; 8 is usual.",
            )


def check_duplicate_nic(spec: ClusterSpec) -> Iterator[Finding]:
    """On one host, each NIC has its own PCI address, network device and rail."""
    seen: dict[tuple[SpecPath, str, str], SpecPath] = {}
    for nic in list_nics(spec):
        written = "netdev" in nic.nic.model_fields_set  # else it follows from the PCI address
        for key, value in (
            ("pci", nic.nic.pci),
            *((("netdev", nic.nic.netdev),) if written else ()),
            ("rail", nic.nic.rail),
        ):
            path: SpecPath = (*nic.path, key)
            other = seen.setdefault((nic.path[:2], key, value), path)
            if other != path:
                yield Finding(
                    f"two NICs of {nic.host.name} have the same {key}: {value}.",
                    (at(path, value), at(other, value)),
                    "each NIC is one PCI function with one network device on one rail.",
                )


def check_card_serial(spec: ClusterSpec) -> Iterator[Finding]:
    """A serial number is that of one card: only the ports of that card have it.

    A host refuses a card with another number than the file has. On one host a second slot may have
    the same number, if the card is one with two connectors (Socket Direct): that is a warning.
    """
    first: dict[str, tuple[int, str, Place]] = {}
    for h, host in enumerate(spec.hosts):
        cards: list[tuple[SpecPath, Nic | HcaPf]] = [
            (("nics", n), nic) for n, nic in enumerate(host.nics)
        ]
        cards += [(("hca_sriov", p), pf) for p, pf in enumerate(host.hca_sriov)]
        for place, card in cards:
            if card.serial is None:
                continue
            slot, own = card.pci.partition(".")[0], at(("hosts", h, *place, "serial"), card.serial)
            other_h, other_slot, other = first.setdefault(card.serial, (h, slot, own))
            if other_h != h:
                yield Finding(
                    f"cards of {spec.hosts[other_h].name} and {host.name} have the same serial "
                    f"number {card.serial}.",
                    (own, other),
                    "correct one of them: `lspci -vv` on the host shows its own.",
                )
            elif other_slot != slot:
                yield Finding(
                    f"cards at {other_slot} and {slot} of {host.name} have the same serial number "
                    f"{card.serial}.",
                    (own, other),
                    "correct one of them, unless it is one card with two connectors.",
                    "warning",
                )


def check_netdev_name(spec: ClusterSpec) -> Iterator[Finding]:
    """A network device's name is one that Linux can have: at most 15 characters."""
    for nic in list_nics(spec):
        if not _NETDEV.fullmatch(nic.nic.netdev):
            yield Finding(
                f'"{nic.nic.netdev}" on {nic.host.name} cannot be the name of a network device.',
                (at((*nic.path, "netdev"), nic.nic.netdev),),
                "write the name that `ip link` shows, for example enp5s0.",
            )


def check_bonded_rail(spec: ClusterSpec) -> Iterator[Finding]:
    """A card is one port, and no bond: a bond hides which port carries what."""
    for nic in list_nics(spec):
        if _BOND.fullmatch(nic.nic.netdev):
            yield Finding(
                f"{nic.nic.netdev} on {nic.host.name} is the name of a bond, and a rail is one "
                "port of a card.",
                (at((*nic.path, "netdev"), nic.nic.netdev),),
                "take the bond apart, and name one port of it here; a second one is another rail.",
            )


def check_rail_symmetry(spec: ClusterSpec) -> Iterator[Finding]:
    """Each worker has a NIC on each rail that another worker has.

    A job asks for one VF of each rail on every worker: a worker without one never gets its pod,
    and the job waits.
    """
    rails = {rail.name for rail in spec.rails}
    used = rails & {nic.nic.rail for nic in list_nics(spec) if nic.host.role == "worker"}
    for h, host in enumerate(spec.hosts):
        own = {nic.rail for nic in host.nics}
        missing = sorted(used - own)
        # A NIC on a rail that does not exist is `nic-rail`'s problem, and probably the missing one.
        if host.role == "worker" and missing and own <= rails:
            yield Finding(
                f"{host.name} has no NIC on {', '.join(missing)}, and other workers have.",
                (at(("hosts", h, "nics")),),
                "add the NIC, or take the rail from all workers.",
            )


def check_rail_speed(spec: ClusterSpec) -> Iterator[Finding]:
    """All NICs of one rail have the same speed; the slowest would set the pace of every job."""
    rails: dict[str, list[PlacedNic]] = {}
    for nic in list_nics(spec):
        rails.setdefault(nic.nic.rail, []).append(nic)
    for rail, nics in rails.items():
        # Of two speeds that are equally frequent, the first one of the file is the usual one.
        usual = Counter(nic.nic.speed_gbit_s for nic in nics).most_common(1)[0][0]
        other = next(nic for nic in nics if nic.nic.speed_gbit_s == usual)
        for nic in nics:
            if nic.nic.speed_gbit_s == usual:
                continue
            yield Finding(
                f"on {rail}, {nic.host.name} has {nic.nic.speed_gbit_s} Gbit/s, and the other NICs "
                f"have {usual}.",
                (
                    at((*nic.path, "speed_gbit_s"), nic.nic.speed_gbit_s),
                    at((*other.path, "speed_gbit_s"), usual),
                ),
                "correct the speed, or put the slower NICs on a rail of their own.",
            )


def check_gpu_symmetry(spec: ClusterSpec) -> Iterator[Finding]:
    """All workers have the same number of GPUs, and at least one.

    An MPI job starts the same number of ranks on each worker; where there are fewer GPUs, its
    pod is never placed.
    """
    workers = [(h, host) for h, host in enumerate(spec.hosts) if host.role == "worker"]
    usual = Counter(host.gpus for _, host in workers if host.gpus).most_common(1)
    for h, host in workers:
        place = at(("hosts", h, "gpus"), host.gpus)
        if host.gpus == 0:
            yield Finding(
                f"{host.name} is a worker without GPUs.",
                (place,),
                "set gpus to the number in the host.",
            )
        elif host.gpus != usual[0][0]:
            yield Finding(
                f"{host.name} has {host.gpus} GPUs, and the other workers have {usual[0][0]}.",
                (place,),
                "a job has the same number of ranks on each worker: correct the number, or leave "
                "the host out.",
            )


def check_user_account(spec: ClusterSpec) -> Iterator[Finding]:
    """The common user has a name that useradd accepts and that no system account has."""
    name = spec.host_defaults.user.name
    if not _USER.fullmatch(name) or name in _SYSTEM_USERS:
        reason = "belongs to the system" if name in _SYSTEM_USERS else "is no Linux user name"
        yield Finding(
            f'the user name "{name}" {reason}.',
            (at(("host_defaults", "user", "name"), name),),
            "use lower-case letters, digits, - and _, at most 32, for example nvidia.",
        )

"""Rules on the hosts and their cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.checks.topology import PlacedNic, list_nics
from components.core.problem import Place, SpecPath
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.worker_kinds import PAIR, worker_kinds

_BOND: Final = re.compile(r"(bond|team)[0-9._-]*")
"""The names of the kernel's bonding driver and of systemd's examples, with or without a VLAN."""


def check_vf_limit(spec: ClusterSpec) -> Iterator[Finding]:
    """No NIC is asked for more VFs than its firmware can give: 127 a port, 126 on BlueField-3."""
    for nic in list_nics(spec):
        limit = nic.nic.vf_limit
        if limit is not None and nic.nic.vfs > limit:
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


def check_device_identity(spec: ClusterSpec) -> Iterator[Finding]:
    """A machine id is that of one host, and a serial number that of one switch.

    Two with the same would be one device under two names, and each update would give it the
    settings of both.
    """
    said = [
        (("hosts", h, "machine_id"), each.name, each.machine_id)
        for h, each in enumerate(spec.hosts)
    ]
    said += [
        (("switches", s, "serial"), each.name, each.serial) for s, each in enumerate(spec.switches)
    ]
    first: dict[str, tuple[SpecPath, str]] = {}
    for path, name, value in said:
        other, other_name = first.setdefault(value or name, (path, name))
        if value and other != path:
            yield Finding(
                f"{other_name} and {name} have the same {path[2]} {value}.",
                (at(path, value), at(other, value)),
                "correct one of them: /etc/machine-id of the host, or `show version` or `show"
                " inventory` of the switch, has its own.",
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


def _alike(spec: ClusterSpec) -> Iterator[tuple[str, list[tuple[int, Host]]]]:
    """The workers that the file says are alike: those of one group, and those of none."""
    groups: dict[str | None, list[tuple[int, Host]]] = {}
    for h, host in enumerate(spec.hosts):
        if host.role == "worker":
            groups.setdefault(host.group, []).append((h, host))
    for group, members in groups.items():
        yield f"workers of {group}" if group else "workers", members


def _apart(words: str) -> str:
    return f"{words}, or give the hosts that differ a group of host_groups."


def check_rail_symmetry(spec: ClusterSpec) -> Iterator[Finding]:
    """Workers of one host group are on the same rails; other workers are on the same ones too.

    A job asks for one device of each rail on every worker, so it runs on workers with the same
    rails only. Workers that differ on purpose are a group of `host_groups`: jobs and probes of each
    kind of workers then have the rails of that kind. Within a group, a NIC was probably left out.
    """
    rails = {rail.name for rail in spec.rails}
    for words, members in _alike(spec):
        used = rails & {nic.rail for _, host in members for nic in host.nics}
        for h, host in members:
            own = {nic.rail for nic in host.nics}
            missing = sorted(used - own)
            # A NIC on a rail that does not exist is `nic-rail`'s problem, probably the missing one.
            if missing and own <= rails:
                yield Finding(
                    f"{host.name} has no NIC on {', '.join(missing)}, and other {words} have: jobs "
                    "on these rails leave it out.",
                    (at(("hosts", h, "nics")),),
                    _apart("add the NIC"),
                    "warning",
                )


def check_rail_speed(spec: ClusterSpec) -> Iterator[Finding]:
    """On one rail, workers of one host group have one speed; other workers have one too.

    The slowest NIC sets the pace of a job, so workers of another speed are another kind of workers
    for it, and a test between two speeds is judged by the slower one. Workers that differ on
    purpose are a group of `host_groups`.
    """
    for words, members in _alike(spec):
        rails: dict[str, list[PlacedNic]] = {}
        for h, host in members:
            for n, nic in enumerate(host.nics):
                placed = PlacedNic(host, nic, ("hosts", h, "nics", n))
                rails.setdefault(nic.rail, []).append(placed)
        for rail, nics in rails.items():
            yield from _speeds(words, rail, nics)


def _speeds(words: str, rail: str, nics: list[PlacedNic]) -> Iterator[Finding]:
    # Of two speeds that are equally frequent, the first one of the file is the usual one.
    usual = Counter(nic.nic.speed_gbit_s for nic in nics).most_common(1)[0][0]
    other = next(nic for nic in nics if nic.nic.speed_gbit_s == usual)
    for nic in nics:
        if nic.nic.speed_gbit_s == usual:
            continue
        yield Finding(
            f"on {rail}, {nic.host.name} has {nic.nic.speed_gbit_s} Gbit/s, and the other {words} "
            f"have {usual}: no job runs on both.",
            (
                at((*nic.path, "speed_gbit_s"), nic.nic.speed_gbit_s),
                at((*other.path, "speed_gbit_s"), usual),
            ),
            _apart("correct the speed"),
            "warning",
        )


def check_gpu_symmetry(spec: ClusterSpec) -> Iterator[Finding]:
    """Workers of one host group have the same number of GPUs; other workers have the same too.

    An MPI job starts the same number of ranks on each worker, so it runs on workers with the same
    GPUs only. Workers that differ on purpose, such as those without GPUs, are a group of
    `host_groups`: each kind of workers then has jobs and probes of its own.
    """
    for words, members in _alike(spec):
        counts = Counter(host.gpus for _, host in members)
        usual = max(counts, key=lambda gpus: (counts[gpus], gpus > 0))
        for h, host in members:
            if host.gpus != usual:
                yield Finding(
                    f"{host.name} has {host.gpus} GPUs, and the other {words} have {usual}: no job "
                    "runs on both.",
                    (at(("hosts", h, "gpus"), host.gpus),),
                    _apart("correct the number"),
                    "warning",
                )


def check_gpu_job(spec: ClusterSpec) -> Iterator[Finding]:
    """There are two workers with the same GPUs and rails, so that a collective can be run.

    Without them acceptance proves each rail by itself, and says that no collective was proven.
    """
    kinds = worker_kinds(spec)
    if len(spec.workers) < PAIR or any(kind.runs_collectives for kind in kinds):
        return
    causes = (check_rail_symmetry, check_rail_speed, check_gpu_symmetry)
    rails = {rail.name for rail in spec.rails}
    lost = any(nic.rail not in rails for host in spec.workers for nic in host.nics)
    if lost or any(next(cause(spec), None) for cause in causes):
        return  # what is different by mistake, and named by its own rule
    places = tuple(
        at(("hosts", h, "gpus"), host.gpus)
        for h, host in enumerate(spec.hosts)
        if host.role == "worker"
    )
    lone = any(kind.gpus for kind in kinds)
    yield Finding(
        "no two workers have the same GPUs, rails and speeds, so no NCCL job can cross from one to "
        "the other."
        if lone
        else "no worker has GPUs, so no NCCL job can run.",
        places,
        "correct the hosts that are alike, or waive the rule: acceptance then proves the rails "
        "alone, and says so.",
        "warning",
    )


def check_host_role(spec: ClusterSpec) -> Iterator[Finding]:
    """A storage or login host has a rail or nothing of RDMA, and no GPUs that would be set up.

    Railyard gives such a host its user, kernel, driver and rails. GPU driver, peer memory and
    device plugins are for workers.
    """
    for h, host in enumerate(spec.hosts):
        if host.is_outside and host.gpus:
            yield Finding(
                f"{host.name} is a {host.role} host, for which no GPU software is planned, and has "
                f"{host.gpus} GPUs.",
                (at(("hosts", h, "gpus"), host.gpus), at(("hosts", h, "role"), host.role)),
                "remove gpus, or make it a worker.",
            )

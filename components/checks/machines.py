"""Rules on the hosts and their cards, and on parts of other makers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from components.catalogue.cards import (
    CARDS,
    gpu_vendor,
    nic_vendor,
    prefix_vendor,
    software_vendor,
)
from components.checks.rule import Finding, Findings, at, places, repeated, unique
from components.checks.topology import PlacedNic, list_nics, nics_by_host
from components.core.problem import Place, SpecPath
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.hosts import Host, Nic
from components.model.worker_kinds import PAIR, worker_kinds
from components.reading.wording import did_you_mean

_FACTS = {
    "pci_id": "its PCI id",
    "vf_pci_id": "the PCI id of its VFs",
    "vf_limit": "how many VFs it can have",
    "speed_gbit_s": "its fastest rate",
}


def check_nic_model(spec: ClusterSpec) -> Findings:
    """Each card has a model that Railyard knows or that `nic_models` describes.

    The model limits VFs and rates, and decides PCI ids. For another model of NVIDIA these are
    unchecked, which is a warning each time; Railyard leaves its firmware and link type alone.
    """
    for nic in list_nics(spec):
        model, where = nic.nic.model, nic.at("model")
        if nic.nic.card is not None or nic_vendor(model) is not None:
            continue  # `other-vendor` reports cards of other makers
        described = spec.nic_models.get(model)
        lacking = [words for key, words in _FACTS.items() if getattr(described, key, None) is None]
        known = "is only described by this file" if described else "is unknown"
        hint = "" if described else did_you_mean(model, list(CARDS))
        yield Finding(
            f"the card model {model} {known}.{hint} Not checked: "
            f"{', '.join([*lacking, 'its firmware and its link type'])}.",
            (where,),
            "read them in its manual and describe it in nic_models, or waive the rule with that "
            f"reason; known are {', '.join(CARDS)}.",
            "warning",
        )
    used = {nic.nic.model for nic in list_nics(spec)}
    for name in spec.nic_models:
        if name not in used:
            what = f"nic_models describes {name}, and no NIC is of that model."
            fix = "correct the name, or remove the description."
            yield Finding(what, (at(("nic_models", name)),), fix, "warning")


def check_other_vendor(spec: ClusterSpec) -> Findings:
    """Cards and GPUs are NVIDIA's, and so is their software.

    mlx5's tools and files set up cards, and NVIDIA's operators set up GPUs: on parts of other
    makers the values would mean nothing.
    """
    for nic in list_nics(spec):
        yield from _refuse(
            nic_vendor(nic.nic.model),
            f"{nic.nic.model} is a card",
            nic.at("model"),
            "Railyard plans NVIDIA's ConnectX and BlueField",
        )
    for h, host in enumerate(spec.hosts):
        yield from _refuse(
            gpu_vendor(host.gpu_model or ""),
            f"{host.gpu_model} is a GPU",
            at(("hosts", h, "gpu_model"), host.gpu_model),
            "Railyard plans NVIDIA's driver, operator and NCCL",
        )
    yield from _software(spec)


def _software(spec: ClusterSpec) -> Findings:
    for name in ("gpu", "network", "gpu_device_plugin"):
        operator = getattr(spec.operators, name)
        if operator is not None:
            chart = operator.chart
            yield from _refuse(
                software_vendor(f"{chart.repo or ''}/{chart.chart}"),
                f"operators.{name} names a chart",
                at(("operators", name, "chart", "chart"), chart.chart),
                "Railyard gives it the values of NVIDIA's chart",
            )
    yield from _refuse(
        software_vendor(spec.jobs.image),
        f"{spec.jobs.image} is an image for GPUs",
        at(("jobs", "image"), spec.jobs.image),
        "Railyard runs NCCL's tests in it",
    )
    prefix = spec.pod_network.resource_prefix
    yield from _refuse(
        prefix_vendor(prefix),
        f"{prefix} is the prefix of a plugin",
        at(("pod_network", "resource_prefix"), prefix),
        "Railyard installs plugins for NVIDIA's cards",
    )


def _refuse(vendor: str | None, what: str, where: Place, why: str) -> Findings:
    if vendor is not None:
        fix = "leave these parts to another tool, or name NVIDIA's."
        yield Finding(f"{what} of {vendor}: {why}.", (where,), fix)


_BOND: Final = re.compile(r"(bond|team)[0-9._-]*")
"""The names of the kernel's bonding driver and of systemd's examples, with or without a VLAN."""


def check_vf_limit(spec: ClusterSpec) -> Findings:
    """No NIC is asked for more VFs than its firmware can give: 127 a port, 126 on BlueField-3."""
    for nic in list_nics(spec):
        limit = nic.nic.vf_limit
        if limit is not None and nic.nic.vfs > limit:
            what = f"{nic} asks for {nic.nic.vfs} VFs; a {nic.nic.model} port has at most {limit}."
            yield Finding(what, (nic.at("vfs"),), f"set vfs to {limit} or less; 8 is usual.")


def check_vf_count(spec: ClusterSpec) -> Findings:
    """With `sriov`, a worker's NIC has at least one VF: pods reach the rail through VFs only."""
    if spec.kubernetes is None or spec.pod_network.mode != "sriov":
        return
    for nic in list_nics(spec):
        if nic.host.role == "worker" and nic.nic.vfs == 0:
            where = (nic.at("vfs"),)
            fix = "set vfs to the number of pods that share the NIC; 8 is usual."
            if nic.host.login == "none":
                fix = "waive untouched-host and set vfs as it is; or use operators.network.vfs."
            yield Finding(f"{nic} has no VFs, so no pod reaches {nic.nic.rail}.", where, fix)


def check_duplicate_nic(spec: ClusterSpec) -> Findings:
    """On one host, each NIC has its own PCI address, network device and rail."""
    fix = "each NIC is one PCI function with one network device on one rail."
    for nics in nics_by_host(spec):
        # An omitted network device follows from the PCI address.
        written = [nic for nic in nics if "netdev" in nic.nic.model_fields_set]
        for key, those in (("pci", nics), ("netdev", written), ("rail", nics)):
            if len({getattr(nic.nic, key) for nic in those}) == len(those):
                continue  # places cost time on a large site
            values = ((getattr(nic.nic, key), nic.at(key)) for nic in those)
            what = f"two NICs of {nics[0].host.name} have the same {key}: {{}}."
            yield from unique(values, what, fix)


def check_device_identity(spec: ClusterSpec) -> Findings:
    """A machine id belongs to one host, and a serial number to one switch.

    Two entries with the same one would be one device under two names, and each update would give it
    the settings of both.
    """
    fix = (
        "correct one of them: /etc/machine-id of the host, or `show version` or `show inventory` of"
        " the switch, has its own."
    )
    for group, key in (("hosts", "machine_id"), ("switches", "serial")):
        devices: Sequence[Host | Switch] = getattr(spec, group)
        values = [(getattr(each, key), d) for d, each in enumerate(devices)]
        named = [(value, at((group, d, key), value)) for value, d in values if value]
        for both in repeated(named):
            one, other = (devices[int(place.path[1])].name for place in both)
            yield Finding(f"{other} and {one} have the same {key} {both[0].value}.", both, fix)


def check_card_serial(spec: ClusterSpec) -> Findings:
    """A serial number belongs to one card: only the ports of that card have it.

    A host refuses a card whose number differs from the file's. On one host a second slot can have
    the same number if the card has two connectors (Socket Direct): that is a warning.
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
                what = f"{spec.hosts[other_h].name} and {host.name} have a card {card.serial}."
                fix = "correct one of them: `lspci -vv` on the host shows its own."
                yield Finding(what, (own, other), fix)
            elif other_slot != slot:
                what = f"{other_slot} and {slot} of {host.name} have one serial, {card.serial}."
                fix = "correct one of them, unless it is one card with two connectors."
                yield Finding(what, (own, other), fix, "warning")


def check_bonded_rail(spec: ClusterSpec) -> Findings:
    """A card is one port, not a bond: a bond hides which port carries which traffic."""
    for nic in list_nics(spec):
        if _BOND.fullmatch(nic.nic.netdev):
            yield Finding(
                f"{nic.nic.netdev} on {nic.host.name} is a bond, but a rail is one port of a card.",
                (nic.at("netdev"),),
                "take the bond apart, and name one port of it here; a second one is another rail.",
            )


def _alike(spec: ClusterSpec) -> Iterator[tuple[str, list[tuple[int, Host]]]]:
    """Yield groups of workers that should be alike: each host group, and the ungrouped."""
    groups: dict[str | None, list[tuple[int, Host]]] = {}
    for h, host in enumerate(spec.hosts):
        if host.role == "worker":
            groups.setdefault(host.group, []).append((h, host))
    for group, members in groups.items():
        yield f"workers of {group}" if group else "workers", members


def _apart(words: str) -> str:
    return f"{words}, or give the hosts that differ a group of host_groups."


def check_rail_symmetry(spec: ClusterSpec) -> Findings:
    """Workers of one host group are on the same rails; so are all workers outside of groups.

    A job asks for one device of each rail on every worker, so it runs only on workers with the same
    rails. Put workers that differ on purpose into a group of `host_groups`: jobs and probes of each
    kind then use the rails of that kind. Within a group, the file probably misses a NIC.
    """
    rails = {rail.name for rail in spec.rails}
    for words, members in _alike(spec):
        used = rails & {nic.rail for _, host in members for nic in host.nics}
        for h, host in members:
            own = {nic.rail for nic in host.nics}
            missing = sorted(used - own)
            # `nic-rail` reports a NIC on an unknown rail: probably the missing one.
            if missing and own <= rails:
                what = f"{host.name} has no NIC on {', '.join(missing)}, which other {words} have."
                yield Finding(what, (at(("hosts", h, "nics")),), _apart("add the NIC"), "warning")


def check_rail_speed(spec: ClusterSpec) -> Findings:
    """On one rail, workers of one host group share one speed; so do all workers outside of groups.

    The slowest NIC sets the pace of a job, so workers of another speed are another kind of workers,
    and the slower speed judges a test between two speeds. Put workers that differ on purpose into a
    group of `host_groups`.
    """
    for words, members in _alike(spec):
        rails: dict[str, list[PlacedNic]] = {}
        for h, host in members:
            for n, nic in enumerate(host.nics):
                placed = PlacedNic(host, nic, ("hosts", h, "nics", n))
                if not nic.is_too_fast:  # `nic-speed` reports it
                    rails.setdefault(nic.rail, []).append(placed)
        for rail, nics in rails.items():
            yield from _speeds(words, rail, nics)


def _speeds(words: str, rail: str, nics: list[PlacedNic]) -> Findings:
    # If two speeds are equally frequent, the first one in the file is the usual one.
    usual = Counter(nic.nic.speed_gbit_s for nic in nics).most_common(1)[0][0]
    other = next(nic for nic in nics if nic.nic.speed_gbit_s == usual)
    for nic in nics:
        if nic.nic.speed_gbit_s == usual:
            continue
        yield Finding(
            f"on {rail} {nic.host.name} has {nic.nic.speed_gbit_s} Gbit/s, other {words} {usual}.",
            (nic.at("speed_gbit_s"), at((*other.path, "speed_gbit_s"), usual)),
            _apart("correct the speed"),
            "warning",
        )


def check_gpu_symmetry(spec: ClusterSpec) -> Findings:
    """Workers of one host group have equally many GPUs; so do all workers outside of groups.

    An MPI job starts the same number of ranks on each worker, so it runs only on workers with the
    same GPUs. Put workers that differ on purpose, such as those without GPUs, into a group of
    `host_groups`: each kind of workers then has separate jobs and probes.
    """
    for words, members in _alike(spec):
        counts = Counter(host.gpus for _, host in members)
        usual = max(counts, key=lambda gpus: (counts[gpus], gpus > 0))
        for h, host in members:
            if host.gpus != usual:
                what = f"{host.name} has {host.gpus} GPUs, other {words} {usual}: no job uses both."
                fix = _apart("correct the number")
                yield Finding(what, places(spec, f"hosts.{h}.gpus"), fix, "warning")


def check_gpu_job(spec: ClusterSpec) -> Findings:
    """Two workers have the same GPUs and rails, as a collective needs.

    Without them acceptance proves each rail separately, and reports that no collective was proven.
    """
    kinds = worker_kinds(spec)
    if len(spec.workers) < PAIR or any(kind.runs_collectives for kind in kinds):
        return
    causes = (check_rail_symmetry, check_rail_speed, check_gpu_symmetry)
    rails = {rail.name for rail in spec.rails}
    nics = [nic for host in spec.workers for nic in host.nics]
    lost = any(nic.rail not in rails or nic.is_too_fast for nic in nics)
    if lost or any(next(cause(spec), None) for cause in causes):
        return  # another rule reports this mistake
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
        "make two workers alike, or waive the rule: acceptance then proves only rails.",
        "warning",
    )


def check_host_role(spec: ClusterSpec) -> Findings:
    """A storage or login host has a rail or no RDMA at all, and no GPUs to set up.

    Railyard gives such a host its user, kernel, driver and rails. GPU driver, peer memory and
    device plugins are for workers.
    """
    for h, host in enumerate(spec.hosts):
        if host.is_outside and host.gpus:
            yield Finding(
                f"{host.name} is a {host.role} host with {host.gpus} GPUs, which get no software.",
                places(spec, f"hosts.{h}.gpus", f"hosts.{h}.role"),
                "remove gpus, or make it a worker.",
            )

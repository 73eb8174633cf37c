"""Rules on the hosts and their cards, and on parts of other makers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from operator import itemgetter
from typing import Final

from components.catalogue.cards import CARDS, gpu_vendor, nic_vendor, prefix_vendor, software_vendor
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, values, walk
from components.checks.topology import PlacedNic, host_blocks, list_cables, list_cards, list_nics
from components.core.problem import Place
from components.model.cards import HostQos, Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.owners import pods_have_vfs
from components.model.places import vf_guids
from components.model.worker_kinds import PAIR, worker_kinds
from components.reading.wording import did_you_mean

_FACTS: Final = {
    "pci_id": "its PCI id",
    "vf_pci_id": "the PCI id of its VFs",
    "vf_limit": "how many VFs it can have",
    "speed_gbit_s": "its fastest rate",
}
_BOND: Final = re.compile(r"(bond|team)[0-9._-]*")
"""The names of the kernel's bonding driver and of systemd's examples, with or without a VLAN."""
_MBIT: Final = 1000
"""Mbit/s in one Gbit/s."""
_CARRIED: Final = ("vlan", "trust", "spoofchk", "min_rate_mbit_s", "max_rate_mbit_s")
"""Settings of a VF that the SR-IOV CNI plugin makes for its pod, and undoes afterwards."""
_ONE_NIC: Final = "each NIC is one PCI function with one network device on one rail."
_VENDORS: Final[tuple[tuple[str, Callable[[str], str | None], str, str], ...]] = (
    ("hosts.*.nics.*.model", nic_vendor, "{} is a card", "Railyard plans ConnectX and BlueField"),
    ("hosts.*.gpu_model", gpu_vendor, "{} is a GPU", "Railyard plans NVIDIA's driver and NCCL"),
    ("jobs.image", software_vendor, "{} is an image for GPUs", "Railyard runs NCCL's tests in it"),
    (
        "pod_network.resource_prefix",
        prefix_vendor,
        "{} is the prefix of a plugin",
        "Railyard installs plugins for NVIDIA's cards",
    ),
)


def check_hca_sriov(spec: ClusterSpec) -> Findings:
    """VFs of InfiniBand ports need as many HCAs, list each once, and share none with `nics`."""
    for host, here in walk(spec, "hosts.*", Host):
        if len(host.hca_sriov) > host.hcas:
            where = here("hca_sriov", "hcas")
            yield find("hca-sriov-count", *where, host=host, count=len(host.hca_sriov))
        for (n, nic), (p, pf) in product(enumerate(host.nics), enumerate(host.hca_sriov)):
            if nic.pci == pf.pci:
                where = here(f"hca_sriov.{p}.pci", f"nics.{n}.pci")
                yield find("hca-sriov-rail", *where, pf=pf, host=host)


def check_nic_model(spec: ClusterSpec) -> Findings:
    """Each card has a model that Railyard knows or that `nic_models` describes.

    VFs, rates and PCI ids of a described model are unchecked, which is a warning each time;
    Railyard leaves its firmware and link type alone.
    """
    for nic in list_nics(spec):
        model = nic.nic.model
        if nic.nic.card is not None or nic_vendor(model) is not None:
            continue  # `other-vendor` reports cards of other makers
        described = spec.nic_models.get(model)
        lacking = [words for key, words in _FACTS.items() if getattr(described, key, None) is None]
        known = f"is unknown.{did_you_mean(model, list(CARDS))}"
        known = "is only described by this file." if described else known
        what = f"the card model {model} {known} Not checked: "
        what += f"{', '.join([*lacking, 'its firmware and its link type'])}."
        fix = f"describe it in nic_models, or waive the rule; known are {', '.join(CARDS)}."
        yield Finding(what, nic.at("model"), fix, "warning")
    for name in spec.nic_models:
        if name not in {nic.nic.model for nic in list_nics(spec)}:
            yield find("nic-model-unused", at(("nic_models", name)), name=name)


def check_vf_limit(spec: ClusterSpec) -> Findings:
    """No NIC is asked for more VFs than its firmware can give: 127 a port, 126 on BlueField-3."""
    for nic in list_nics(spec):
        limit, model = nic.nic.vf_limit, nic.nic.model
        if limit is not None and nic.nic.vfs > limit:
            yield find("vf-limit", *nic.at("vfs"), nic=nic, model=model, limit=limit)


def check_vf_count(spec: ClusterSpec) -> Findings:
    """With `sriov`, a worker's NIC has at least one VF: pods reach the rail through VFs only."""
    for nic in list_nics(spec) if pods_have_vfs(spec) else ():
        if nic.host.role == "worker" and nic.nic.vfs == 0:
            fix = "set vfs to the number of pods that share the NIC; 8 is usual."
            if nic.host.login == "none":
                fix = "waive untouched-host and set vfs as it is; or use operators.network.vfs."
            yield find("vf-count", *nic.at("vfs"), nic=nic, fix=fix)


def check_card_serial(spec: ClusterSpec) -> Findings:
    """A serial number belongs to one card: only the ports of that card have it.

    A second slot of a host with the same number is a warning: the card can have two connectors
    (Socket Direct).
    """
    cards = [each for each in list_cards(spec) if each[1].serial is not None]
    for (host, card, path), (other, twin, there) in twins(cards, lambda each: each[1].serial):
        serial, slots = card.serial, [each.pci.partition(".")[0] for each in (twin, card)]
        where = (at((*path, "serial"), serial), at((*there, "serial"), serial))
        if other is not host:
            yield find("card-serial-hosts", *where, other=other, host=host, serial=serial)
        elif slots[0] != slots[1]:
            words = {"both": " and ".join(slots), "host": host, "serial": serial}
            yield find("card-serial-slots", *where, **words)


def check_bonded_rail(spec: ClusterSpec) -> Findings:
    """A card is one port, not a bond: a bond hides which port carries which traffic."""
    for nic in list_nics(spec):
        if _BOND.fullmatch(nic.nic.netdev):
            yield find("bonded-rail", *nic.at("netdev"), nic=nic)


def _alike(spec: ClusterSpec) -> Iterator[tuple[str, list[tuple[int, Host]]]]:
    groups: dict[str | None, list[tuple[int, Host]]] = {}
    for h, host in enumerate(spec.hosts):
        if host.role == "worker":
            groups.setdefault(host.group, []).append((h, host))
    for group, members in groups.items():
        yield f"workers of {group}" if group else "workers", members


def _apart(words: str) -> str:
    return f"{words}, or put hosts that differ into a group of host_groups."


def check_rail_symmetry(spec: ClusterSpec) -> Findings:
    """Workers of one host group are on the same rails; so are all workers outside of groups.

    A job asks for one device of each rail on every worker. Put workers that differ on purpose into
    a group of `host_groups`, with separate jobs and probes. Within a group, the file probably
    misses a NIC.
    """
    rails = {rail.name for rail in spec.rails}
    for words, members in _alike(spec):
        used = rails & {nic.rail for _, host in members for nic in host.nics}
        for h, host in members:
            own = {nic.rail for nic in host.nics}
            missing = sorted(used - own)
            # `nic-rail` reports a NIC on an unknown rail: probably the missing one.
            if missing and own <= rails:
                what = f"{host.name} lacks a NIC on {', '.join(missing)}, unlike other {words}."
                yield Finding(what, (at(("hosts", h, "nics")),), _apart("add the NIC"), "warning")


def check_rail_speed(spec: ClusterSpec) -> Findings:
    """On one rail, workers of one host group share one speed; so do all workers outside of groups.

    The slowest NIC sets the pace of a job, and the slower speed judges a test between two. Put
    workers that differ on purpose into a group of `host_groups`.
    """
    for words, members in _alike(spec):
        hosts, rails = {h for h, _ in members}, dict[str, list[PlacedNic]]()
        for nic in list_nics(spec):
            if nic.path[1] in hosts and not nic.nic.is_too_fast:  # `nic-speed` reports those
                rails.setdefault(nic.nic.rail, []).append(nic)
        for rail, nics in rails.items():
            # If two speeds are equally frequent, the first one in the file is the usual one.
            usual = Counter(nic.nic.speed_gbit_s for nic in nics).most_common(1)[0][0]
            other = next(nic for nic in nics if nic.nic.speed_gbit_s == usual)
            for nic in (nic for nic in nics if nic.nic.speed_gbit_s != usual):
                what = f"{nic.host.name} has {nic.nic.speed_gbit_s} Gbit/s on {rail}, other "
                where, fix = nic.at("speed_gbit_s") + other.at("speed_gbit_s"), "correct the speed"
                yield Finding(f"{what}{words} {usual}.", where, _apart(fix), "warning")


def check_gpu_symmetry(spec: ClusterSpec) -> Findings:
    """Workers of one host group have equally many GPUs; so do all workers outside of groups.

    An MPI job starts the same number of ranks on each worker. Put workers that differ on purpose,
    such as those without GPUs, into a group of `host_groups`.
    """
    for words, members in _alike(spec):
        counts = Counter(host.gpus for _, host in members)
        usual = max(counts, key=lambda gpus: (counts[gpus], gpus > 0))
        for h, host in members:
            if host.gpus != usual:
                what = f"{host.name} has {host.gpus} GPUs, but other {words} {usual}: no job uses "
                fix = _apart("correct the number")
                yield Finding(f"{what}both.", places(spec, f"hosts.{h}.gpus"), fix, "warning")


def check_gpu_job(spec: ClusterSpec) -> Findings:
    """Two workers have the same GPUs and rails, as a collective needs.

    Without them acceptance proves each rail separately, and reports that no collective was proven.
    """
    kinds = worker_kinds(spec)
    if len(spec.workers) < PAIR or any(kind.runs_collectives for kind in kinds):
        return
    causes = (check_rail_symmetry, check_rail_speed, check_gpu_symmetry)
    nics = [nic for host in spec.workers for nic in host.nics]
    lost = any(spec.rail(nic.rail) is None or nic.is_too_fast for nic in nics)
    if lost or any(next(cause(spec), None) for cause in causes):
        return  # another rule reports this mistake
    what = "no worker has GPUs, so no NCCL job can run."
    if any(kind.gpus for kind in kinds):
        what = "no two workers have the same GPUs, rails and speeds, so no NCCL job crosses hosts."
    workers = (h for h, host in enumerate(spec.hosts) if host.role == "worker")
    fix = "make two workers alike, or waive the rule: acceptance then proves only rails."
    yield Finding(what, places(spec, *(f"hosts.{h}.gpus" for h in workers)), fix, "warning")


def check_host_role(spec: ClusterSpec) -> Findings:
    """A storage or login host has a rail or no RDMA at all, and no GPUs to set up.

    GPU driver, peer memory and device plugins are for workers.
    """
    for host, here in walk(spec, "hosts.*", Host):
        if host.is_outside and host.gpus:
            yield find("host-role", *here("gpus", "role"), host=host)


def _carried(sriov: Sriov) -> tuple[str, ...]:
    return tuple(key for key in _CARRIED if getattr(sriov, key) is not None)


def check_vf_owner(spec: ClusterSpec) -> Findings:
    """Settings of a VF are written at their owner: the host, or the network attachment.

    With `pod_network.mode: sriov` the attachment sets VLAN, trust, spoof check and rates when a pod
    gets the VF; a second owner would change them under running pods.
    """
    for nic in list_nics(spec) if pods_have_vfs(spec) else ():
        for key in _carried(nic.nic.sriov):
            where = nic.at(f"sriov.{key}") + places(spec, "pod_network.mode")
            yield find("vf-owner", *where, nic=nic, key=key)


def check_vf_effect(spec: ClusterSpec) -> Findings:
    """Settings for VFs need VFs: without VFs, or without their driver, they do nothing.

    Without a driver on the host (`autoprobe: false`) a VF has neither a network device nor an MTU.
    """
    for nic in list_nics(spec):
        if pods_have_vfs(spec) and nic.host.role == "worker":
            continue  # `vf-count`, `vf-owner` and `vf-driver` report it
        keys = [f"sriov.{key}" for key in (*_CARRIED, "autoprobe")] + ["vf_mtu_bytes"]
        given = [place for place in nic.at(*keys) if place.value is not None]
        for place in given if nic.nic.vfs == 0 else ():
            key = place.path[-1]
            yield find("vf-effect-none", place, *nic.at("vfs"), nic=nic, key=key)
        if nic.nic.vfs and nic.nic.vf_mtu_bytes and nic.nic.sriov.autoprobe is False:
            yield find("vf-effect-mtu", *nic.at("vf_mtu_bytes", "sriov.autoprobe"), nic=nic)


def check_vf_rate(spec: ClusterSpec) -> Findings:
    """The minimum rate of a VF is not above its maximum, and all VFs together fit the port.

    The kernel refuses a minimum above the maximum; guarantees of more than the line guarantee
    nothing.
    """
    least_key, most_key = "sriov.min_rate_mbit_s", "sriov.max_rate_mbit_s"
    for nic in list_nics(spec):
        least, most = nic.nic.sriov.min_rate_mbit_s or 0, nic.nic.sriov.max_rate_mbit_s or 0
        line = nic.nic.speed_gbit_s * _MBIT
        if most and least > most:
            yield find("vf-rates", *nic.at(least_key, most_key), nic=nic, least=least, most=most)
        elif least * nic.nic.vfs > line:
            what = f"{nic} guarantees its VFs {least * nic.nic.vfs} Mbit/s, but has {line}."
            fix = f"guarantee at most {line // max(nic.nic.vfs, 1)} Mbit/s to each."
            yield Finding(what, nic.at(least_key, "vfs"), fix)
        elif most > line:
            yield find("vf-rate-port", *nic.at(most_key), nic=nic, most=most, line=line)


def check_vf_vlan(spec: ClusterSpec) -> Findings:
    """The VLAN that a card adds to its VFs' frames is the rail's, and the switch port takes tags.

    If the card sends untagged frames in addition to those of its VFs, use an access port, and leave
    the VFs untagged.
    """
    for nic in list_nics(spec):
        vlan, rail = nic.nic.sriov.vlan, spec.rail(nic.nic.rail)
        if vlan and rail is not None and vlan != rail.vlan:
            on_rail = places(spec, f"rails.{spec.rails.index(rail)}.vlan")
            yield find("vf-vlan", *nic.at("sriov.vlan"), *on_rail, nic=nic, vlan=vlan, rail=rail)
    fix = "remove vlan, or set the port's mode to trunk."
    if spec.pod_network.mode == "rdma_shared" or spec.containers is not None:
        fix = "remove vlan: the port also puts untagged frames into the rail's VLAN."
    for nic, port in ((cable.nic, cable.port) for cable in list_cables(spec)):
        if nic.nic.sriov.vlan and port.port.mode == "access":
            what = f"{port} is an access port, and drops the tagged frames of {nic}'s VFs."
            yield Finding(what, nic.at("sriov.vlan") + port.at("mode"), fix)


def check_eswitch_mode(spec: ClusterSpec) -> Findings:
    """A card in switchdev mode supports no VLAN, rates, trust or spoof check of VFs for pods.

    mlx5 refuses these settings there. Railyard does not build the bridge of representors.
    """
    for nic in [nic for nic in list_nics(spec) if nic.nic.sriov.eswitch == "switchdev"]:
        for key in _carried(nic.nic.sriov):
            yield find("switchdev-key", *nic.at(f"sriov.{key}", "sriov.eswitch"), nic=nic, key=key)
        if pods_have_vfs(spec):
            where = nic.at("sriov.eswitch") + places(spec, "pod_network.mode")
            yield find("eswitch-mode-bridge", *where, nic=nic)


def check_vf_guid(spec: ClusterSpec) -> Findings:
    """Each VF of an InfiniBand port has a GUID that is unique on the site.

    If two ports share one GUID, the subnet manager accepts only one of them.
    """
    read = [(each.value, each.place) for each in reversed(values(spec, "hosts.*.hca_guids.*"))]
    guids = list[tuple[str, Place]]()
    for h, host in enumerate(spec.hosts):
        for p, pf in enumerate(host.hca_sriov):
            here = Here(pf, ("hosts", h, "hca_sriov", p))
            if pf.guids and len(pf.guids) != pf.vfs:
                yield find("vf-guids", *here("guids", "vfs"), host=host, pf=pf, count=len(pf.guids))
            if not pf.guids and pf.pci in {other.pci for other in host.hca_sriov[:p]}:
                continue  # `hca-sriov` reports one port in two places
            for g, guid in enumerate(vf_guids(spec.name, host, pf)):
                guids += [(guid, *here(f"guids.{g}" if pf.guids else "pci"))]
    for (guid, own), (_, other) in twins([*read, *guids], itemgetter(0)):
        if other != own and own.path[2] != "hca_guids":  # else `hca-guid` reports it
            yield find("vf-guid-given", own, other, guid=guid)


def check_receive_buffers(spec: ClusterSpec) -> Findings:
    """Receive buffers in the file have room for every priority that uses them.

    A priority whose buffer has 0 bytes loses each of its packets.
    """
    lossless = spec.rdma.priority
    for block in host_blocks(spec, "qos", HostQos):
        buffers, place = block.value.buffers, "buffers.priorities"
        if buffers is None:
            continue
        # PFC pauses one priority, and others that fill its buffer continue.
        number = buffers.priorities[lossless]
        others = [p for p, own in enumerate(buffers.priorities) if own == number and p != lossless]
        if spec.rdma.host_pfc and others:
            what = f"lossless priority {lossless} shares receive buffer {number} with {others[0]}."
            where = block.at(f"{place}.{lossless}", f"{place}.{others[0]}")
            yield Finding(what, where, f"give priority {lossless} a separate buffer.")
        for priority, number in enumerate(buffers.priorities):
            if buffers.size_bytes[number] == 0:
                where = block.at(f"{place}.{priority}", f"buffers.size_bytes.{number}")
                yield find("receive-buffers-bytes", *where, priority=priority, number=number)


def check_duplicate_nic(spec: ClusterSpec) -> Findings:
    """On one host, each NIC has its own PCI address, network device and rail."""
    # An omitted netdev follows from the PCI address.
    nics = [nic for nic in list_nics(spec) if "netdev" in nic.nic.model_fields_set]
    for nic, other in twins(nics, lambda nic: (nic.path[1], nic.nic.netdev)):
        yield find("duplicate-nic", *nic.at("netdev"), *other.at("netdev"), nic=nic, fix=_ONE_NIC)


def check_other_vendor(spec: ClusterSpec) -> Findings:
    """Cards and GPUs are NVIDIA's, and so is their software.

    mlx5's tools set up cards, and NVIDIA's operators set up GPUs.
    """
    fix = "leave these parts to another tool, or name NVIDIA's."
    for keys, vendor_of, what, why in _VENDORS:
        for each in values(spec, keys):
            if vendor := vendor_of(each.value):
                yield Finding(f"{what.format(each.value)} of {vendor}: {why}.", (each.place,), fix)
    for name in ("gpu", "network", "gpu_device_plugin"):
        operator = getattr(spec.operators, name)
        vendor = operator and software_vendor(f"{operator.chart.repo or ''}/{operator.chart.chart}")
        if vendor:
            what = f"operators.{name} names a chart of {vendor}: Railyard sets NVIDIA's values."
            yield Finding(what, places(spec, f"operators.{name}.chart.chart"), fix)

"""Rules on the hosts' kernel: settings without effect, conflicts, and broken demands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from components.checks.rule import Finding, Findings, at, find, places, walk
from components.checks.topology import HostBlock, host_blocks
from components.model.cluster import ClusterSpec
from components.model.environments import VirtualMachine
from components.model.hosts import Host, Nic
from components.model.kernel import KNOWN_SETTINGS, KernelSettings
from components.model.worker_kinds import crusoe_of
from components.reading.wording import did_you_mean

_NEARLY: Final = 2
"""Letters by which a misspelling differs, at most."""
_FORWARDING: Final = {
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.forwarding": "0",
    "net.bridge.bridge-nf-call-iptables": "0",
}
"""Settings that Kubernetes' networks need, and the values that break them."""
_PAIRS: Final = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
    "vm.overcommit_kbytes": "vm.overcommit_ratio",
}
"""Pairs of settings: writing one makes the kernel set the other to 0 (admin-guide/sysctl/vm)."""
_FLUX: Final = frozenset("34567")
"""Of arp_ignore: the greater of `all` and the card counts, and these answer for other cards too
(3 for any address but those of scope host; 4 to 7 mean nothing): ip-sysctl."""
_MIB: Final = {"2mib": 2, "1gib": 1024}


def check_sysctl_name(spec: ClusterSpec) -> Findings:
    """The name of a kernel setting is not almost that of a common one.

    Kernels differ, so this is a warning; the host refuses a name that its kernel lacks.
    """
    for block, name, value in _sysctls(spec):
        near = (known for known in KNOWN_SETTINGS if abs(len(name) - len(known)) <= _NEARLY)
        is_slip = any(_distance(name, known) <= _NEARLY for known in near)
        if is_slip and name not in KNOWN_SETTINGS:
            where = (at((*block.path, "sysctls", name), value),)
            yield find("sysctl-name", *where, name=name, hint=did_you_mean(name, KNOWN_SETTINGS))


def _sysctls(spec: ClusterSpec) -> Iterator[tuple[HostBlock[KernelSettings], str, str]]:
    for block in host_blocks(spec, "kernel", KernelSettings):
        yield from ((block, name, value) for name, value in block.value.sysctls.items())


def _distance(one: str, other: str) -> int:
    """Letters to change, add or leave out to come from one text to the other (Levenshtein)."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, wanted in enumerate(other, 1):
            change = before + (letter != wanted)
            before, row[place] = row[place], min(change, row[place] + 1, row[place - 1] + 1)
    return row[-1]


def check_sysctl_conflict(spec: ClusterSpec) -> Findings:
    """No kernel setting breaks another demand of the file.

    On a host with several rails, strict reverse-path filtering drops packets, and the kernel's
    default for ARP lets one card answer for another. Kubernetes needs forwarding.
    """
    for block, name, value in _sysctls(spec):
        where = (at((*block.path, "sysctls", name), value),)
        if (other := _PAIRS.get(name)) and value == "0":
            yield find("sysctl-conflict-zero", *where, name=name, other=other)
        elif other and other in block.value.sysctls:
            yield find("sysctl-conflict-exclude", *where, name=name, other=other)
        if spec.kubernetes is not None and _FORWARDING.get(name) == value:
            yield find("sysctl-conflict-pods", *where, name=name, value=value)
        routed = block.value.source_routing == "auto"
        for host, nic in _rail_cards(block):
            if reason := _against_rail(name, value, nic, routed=routed):
                words = {"name": name, "value": value, "host": host, "reason": reason}
                yield find("sysctl-conflict-rails", *where, **words)


def _rail_cards(block: HostBlock[KernelSettings]) -> Iterator[tuple[Host, Nic]]:
    for host in block.hosts:
        cards = [nic for nic in host.nics if nic.address is not None]
        if len(cards) > 1:
            yield from ((host, nic) for nic in cards)


def _against_rail(name: str, value: str, nic: Nic, *, routed: bool) -> str:
    device = f"net.ipv4.conf.{nic.netdev.replace('.', '/')}."
    strict = value == "1" and (
        name == f"{device}rp_filter" or (name == "net.ipv4.conf.all.rp_filter" and not routed)
    )
    if strict:
        return f"{nic.netdev} drops packets from other subnets"
    ignore = {f"{device}arp_ignore", "net.ipv4.conf.all.arp_ignore"}
    if (name == f"{device}arp_ignore" and value == "0") or (name in ignore and value in _FLUX):
        return f"{nic.netdev} answers ARP for the other cards' addresses"
    if name == f"{device}arp_announce" and value in {"0", "1"}:
        return f"{nic.netdev} announces the other cards' addresses"
    if name in ignore and value == "8":
        return f"{nic.netdev} answers no ARP at all"
    return ""


def check_hugepages(spec: ClusterSpec) -> Findings:
    """Huge pages are counted in all or node by node, and fit into the memory of virtual machines.

    On bare metal the host's step fails if the kernel reserves fewer pages than the file asks for.
    """
    for block in host_blocks(spec, "kernel", KernelSettings):
        total_mib, names = 0, {host.name for host in block.hosts}
        for size, mib in _MIB.items():
            keys = (f"hugepages_{size}", f"hugepages_{size}_per_node")
            total, nodes = (getattr(block.value, key) for key in keys)
            total_mib += mib * ((total or 0) + sum(nodes))
            if total is not None and nodes:
                where = (*block.at(keys[0]), at((*block.path, keys[1]), nodes))
                yield find("hugepages-twice", *where, size=size, total=total, sum=sum(nodes))
        for vm, here in walk(spec, "environment.hypervisors.*.vms.*", VirtualMachine):
            if vm.name in names and total_mib >= vm.memory_mib:
                where = (at(block.path, block.value), *here("memory_mib"))
                yield find("hugepages-memory", *where, total_mib=total_mib, vm=vm)


def check_guest_kernel(spec: ClusterSpec) -> Findings:
    """ACS, IOMMU and CPU frequency are set on bare metal, not in a virtual machine.

    GPUDirect RDMA uses translated addresses (ATS) there. Without ACS, a device of one machine could
    reach the memory of another.
    """
    if not spec.hypervisors and crusoe_of(spec) is None:
        return  # machines that you bring may be bare metal
    kind = "ESXi" if spec.hypervisors else "a cloud"
    harmless = {"acs": ("auto", "keep"), "iommu": ("keep",), "cpu_governor": (None,)}
    blocks = host_blocks(spec, "kernel", KernelSettings)
    for block, (key, kept) in product(blocks, harmless.items()):
        if (value := getattr(block.value, key)) not in kept:
            yield find("guest-kernel", *block.at(key), key=key, value=value, kind=kind)


def check_passed_vfs(spec: ClusterSpec) -> Findings:
    """A host that passes VFs to virtual machines keeps ACS and the IOMMU.

    Without the IOMMU no VF can be passed; for ACS see `guest-kernel`.
    """
    for block, key in product(host_blocks(spec, "kernel", KernelSettings), ("acs", "iommu")):
        passed = [nic.netdev for host in block.hosts for nic in host.nics if nic.passes_vfs]
        if passed and getattr(block.value, key) == "off":
            words = {"key": key, "passed": passed, "good": "keep" if key == "acs" else "pt"}
            yield find("passed-vfs", *block.at(key), **words)


def check_rdma_netns(spec: ClusterSpec) -> Findings:
    """RDMA namespaces of the hosts fit `rdma_isolation` of the pods.

    In exclusive mode pods without `rdma_isolation` would get only their network device, and would
    not see shared cards. In shared mode the CNI plugin refuses isolated pods.
    """
    mode, wanted = spec.pod_network.mode, spec.pod_network.rdma_isolation
    isolated = wanted and mode == "sriov"
    for block in host_blocks(spec, "kernel", KernelSettings) if spec.kubernetes is not None else ():
        kernel, where = block.value.rdma_netns, block.at("rdma_netns")
        if kernel == "exclusive" and not isolated and block.hosts:
            what = f"rdma_netns is exclusive, but pods of mode {mode} need the host's RDMA devices."
            fix = "set rdma_netns to shared, or remove it."
            if mode == "sriov":
                fix = "set rdma_isolation to true, or remove rdma_netns."
            yield Finding(what, where + places(spec, "pod_network.mode"), fix)
        if isolated and kernel != "exclusive" and any(h.role == "worker" for h in block.hosts):
            found_at = places(spec, "pod_network.rdma_isolation") + where
            yield find("rdma-netns-rdma-isolation", *found_at, kernel=kernel)


def check_source_routing(spec: ClusterSpec) -> Findings:
    """If a host has several rails with addresses, each address sends by its own card.

    Otherwise the kernel sends by the first card whose subnet fits, or by the default route: the
    other rails stay idle.
    """
    for block in host_blocks(spec, "kernel", KernelSettings):
        cards = list(_rail_cards(block))
        if block.value.source_routing == "off" and cards:
            host, count = cards[0][0], sum(1 for each, _ in cards if each is cards[0][0])
            yield find("source-routing", *block.at("source_routing"), host=host, count=count)

"""Rules on the work of operators: VFs, firmware, parts of a cluster, whole GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, Literal

from components.catalogue import operator_versions as releases
from components.catalogue.cluster_parts import PARTS, TABLE, Part
from components.checks import topology
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, walk
from components.core.problem import Place
from components.model import owners
from components.model.cards import DriverPackage, HcaPf
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.owners import needs as needs_part
from components.model.places import subnet_of
from components.model.pod_network import SharedDevice
from components.model.reach import as_ipv4
from components.pod_network.attachment import hca_count, takes_nic

_BY_KEY: Final[Mapping[Part, str]] = {
    "gpu_operator": "gpu",
    "network_operator": "network",
    "gpu_device_plugin": "gpu_device_plugin",
}
"""Part to the key of `operators` that installs it."""
_UNASKED: Final[Mapping[Part, str]] = {
    "trainer": "write theirs if the cluster has it, or none: Railyard installs no Trainer."
}


def check_vf_maker(spec: ClusterSpec) -> Findings:
    """Either the hosts or the SR-IOV network operator make VFs, never both.

    The operator uses one MTU for PF and VFs, one set of PCI addresses for all nodes, and other
    GUIDs of InfiniBand at each boot. It would ignore further settings in the file. It drains a node
    before it makes VFs, which `disruption` must allow.
    """
    network, owner = spec.operators.network, places(spec, "operators.network.vfs")
    if not owners.vfs_by_operator(spec):
        if network is not None and network.vfs == "operator":
            mode = spec.pod_network.mode
            yield find("vf-maker-pods", *owner, *places(spec, "pod_network.mode"), mode=mode)
        return
    yield from _needs_drain(spec, owner, "makes VFs")
    # Settings that only the hosts' own steps would make:
    nics, by_host = list(_worker_nics(spec)), "or set operators.network.vfs to host."
    pairs = product(nics, ("vf_mtu_bytes", "sriov.eswitch"))
    for nic, key in [(nic, key) for nic, key in pairs if nic.at(key)[0].value is not None]:
        name = key.removeprefix("sriov.")
        yield find("vf-maker-setting", *nic.at(key), *owner, nic=nic, name=name, by_host=by_host)
    for nic, other in twins(nics, lambda nic: nic.nic.pci):
        if nic.nic.rail != other.nic.rail:
            yield find("vf-rails", *nic.at("rail"), *owner, nic=nic, other=other, by_host=by_host)
    for host, port, path in topology.list_cards(spec):
        if isinstance(port, HcaPf) and port.guids and host.role == "worker":
            what = f"{host.name} {port.pci} lists GUIDs for VFs, but the operator sets others."
            yield Finding(what, (at((*path, "guids")), *owner), f"remove guids, {by_host}")


def _needs_drain(spec: ClusterSpec, owner: tuple[Place, ...], does: str) -> Findings:
    if spec.disruption.reboots == "deny":
        yield find("vf-maker-drain", *owner, *places(spec, "disruption.reboots"), does=does)


def check_firmware_setter(spec: ClusterSpec) -> Findings:
    """Firmware is set by the hosts' own steps or by the NIC configuration operator.

    The operator's templates name a card by its PCI device id, always write a number of VFs and a
    link type, and reset every other parameter. 0 VFs would switch SR-IOV off.
    """
    if not owners.firmware_by_operator(spec):
        return
    owner = places(spec, "operators.network.firmware")
    yield from _needs_drain(spec, owner, "sets firmware")
    unmanaged = [host for host in spec.workers if not spec.settings_of(host).firmware.manage]
    for host in [host for host in unmanaged if host.nics or host.hca_sriov]:
        yield find("firmware-nothing", *owner, *places(spec, "host_defaults.firmware"), host=host)
    from components.hosts.software import offered_vfs  # noqa: PLC0415 - slow, and rarely needed

    for host, card, path in topology.list_cards(spec):
        here, firmware = Here(card, path), spec.settings_of(host).firmware
        if host.role != "worker" or not firmware.manage:
            continue
        if isinstance(card, HcaPf):
            yield find("firmware-setter-hca-sriov", *here("pci"), *owner, host=host, card=card)
            continue
        if card.pf_device is None:
            yield find("firmware-setter-device", *here("model"), *owner, card=card)
        if not offered_vfs(firmware, host, card):
            yield find("firmware-setter-vfs", *here("vfs"), *owner, host=host, card=card)


def check_cluster_part(spec: ClusterSpec) -> Findings:
    """Each part of an existing cluster has one owner, and each needed part has an owner.

    `ours` installs it, `theirs` uses the existing one, `none` goes without. A part that `operators`
    installs cannot be `theirs`.
    """
    for part in PARTS:
        owner, title = owners.written_owner(spec, part), TABLE[part].title
        is_needed = needs_part(spec, part)
        place = at(("kubernetes", "components", part), owner)
        if owner == "none" and is_needed:
            yield find("cluster-part-missing", place, *_asking(spec, part), title=title)
        elif owner == "ours" and not is_needed:
            fix = f"add operators.{_BY_KEY.get(part)}, or write theirs or none."
            fix = fix if part in _BY_KEY else _UNASKED.get(part, "remove the line, or write none.")
            yield Finding(f"{title} is ours, but this file does not need it.", (place,), fix)
        elif owner == "theirs" and part in _BY_KEY and is_needed:
            where = (place, *_asking(spec, part))
            yield find("cluster-part-twice", *where, title=title, operator=_BY_KEY[part])
    # Two device plugins register the same resource, and the later one takes it from the other.
    found = owners.owners_of(spec)
    pair: tuple[Part, Part] = ("gpu_operator", "gpu_device_plugin")
    for theirs, ours in (pair, pair[::-1]):
        if (found[theirs], found[ours]) == ("theirs", "ours"):
            key = f"operators.{_BY_KEY[ours]}"
            what = f"{TABLE[theirs].title} (theirs) and {key} both publish GPUs."
            where = (*places(spec, f"kubernetes.components.{theirs}"), *_asking(spec, ours))
            yield Finding(what, where, f"remove {key}.")


def _asking(spec: ClusterSpec, part: Part) -> tuple[Place, ...]:
    key = "jobs.mpi_operator" if part == "mpi_operator" else "pod_network.mode"
    return places(spec, f"operators.{_BY_KEY[part]}.chart.version" if part in _BY_KEY else key)


def _worker_nics(spec: ClusterSpec, rail: Rail | None = None) -> Iterator[topology.PlacedNic]:
    for nic in topology.list_nics(spec):
        if nic.host.role == "worker" and (rail is None or nic.nic.rail == rail.name):
            yield nic


def check_rail_resource(spec: ClusterSpec) -> Findings:
    """With `rdma_shared`, the plugin publishes each rail's resource for its cards.

    One unit gives a pod all cards of the entry, so several rails may share one.
    """
    network = spec.pod_network
    devices = {device.resource: device for device in network.shared_devices}
    asked = devices and network.mode == "rdma_shared"
    for rail, here in walk(spec, "rails.*", Rail) if asked else ():
        device = devices.get(rail.resource)
        if device is None:
            what = f"the plugin lacks {network.resource_prefix}/{rail.resource} for {rail.name}."
            fix = f"write one of {', '.join(devices)}, or publish {rail.resource}."
            yield Finding(what, here("resource") + places(spec, "pod_network.shared_devices"), fix)
            continue
        for nic in _worker_nics(spec, rail):
            if not takes_nic(device, nic.nic):
                where = here("resource") + nic.at("model")
                yield find("rail-resource-select", *where, rail=rail, nic=nic)


def check_shared_devices(spec: ClusterSpec) -> Findings:
    """Each shared resource has a unique name and selects a card on every worker with cards.

    The plugin refuses an entry without selectors. Pods wait for ever for a resource without cards.
    """
    if spec.pod_network.mode != "rdma_shared":
        return
    if not spec.pod_network.shared_devices:
        yield find("shared-devices-empty", *places(spec, "pod_network.shared_devices"))
    for device, here in walk(spec, "pod_network.shared_devices.*", SharedDevice):
        hosts = [host for host in spec.workers if host.nics]
        without = [h.name for h in hosts if not any(takes_nic(device, nic) for nic in h.nics)]
        if not (device.vendors or device.device_ids or device.interfaces or device.link_types):
            yield find("shared-devices-unselective", *here("resource"), resource=device.resource)
        elif without:
            words = {"resource": device.resource, "names": ", ".join(without)}
            yield find("shared-devices-selects", *here("resource"), **words)


def check_macvlan_master(spec: ClusterSpec) -> Findings:
    """With macvlan, the cards of one rail have the same network device name on all workers.

    An attachment names one device for all nodes.
    """
    for rail in spec.rails if owners.way_of(spec) == "macvlan" else ():
        nics = list(_worker_nics(spec, rail))
        for other in [nic for nic in nics if nic.nic.netdev != nics[0].nic.netdev][:1]:
            one, two = (f"{nic.nic.netdev} on {nic.host.name}" for nic in (nics[0], other))
            where = nics[0].at("netdev") + other.at("netdev")
            yield find("macvlan-master", *where, rail=rail, one=one, two=two)


def check_untagged_port(spec: ClusterSpec) -> Findings:
    """Cards that send on a rail themselves are plugged into access ports.

    A trunk port would put their untagged frames into another VLAN. If only VFs carry jobs, this is
    a warning.
    """
    shared = spec.pod_network.mode == "rdma_shared"
    if spec.rdma.transport == "infiniband":
        return
    ports = topology.list_ports(spec) if shared else ()
    for port in [port for port in ports if port.port.mode == "trunk"]:
        where = port.at("mode") + places(spec, "pod_network.mode")
        yield find("untagged-port-pods", *where, port=port, access=_access(port))
    for cable in topology.list_cables(spec) if not shared else ():
        port, nic = cable.port, cable.nic
        if nic.nic.address is None or port.port.mode != "trunk":
            continue
        what = f"{nic} has an address, but {port} is a trunk: untagged frames miss the rail's VLAN."
        fix, severity = f"{_access(port)}.", "error"
        if nic.nic.vfs:
            fix, severity = "remove it: jobs use VFs, whose frames are tagged.", "warning"
            if spec.containers:
                fix = f"{_access(port)}, unless all jobs run on VFs."
        yield Finding(what, nic.at("address") + port.at("mode"), fix, severity)


def _access(port: topology.PlacedPort) -> str:
    return f'write {{to: {port.port.to}, mode: access}} for port "{port.name}"'


def check_host_device(spec: ClusterSpec) -> Findings:
    """`host_device` counts whole InfiniBand HCAs without VFs.

    Of an HCA with VFs the device plugin publishes each VF: a pod that asks for eight devices may
    get all of them from one HCA.
    """
    mode = places(spec, "pod_network.mode")
    if spec.pod_network.mode != "host_device":
        return
    for host, here in walk(spec, "hosts.*", Host) if spec.rdma.transport == "infiniband" else ():
        split = {f"hca_sriov.{p}.vfs": pf.vfs for p, pf in enumerate(host.hca_sriov) if pf.vfs}
        if host.role == "worker" and split:
            published = max(host.hcas - len(split), 0) + sum(split.values())
            words = {"host": host, "count": len(split), "published": published}
            yield find("host-device-plugin", *mode, *here(*split), **words)
    if spec.workers and not hca_count(spec):
        yield find("host-device-mode", *mode, *places(spec, "hosts"))


def check_gpu_publisher(spec: ClusterSpec) -> Findings:
    """The GPU operator or the device plugin publishes the GPUs, but not both.

    The operator runs its own device plugin, and of two the later one takes the resource from the
    other. Without one, pods with GPUs stay Pending; existing clusters may have a plugin that the
    file does not name.
    """
    operators, defaults = spec.operators, spec.host_defaults
    asked = {defaults.gpu_driver, defaults.toolkit.kind if defaults.toolkit else None}
    none = not operators.gpu and not operators.gpu_device_plugin
    workers = [(h, host) for h, host in enumerate(spec.hosts) if host.role == "worker"]
    with_gpus = places(spec, *(f"hosts.{h}.gpus" for h, host in workers if host.gpus))
    ours = spec.kubernetes is not None and spec.kubernetes.plane != "existing"
    if with_gpus and ours and none and "operator" not in asked:  # else other rules report it
        yield find("gpu-publisher-workers", *with_gpus)
    if operators.gpu is not None and operators.gpu_device_plugin is not None:
        keys = ("operators.gpu.chart.chart", "operators.gpu_device_plugin.chart.chart")
        yield find("gpu-publisher-operator", *places(spec, *keys))


def check_driver_owner(spec: ClusterSpec) -> Findings:
    """Each driver has one owner: the host (or its image), or an operator's container.

    A driver container unloads the host's modules. A cloud's GPU image brings both drivers.
    """
    for key, operator in (("network", spec.operators.network), ("gpu", spec.operators.gpu)):
        owner = places(spec, f"operators.{key}.driver")
        if operator is None or operator.driver != "operator":
            continue
        if spec.cloud is not None:
            yield find("driver-owner-cloud", *owner, key=key)
        drivers = topology.host_blocks(spec, "driver", DriverPackage)
        for block in drivers if key == "network" else ():
            if block.value.is_ofed and spec.cloud is None:
                yield find("driver-owner-hosts", *owner, *block.at("kind"), block=block)


def _known_with(
    spec: ClusterSpec,
    key: str,
    title: str,
    catalogue: tuple[releases.KubernetesRange, ...],
    beyond: Literal["error", "warning"] = "error",
) -> Findings:
    """Compare one chart with the site's Kubernetes; `beyond` is the severity for a newer one."""
    plane, operator = spec.kubernetes, getattr(spec.operators, key)
    if plane is None or operator is None:
        return
    version: str = operator.chart.version
    major, second, *_ = releases.parse_numbers(plane.version)
    line, minor = releases.find_line(version, catalogue), (major, second)
    where = places(spec, f"operators.{key}.chart.version", "kubernetes.version")
    if line is None:
        fix = "use a known release line, or read the release's documentation and waive the rule."
        yield Finding(f"{releases.why_unknown(title, version, catalogue)}.", where, fix, "warning")
    elif not line.holds(minor):
        lines = (each.line for each in catalogue if each.holds(minor))
        others = ", ".join(map(releases.show_version, lines))
        needed = f"Kubernetes {line.describe()}, not {releases.show_version(minor)}"
        fix = f"choose {f'{title} {others}, or ' if others else ''}a Kubernetes of that range."
        what = f"{title} {version} needs {needed}."
        fix = f"{fix} Source: {line.source}."
        yield Finding(what, where, fix, "error" if minor < line.lowest else beyond)


def check_plugin_version(spec: ClusterSpec) -> Findings:
    """The release lines of network operator and GPU device plugin are known with this Kubernetes.

    The ranges, with their sources, are in components/catalogue/operator_versions.yaml. An unknown
    line, or a newer Kubernetes, is a warning: no source states that it fails.
    """
    network, plugin = ("network", "network operator"), ("gpu_device_plugin", "GPU device plugin")
    yield from _known_with(spec, *network, releases.NETWORK_OPERATOR, "warning")
    yield from _known_with(spec, *plugin, releases.GPU_DEVICE_PLUGIN, "warning")


def check_version_pair(spec: ClusterSpec) -> Findings:
    """The GPU operator's release line supports the Kubernetes minor.

    The ranges, with their sources, are in components/catalogue/operator_versions.yaml. A line
    outside of the catalogue is a warning.
    """
    yield from _known_with(spec, "gpu", "GPU operator", releases.GPU_OPERATOR)


def check_host_network(spec: ClusterSpec) -> Findings:
    """Jobs in the host's network need `rdma_shared`, and an address on each card of a rail.

    RoCE takes its GID from the card's address.
    """
    network = spec.pod_network
    shares = network.host_network and network.mode == "rdma_shared"
    for nic in _worker_nics(spec) if shares else ():
        rail, address = spec.rail(nic.nic.rail), nic.nic.address
        part = subnet_of(spec, rail, nic.host) if rail is not None else None
        subnet = part.network if part else rail.subnet if rail else None
        own = as_ipv4(address or "")
        if rail is None or subnet is None or (own is not None and own in subnet):
            continue
        what = "cards lack an address, from which RoCE takes its GID in the host's network."
        if address:
            what = f"{nic} has {address}, but {rail.name} is {subnet}."
        fix = "give each card an address of its rail's subnet, or remove host_network."
        if nic.host.login == "none":
            fix = "write the address that each card has, and waive: {untouched-host: WHY}, "
            fix += "if the nodes' owner sets it; or remove host_network."
        yield Finding(what, places(spec, "pod_network.host_network") + nic.at("netdev"), fix)

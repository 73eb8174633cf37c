"""Rules on device plugins and operators, which make GPUs and RDMA cards resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from components.catalogue.operator_versions import GPU_DEVICE_PLUGIN, NETWORK_OPERATOR
from components.checks.rule import Finding, Findings, at, places
from components.checks.software import known_with
from components.checks.topology import PlacedNic, host_blocks, list_cables, list_nics, list_ports
from components.core.problem import Place, SpecPath
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.owners import way_of
from components.model.places import subnet_of
from components.pod_network.attachment import hca_count, takes_nic


def _worker_nics(spec: ClusterSpec, rail: Rail | None = None) -> Iterator[PlacedNic]:
    for nic in list_nics(spec):
        if nic.host.role == "worker" and (rail is None or nic.nic.rail == rail.name):
            yield nic


def check_shared_devices(spec: ClusterSpec) -> Findings:
    """Each shared resource has a unique name and selects a card on every worker with cards.

    The plugin refuses an entry without selectors. A resource without cards is never published, and
    a pod that asks for it waits for ever.
    """
    network = spec.pod_network
    if network.mode != "rdma_shared":
        return
    path: SpecPath = ("pod_network", "shared_devices")
    if not network.shared_devices:
        where = (at(path),)
        fix = "add for example {resource: hca_shared_devices_a, hca_max: 500, vendors: [15b3]}."
        yield Finding("the shared plugin publishes nothing: shared_devices is empty.", where, fix)
    yield from _resource_names(spec, path)
    for d, device in enumerate(network.shared_devices):
        if not (device.vendors or device.device_ids or device.interfaces or device.link_types):
            what = f"{device.resource} has no selector, and the plugin does not start with it."
            fix = "add vendors, device_ids, interfaces or link_types."
            yield Finding(what, (at((*path, d, "resource"), device.resource),), fix)
            continue
        without = [
            host.name
            for host in spec.workers
            if host.nics and not any(takes_nic(device, nic) for nic in host.nics)
        ]
        if without:
            what = f"{device.resource} takes no card of {', '.join(without)}: no pod gets it there."
            fix = "correct its selectors; /sys/class/infiniband/*/device/device shows device ids."
            yield Finding(what, (at((*path, d, "resource"), device.resource),), fix)


def _resource_names(spec: ClusterSpec, path: SpecPath) -> Findings:
    devices = spec.pod_network.shared_devices
    counts = Counter(device.resource for device in devices)
    for d, device in enumerate(devices):
        place = at((*path, d, "resource"), device.resource)
        if counts[device.resource] > 1:
            what = f"the resource {device.resource} is there {counts[device.resource]} times."
            yield Finding(what, (place,), "give each entry a name of its own.")


def check_rail_resource(spec: ClusterSpec) -> Findings:
    """With `rdma_shared`, the plugin publishes each rail's resource for its cards.

    Jobs ask for the resources of the rails. One unit gives a pod all cards of the entry, so several
    rails may share one.
    """
    network = spec.pod_network
    if network.mode != "rdma_shared" or not network.shared_devices:
        return
    devices = {device.resource: device for device in network.shared_devices}
    for r, rail in enumerate(spec.rails):
        place = at(("rails", r, "resource"), rail.resource)
        device = devices.get(rail.resource)
        if device is None:
            what = f"the plugin has no {network.resource_prefix}/{rail.resource} for {rail.name}."
            fix = f"write one of {', '.join(devices)}, or publish {rail.resource}."
            yield Finding(what, (place, at(("pod_network", "shared_devices"))), fix)
            continue
        for nic in _worker_nics(spec, rail):
            if not takes_nic(device, nic.nic):
                what = f"{rail.resource} does not take {nic}, the card of {rail.name}."
                fix = "correct the selectors of the resource, or give the rail another one."
                yield Finding(what, (place, nic.at("model")), fix)


def check_macvlan_master(spec: ClusterSpec) -> Findings:
    """With macvlan, the cards of one rail have the same network device name on all workers.

    An attachment names the device on which it makes the pod's interface, for all nodes alike.
    """
    if way_of(spec) != "macvlan":
        return
    for rail in spec.rails:
        nics = list(_worker_nics(spec, rail))
        other = next((nic for nic in nics if nic.nic.netdev != nics[0].nic.netdev), None)
        if other is not None:
            first = nics[0]
            yield Finding(
                f"the card of {rail.name} is {first.nic.netdev} on {first.host.name} and "
                f"{other.nic.netdev} on {other.host.name}: a macvlan attachment names one device.",
                (first.at("netdev"), other.at("netdev")),
                "give them one name (host_defaults.rail_names), or set host_network.",
            )


def check_untagged_port(spec: ClusterSpec) -> Findings:
    """Cards that send on a rail themselves are plugged into access ports.

    Neither a macvlan interface nor the card itself tags its frames; a trunk port would put them
    into another VLAN than the rail's. If only VFs carry jobs, this is a warning.
    """
    if spec.rdma.transport == "infiniband":
        return
    if spec.pod_network.mode != "rdma_shared":
        yield from _addresses_on_trunks(spec)
        return
    for port in list_ports(spec):
        if port.port.mode == "trunk":
            what = f"{port} is a trunk, but pods that share {port.rail} send untagged frames."
            where = (port.at("mode"), at(("pod_network", "mode"), spec.pod_network.mode))
            fix = f'write {{to: {port.port.to}, mode: access}} for port "{port.name}".'
            yield Finding(what, where, fix)


def _addresses_on_trunks(spec: ClusterSpec) -> Findings:
    for cable in list_cables(spec):
        port, nic = cable.port, cable.nic
        if nic.nic.address is None or port.port.mode != "trunk":
            continue
        access = f'write {{to: {port.port.to}, mode: access}} for port "{port.name}"'
        on_card = f"{access}, unless all jobs run on VFs."
        on_vfs = "remove it: jobs have theirs on VFs, whose frames are tagged."
        yield Finding(
            f"{nic} has an address of {port.rail}, and port {port.name} "
            f"of {port.switch.name} is a trunk: untagged frames are not in the rail's VLAN.",
            (nic.at("address"), port.at("mode")),
            (on_card if spec.containers else on_vfs) if nic.nic.vfs else f"{access}.",
            "warning" if nic.nic.vfs else "error",
        )


def check_host_network(spec: ClusterSpec) -> Findings:
    """Jobs in the host's network need `rdma_shared`, and an address on each card of a rail.

    RoCE takes its GID from the card's address; a pod with its own interface has one there.
    """
    network = spec.pod_network
    if not network.host_network:
        return
    place = at(("pod_network", "host_network"), network.host_network)
    if network.mode != "rdma_shared":
        yield Finding(
            f"host_network belongs to mode rdma_shared, and the mode is {network.mode}.",
            (place, at(("pod_network", "mode"), network.mode)),
            "remove host_network, or choose rdma_shared.",
        )
        return
    for rail in spec.rails:
        for nic in _worker_nics(spec, rail):
            on_leaf = subnet_of(spec, rail, nic.host)
            subnet = on_leaf.network if on_leaf is not None else rail.subnet
            if not _is_on(subnet, nic.nic.address):
                what = "cards have no address, from which RoCE takes its GID in the host's network."
                if nic.nic.address:
                    what = f"{nic} has {nic.nic.address}, which is not in {subnet} of {rail.name}."
                fix = "give each card an address of its rail's subnet, or remove host_network."
                if nic.host.login == "none":
                    fix = (
                        "write the address that each card has, and waive: {untouched-host: WHY}, "
                        "if the nodes' owner sets it; or remove host_network."
                    )
                yield Finding(what, (place, nic.at("netdev")), fix)


def _is_on(subnet: IPv4Network, address: str | None) -> bool:
    try:
        return address is not None and IPv4Address(address) in subnet
    except AddressValueError:
        return False


def check_host_device(spec: ClusterSpec) -> Findings:
    """`host_device` counts whole InfiniBand HCAs without VFs.

    The device plugin omits an HCA with VFs, and publishes each VF instead: eight HCAs with eight
    VFs each are 64 devices, and a pod that asks for eight may get all of them from one HCA.
    """
    mode = spec.pod_network.mode
    place = at(("pod_network", "mode"), mode)
    if mode == "host_device" and spec.rdma.transport == "infiniband":
        yield from _split_hcas(spec, place)
    if mode == "host_device" and spec.workers and not hca_count(spec):
        where = (place, at(("hosts",)))
        fix = "set hcas of each worker to the number of its InfiniBand adapters."
        yield Finding("the mode is host_device, and the workers have no HCA.", where, fix)


def _split_hcas(spec: ClusterSpec, place: Place) -> Findings:
    for h, host in enumerate(spec.hosts):
        split = {p: pf.vfs for p, pf in enumerate(host.hca_sriov) if pf.vfs}
        if host.role != "worker" or not split:
            continue
        published = max(host.hcas - len(split), 0) + sum(split.values())
        yield Finding(
            f"{host.name} has VFs on {len(split)} of its HCAs, and the device plugin publishes VFs "
            f"in place of their HCA: {published} devices, where pods ask for {host.hcas} HCAs.",
            (place, *(at(("hosts", h, "hca_sriov", p, "vfs"), vfs) for p, vfs in split.items())),
            "set vfs to 0, or choose sriov with infiniband.rails: then a pod has a VF of each HCA.",
        )


def check_gpu_publisher(spec: ClusterSpec) -> Findings:
    """The GPU operator or the device plugin publishes the GPUs, but not both.

    The operator runs its own device plugin. Two plugins register the same resource, and the later
    one takes it from the other. Without one, pods that ask for GPUs stay Pending; the rule skips
    existing clusters, which may have a plugin that the file does not name.
    """
    operators = spec.operators
    defaults = spec.host_defaults
    asked = {defaults.gpu_driver, defaults.toolkit.kind if defaults.toolkit else None}
    none = not operators.gpu and not operators.gpu_device_plugin
    with_gpus = [
        at(("hosts", h, "gpus"), host.gpus)
        for h, host in enumerate(spec.hosts)
        if host.role == "worker" and host.gpus
    ]
    ours = spec.kubernetes is not None and spec.kubernetes.plane != "existing"
    if with_gpus and ours and none and "operator" not in asked:  # else other rules report it
        yield Finding(
            "workers have GPUs, and nothing publishes them as nvidia.com/gpu: their pods stay "
            "Pending.",
            tuple(with_gpus),
            "set operators.gpu, or operators.gpu_device_plugin for hosts that have NVIDIA's "
            "container toolkit.",
        )
    if operators.gpu is not None and operators.gpu_device_plugin is not None:
        what = "the GPU operator brings a device plugin, and gpu_device_plugin is a second one."
        keys = ("operators.gpu.chart.chart", "operators.gpu_device_plugin.chart.chart")
        yield Finding(what, places(spec, *keys), "remove one of them.")


def check_driver_owner(spec: ClusterSpec) -> Findings:
    """Each driver has one owner: the host (or its image), or an operator's container.

    A driver container unloads the host's modules and loads its own. A cloud's GPU image brings
    both drivers.
    """
    operators = spec.operators
    network, gpu = operators.network, operators.gpu
    by_operator = network is not None and network.driver == "operator"
    for path, driver, _ in host_blocks(spec, "driver", DriverPackage):
        if not by_operator or not driver.is_ofed or spec.cloud is not None:
            continue
        what = f"the hosts' RDMA driver is {driver.shown}; the network operator loads another one."
        owner = places(spec, "operators.network.driver")
        where = (*owner, at((*path, "kind"), driver.kind))
        fix = "set operators.network.driver to host, or host_defaults.driver.kind to inbox."
        yield Finding(what, where, fix)
    owners = {"network": network.driver if network else "", "gpu": gpu.driver if gpu else ""}
    for key, owner in owners.items():
        if spec.cloud is not None and owner == "operator":
            yield Finding(
                f"the cloud's image brings the driver, and the {key} operator would load another.",
                places(spec, f"operators.{key}.driver"),
                f"set operators.{key}.driver to host.",
            )


def check_plugin_version(spec: ClusterSpec) -> Findings:
    """The release lines of network operator and GPU device plugin are known with this Kubernetes.

    The ranges, with their sources, are in components/catalogue/operator_versions.py. An unknown
    line, or a newer Kubernetes than its range, is a warning: no source states that it fails.
    """
    operators = spec.operators
    if operators.network is not None:
        chart, path = operators.network.chart, ("operators", "network", "chart", "version")
        yield from known_with(spec, "network operator", chart, path, NETWORK_OPERATOR, "warning")
    if operators.gpu_device_plugin is not None:
        chart = operators.gpu_device_plugin.chart
        path = ("operators", "gpu_device_plugin", "chart", "version")
        yield from known_with(spec, "GPU device plugin", chart, path, GPU_DEVICE_PLUGIN, "warning")

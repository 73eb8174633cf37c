"""From an example's site file to a lab: loopback addresses, lab keys, the lab file.

The lab plays exactly the site of the file. Only what ties it to real gear is replaced: addresses,
SSH ports and host keys, the place of the K3s artefact, and the GPU operator's chart, which is a
simulated one (docs/explanation/lab.md).
"""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

import yaml

from components.catalogue.cards import CARDS, find_card
from components.core.errors import UsageError
from components.core.plain_text import has_placeholder
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor, VirtualMachine
from components.model.hosts import Host, Nic
from components.model.worker_kinds import crusoe_of
from components.reading.port_ranges import spread_document
from lab.cloud.crusoe.model import CrusoeConfig
from lab.hosts.image import GPU_PACKAGES, PACKAGES, image_driver
from lab.hosts.lab_file import CloudLab, LabFile
from lab.hypervisors.config import (
    EsxiConfig,
    EsxiPciDevice,
    EsxiVmConfig,
    gpu_device,
    management_nic,
    nic_device,
)
from lab.infiniband.site import (
    UFM_PASSWORD,
    hca_cables,
    host_adapters,
    plain_switches,
    relocate_ufm,
    ufm_cable,
    ufm_lab,
)
from lab.keys import KeyKind, client_key, host_key
from lab.kubespray.source import kubespray_source
from lab.views import HostConfig, NicConfig, SwitchConfig

Document = dict[str, object]

FIRST_SWITCHES: Final = 5
"""So many switches stand below the hosts in a stack's block of addresses."""
FIRST_HOST: Final = 10
"""Last part of the first host's address in that block."""
SSH_PORT: Final = 2222
"""Every lab device listens here: port 22 may be taken, and needs root."""
DEV_STACK: Final = "dev"
DEV_EXAMPLE: Final = "dgx-roce"
SITE_FILE: Final = "site.yaml"
SWITCH_PASSWORD: Final = "railyard-lab-admin"  # noqa: S105 - public on purpose: loopback only
CHARTS: Final = {
    "gpu": "lab/cluster/charts/gpu-operator",
    "network": "lab/cluster/charts/network-operator",
    "gpu_device_plugin": "lab/cluster/charts/nvidia-device-plugin",
}
"""Operator of the site file to its simulated chart."""
CLOUD_ACCESS: Final = "railyard-lab"
CLOUD_SECRET: Final = "cmFpbHlhcmQtbGFiLXB1YmxpYy1zZWNyZXQta2V5LTAx"  # noqa: S105 - public on purpose
"""A key of the form that Crusoe gives out: 32 bytes in base64, for loopback only."""
CLOUD_PORT: Final = 8088
"""Where the lab's cloud answers, on the third address of the block."""
MIRROR: Final = "/opt/railyard-mirror"
"""Where a lab host finds the K3s artefact: the local mirror of the pinned source."""
MIRROR_THERE: Final = "an instance of the lab comes with that mirror, and a cloud's does not"
DEV_BLOCK: Final = 41
_TOTAL_VFS: Final = 16
"""NUM_OF_VFS in the firmware of the lab's cards: more than the example asks for."""


def name_site(argument: str) -> tuple[str, Path]:
    """The stack and the site file that `SITE=` names: an example's folder, or one file of it.

    `examples/esxi-roce/cumulus.yaml` is the stack `esxi-roce-cumulus`, which plays beside the
    stack `esxi-roce` of that folder's `site.yaml`.
    """
    named = Path(argument)
    if named.suffix == ".yaml" and named.name != SITE_FILE:
        return f"{named.parent.name}-{named.stem}", named
    folder = named.parent if named.name == SITE_FILE else named
    return folder.name, folder / SITE_FILE


def load_document(path: Path) -> Document:
    """Read a site file as plain data.

    Raises:
        UsageError: There is no such file.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"{path}: the site file cannot be read: {error.strerror}") from error
    return cast("Document", spread_document(yaml.load(text, Loader=yaml.CSafeLoader)))


def block_of(stack: str) -> str:
    """The /24 of loopback addresses that belongs to one stack: `127.41.0` is dev's."""
    number = DEV_BLOCK if stack == DEV_STACK else DEV_BLOCK + 1 + zlib.crc32(stack.encode()) % 150
    return f"127.{number}.0"


def _items(document: Document, key: str) -> list[Document]:
    return cast("list[Document]", document.get(key, []))


def _relocate(device: Document, address: str, stack: str, kind: KeyKind = "ed25519") -> None:
    ssh = cast("Document", device["ssh"])
    key = host_key(f"{stack}/{device['name']}", kind)
    ssh |= {"address": address, "port": SSH_PORT, "host_key": key.public_openssh}


def overlay(document: Document, stack: str, artefact: Mapping[str, str]) -> Document:
    """The same site with the lab's addresses, keys and sources.

    Args:
        document: The example as plain data; it is not changed.
        stack: Name of the stack: it chooses the block of addresses and the keys.
        artefact: sha256 of the K3s artefact's files by name: `k3s` and `install.sh`.
    """
    site = relocate(document, stack)
    kubernetes = cast("Document", site.get("kubernetes", {}))
    if kubernetes and kubernetes.get("plane", "k3s") == "k3s":
        kubernetes["source"] = k3s_source(artefact)
        kubernetes["reset"] = "allow"  # a lab's cluster is there to be destroyed
        if cast("Document", site["environment"]).get("instances"):
            cast("Document", site.setdefault("waive", {}))["made-host-source"] = MIRROR_THERE
    if kubernetes.get("plane") == "kubespray":
        kubernetes |= kubespray_source()
    replace_charts(cast("Document", site.get("operators", {})))
    return site


def relocate(document: Document, stack: str) -> Document:
    """The same site with the lab's addresses and keys, and its own sources."""
    site = copy.deepcopy(document)
    block = block_of(stack)
    for number, switch in enumerate(_items(site, "switches")):
        # Hosts begin at .10; the switches of a larger fabric stand above the hypervisors.
        place = 5 + number if number < FIRST_SWITCHES else 50 + number
        _relocate(switch, f"{block}.{place}", stack)
    for number, host in enumerate(_items(site, "hosts")):
        if "ssh" in host:
            _relocate(host, f"{block}.{FIRST_HOST + number}", stack)
    environment = cast("Document", site["environment"])
    for number, hypervisor in enumerate(_items(environment, "hypervisors")):
        _relocate(hypervisor, f"{block}.{30 + number}", stack, "ecdsa")
    _relocate_cloud(environment, block, stack)
    relocate_ufm(site, block, stack)
    kubernetes = cast("Document", site.get("kubernetes", {}))
    if "virtual_address" in kubernetes:
        cast("Document", kubernetes["virtual_address"])["address"] = f"{block}.4"
    if "api_from" in kubernetes:
        kubernetes["api_from"] = [f"{block}.0/24"]
    return site


def k3s_source(artefact: Mapping[str, str]) -> Document:
    """`kubernetes.source` on a lab host, by the artefact's checksums."""
    return {
        "binary": f"{MIRROR}/k3s",
        "binary_sha256": artefact["k3s"],
        "install_script": f"{MIRROR}/install.sh",
        "install_script_sha256": artefact["install.sh"],
    }


def _relocate_cloud(environment: Document, block: str, stack: str) -> None:
    instances = cast("Document", environment.get("instances", {}))
    if instances.get("kind") == "crusoe":
        instances["endpoint"] = f"http://{block}.3:{CLOUD_PORT}/v1"
        instances["ssh_public_key"] = client_key(stack).public_openssh
        instances["ssh_port"] = SSH_PORT
        instances["vpc_cidr"] = instances["subnet_cidr"] = f"{block}.0/24"


def replace_charts(operators: Document) -> None:
    """Take the charts of the lab, which lie in the clone."""
    for name, folder in CHARTS.items():
        if name in operators:
            chart = load_document(Path(__file__).parents[1] / folder / "Chart.yaml")
            operator = cast("Document", operators[name])
            operator["chart"] = {"chart": f"./{folder}", "version": chart["version"]}


def _nic(number: int, nic: Nic, *, managed: bool) -> NicConfig:
    card = find_card(nic.model)
    if card is None:
        raise UsageError(f"the lab has no card model {nic.model!r}; it has {', '.join(CARDS)}")
    return NicConfig(
        pci=nic.pci,
        netdev=nic.netdev,
        rdma=f"mlx5_{number}",
        vendor="15b3",
        device=card.pf_device,
        vf_device=card.vf_device,
        # Where Railyard sets the firmware, the card comes as from the factory.
        total_vfs=_TOTAL_VFS if managed else max(_TOTAL_VFS, nic.vfs),
        speed_gbit_s=nic.speed_gbit_s,
        numa=nic.numa,
    )


def _cables(spec: ClusterSpec, switch: int) -> dict[str, tuple[str, str]]:
    plugged = spec.switches[switch].ports
    cables = dict(hca_cables(spec, {port: each.to for port, each in plugged.items()}))
    for port, each in plugged.items():
        name, _, rail = each.to.partition("/")
        host = spec.host(name)
        for nic in host.nics if host else ():
            if nic.rail == rail:
                cables[port] = (name, nic.pci)
    return cables | ufm_cable(spec, spec.switches[switch].name)


def _neighbours(spec: ClusterSpec, switch: int) -> dict[str, tuple[str, str]]:
    """Who tells its name by LLDP at each port."""
    heard: dict[str, tuple[str, str]] = {}
    for port, plugged in spec.switches[switch].ports.items():
        if plugged.peer is not None:
            heard[port] = plugged.peer
            continue
        name, _, rail = plugged.to.partition("/")
        host = spec.host(name)
        for nic in host.nics if host else ():
            if nic.rail == rail:
                heard[port] = (name, nic.netdev)
    return heard


def _links(spec: ClusterSpec, switch: int) -> dict[str, tuple[str, str]]:
    ports = spec.switches[switch].ports
    return {name: port.peer for name, port in ports.items() if port.peer is not None}


def _switches(spec: ClusterSpec, stack: str) -> tuple[SwitchConfig, ...]:
    return tuple(
        SwitchConfig(
            name=switch.name,
            os=switch.os,
            model=switch.model,
            address=switch.ssh.address,
            port=switch.ssh.port,
            user=switch.ssh.user,
            password=SWITCH_PASSWORD,
            host_key_seed=f"{stack}/{switch.name}",
            cables=_cables(spec, number),
            neighbours=_neighbours(spec, number),
            links=_links(spec, number),
            routed=tuple(name for name, port in switch.ports.items() if port.mode == "routed"),
            release=switch.release,
        )
        for number, switch in enumerate(spec.switches)
    )


def _hosts(spec: ClusterSpec, stack: str) -> tuple[HostConfig, ...]:
    guests = {vm.name for item in spec.hypervisors for vm in item.vms}
    return tuple(
        HostConfig(
            name=host.name,
            address=host.way.address,
            port=host.way.port,
            user=host.way.user,
            authorized_key=client_key(stack).public_openssh,
            host_key_seed=f"{stack}/{host.name}",
            gpus=host.gpus,
            nics=tuple(
                _nic(number, nic, managed=spec.settings_of(host).firmware.manage)
                for number, nic in enumerate(host.nics)
            ),
            hcas=host_adapters(spec, host),
            topology_file=_topology_file(spec, host),
            guest=host.name in guests,
            driver=_driver(spec, host),
            packages=_packages(spec, host),
            node_address=host.node_ip or "",
        )
        for host in spec.reached
        if not has_placeholder(host.way.address)
    )


def _driver(spec: ClusterSpec, host: Host) -> str:
    """The driver that an image has whose site presumes one; else the kernel's own."""
    asked = spec.settings_of(host).driver
    there = asked.is_ofed and asked.kind == "present" and (host.nics or host.hcas)
    return image_driver(asked.flavour, asked.at_least or "") if there else ""


def _packages(spec: ClusterSpec, host: Host) -> tuple[str, ...]:
    """GPU images carry the container toolkit, unless the site has it installed or brought."""
    asked = spec.host_defaults.toolkit
    there = host.gpus > 0 and (asked is None or asked.kind == "present")
    return GPU_PACKAGES if there else PACKAGES


def _topology_file(spec: ClusterSpec, host: Host) -> str | None:
    asked = spec.jobs.topology_file  # the image of a cloud brings it
    return asked.host_path if asked and host.hcas else None


def lab_file(spec: ClusterSpec, stack: str, places: tuple[Path, Path, Path]) -> LabFile:
    """The lab that plays a relocated site.

    Args:
        spec: The site after `overlay`.
        stack: Name of the stack.
        places: Project folder, cache folder, and the Python that runs the lab.
    """
    project, cache, python = places
    return LabFile(
        stack,
        project / ".lab" / stack,
        cache,
        project,
        python,
        _switches(spec, stack),
        _hosts(spec, stack),
        tuple(_hypervisor(spec, item, stack) for item in spec.hypervisors),
        _cloud(spec, stack),
        plain_switches=plain_switches(spec),
        ufm=ufm_lab(spec, stack),
    )


def _cloud(spec: ClusterSpec, stack: str) -> CloudLab | None:
    provision = crusoe_of(spec)
    if provision is None:
        return None
    block = block_of(stack)
    api = CrusoeConfig(
        address=f"{block}.3",
        port=CLOUD_PORT,
        project=provision.project,
        location=provision.location,
        access_key=CLOUD_ACCESS,
        secret_key=CLOUD_SECRET,
        public_ips=tuple(f"{block}.{number}" for number in range(100, 140)),
        private_ips=tuple(f"{block}.{number}" for number in range(180, 220)),
    )
    return CloudLab(api, provision.ssh_user, provision.ssh_port)


def _hypervisor(spec: ClusterSpec, item: Hypervisor, stack: str) -> EsxiConfig:
    return EsxiConfig(
        name=item.name,
        address=item.ssh.address,
        port=item.ssh.port,
        user=item.ssh.user,
        authorized_key=client_key(stack).public_openssh,
        host_key_seed=f"{stack}/{item.name}",
        release=item.release,
        devices=(management_nic(), *(each for vm in item.vms for each in _passed(spec, vm))),
        vms=tuple(
            EsxiVmConfig(vm.name, vm.memory_mib, vm.gpu, vm.nic, guest=vm.name) for vm in item.vms
        ),
    )


def _passed(spec: ClusterSpec, vm: VirtualMachine) -> tuple[EsxiPciDevice, EsxiPciDevice]:
    """The two devices of a virtual machine, on one NUMA node as in the guide."""
    host = spec.host(vm.name)
    model = host.nics[0].model if host and host.nics else "ConnectX-6"
    return gpu_device(vm.gpu, 0), nic_device(vm.nic, model, 0)


def write_lab_file(lab: LabFile) -> Path:
    """Write `lab.json` into the lab's folder and return its path."""
    lab.root.mkdir(parents=True, exist_ok=True)
    path = lab.root / "lab.json"
    path.write_text(json.dumps(asdict(lab), indent=1, default=str) + "\n")
    return path


def secrets_of(stack: str) -> dict[str, str]:
    """The lab's secrets by configuration key: public, and good for loopback only."""
    return {
        "switch_password": SWITCH_PASSWORD,
        "ufm_password": UFM_PASSWORD,
        "ssh_private_key": client_key(stack).private_openssh,
        "k3s_token": f"railyard-lab-{stack}-token",
        "k3s_agent_token": f"railyard-lab-{stack}-agent-token",
        "ngc_api_key": f"railyard-lab-{stack}-ngc",
        "registry_password": f"railyard-lab-{stack}-registry",
        "crusoe_access_key": CLOUD_ACCESS,
        "crusoe_secret_key": CLOUD_SECRET,
    }

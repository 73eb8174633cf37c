"""What of a site's InfiniBand the lab plays beside the switches that have a login. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, cast

from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.places import IbSwitch, list_ib_switches
from lab.cloud.adapters import adapters
from lab.infiniband.config import UFM_PCI, PlainSwitchConfig, UfmLab
from lab.keys import certificate
from lab.views import HcaConfig

UFM_PORT: Final = 8443
UFM_PASSWORD: Final = "railyard-lab-ufm"  # noqa: S105 - public on purpose: loopback only
UFM_NAME: Final = "ufm"
"""Where the file says none."""
Document = dict[str, object]


def relocate_ufm(site: Document, block: str, stack: str) -> None:
    """The file's UFM at an address of the lab, with the lab's certificate."""
    fabric = cast("Document", site.get("infiniband", {}))
    if "ufm" in fabric:
        ufm = cast("Document", fabric["ufm"])
        pinned = certificate(f"{stack}/{ufm.get('name', UFM_NAME)}", f"{block}.2").sha256
        ufm |= {"address": f"{block}.2", "port": UFM_PORT, "certificate_sha256": pinned}


def ufm_lab(spec: ClusterSpec, stack: str) -> UfmLab | None:
    """The UFM of a relocated site; None where it has none."""
    fabric = spec.infiniband
    if fabric is None or fabric.ufm is None:
        return None
    ufm = fabric.ufm
    return UfmLab(
        name=ufm.name,
        address=ufm.address,
        port=ufm.port,
        user=ufm.user,
        password=UFM_PASSWORD,
        certificate_seed=f"{stack}/{ufm.name}",
        rate_gbit_s=fabric.rate_gbit_s,
        guid=f"0c42a10300{hashlib.sha256(ufm.name.encode()).hexdigest()[:5]}1",
    )


def ufm_cable(spec: ClusterSpec, switch: str) -> dict[str, tuple[str, str]]:
    """The server of UFM has an HCA in the first free port of the first InfiniBand switch."""
    first = next(iter(list_ib_switches(spec)), None)
    ufm = spec.infiniband.ufm if spec.infiniband else None
    if ufm is None or first is None or first.name != switch:
        return {}
    free = next(port for port in first.names if port not in first.ports)
    return {free: (ufm.name, UFM_PCI)}


def plain_switches(spec: ClusterSpec) -> tuple[PlainSwitchConfig, ...]:
    """The switches of `infiniband.switches`."""
    return tuple(_plain(spec, each) for each in list_ib_switches(spec) if each.hardware is None)


def _plain(spec: ClusterSpec, switch: IbSwitch) -> PlainSwitchConfig:
    return PlainSwitchConfig(
        name=switch.name,
        model=switch.model,
        rate_gbit_s=max(switch.speeds_gbit_s),
        ports=switch.names,
        cables=dict(hca_cables(spec, switch.ports)) | ufm_cable(spec, switch.name),
        links={port: peer for port in switch.ports if (peer := switch.peer(port))},
    )


def hca_cables(
    spec: ClusterSpec, ports: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each port that leads to an HCA, with the host and the HCA's PCI address."""
    for port, to in ports.items():
        name, _, hca = to.partition("/hca-")
        host = spec.host(name)
        found = own_adapters(host, 0) if host and hca.isdigit() else ()
        if hca.isdigit() and int(hca) < len(found):
            yield port, (name, found[int(hca)].pci)


def host_adapters(spec: ClusterSpec, host: Host) -> tuple[HcaConfig, ...]:
    """The InfiniBand adapters of a host: a guest of the cloud, or a machine of one's own."""
    rate = spec.ib_fabric.rate_gbit_s if spec.ib_fabric else 0
    return adapters(host.hcas, rate) if spec.cloud else own_adapters(host, rate)


def own_adapters(host: Host, rate_gbit_s: int) -> tuple[HcaConfig, ...]:
    """The HCAs of a bare machine, half of them on each NUMA node, with the GUIDs of its file.

    Args:
        host: Its `hcas` and `hca_guids`.
        rate_gbit_s: Rate of each.
    """
    guids = (*host.hca_guids, *("" for _ in range(host.hcas)))
    return tuple(
        HcaConfig(
            name=f"mlx5_{number}",
            pci=f"0000:{0x18 + 8 * number:02x}:00.0",
            rate_gbit_s=rate_gbit_s,
            link_layer="InfiniBand",
            numa=number * 2 // host.hcas,
            guid=guids[number],
            bare=True,
        )
        for number in range(host.hcas)
    )

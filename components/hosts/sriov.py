"""The virtual functions of each PF: how many, and what each of them carries."""

from __future__ import annotations

from collections.abc import Mapping

from components.model.cards import HcaPf, Sriov
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.owners import guids_by_pods, vfs_by_operator
from components.model.places import vf_guids


def sriov_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """How many VFs a PF has, their MTU, and what the file writes of each of them.

    VLAN, rates, trust and spoof check stand in the file only where the host owns them: with
    `pod_network.mode: sriov` the network attachment does (`vf-owner`). None of it is the host's
    where the SR-IOV network operator makes the VFs.
    """
    cards = (*host.nics, *host.hca_sriov)
    settings = {f"nic.{card.pci}.serial": card.serial for card in cards if card.serial}
    if host.role == "worker" and vfs_by_operator(spec):
        return settings
    for nic in host.nics:
        settings[f"nic.{nic.pci}.vfs"] = str(nic.vfs)
        settings |= {f"nic.{nic.pci}.{key}": value for key, value in _port(nic.sriov).items()}
        if nic.vfs:
            # mlx5 gives a RoCE VF no node GUID without an administrative MAC (sources.md#vfs).
            settings[f"nic.{nic.pci}.vf_mac"] = "own"
        if nic.vfs and nic.sriov.autoprobe is not False:
            vf_mtu_bytes = nic.vf_mtu_bytes or nic.mtu_bytes or spec.rdma.mtu_bytes
            settings[f"nic.{nic.pci}.vf_mtu_bytes"] = str(vf_mtu_bytes)
            settings |= {f"nic.{nic.pci}.{key}": value for key, value in _marks(spec, host).items()}
        each = _vf(nic.sriov)
        for number in range(nic.vfs):
            settings |= {f"vf.{nic.pci}.{number}.{key}": value for key, value in each.items()}
    for pf in host.hca_sriov:
        settings |= _hca(spec, host, pf)
    return settings


def _marks(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """How VFs mark what no program marks: as their PF does.

    Not if a VF's RDMA device moves into the pod's namespace: RDMA-CM's default is lost there.
    """
    defaults = spec.settings_of(host)
    if defaults.kernel.rdma_netns == "exclusive":
        return {}
    tos = str(spec.rdma.ip_traffic_class)
    return {"vf_roce_tos": tos} | ({"vf_traffic_class": tos} if defaults.driver.is_ofed else {})


def _port(sriov: Sriov) -> Mapping[str, str]:
    """The embedded switch: set where the file asks for a mode, else only expected to be legacy."""
    port = {"eswitch": sriov.eswitch} if sriov.eswitch else {"eswitch_now": "legacy"}
    if sriov.autoprobe is not None:
        port["autoprobe"] = _on(value=sriov.autoprobe)
    return port


def _vf(sriov: Sriov) -> Mapping[str, str]:
    """What each VF carries. Least and most rate go together, since one is refused for the other."""
    vf: dict[str, str] = {}
    if sriov.min_rate_mbit_s is not None or sriov.max_rate_mbit_s is not None:
        vf["min_rate_mbit_s"] = str(sriov.min_rate_mbit_s or 0)
        vf["max_rate_mbit_s"] = str(sriov.max_rate_mbit_s or 0)
    if sriov.vlan is not None:
        vf["vlan"] = str(sriov.vlan)
    if sriov.trust is not None:
        vf["trust"] = _on(value=sriov.trust)
    if sriov.spoofchk is not None:
        vf["spoofchk"] = _on(value=sriov.spoofchk)
    return vf


def _on(*, value: bool) -> str:
    return "on" if value else "off"


def _hca(spec: ClusterSpec, host: Host, pf: HcaPf) -> Mapping[str, str]:
    """VFs of an InfiniBand port: one without a GUID, or that does not follow the PF, stays down.

    With ib-kubernetes a VF has the GUID of its pod, and none of the host's.
    """
    settings = {f"nic.{pf.pci}.vfs": str(pf.vfs)}
    for number, guid in enumerate(vf_guids(spec.name, host, pf)):
        if not guids_by_pods(spec):
            settings[f"vf.{pf.pci}.{number}.guid"] = guid
        settings[f"vf.{pf.pci}.{number}.link_state"] = "auto"
    return settings

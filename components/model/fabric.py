"""The switches, the rails, and the one RoCE intent that every layer follows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from components.model.units import (
    DnsLabel,
    Dscp,
    Frozen,
    Ipv4Net,
    Kib,
    MtuBytes,
    PortName,
    Priority,
    Ssh,
    VlanId,
)


class Rdma(Frozen):
    """What a RoCE packet carries, and how every hop treats it. Decided once, here."""

    transport: Literal["roce", "infiniband"] = "roce"
    """RDMA over Converged Ethernet, version 2; or InfiniBand, whose fabric a cloud owns."""
    mode: Literal["lossy_ecn", "lossless"] = "lossy_ecn"
    """`lossy_ecn` marks congestion and never pauses; `lossless` adds PFC on `priority`."""
    priority: Priority = 3
    """Switch priority (and PFC priority when lossless) of RoCE packets."""
    traffic_class: Priority = 3
    """Egress traffic class on the switch; on Onyx priority n is in class n for 3 and 6."""
    dscp: Dscp = 26
    """DSCP of RoCE packets. Default 26: NIC and switch map DSCP 24-31 to priority 3."""
    cnp_dscp: Dscp = 48
    """DSCP of congestion notification packets. Default 48: priority 6, strict on the switch."""
    cnp_priority: Priority = 6
    """Priority of congestion notification packets: the one that `cnp_dscp` belongs to."""
    ecn_min_kib: Kib = 150
    """Queue depth in KiB at which marking starts. 150: the DeepOps guide, Onyx' `roce`.

    On Cumulus the RoCE profile gives 150,000 bytes; other thresholds are refused there. EOS takes
    them as `kbytes`.
    """
    ecn_max_kib: Kib = 1500
    """Queue depth in KiB at which every packet is marked."""
    mtu_bytes: MtuBytes = 9000
    """MTU of PF, VF and pod interface; at least 4192 for an RDMA path MTU of 4096."""
    port_mtu_bytes: MtuBytes = 9216
    """MTU of the switch ports: room for the VLAN tag and encapsulation over `mtu_bytes`.

    A port of EOS has 9214 at most.
    """

    @property
    def ip_traffic_class(self) -> int:
        """The IP ToS byte of RoCE packets: DSCP shifted by two, ECT(0) set (106 for DSCP 26)."""
        return self.dscp << 2 | 2


class Rail(Frozen):
    """One rail: NIC k of every host, on one VLAN and one subnet."""

    name: DnsLabel
    vlan: VlanId
    """VLAN of the rail; the attachment tags with it, and the switch ports carry it."""
    subnet: Ipv4Net
    """Addresses of the pods on this rail."""
    resource: str
    """Extended resource name without prefix, for example `sriov_111`."""
    network: DnsLabel
    """Name of the NetworkAttachmentDefinition, for example `sriov111`."""
    dhcp_server: str | None = None
    """Address of the DHCP server on this VLAN; needed only with `ipam: dhcp`."""


def _port_from_text(value: object) -> object:
    return {"to": value} if isinstance(value, str) else value


class SwitchPort(Frozen):
    """What is plugged into one switch port: `gpu01/rail-0`, or an object with exceptions."""

    to: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$")]
    """`<host>/<rail>`"""
    mode: Literal["trunk", "access"] = "trunk"
    """`trunk` carries the rail's VLAN tagged, as the SR-IOV attachment sends it."""
    vlan: VlanId | None = None
    """VLAN on this port; default the rail's."""
    mtu_bytes: MtuBytes | None = None
    """MTU of this port in bytes; default `rdma.port_mtu_bytes`."""
    lacp: bool = False
    """A port of a link bundle. Refused on an RDMA rail, as in the DeepOps guide."""


class Switch(Frozen):
    """One managed switch."""

    name: DnsLabel
    os: Literal["onyx", "cumulus", "eos"]
    model: str
    """Hardware model, for example `SN2700` or `DCS-7060DX5-64S`; `components/fabric/models/` lists
    the known ones."""
    release: str = "3.9.2504"
    """Running release of the switch system, for version rules; the default is one of Onyx."""
    ssh: Ssh
    executor: Literal["device", "exec"] = "device"
    """`device` reads, compares and verifies by `railyard device`. `exec` sends the whole
    configuration as one SSH exec of Pulumi's own, without reading it first."""
    exec_disruptive: Literal["refuse", "allow-interruptions"] = "refuse"
    """With `executor: exec`, lines that interrupt traffic are sent at every change of the file,
    needed or not: a new MTU shuts its port, the one-shot RoCE touches every port. They are refused
    unless this says `allow-interruptions`."""
    ports: dict[PortName, Annotated[SwitchPort, BeforeValidator(_port_from_text)]]
    """What is plugged in where: `"1/1": gpu01/rail-0` on Onyx, `swp1: gpu01/rail-0` on Cumulus,
    `Ethernet1/1: gpu01/rail-0` on EOS.

    Other ports are left alone.
    """

"""From the site to the subnet manager and the partitions of an InfiniBand fabric: pure."""

from __future__ import annotations

from typing import Final

from components.core.errors import SpecError
from components.fabric.ib_state import (
    ALL_PORTS,
    IbState,
    MemberKind,
    PartitionState,
    show_pkey,
)
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.hosts import Host
from components.model.ib_switches import vf_guids
from components.model.infiniband import IbPartition, Membership, Ufm
from components.model.operator_owned import guids_by_pods
from components.remote.step import Endpoint


def plan_subnet(spec: ClusterSpec, switch: Switch) -> SwitchState:
    """What one InfiniBand switch shall have.

    A switch without `sm_priority` runs no subnet manager: a second one that is not planned may
    become master. Every switch that runs one has all partitions, so that a standby which takes
    over keeps them.

    Raises:
        SpecError: The site has no InfiniBand fabric, or a member's ports are not known.
    """
    fabric = spec.infiniband
    if fabric is None:
        raise SpecError(f"switch {switch.name}: the site has no `infiniband`")
    node = spec.renamed.switches.get(switch.name, switch.name)  # as the switch calls itself
    if switch.sm_priority is None:
        return SwitchState(ib=IbState(node=node, sm_enabled=False))
    return SwitchState(
        ib=IbState(
            node=node,
            sm_function=True,
            sm_enabled=True,
            sm_priority=switch.sm_priority,
            routing_engine=fabric.routing_engine,
            partitions={each.name: _partition(spec, each) for each in fabric.partitions},
        )
    )


def plan_ufm(spec: ClusterSpec, ufm: Ufm) -> SwitchState:
    """What UFM shall have: each partition of the file by its key, since names are its own.

    Adaptive routing is looked for where the file asks for it, and not set.

    Raises:
        SpecError: A member's ports are not known.
    """
    fabric = spec.infiniband
    partitions = fabric.partitions if fabric else ()
    return SwitchState(
        ib=IbState(
            node=ufm.name,
            adaptive_routing=True if fabric and fabric.adaptive_routing else None,
            partitions={show_pkey(each.pkey): _partition(spec, each) for each in partitions},
        )
    )


def ufm_endpoint(ufm: Ufm) -> Endpoint:
    """How UFM is reached; its pinned key is the SHA-256 of its certificate."""
    return Endpoint(
        device=ufm.name,
        kind="switch",
        address=ufm.address,
        port=ufm.port,
        user=ufm.user,
        host_key=ufm.certificate_sha256,
        password_secret=ufm.password.name,
    )


_AT_INDEX_0: Final[dict[Membership, MemberKind]] = {
    "full": "full, index 0",
    "limited": "limited, index 0",
}


def _partition(spec: ClusterSpec, partition: IbPartition) -> PartitionState:
    return PartitionState(
        pkey=partition.pkey,
        ipoib=partition.ipoib,
        mtu_bytes=partition.mtu_bytes,
        rate_gbit_s=partition.rate_gbit_s,
        members=_members(spec, partition),
    )


def _members(spec: ClusterSpec, partition: IbPartition) -> dict[str, MemberKind]:
    if partition.members == "all":
        return {ALL_PORTS: partition.membership}
    found: dict[str, MemberKind] = {}
    for member in partition.members:
        host = spec.host(member.host)
        if host is None or not host.hca_guids:
            raise SpecError(
                f"partition {partition.name}: the port GUIDs of {member.host} are not known; "
                "list them as hca_guids of the host"
            )
        membership = member.membership or partition.membership
        kind = _AT_INDEX_0[membership] if partition.index0 else membership
        found |= dict.fromkeys(
            (*member.ports_of(host.hca_guids), *_vf_guids(spec, partition, host)), kind
        )
    return found


def _vf_guids(spec: ClusterSpec, partition: IbPartition, host: Host) -> tuple[str, ...]:
    """The VFs of a member that pods get in this partition: a subnet manager knows each of them."""
    if spec.infiniband is None or guids_by_pods(spec):
        return ()
    rails = {rail.name for rail in spec.infiniband.rails if rail.partition == partition.name}
    ports = (port for port in host.hca_sriov if port.rail in rails)
    return tuple(guid for port in ports for guid in vf_guids(spec.name, host, port))

"""Who brings each part of the cluster, and what of a site Railyard leaves alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from components.catalogue.cluster_parts import PARTS, TABLE, Part
from components.model.cluster import ClusterSpec
from components.model.cluster_parts import ClusterParts, Owner
from components.model.cni import (
    IMAGES,
    Program,
    cni_programs,
    draws_blocks,
    gives_addresses,
    policy_networks,
    uses_multus,
)
from components.model.kubernetes import ExistingPlane
from components.model.once import once


def written_owner(spec: ClusterSpec, part: Part) -> Owner | None:
    """What the file says of a part; None where it says nothing, or the cluster is our own."""
    plane = spec.kubernetes
    written = plane.components if isinstance(plane, ExistingPlane) else ClusterParts()
    return getattr(written, part)


def installs(spec: ClusterSpec, part: Part) -> bool:
    """Whether Railyard installs a part."""
    return owners_of(spec)[part] == "ours"


def needs(spec: ClusterSpec, part: Part) -> bool:
    """Whether the rest of the file needs a part, whoever brings it."""
    return part in _needed(spec)


@once
def owners_of(spec: ClusterSpec) -> Mapping[Part, Owner]:
    """Who brings each part; `none` for all on a site without Kubernetes."""
    return {part: _owner(spec, part) for part in PARTS}


def _owner(spec: ClusterSpec, part: Part) -> Owner:
    written = written_owner(spec, part)
    if written is not None:
        return written
    if part not in _needed(spec):
        return "none"
    beside = written_owner(spec, "network_operator") == "theirs"
    return "theirs" if beside and part == plugin_of(spec) else "ours"


def plugin_of(spec: ClusterSpec) -> Part:
    """The device plugin that publishes the cards of the pod network's mode."""
    shared = spec.pod_network.mode == "rdma_shared"
    return "shared_device_plugin" if shared else "sriov_device_plugin"


@once
def _needed(spec: ClusterSpec) -> frozenset[Part]:
    return frozenset(_needs(spec)) if spec.kubernetes is not None else frozenset()


def _needs(spec: ClusterSpec) -> Iterator[Part]:
    operators = spec.operators
    yield from _of_networks(spec)
    # The network operator brings the device plugin itself.
    yield plugin_of(spec) if operators.network is None else "network_operator"
    if operators.gpu is not None:
        yield "gpu_operator"
    if operators.gpu_device_plugin is not None:
        yield "gpu_device_plugin"
    if spec.jobs.mpi_operator:
        yield "mpi_operator"


def _of_networks(spec: ClusterSpec) -> Iterator[Part]:
    if uses_multus(spec):
        yield "attachments"
        if not policy_networks(spec):
            yield "multus"
    if gives_addresses(spec):
        yield "whereabouts"
    if draws_blocks(spec) and spec.operators.network is None:
        yield "nv_ipam"
    for name in cni_programs(spec):
        yield part_of_program(name)


def part_of_program(name: Program) -> Part:
    """The part that brings a CNI program."""
    return IMAGES.get(name, "cni_plugins")


def pool_files_image(spec: ClusterSpec) -> Literal["whereabouts", "cni_plugins"] | None:
    """The key of `sources.images` whose image writes on each node what its leaf has of a rail.

    None: no rail is on several leaves, or no node is asked. The image of nv-ipam has no shell.
    """
    if not any(rail.leaves for rail in spec.rails):
        return None
    if gives_addresses(spec):
        return "whereabouts"
    return "cni_plugins" if draws_blocks(spec) else None


def cni_check_image(spec: ClusterSpec) -> Literal["whereabouts", "cni_plugins"] | None:
    """The key of `sources.images` whose image looks where nodes keep CNI; None: nothing looks.

    K3s of our own has one place for it, and where nothing of ours is put there it does not matter.
    """
    programs = any(installs(spec, part_of_program(name)) for name in cni_programs(spec))
    ours = programs or installs(spec, "multus") or installs(spec, "whereabouts")
    if spec.k3s is not None or not ours:
        return None
    return "whereabouts" if installs(spec, "whereabouts") else "cni_plugins"


_SHOWN: Final = 8
"""Hosts that a line names; `hosts` of the file has all of them."""


def not_touched(hosts: Sequence[str]) -> tuple[str, ...]:
    """What becomes of hosts that nothing logs in to, as one line; none without such hosts."""
    if not hosts:
        return ()
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    named = f"{', '.join(hosts[:_SHOWN])}{more}"
    return (f"{named}: not touched and not looked at: no login (login: none)",)


def runs_on_foreign_fabric(spec: ClusterSpec) -> bool:
    """Whether rails of RoCE run over switches that the file does not have."""
    return bool(spec.rails) and spec.rdma.transport == "roce" and not spec.switches


def left_alone(spec: ClusterSpec) -> tuple[str, ...]:
    """Say what stays untouched: devices that the file names, and all that it does not name."""
    named = [f"{each.name} ({each.network} switch)" for each in spec.other_switches]
    plain = spec.infiniband.switches if spec.infiniband else ()
    named += [f"{each.name} ({each.model}, not logged in to)" for each in plain]
    rest = ["network devices of hosts that are not under nics: bonds, management, storage"]
    if spec.switches:
        rest.append("switch ports that are not under ports, but for what holds for a whole switch")
    if runs_on_foreign_fabric(spec):
        rest.append(
            "the switches of the rails, which are not in the file (`railyard plan SITE --stage "
            "fabric` prints what they must be set to)"
        )
    theirs = [TABLE[part].title for part, owner in owners_of(spec).items() if owner == "theirs"]
    if theirs:
        rest.append(f"of others in the cluster, and looked at: {', '.join(theirs)}")
    return (*named, *rest, *not_touched([host.name for host in spec.unreached]))

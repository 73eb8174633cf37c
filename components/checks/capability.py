"""Rules on what a switch model and its system can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.catalogue.switches import MODELS, find_model
from components.checks.rule import Finding, at
from components.checks.topology import PlacedPort, list_all_ports, list_cables
from components.core.problem import Place, SpecPath
from components.fabric.systems import driver_of, least_release, system_of
from components.fabric.systems.cumulus.facts import (
    BYTES_PER_KIB,
    CNP_PRIORITY,
    ECN_MAX_BYTES,
    ECN_MIN_BYTES,
    ECN_TOLERANCE,
    ROCE_PRIORITY,
)
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY, Rdma
from components.reading.wording import did_you_mean

_USUAL_MTU_BYTES: Final = 9216


def check_switch_model(spec: ClusterSpec) -> Iterator[Finding]:
    """Each switch is of a model that is known here, so that its ports can be checked."""
    for s, switch in enumerate(spec.switches):
        if find_model(switch.model) is None:
            known = _models_of(switch.os)
            yield Finding(
                f"nothing is known of the switch model {switch.model} with {switch.os}."
                f"{did_you_mean(switch.model, known)}",
                (at(("switches", s, "model"), switch.model),),
                f"use one of: {', '.join(known)}.",
            )


def _models_of(system: str) -> list[str]:
    return sorted(name for name, model in MODELS.items() if system in model.ports)


def check_switch_system(spec: ClusterSpec) -> Iterator[Finding]:
    """Each switch model runs the switch system that the file names.

    The models differ in what was ever released for them: an SN5600 came years after the last
    model of Onyx.
    """
    for s, switch in enumerate(spec.switches):
        model = find_model(switch.model)
        if model is None:
            continue
        if switch.os not in model.ports:
            yield Finding(
                f"{model.described} does not run {switch.os}.",
                (
                    at(("switches", s, "os"), switch.os),
                    at(("switches", s, "model"), switch.model),
                ),
                f"set os to {' or '.join(model.ports)}, or model to "
                f"{' or '.join(_models_of(switch.os))}. {model.capability_line()}.",
            )


def check_switch_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each switch runs a release that its system and its model have, and that has what we use.

    Which commands a switch has follows from it. Onyx from 3.8.2000 on has `show roce`, by which it
    is read; Cumulus from 5.0 on has NVUE by default; EOS from 4.28.0 on is what the driver was
    written after; SONiC from the branch 202205 on makes lossless buffers for the priorities that
    PFC is enabled on (the editions of vendors count otherwise, and have other commands); MLNX-OS
    from 3.6.8010 on prints partitions as they are read here. Some models came later than that.
    """
    for s, switch in enumerate(spec.switches):
        model, system = find_model(switch.model), system_of(switch.os)
        if model is not None and switch.os not in model.ports:
            continue  # `switch-system` names the cause
        least, title = least_release(switch.os, model), driver_of(switch.os).title
        where = at(("switches", s, "release"), switch.release)
        if not system.reads_release(switch.release):
            yield Finding(
                f'the release of {switch.name}, "{switch.release}", is none of {title}.',
                (where,),
                f"write what the switch runs, for example {system.a_release}.",
            )
        elif system.parse_release(switch.release) < least:
            by_model = model is not None and least > system.min_release
            yield Finding(
                f"{switch.name} runs {title} {switch.release}, and {model.described} runs it from "
                f"{system.show_release(least)} on."
                if model is not None and by_model
                else f"{switch.name} runs {title} {switch.release}, which {system.older}.",
                (where, at(("switches", s, "model"), switch.model)) if by_model else (where,),
                f"upgrade it to {system.show_release(least)} or later and write its release, for "
                f"example {system.a_release}.",
            )


def check_port_capability(spec: ClusterSpec) -> Iterator[Finding]:
    """Each port exists on its switch model, and can have the MTU and the NIC's speed.

    A port that is split is gone as a whole: 1/1 and 1/1/1 cannot both be there.
    """
    for port in list_all_ports(spec):
        model = find_model(port.switch.model)
        system = port.switch.os
        if model is None or system not in model.ports:
            continue
        if not model.has_port(system, port.name):
            yield Finding(
                f"{model.described} has no port {port.name}.",
                (at(port.path, port.port.to),),
                f"its ports are {model.describe_ports(system)}.",
            )
        own = port.port.mtu_bytes
        path: SpecPath = (*port.path, "mtu_bytes") if own else ("rdma", "port_mtu_bytes")
        mtu_bytes = own or spec.rdma.port_mtu_bytes
        low, high = model.mtu_range_bytes[system]
        if not low <= mtu_bytes <= high:
            yield Finding(
                f"a port of {model.described} cannot have MTU {mtu_bytes}.",
                (at(path, mtu_bytes),),
                f"choose {low} to {high}; {min(_USUAL_MTU_BYTES, high)} is usual. "
                f"Source: {model.sources[system]}.",
            )
    yield from _find_split(spec)
    yield from _find_too_fast(spec)


def _find_split(spec: ClusterSpec) -> Iterator[Finding]:
    whole = {(port.switch.name, port.name): port for port in list_all_ports(spec)}
    for port in list_all_ports(spec):
        parent = whole.get((port.switch.name, _whole_name(port)))
        if parent is not None and parent.name != port.name:
            yield Finding(
                f"port {port.name} of {port.switch.name} is a part of port {parent.name}, which is "
                "used as a whole.",
                (at(port.path, port.port.to), at(parent.path, parent.port.to)),
                "use the whole port, or its parts only.",
            )


def _whole_name(port: PlacedPort) -> str:
    model = find_model(port.switch.model)
    return (model.whole_port(port.switch.os, port.name) if model else None) or port.name


def _find_too_fast(spec: ClusterSpec) -> Iterator[Finding]:
    for cable in list_cables(spec):
        model, nic = find_model(cable.port.switch.model), cable.nic.nic
        if model is not None and nic.speed_gbit_s > model.speed_gbit_s:
            yield Finding(
                f"{cable.nic.host.name} {nic.netdev} has {nic.speed_gbit_s} Gbit/s, and a port of "
                f"{model.described} has {model.speed_gbit_s}.",
                (
                    at((*cable.nic.path, "speed_gbit_s"), nic.speed_gbit_s),
                    at(cable.port.path, cable.port.port.to),
                ),
                "write the speed at which the link really runs: bandwidth is judged by it.",
            )


def check_cumulus_profile(spec: ClusterSpec) -> Iterator[Finding]:
    """The file asks a Cumulus switch for what its RoCE profile gives.

    The profile, `nv set qos roce`, is one for the whole switch: priority 3 for RoCE, priority 6 for
    its congestion notifications, and ECN from 150,000 to 1,500,000 bytes. The thresholds of the
    file are in KiB, and may miss those by 5 %, which 150 and 1500 do.
    """
    systems = [(s, switch) for s, switch in enumerate(spec.switches) if switch.os == "cumulus"]
    if not systems or spec.rdma.transport != "roce":
        return
    s, switch = systems[0]
    where = at(("switches", s, "os"), switch.os)
    yield from _other_priorities(spec.rdma, switch.name, where)
    yield from _other_thresholds(spec.rdma, switch.name, where)


def _other_priorities(rdma: Rdma, switch: str, where: Place) -> Iterator[Finding]:
    for name, dscp, given in (
        ("dscp", rdma.dscp, ROCE_PRIORITY),
        ("cnp_dscp", rdma.cnp_dscp, CNP_PRIORITY),
    ):
        priority = dscp // DSCP_PER_PRIORITY
        if priority != given:
            first = given * DSCP_PER_PRIORITY
            yield Finding(
                f"{name} {dscp} is priority {priority}, and the RoCE profile of {switch} has "
                f"{given}.",
                (at(("rdma", name), dscp), where),
                f"set {name} to one of {first}-{first + DSCP_PER_PRIORITY - 1}: Cumulus has no "
                "other priority.",
            )


def _other_thresholds(rdma: Rdma, switch: str, where: Place) -> Iterator[Finding]:
    missed = {
        name: kib
        for name, kib, given in (
            ("ecn_min_kib", rdma.ecn_min_kib, ECN_MIN_BYTES),
            ("ecn_max_kib", rdma.ecn_max_kib, ECN_MAX_BYTES),
        )
        if abs(kib * BYTES_PER_KIB - given) > ECN_TOLERANCE * given
    }
    if missed:
        shown = " and ".join(f"{name} is {kib} KiB" for name, kib in missed.items())
        yield Finding(
            f"{shown}, and the RoCE profile of {switch} marks from {ECN_MIN_BYTES:,} to "
            f"{ECN_MAX_BYTES:,} bytes.",
            (*(at(("rdma", name), kib) for name, kib in missed.items()), where),
            f"remove {' and '.join(missed)}: the defaults, 150 and 1500, are the profile's.",
        )

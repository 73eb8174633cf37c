"""Rules on the cluster's software: members, versions, sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.catalogue.operator_versions import (
    GPU_OPERATOR,
    ONYX_QOS,
    ONYX_ROCE,
    find_line,
    parse_k3s,
    parse_numbers,
    show_version,
)
from components.catalogue.switches import find_model
from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.fabric.systems import driver_of
from components.fabric.systems.capabilities import system_of
from components.fabric.systems.cumulus.facts import MIN_RELEASE as CUMULUS_NVUE
from components.fabric.systems.eos.facts import MIN_RELEASE as EOS_LEAST
from components.fabric.systems.sonic.facts import MIN_RELEASE as SONIC_LEAST
from components.fabric.systems.sonic.facts import parse_branch
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.operators import ChartSource

_SOURCE: Final = re.compile(r"(/|https://)[^\s]+")
_MIRROR: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::([0-9]{1,5}))?")
_MAX_PORT: Final = 65535
_EXACT: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")
_RELEASE: Final = re.compile(r"[0-9]+(\.[0-9]+)+[A-Za-z0-9._+-]*")
_MIN_TEST_WORKERS: Final = 2


def check_control_plane(spec: ClusterSpec) -> Iterator[Finding]:
    """There is at least one control-plane host."""
    if spec.k3s is not None and not spec.servers:
        yield Finding(
            "no host is a control_plane, so there is nothing to install the cluster on.",
            (at(("hosts",)),),
            "give one host, or three, the role control_plane.",
        )


def check_worker_count(spec: ClusterSpec) -> Iterator[Finding]:
    """There are at least two workers: RDMA is proven between two hosts."""
    count = len(spec.workers)
    if count < _MIN_TEST_WORKERS:
        yield Finding(
            f"{count} of the hosts {'is a worker' if count == 1 else 'are workers'}, and RDMA is "
            "proven between two.",
            (at(("hosts",)),),
            "give at least two hosts the role worker.",
        )


def check_etcd_members(spec: ClusterSpec) -> Iterator[Finding]:
    """The number of control-plane hosts is odd.

    etcd needs a majority: four members survive one failure, as three do, and have one more host
    that can fail; two survive none.
    """
    servers = [(h, host) for h, host in enumerate(spec.hosts) if host.role == "control_plane"]
    count = len(servers)
    if count and count % 2 == 0:
        yield Finding(
            f"{count} control-plane hosts survive the loss of {(count - 1) // 2}, no more than "
            f"{count - 1} would.",
            tuple(at(("hosts", h, "role"), host.role) for h, host in servers),
            f"use {count - 1} or {count + 1}.",
        )


def check_k3s_version(spec: ClusterSpec) -> Iterator[Finding]:
    """The Kubernetes version is an exact K3s release, such as v1.36.3+k3s1."""
    version = spec.k3s.version if spec.k3s else None
    if version is not None and parse_k3s(version) is None:
        yield Finding(
            f'"{version}" is no exact K3s release.',
            (at(("kubernetes", "version"), version),),
            "write a release of the form v1.36.3+k3s1.",
        )


def check_version_pair(spec: ClusterSpec) -> Iterator[Finding]:
    """The GPU operator's release line supports the Kubernetes minor.

    The ranges, and who states them, are in components/catalogue/operator_versions.py. A line that
    is not in the catalogue is a warning.
    """
    operator, plane = spec.operators.gpu, spec.kubernetes
    k3s = parse_k3s(plane.version) if plane else None
    if operator is None or plane is None or k3s is None:
        return
    version = operator.chart.version
    where = (
        at(("operators", "gpu", "chart", "version"), version),
        at(("kubernetes", "version"), plane.version),
    )
    line = find_line(version, GPU_OPERATOR)
    if line is None:
        known = ", ".join(show_version(entry.line) for entry in GPU_OPERATOR)
        yield Finding(
            f"nothing is known of GPU operator {version} with any Kubernetes.",
            where,
            f"use a release of {known}, or read the operator's list of platforms first.",
            "warning",
        )
    elif not line.holds(k3s[:2]):
        yield Finding(
            f"GPU operator {version} works with Kubernetes {line.describe()}, and this is "
            f"{show_version(k3s[:2])}.",
            where,
            f"choose a K3s of that range, or another line of the operator. Source: {line.source}.",
        )


def check_switch_release(spec: ClusterSpec) -> Iterator[Finding]:
    """The release of a switch is written in numbers, as the switch says it.

    Which commands a switch has follows from it. SONiC counts by branches: `sonic-release`.
    """
    for s, switch in enumerate(spec.switches):
        model = find_model(switch.model)
        fits = model is None or switch.os in model.ports  # else `switch-system` tells the cause
        if fits and switch.os != "sonic" and not _is_read(switch):
            yield Finding(
                f'the release of {switch.name}, "{switch.release}", is none of '
                f"{driver_of(switch.os).title}.",
                (at(("switches", s, "release"), switch.release),),
                f"write what the switch runs, for example {system_of(switch.os).a_release}.",
            )


def _is_read(switch: Switch) -> bool:
    return _RELEASE.fullmatch(switch.release) is not None


def _older(spec: ClusterSpec, system: str, least: tuple[int, ...]) -> Iterator[tuple[int, Switch]]:
    """The switches of one system whose release is readable and older."""
    for s, switch in enumerate(spec.switches):
        if switch.os == system and _is_read(switch) and parse_numbers(switch.release) < least:
            yield s, switch


def check_onyx_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each Onyx switch runs 3.8.2000 or later.

    `show roce`, by which the driver reads the switch, came with 3.8.2000; before 3.6.5000 trust
    and ECN per traffic class cannot be set at all.
    """
    for s, switch in _older(spec, "onyx", ONYX_ROCE):
        lacks = (
            "has no `qos trust` and no ECN per traffic class"
            if parse_numbers(switch.release) < ONYX_QOS
            else "has no `show roce`, by which its state is read"
        )
        yield Finding(
            f"{switch.name} runs Onyx {switch.release}, which {lacks}.",
            (at(("switches", s, "release"), switch.release),),
            f"upgrade it to {show_version(ONYX_ROCE)} or later.",
        )


def check_cumulus_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each Cumulus switch runs 5.0 or later.

    It is set by NVUE, which 4.4 brought as early access, switched off, and which is the default
    since 5.0. The ESXi guide links 4.2, which has no NVUE at all.
    """
    for s, switch in _older(spec, "cumulus", CUMULUS_NVUE):
        yield Finding(
            f"{switch.name} runs Cumulus Linux {switch.release}, where NVUE, by which it is "
            "read and set, is not the default or not there.",
            (at(("switches", s, "release"), switch.release),),
            f"upgrade it to {show_version(CUMULUS_NVUE)} or later, and write its release.",
        )


def check_eos_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each EOS switch runs 4.28.0 or later.

    Changes come as a configuration session that rolls itself back unless it is confirmed. Sessions
    came with 4.15.0F; which release brought the timer is not public, so the oldest one is named
    whose answers the driver was written after.
    """
    for s, switch in _older(spec, "eos", EOS_LEAST):
        yield Finding(
            f"{switch.name} runs EOS {switch.release}, older than what its driver was written "
            "after.",
            (at(("switches", s, "release"), switch.release),),
            f"upgrade it to {show_version(EOS_LEAST)} or later, and write its release, for "
            f"example {system_of('eos').a_release}.",
        )


def check_mlnxos_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each MLNX-OS switch runs 3.6.8010 or later.

    Since then `show ib partition` has the layout that the driver reads: with colons where it had
    equals signs.
    """
    least = system_of("mlnxos").min_release
    for s, switch in _older(spec, "mlnxos", least):
        yield Finding(
            f"{switch.name} runs MLNX-OS {switch.release}, whose `show ib partition` cannot be "
            "read here.",
            (at(("switches", s, "release"), switch.release),),
            f"upgrade it to {show_version(least)} or later, and write its release.",
        )


def check_sonic_release(spec: ClusterSpec) -> Iterator[Finding]:
    """Each SONiC switch runs the branch 202205 or a later one.

    From there on the switch makes lossless buffers for the priorities that PFC is enabled on; in
    202106 and 202111 it makes them for 3 and 4, whatever is enabled (cfgmgr/buffermgr.cpp). The
    editions of vendors count otherwise, and have other commands.
    """
    for s, switch in enumerate(spec.switches):
        branch = parse_branch(switch.release)
        if switch.os != "sonic" or branch >= SONIC_LEAST:
            continue
        what = (
            f"runs SONiC {switch.release}, which makes lossless buffers for priorities 3 and 4 only"
            if branch
            else f"has the release {switch.release}, which is no branch of community SONiC"
        )
        yield Finding(
            f"{switch.name} {what}.",
            (at(("switches", s, "release"), switch.release),),
            f"upgrade it to {SONIC_LEAST} or later, and write its release as 202405 or 202311.1.",
        )


def check_pinned_source(spec: ClusterSpec) -> Iterator[Finding]:
    """K3s and its install script come from an absolute path or over https, never plain http."""
    if spec.k3s is None:
        return
    source = spec.k3s.source
    for key, value in (("binary", source.binary), ("install_script", source.install_script)):
        if not _SOURCE.fullmatch(value):
            yield Finding(
                f"{key}: {value} is neither an absolute path nor https.",
                (at(("kubernetes", "source", key), value),),
                "use an https address, or a path on the hosts that begins with /.",
            )


def check_chart_version(spec: ClusterSpec) -> Iterator[Finding]:
    """A chart has an exact version, and a chart from a repository says which repository.

    A range or `latest` would install another chart on the next run without any change here.
    """
    for name, chart in _charts(spec):
        path: SpecPath = ("operators", name, "chart")
        if not _EXACT.fullmatch(chart.version):
            yield Finding(
                f'the chart version "{chart.version}" is not exact.',
                (at((*path, "version"), chart.version),),
                "write one release, for example v26.3.3.",
            )
        yield from _chart_home(chart.chart, chart.repo, path)


def _charts(spec: ClusterSpec) -> Iterator[tuple[str, ChartSource]]:
    operators = spec.operators
    for name, operator in (
        ("gpu", operators.gpu),
        ("network", operators.network),
        ("gpu_device_plugin", operators.gpu_device_plugin),
    ):
        if operator is not None:
            yield name, operator.chart


def _chart_home(chart: str, repo: str | None, path: SpecPath) -> Iterator[Finding]:
    bare = "/" not in chart
    if bare and repo is None:
        yield Finding(
            f"the chart {chart} has no repository.",
            (at((*path, "chart"), chart),),
            "add repo, or write a path of the project or an oci:// address.",
        )
    if repo is not None and not (repo.startswith("https://") and bare):
        reason = "is not https" if bare else "is given for a chart that is a path or an address"
        yield Finding(
            f"the chart repository {repo} {reason}.",
            (at((*path, "repo"), repo), at((*path, "chart"), chart)),
            "use an https repository with a chart name, or no repository.",
        )


def check_registry_mirror(spec: ClusterSpec) -> Iterator[Finding]:
    """The registry mirror is `host:port`, without a scheme or a path."""
    mirror = spec.kubernetes.registry_mirror if spec.kubernetes else None
    if mirror is None:
        return
    match = _MIRROR.fullmatch(mirror)
    if match is None or not 1 <= int(match[1] or _MAX_PORT) <= _MAX_PORT:
        yield Finding(
            f'the registry mirror "{mirror}" is not of the form host:port.',
            (at(("kubernetes", "registry_mirror"), mirror),),
            "write for example 192.168.100.10:5000; plain HTTP is assumed.",
        )

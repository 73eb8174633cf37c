"""Rules on the cluster or containers that run jobs: members, versions and sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from components.catalogue.cluster_parts import DISTRIBUTIONS, FIRST_K3S
from components.catalogue.operator_versions import (
    CONTAINERD,
    GPU_OPERATOR,
    KubernetesRange,
    containerd_of,
    find_line,
    nri_works,
    parse_k3s,
    parse_numbers,
    show_version,
    why_unknown,
)
from components.catalogue.version_pairs import (
    DRIVER_TAGS,
    TITLES,
    Component,
    conflicts_of,
    driver_tag,
)
from components.checks.planes import with_role
from components.checks.rule import Finding, Findings, at, places
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.jobs import DOCKER_HUB, registry_of
from components.model.operators import VERSION_PATHS, ChartSource, versions_of
from components.model.owners import cni_paths, runs_docker, toolkit_owner, uses_multus
from components.operators.network import container_tag

_CLOSED: Final = (DOCKER_HUB, "nvcr.io", "ghcr.io", "quay.io")
"""Public registries: each accepts a push only after a login."""


def check_payload_choice(spec: ClusterSpec) -> Findings:
    """A site has either `kubernetes` or `containers`.

    Both would give the same GPUs and cards to two schedulers that do not know each other; without
    either, the site cannot run jobs.
    """
    if spec.kubernetes is not None and spec.containers is not None:
        what = "the site has both kubernetes and containers, and each would take all GPUs."
        yield Finding(what, places(spec, "kubernetes", "containers"), "keep one of them.")
    if spec.kubernetes is None and spec.containers is None:
        what = "the site has neither kubernetes nor containers, so nothing could run a job."
        fix = "add one: kubernetes for a cluster, containers for MPI over SSH."
        yield Finding(what, (at(()),), fix)


def check_container_hosts(spec: ClusterSpec) -> Findings:
    """Containers run under Docker, and their cards have addresses.

    They are in the host's own network: RoCE v2 needs an IPv4 address on the card itself, which in a
    cluster the pod's attachment would bring.
    """
    if spec.containers is None:
        return
    if not spec.host_defaults.docker:
        where = places(spec, "host_defaults.docker", "containers")
        fix = "set host_defaults.docker to true: it installs Docker and NVIDIA's toolkit."
        yield Finding("containers run under Docker, and host_defaults.docker is false.", where, fix)
    for h, host in enumerate(spec.hosts):
        for n, nic in enumerate(host.nics):
            if host.role == "worker" and nic.address is None:
                what = f"{host.name}'s card on {nic.rail} has no address, which a container needs."
                fix = f"give it a free address of {nic.rail}'s subnet."
                yield Finding(what, (at(("hosts", h, "nics", n)),), fix)


def check_container_image(spec: ClusterSpec) -> Findings:
    """An image built by Railyard has a tag, since its digest is known only after the build."""
    containers = spec.containers
    if containers is not None and containers.build is not None and "@" in containers.image:
        what = "the image is built here, and its digest is known only after that."
        where = (at(("containers", "image"), containers.image), at(("containers", "build")))
        fix = "name the image by a tag; hosts recognise the build by its label."
        yield Finding(what, where, fix)


def check_image_download(spec: ClusterSpec) -> Findings:
    """The RDMA libraries that the image's build downloads have a version and a checksum.

    The guide downloads them over plain HTTP and installs them unchecked.
    """
    build = spec.containers.build if spec.containers else None
    if build is None or (build.mofed_version is None) == (build.mofed_sha256 is None):
        return
    path = ("containers", "build")
    if build.mofed_sha256 is None:
        what = f"the archive of MLNX_OFED {build.mofed_version} has no checksum."
        fix = "add mofed_sha256, or leave both out: then rdma-core of the image's system is used."
        yield Finding(what, (at((*path, "mofed_version"), build.mofed_version),), fix)
    else:
        where = (at((*path, "mofed_sha256"), build.mofed_sha256),)
        fix = "add mofed_version."
        yield Finding("there is a checksum of an archive of MLNX_OFED, and no version.", where, fix)


def check_registry_login(spec: ClusterSpec) -> Findings:
    """An image that Railyard builds and pushes to a public registry needs a login for it."""
    containers = spec.containers
    if containers is None or containers.build is None or containers.login is not None:
        return
    registry = registry_of(containers.image)
    if registry in _CLOSED:
        what = f"the image is pushed to {registry}, which takes nothing without a login."
        fix = "add containers.login: {user: …, password: {secret: registry_password}}."
        yield Finding(what, places(spec, "containers.image"), fix)


def check_payload_benchmark(spec: ClusterSpec) -> Findings:
    """ResNet-50 runs only in `containers`: the jobs of a cluster lack TensorFlow 1."""
    if spec.acceptance.resnet50 is not None and spec.containers is None:
        what = "acceptance runs ResNet-50, and there are no containers to run it in."
        fix = "remove it; the NCCL collectives prove the same path on a cluster."
        yield Finding(what, (at(("acceptance", "resnet50")),), fix)


def check_docker_runtime(spec: ClusterSpec) -> Findings:
    """Docker is installed only if the site runs something in it.

    K3s has its own containerd: a second Docker would hold images, and GPUs of containers unknown to
    Kubernetes.
    """
    k3s = spec.k3s
    if spec.host_defaults.docker and k3s is not None and k3s.container_runtime == "containerd":
        what = "Docker is asked for on the hosts, and K3s runs its pods in containerd."
        where = places(spec, "host_defaults.docker", "kubernetes.container_runtime")
        fix = "remove host_defaults.docker, or set kubernetes.container_runtime to docker."
        yield Finding(what, where, fix)


_MIN_TEST_WORKERS: Final = 2


def check_control_plane(spec: ClusterSpec) -> Findings:
    """The site has at least one control-plane host."""
    if (spec.k3s or spec.kubespray) is not None and not spec.servers:
        what = "no host is a control_plane, so there is nothing to install the cluster on."
        fix = "give one host, or three, the role control_plane."
        yield Finding(what, places(spec, "hosts"), fix)


def check_worker_count(spec: ClusterSpec) -> Findings:
    """The site has at least two workers: RDMA is proven between two hosts."""
    count = len(spec.workers)
    if count < _MIN_TEST_WORKERS:
        yield Finding(
            f"{count} of the hosts {'is a worker' if count == 1 else 'are workers'}, and RDMA is "
            "proven between two.",
            places(spec, "hosts"),
            "give at least two hosts the role worker.",
        )


def check_etcd_members(spec: ClusterSpec) -> Findings:
    """The number of control-plane hosts is odd.

    etcd needs a majority: four members survive one failure, as three do, and have one more host
    that can fail; two survive none.
    """
    servers = with_role(spec, "control_plane")
    count = len(servers)
    if count and count % 2 == 0:
        what = f"{count} servers survive {(count - 1) // 2} failures, as {count - 1} would."
        fix = f"use {count - 1} or {count + 1}."
        yield Finding(what, tuple(at(("hosts", h, "role"), host.role) for h, host in servers), fix)


def check_version_pair(spec: ClusterSpec) -> Findings:
    """The GPU operator's release line supports the Kubernetes minor.

    The ranges, with their sources, are in components/catalogue/operator_versions.py. A line outside
    of the catalogue is a warning.
    """
    if spec.operators.gpu is not None:
        chart, path = spec.operators.gpu.chart, ("operators", "gpu", "chart", "version")
        yield from known_with(spec, "GPU operator", chart, path, GPU_OPERATOR)


def known_with(
    spec: ClusterSpec,
    what: str,
    chart: ChartSource,
    path: SpecPath,
    catalogue: tuple[KubernetesRange, ...],
    beyond: Literal["error", "warning"] = "error",
) -> Findings:
    """Compare one chart with the site's Kubernetes; `beyond` is the severity for a newer one."""
    plane = spec.kubernetes
    if plane is None:
        return
    major, second, *_ = parse_numbers(plane.version)
    line, minor = find_line(chart.version, catalogue), (major, second)
    where = (at(path, chart.version), at(("kubernetes", "version"), plane.version))
    if line is None:
        yield Finding(
            f"{why_unknown(what, chart.version, catalogue)}.",
            where,
            "use a release of a line that is known, or read its documentation first, and waive the "
            "rule with what that says.",
            "warning",
        )
    elif not line.holds(minor):
        others = ", ".join(show_version(each.line) for each in catalogue if each.holds(minor))
        yield Finding(
            f"{what} {chart.version} needs Kubernetes {line.describe()}, not "
            f"{show_version(minor)}.",
            where,
            f"choose {f'{what} {others}, or ' if others else ''}a Kubernetes of that range. "
            f"Source: {line.source}.",
            "error" if minor < line.lowest else beyond,
        )


def check_runtime_nri(spec: ClusterSpec) -> Findings:
    """The containerd of K3s or kubespray works with the GPU operator's container toolkit.

    The toolkit works through NRI, and only with some releases of containerd: with others, pods get
    no GPU. The tables of both are in components/catalogue/operator_versions.py. Preflight checks
    the nodes of an existing cluster.
    """
    if spec.operators.gpu is None or toolkit_owner(spec) != "operator" or runs_docker(spec):
        return
    own: object = None
    if spec.k3s is not None:
        installer, release, path = "K3s", spec.k3s.version, "kubernetes.version"
    elif spec.kubespray is not None:
        installer, release = "kubespray", spec.kubespray.source.release
        own = spec.kubespray.extra_vars.get("containerd_version")
        path = "kubernetes." + ("extra_vars.containerd_version" if own else "source.release")
    else:
        return
    brought = str(own) if own else containerd_of(installer, release)
    if brought is not None and not nri_works(f"containerd://{brought}"):
        good = ", ".join(first for first, each in CONTAINERD[installer].items() if each == "2.1")
        newer = "remove it" if own else f"take {installer} {good} or later"
        yield Finding(
            f"{installer} {release} brings containerd {brought}, and the GPU operator's container "
            "toolkit works with 1.7.30, a later 1.7, or 2.1 and later.",
            places(spec, path, "operators.gpu"),
            f"{newer}, or bring the toolkit with the hosts' image and set host_defaults.toolkit: "
            "{kind: present}.",
        )


def check_k3s_cni(spec: ClusterSpec) -> Findings:
    """K3s has the folder for CNI programs that the pod network installs into.

    Older releases keep their programs in a folder whose name changes at every upgrade. They do not
    look into the folder that Multus and the other plugins are copied to: pods with a rail stay in
    ContainerCreating. The first releases with the folder are in
    components/catalogue/cluster_parts.py.
    """
    plane = spec.kubernetes
    k3s = parse_k3s(plane.version) if plane else None
    if plane is None or k3s is None or not uses_multus(spec):
        return
    minor, patch = k3s[:2], k3s[2]
    older = minor < min(FIRST_K3S) or patch < FIRST_K3S.get(minor, 0)
    if older and cni_paths(spec) == DISTRIBUTIONS["k3s"]:
        first = ", ".join(f"v{show_version((*each, at_))}" for each, at_ in FIRST_K3S.items())
        own = " or set kubernetes.cni to the folders of its nodes" if not spec.k3s else ""
        yield Finding(
            f"K3s {plane.version} has no folder {cni_paths(spec).bin}, where the CNI plugins of "
            "the rails are installed.",
            (at(("kubernetes", "version"), plane.version),),
            f"use K3s {first} or later{own}. Source: docs.k3s.io, Multus and IPAM plugins.",
        )


def check_chart_repository(spec: ClusterSpec) -> Findings:
    """A chart from a repository names the repository, and other charts name none."""
    for name, chart in _charts(spec):
        yield from _chart_home(chart.chart, chart.repo, ("operators", name, "chart"))


def _charts(spec: ClusterSpec) -> Iterator[tuple[str, ChartSource]]:
    operators = spec.operators
    for name, operator in (
        ("gpu", operators.gpu),
        ("network", operators.network),
        ("gpu_device_plugin", operators.gpu_device_plugin),
    ):
        if operator is not None:
            yield name, operator.chart


def _chart_home(chart: str, repo: str | None, path: SpecPath) -> Findings:
    bare = "/" not in chart
    if bare and repo is None:
        fix = "add repo, or write a path of the project or an oci:// address."
        yield Finding(f"the chart {chart} has no repository.", (at((*path, "chart"), chart),), fix)
    if repo is not None and not bare:
        what = f"the chart repository {repo} is given for a chart that is a path or an address."
        fix = "use a chart name with a repository, or no repository."
        yield Finding(what, (at((*path, "repo"), repo), at((*path, "chart"), chart)), fix)


def check_version_conflict(spec: ClusterSpec) -> Findings:
    """No two components have versions that are known to fail together.

    The pairs, their faults and the sources are in components/catalogue/version_pairs.py, and
    `railyard versions` prints them. If the source names only a neighbouring release, it is a
    warning.
    """
    versions, network = versions_of(spec), spec.operators.network
    container = network is not None and network.driver == "operator"
    for conflict in conflicts_of(versions, container=container):
        parts = (conflict.one, conflict.other) if conflict.other else (conflict.one,)
        pair: list[Component] = [each.component for each in parts]
        names = " and ".join(f"{TITLES[each]} {versions[each]}" for each in pair)
        where = tuple(at(VERSION_PATHS[each], versions[each]) for each in pair)
        fix = f"{conflict.fix} Source: {conflict.source}."
        yield Finding(f"{names} {conflict.reason}.", where, fix, conflict.severity)


def check_driver_tag(spec: ClusterSpec) -> Findings:
    """The network operator's driver container has a tag from its own release, or from the file.

    NVIDIA makes a container for each release of the operator and for no other. With a wrong tag
    each node stays without its RDMA driver until someone checks its image pull.
    """
    operator = spec.operators.network
    if operator is None:
        return
    path: SpecPath = ("operators", "network", "driver_tag")
    if operator.driver == "host":
        if operator.driver_tag is not None:
            what = f"driver_tag is {operator.driver_tag}, and the hosts own the RDMA driver."
            fix = "remove driver_tag, or set operators.network.driver to operator."
            yield Finding(what, (at(path, operator.driver_tag),), fix)
        return
    if container_tag(operator) is not None:
        return
    release = operator.chart.version.removeprefix("v")
    seen = DRIVER_TAGS.get(release)
    known = ", ".join(each for each in DRIVER_TAGS if driver_tag(each) is not None)
    hint = f" Reported, and not confirmed, is {seen.tag}." if seen is not None else ""
    yield Finding(
        f"the driver container of network operator {release} is not known.{hint}",
        places(spec, "operators.network.chart.version", "operators.network.driver"),
        "write its tag as operators.network.driver_tag (catalog.ngc.nvidia.com lists them), take "
        f"a release of {known}, or set driver to host.",
    )

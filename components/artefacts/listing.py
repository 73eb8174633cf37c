"""`artefacts_of`: everything that a site fetches from somewhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from components.artefacts.naming import parse_image
from components.catalogue import upstream
from components.catalogue.cluster_parts import Part
from components.catalogue.upstream import Architecture
from components.core.problem import SpecPath
from components.core.record import record
from components.model import owners
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import K3sPlane
from components.model.operators import ByChart, ChartSource

Kind = Literal["file", "chart", "image", "repository"]
Where = Literal["hosts", "cluster", "here"]
K3sFile = Literal["binary", "images"]
K3S_SCRIPT: Final = "k3s-install-script"
K3S_POLICY: Final = "k3s-selinux"
_FIRMWARE: Final = "nic-configuration-operator"


@record
class Artefact:
    """One file, chart, image or repository that the site refers to."""

    name: str
    """The usual name: `k3s`, `gpu-operator`, or an image's own name."""
    kind: Kind
    address: str
    """https address, `oci://…`, whole name of an image, or a path."""
    version: str
    used_on: Where
    path: SpecPath
    """The place in the site file; for a default, the place that would override it."""
    checksum: str = ""
    """SHA-256 from the site file; empty if it comes from the lock."""
    published: str = ""
    """Address of a list that publishes its checksum."""

    @property
    def local(self) -> bool:
        """Whether the address is a path: on the hosts for a file, in the project for a chart."""
        remote = ("https://", "http://", "oci://")
        return self.kind != "image" and not self.address.startswith(remote)

    @property
    def lockable(self) -> bool:
        """Whether the lock records it: it is fetched, and the site gives no checksum for it."""
        return not self.local and not self.checksum and self.kind != "repository"


def artefacts_of(spec: ClusterSpec) -> tuple[Artefact, ...]:
    """Everything that the site fetches, each once: files, charts, repositories, images."""
    used: Where = "cluster" if spec.kubernetes is not None else "hosts"
    images = (image_artefact(image, used, path) for image, path in images_of(spec))
    charts: list[Artefact] = []
    for release, (_, chart, path) in charts_by_release(spec).items():
        address = f"{chart.repo.rstrip('/')}/{chart.chart}" if chart.repo else chart.chart
        place = (*path, "chart")
        charts.append(Artefact(release, "chart", address, chart.version, "here", place))
    found = (*_k3s(spec), *_drivers(spec), *charts, *images)
    return tuple({(each.kind, each.name): each for each in reversed(found)}.values())[::-1]


def architectures(
    spec: ClusterSpec, hosts: Iterable[Host] | None = None
) -> tuple[Architecture, ...]:
    """The architectures of hosts, by default all, sorted; without any that of `host_defaults`."""
    named = spec.hosts if hosts is None else hosts
    found: set[Architecture] = {spec.settings_of(host).architecture for host in named}
    return tuple(sorted(found or {spec.host_defaults.architecture}))


def k3s_binary_name(architecture: Architecture) -> str:
    """The name of K3s' binary in its releases."""
    return "k3s" if architecture == "amd64" else f"k3s-{architecture}"


def k3s_images_name(architecture: Architecture) -> str:
    """The name that Railyard gives the archive of K3s' own images."""
    return f"k3s-airgap-images-{architecture}"


def _k3s(spec: ClusterSpec) -> Iterator[Artefact]:
    plane = spec.k3s
    if plane is None:
        return
    for architecture in architectures(spec, [h for h in spec.hosts if h.role != "balancer"]):
        yield _k3s_file(plane, architecture, "binary")
        written: str | None = getattr(plane.source, k3s_key("images", architecture))
        if written is not None or spec.sources.bundle is not None:
            yield _k3s_file(plane, architecture, "images")
    source = plane.source
    script = source.install_script or upstream.k3s_install_script(plane.version)
    path, checksum = ("kubernetes", "source", "install_script"), source.install_script_sha256 or ""
    yield Artefact(K3S_SCRIPT, "file", script, plane.version, "hosts", path, checksum)
    if (policy := source.selinux_policy) is not None:
        release = policy.rpartition("/")[2].removeprefix(f"{K3S_POLICY}-").removesuffix(".rpm")
        path = ("kubernetes", "source", "selinux_policy")
        checksum = source.selinux_policy_sha256 or ""
        yield Artefact(K3S_POLICY, "file", policy, release, "hosts", path, checksum)


def _k3s_file(plane: K3sPlane, architecture: Architecture, what: K3sFile) -> Artefact:
    key = k3s_key(what, architecture)
    written: str | None = getattr(plane.source, key)
    checksum: str | None = getattr(plane.source, f"{key}_sha256")
    binary, version = what == "binary", plane.version
    name = k3s_binary_name(architecture) if binary else k3s_images_name(architecture)
    address = written or upstream.k3s_file(version, name if binary else f"{name}.tar.zst")
    sums = "" if written else upstream.k3s_file(version, f"sha256sum-{architecture}.txt")
    path: SpecPath = ("kubernetes", "source", key)
    return Artefact(name, "file", address, version, "hosts", path, checksum or "", sums)


def k3s_key(what: K3sFile, architecture: Architecture) -> str:
    """The key of a file in `kubernetes.source`."""
    return what if architecture == "amd64" else f"{what}_{architecture}"


def _drivers(spec: ClusterSpec) -> Iterator[Artefact]:
    named: dict[SpecPath, DriverPackage | None] = {
        ("host_defaults", "driver"): spec.host_defaults.driver
    }
    named |= {("host_groups", n, "driver"): each.driver for n, each in enumerate(spec.host_groups)}
    for path, driver in named.items():
        if driver is None:
            continue
        version = driver.version or ""
        if (source := driver.source) is not None:
            name, place = f"driver {source.rpartition('/')[2]}", (*path, "source")
            yield Artefact(name, "file", source, version, "hosts", place, driver.sha256 or "")
        if (repository := driver.repository) is not None:
            url, key, place = repository.url, repository.key_sha256, (*path, "repository", "url")
            name = f"driver repository {url}"
            yield Artefact(name, "repository", url, version, "hosts", place, key)


def charts_by_release(spec: ClusterSpec) -> dict[str, tuple[ByChart, ChartSource, SpecPath]]:
    """The operators that a chart installs, by the name of their Helm release."""
    operators = spec.operators
    named = (
        ("nvidia-device-plugin", operators.gpu_device_plugin, "gpu_device_plugin"),
        ("gpu-operator", operators.gpu, "gpu"),
        ("network-operator", operators.network, "network"),
    )
    return {
        release: (each, each.chart, ("operators", key, "chart"))
        for release, each, key in named
        if each is not None and spec.kubernetes is not None
    }


def images_of(spec: ClusterSpec) -> Iterator[tuple[str, SpecPath]]:
    """Every image that the site runs or builds on, with its place, except images of charts."""
    if spec.kubernetes is not None:
        yield from _cluster_images(spec)
    if (containers := spec.containers) is not None:
        if containers.build is None:
            yield containers.image, ("containers", "image")
        else:
            yield containers.build.base, ("containers", "build", "base")


def _cluster_images(spec: ClusterSpec) -> Iterator[tuple[str, SpecPath]]:
    images, network = spec.sources.images, spec.pod_network
    named = owners.cni_programs(spec)
    programs: tuple[Part, ...] = tuple(owners.part_of_program(name) for name in named)
    parts: tuple[Part, ...] = (
        "multus", "whereabouts", "nv_ipam", *programs, "sriov_device_plugin", "mpi_operator",
    )  # fmt: skip
    keys = [
        *(part for part in parts if owners.installs(spec, part)),
        *(owners.cni_check_image(spec), owners.pool_files_image(spec)),
    ]
    for key in dict.fromkeys(filter(None, keys)):
        yield getattr(images, key), ("sources", "images", key)
    if (operator := spec.operators.network) is not None:
        place: SpecPath = ("operators", "network", "chart")
        if not owners.vfs_by_operator(spec):  # else that operator's chart brings a plugin
            yield network_device_plugin(operator.chart.version, network.mode), place
        for name in policy_operands(spec):
            yield network_operand(operator.chart.version, name), place
    elif owners.installs(spec, "shared_device_plugin"):
        yield network.shared_plugin, ("pod_network", "shared_plugin")
    yield spec.jobs.image, ("jobs", "image")
    if spec.jobs.deepspeed is not None:
        yield spec.jobs.deepspeed.image, ("jobs", "deepspeed", "image")
    if spec.watch is not None:
        yield spec.watch.image, ("watch", "image")


def network_device_plugin(release: str, mode: str) -> str:
    """The device plugin that the network operator starts; its chart does not name this image."""
    shared = mode == "rdma_shared"
    name = "k8s-rdma-shared-dev-plugin" if shared else "sriov-network-device-plugin"
    return network_operand(release, name)


def network_operand(release: str, name: str) -> str:
    """An image that the network operator starts for its policy, by its name there."""
    return f"{upstream.NETWORK_OPERANDS}/{name}:network-operator-v{release.removeprefix('v')}"


def policy_operands(spec: ClusterSpec) -> tuple[str, ...]:
    """The images of a policy, except its device plugin."""
    networks = ("plugins", "multus-cni") if owners.policy_networks(spec) else ()
    ipoib = ("ipoib-cni",) if networks and owners.way_of(spec) == "ipoib" else ()
    addresses = ("nvidia-k8s-ipam",) if owners.draws_blocks(spec) else ()
    firmware = (_FIRMWARE, f"{_FIRMWARE}-daemon") if owners.firmware_by_operator(spec) else ()
    keys = ("ib-kubernetes",) if owners.guids_by_pods(spec) else ()
    return (*networks, *ipoib, *addresses, *firmware, *keys)


def image_artefact(image: str, used_on: Where, path: SpecPath) -> Artefact:
    """An image as an artefact; a digest in its name counts as the site's checksum."""
    found = parse_image(image)
    checksum = found.digest.removeprefix("sha256:")
    return Artefact(image, "image", str(found), found.version, used_on, path, checksum)

"""Rules on the cluster or containers that run jobs: members, versions and sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from pydantic import BaseModel, JsonValue

from components.artefacts.listing import artefacts_of, charts_by_release
from components.catalogue import operator_versions as releases
from components.catalogue import version_pairs as pairs
from components.catalogue.cluster_parts import DISTRIBUTIONS, FIRST_K3S
from components.checks.rule import Finding, Findings, at, find, places, walk
from components.checks.topology import list_nics
from components.core.judge import needs
from components.core.problem import SpecPath
from components.model import operators
from components.model.cluster import ClusterSpec
from components.model.owners import cni_paths, runs_docker, toolkit_owner, uses_multus
from components.model.sources import Registry
from components.model.worker_kinds import crusoe_of
from components.operators.operators_plan import container_tag

_CHARTS: Final = "operators.gpu.chart operators.network.chart operators.gpu_device_plugin.chart"
_ZEROS: Final = "0" * 64
_UFM: Final = "write what `openssl x509 -outform der | sha256sum` prints of UFM's certificate."


@needs("kubernetes", "containers")
def check_payload_choice(spec: ClusterSpec) -> Findings:
    """A site has either `kubernetes` or `containers`.

    Both would give the same GPUs and cards to two schedulers.
    """
    if spec.kubernetes is not None and spec.containers is not None:
        yield find("payload-choice-both", *places(spec, "kubernetes", "containers"))
    if spec.kubernetes is None and spec.containers is None:
        yield find("payload-choice-neither", at(()))


def check_runtime_nri(spec: ClusterSpec) -> Findings:
    """The containerd of K3s or kubespray works with the GPU operator's container toolkit.

    The toolkit's NRI needs certain releases of containerd
    (components/catalogue/operator_versions.yaml): with others, pods get no GPU. Preflight checks
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
    brought = str(own) if own else releases.containerd_of(installer, release)
    if brought is not None and not releases.nri_works(f"containerd://{brought}"):
        lines = releases.CONTAINERD[installer].items()
        good = ", ".join(first for first, each in lines if each == "2.1")
        newer = "remove it" if own else f"take {installer} {good} or later"
        words = {"installer": installer, "release": release, "brought": brought, "newer": newer}
        yield find("runtime-nri", *places(spec, path, "operators.gpu"), **words)


def check_k3s_cni(spec: ClusterSpec) -> Findings:
    """K3s has the folder for CNI programs that the pod network installs into.

    Older releases look for programs in a folder whose name changes at every upgrade: pods with a
    rail stay in ContainerCreating. components/catalogue/cluster_parts.py has the first releases
    with the folder.
    """
    plane = spec.kubernetes
    k3s = releases.parse_k3s(plane.version) if plane else None
    if plane is None or k3s is None or not uses_multus(spec):
        return
    minor, patch = k3s[:2], k3s[2]
    older = minor < min(FIRST_K3S) or patch < FIRST_K3S.get(minor, 0)
    if older and cni_paths(spec) == DISTRIBUTIONS["k3s"]:
        firsts = (releases.show_version((*each, at_)) for each, at_ in FIRST_K3S.items())
        first = ", ".join(f"v{each}" for each in firsts)
        own = " or set kubernetes.cni to the folders of its nodes" if not spec.k3s else ""
        where = (at(("kubernetes", "version"), plane.version),)
        yield find("k3s-cni", *where, plane=plane, folder=cni_paths(spec).bin, first=first, own=own)


def check_chart_repository(spec: ClusterSpec) -> Findings:
    """A chart from a repository names the repository, and other charts name none."""
    for source, here in walk(spec, _CHARTS, operators.ChartSource):
        chart, bare = source.chart, "/" not in source.chart
        if bare and source.repo is None:
            yield find("chart-repository-missing", *here("chart"), chart=chart)
        if source.repo is not None and not bare:
            yield find("chart-repository-path", *here("repo", "chart"), chart=chart, source=source)


def check_version_conflict(spec: ClusterSpec) -> Findings:
    """No two components have versions that are known to fail together.

    `railyard versions` prints the pairs, their faults and the sources. If the source names only a
    neighbouring release, it is a warning.
    """
    versions, network = operators.versions_of(spec), spec.operators.network
    container = network is not None and network.driver == "operator"
    for conflict in pairs.conflicts_of(versions, container=container):
        parts = (conflict.one, conflict.other) if conflict.other else (conflict.one,)
        pair: list[pairs.Component] = [each.component for each in parts]
        names = " and ".join(f"{pairs.TITLES[each]} {versions[each]}" for each in pair)
        where = tuple(at(operators.VERSION_PATHS[each], versions[each]) for each in pair)
        fix = f"{conflict.fix} Source: {conflict.source}."
        yield Finding(f"{names} {conflict.reason}.", where, fix, conflict.severity)


def check_driver_tag(spec: ClusterSpec) -> Findings:
    """The network operator's driver container has a tag from its own release, or from the file.

    NVIDIA makes a container for each release of the operator. With a wrong tag the nodes stay
    without their RDMA driver.
    """
    for operator, here in walk(spec, "operators.network", operators.NetworkOperator):
        release = operator.chart.version.removeprefix("v")
        if operator.driver == "host" and operator.driver_tag is not None:
            yield find("driver-tag-unused", *here("driver_tag"), operator=operator)
        elif operator.driver != "host" and container_tag(operator) is None:
            seen = pairs.DRIVER_TAGS.get(release)
            what = f"Railyard does not know the driver container of network operator {release}."
            what += f" {seen.tag} is reported, but not confirmed." if seen else ""
            known = ", ".join(each for each in pairs.DRIVER_TAGS if pairs.driver_tag(each))
            fix = f"write it as operators.network.driver_tag, take a release of {known}, or set "
            yield Finding(what, here("chart.version", "driver"), f"{fix}driver to host.")


def check_checksum_zeros(spec: ClusterSpec) -> Findings:
    """A checksum is a real one, not a row of zeros.

    Examples use zeros, with which every host would refuse its download in the middle of an update.
    """
    for path in _zeros(spec, ()):
        name = str(path[-1])
        fix = f"remove {name} and run `railyard pin` on the site, or write what `sha256sum` prints."
        words = {"name": name, "fix": _UFM if path[0] == "infiniband" else fix}
        yield find("checksum-zeros", at(path, _ZEROS), **words)


def _zeros(value: object, path: SpecPath) -> Iterator[SpecPath]:
    if isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from _zeros(getattr(value, key), (*path, key))
    elif isinstance(value, tuple):
        for number, item in enumerate(cast("tuple[object, ...]", value)):
            yield from _zeros(item, (*path, number))
    elif value == _ZEROS:
        yield path


def check_made_host_source(spec: ClusterSpec) -> Findings:
    """Machines that the same update makes hold no files yet, so no source is a path there.

    Railyard does not know the files of the cloud's image.
    """
    if crusoe_of(spec) is None:
        return
    for artefact in artefacts_of(spec):
        if artefact.path[0] == "kubernetes" and artefact.local:
            where = (at(artefact.path, artefact.address), at(("environment", "instances")))
            yield find("made-host-source", *where, artefact=artefact)


def check_chart_values(spec: ClusterSpec) -> Findings:
    """`values` of a chart add to the plan's decisions, and do not contradict them.

    Other parts of the plan rely on those, such as who brings a driver, or where CNI plugins are.
    """
    for release, (owner, _, path) in charts_by_release(spec).items():
        if not owner.values:
            continue
        from components.operators.operators_plan import chart_values  # noqa: PLC0415 - slow

        ours = chart_values(spec, release)
        for keys, mine, theirs in _contradictions(ours, owner.values, ()):
            name = ".".join(keys)
            what = f"{name} of {release} is {_shown(theirs)}, but the plan needs {_shown(mine)}."
            fix = f"remove {name} from values, or change the setting that decides it."
            yield Finding(what, (at((*path[:-1], "values", *keys), _shown(theirs)),), fix)


def _shown(value: JsonValue) -> str:
    words = {True: "true", False: "false", None: "null"}
    return words[value] if isinstance(value, bool) or value is None else str(value)


def _contradictions(
    ours: JsonValue, theirs: JsonValue, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], JsonValue, JsonValue]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() & theirs.keys():
            yield from _contradictions(ours[key], theirs[key], (*path, key))
    elif ours != theirs:
        yield path, ours, theirs


def check_registry_docker(spec: ClusterSpec) -> Findings:
    """The site's own registry works with containerd, K3s' own runtime.

    Docker takes a CA, a login and plain HTTP from its own files (`/etc/docker`).
    """
    docker = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    for registry, here in walk(spec, "sources.registry", Registry):
        own = registry.ca is not None or registry.login is not None or registry.insecure
        if own and (docker or spec.containers is not None):
            yield find("registry-docker", *here("address"), registry=registry)


def check_container_hosts(spec: ClusterSpec) -> Findings:
    """Containers run under Docker, and their cards have addresses.

    In the host's network RoCE v2 needs an IPv4 address on the card itself.
    """
    for each in list_nics(spec) if spec.containers is not None else ():
        if each.host.role == "worker" and each.nic.address is None:
            rail = each.nic.rail
            yield find("container-hosts", at(each.path), each=each, rail=rail)

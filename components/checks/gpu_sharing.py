"""Rules on parts of GPUs: what cannot be shared where RDMA is proven, and what copies from GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import charts_by_release
from components.checks.rule import Finding, Findings, at, places
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.drivers import ContainerToolkit
from components.model.operator_owned import runs_docker, toolkit_owner

_SHARING: Final = ("timeSlicing", "mps")
"""Keys of the device plugin's `sharing` (k8s-device-plugin v0.19.3, README)."""
_MIG_OFF: Final = frozenset({"", "none", "single"})
"""Strategies with which a whole GPU is `nvidia.com/gpu`; `single` is the GPU operator's default,
and does nothing while no GPU is in MIG mode."""
_PLUGIN_CONFIG: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu-operator": ("devicePlugin", "config"),
    "nvidia-device-plugin": ("config",),
}
_STRATEGY: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu-operator": ("mig", "strategy"),
    "nvidia-device-plugin": ("migStrategy",),
}
_MIG_LAYOUT: Final = ("migManager", "config", "default")
_ALL_OFF: Final = "all-disabled"
_SLICED: Final = (
    "a GPU is then counted several times, and NCCL refuses two ranks on one GPU "
    '("Duplicate GPU detected")'
)
_CUT: Final = (
    "parts of a GPU reach each other neither over NVLink nor over PCIe, and jobs count whole GPUs"
)
_WHOLE: Final = "remove it: jobs and acceptance take whole GPUs (nvidia.com/gpu)."


def check_gpu_sharing(spec: ClusterSpec) -> Findings:
    """No value of a chart shares or cuts the GPUs: time slicing, MPS, and MIG.

    Jobs ask for whole GPUs. With time slicing or MPS a node publishes more GPUs than it has, and
    NCCL ends where two of its ranks are on one; with MIG what they ask for has another name or
    size, and its parts have no peer to peer (MIG user guide). What a ConfigMap of the site's own
    says is not read; it is a warning.
    """
    for release, (owner, _, path) in charts_by_release(spec).items():
        if release not in _STRATEGY:
            continue
        values: SpecPath = (*path[:-1], "values")
        yield from _mig(owner.values, values, release)
        yield from _sliced(owner.values, values, _PLUGIN_CONFIG[release])


def _mig(values: JsonValue, path: SpecPath, release: str) -> Findings:
    strategy = _found(values, _STRATEGY[release])
    if isinstance(strategy, str) and strategy not in _MIG_OFF:
        yield _refuse(f"the MIG strategy is {strategy}: {_CUT}", path, _STRATEGY[release], strategy)
    layout = _found(values, _MIG_LAYOUT)
    if release == "gpu-operator" and isinstance(layout, str) and layout != _ALL_OFF:
        yield _refuse(f"the MIG layout of all nodes is {layout}: {_CUT}", path, _MIG_LAYOUT, layout)


def _sliced(values: JsonValue, path: SpecPath, keys: tuple[str, ...]) -> Findings:
    config = _found(values, keys)
    if not isinstance(config, dict):
        return
    shared = next((key for key in _SHARING if key in str(config)), None)
    if shared is not None:
        yield _refuse(f"the device plugin shares GPUs ({shared}): {_SLICED}", path, keys, None)
    elif config.get("name") and not (config.get("create") or config.get("map")):
        yield Finding(
            f"the device plugin uses the ConfigMap {config['name']}, which is not read here.",
            (at((*path, *keys, "name"), config["name"]),),
            "see that it neither shares nor cuts GPUs.",
            "warning",
        )


def _refuse(what: str, path: SpecPath, keys: tuple[str, ...], value: str | None) -> Finding:
    return Finding(f"{what}.", (at((*path, *keys), value),), _WHOLE)


def _found(values: JsonValue, keys: tuple[str, ...]) -> JsonValue:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def check_gdrcopy(spec: ClusterSpec) -> Findings:
    """GDRCopy's module comes with the GPU operator's driver, or from the hosts themselves.

    Its container is a part of the driver's pod (GPU operator v26.3.3, values.yaml). With the driver
    on the hosts there is no such pod, and nothing would load the module.
    """
    operator = spec.operators.gpu
    if operator is not None and operator.gdrcopy and operator.driver == "host":
        yield Finding(
            "the GPU operator brings GDRCopy with its driver, but the hosts own the GPU driver.",
            places(spec, "operators.gpu.gdrcopy", "operators.gpu.driver"),
            "remove gdrcopy and install gdrdrv on the hosts, or set driver to operator.",
        )


_PATH: SpecPath = ("host_defaults", "toolkit")


def check_container_toolkit(spec: ClusterSpec) -> Findings:
    """The container toolkit has one owner, who can bring it.

    Without it containers see no GPU, and K3s does not start where its configuration names the
    runtime. What Railyard installs comes from a repository whose key is pinned, or is of a pinned
    version in the repositories that the hosts have; with Docker and no word about the toolkit it is
    whatever these offer, which is a warning.
    """
    asked = spec.host_defaults.toolkit
    if asked is None:
        yield from _unpinned_findings(spec)
        return
    where = at((*_PATH, "kind"), asked.kind)
    yield from _source_findings(asked)
    operator = spec.operators.gpu
    if asked.kind != "operator":
        if operator is not None and operator.driver == "operator":
            yield Finding(
                f"the toolkit is {asked.kind}, but the GPU operator's driver needs its own.",
                (where, at(("operators", "gpu", "driver"), operator.driver)),
                "remove toolkit, or let the hosts own the GPU driver (operators.gpu.driver: host).",
            )
    elif operator is None:
        yield Finding(
            "the GPU operator should bring the container toolkit, but the site has none.",
            (where,),
            "add operators.gpu, or set kind to present or host.",
        )
    elif runs_docker(spec):
        yield Finding(
            "the GPU operator's toolkit works through containerd, and containers run in Docker.",
            (where,),
            "set kind to present or host.",
        )


def _unpinned_findings(spec: ClusterSpec) -> Findings:
    if toolkit_owner(spec) != "host" or not any(host.gpus for host in spec.workers):
        return
    docker = spec.host_defaults.docker
    by_host = at(("host_defaults", "docker"), docker)
    by_k3s = at(("kubernetes", "container_runtime"), "docker")
    yield Finding(
        "no version of the container toolkit is pinned: Docker brings what the day offers.",
        (by_host if docker else by_k3s,),
        "set host_defaults.toolkit to {kind: present} if the hosts have it, or to {kind: host, "
        "version: …}, with repository if their own have it not.",
        "warning",
    )


def _source_findings(asked: ContainerToolkit) -> Findings:
    given = {"repository": asked.repository and asked.repository.url, "version": asked.version}
    extra = {key: value for key, value in given.items() if value is not None}
    where = at((*_PATH, "kind"), asked.kind)
    if asked.kind == "host" and not extra:
        yield Finding(
            "Railyard installs the container toolkit, but repository and version are missing.",
            (where,),
            "add repository with url, key and key_sha256 (NVIDIA's is "
            "https://nvidia.github.io/libnvidia-container), or version if the hosts' own "
            "repositories have the toolkit, or set kind to present.",
        )
    elif asked.kind != "host" and extra:
        yield Finding(
            f"nothing is installed of a container toolkit that is {asked.kind}, and "
            f"{' and '.join(extra)} {'is' if len(extra) == 1 else 'are'} set.",
            (*(at((*_PATH, key), value) for key, value in extra.items()), where),
            f"remove {' and '.join(extra)}, or set kind to host.",
        )

"""Rules on the GPU driver: its owner, its age, and how the cards reach GPU memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import charts_by_release
from components.catalogue import operator_versions
from components.checks.rule import Finding, Findings, Here, at, find, places, values, walk
from components.checks.topology import host_blocks, list_nics
from components.core.problem import Place
from components.model.cards import ContainerToolkit, DriverPackage
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, HostDefaults, HostGroup
from components.model.owners import gpu_driver_owner, gpu_paths, runs_docker, toolkit_owner

_TWO: Final = 2
_OLD_CODING: Final = 0.8
"""Data bits of ten on a link of PCIe generation 1 or 2 (8b/10b, PCI Express Base 2.0)."""
_CODING: Final = 128 / 130
"""Data bits on a link from generation 3 on (128b/130b, PCI Express Base 3.0)."""
_OLD_GT_S: Final = 5.0
"""The highest speed with the old coding."""
_SHARING: Final = ("timeSlicing", "mps")
"""Keys of the device plugin's `sharing` (k8s-device-plugin v0.19.3, README)."""
_MIG_OFF: Final = frozenset({"", "none", "single"})
"""Strategies with which a whole GPU is `nvidia.com/gpu`; `single` is the GPU operator's default,
and does nothing while no GPU is in MIG mode."""
_MIG_LAYOUT: Final = ("migManager", "config", "default")
_ALL_OFF: Final = "all-disabled"
_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "gpu-operator": (("mig", "strategy"), ("devicePlugin", "config")),
    "nvidia-device-plugin": (("migStrategy",), ("config",)),
}
"""Chart to the keys of its MIG strategy, and of the device plugin's configuration."""
_SLICED: Final = (
    "a node then counts a GPU several times, but NCCL refuses two ranks on one GPU "
    '("Duplicate GPU detected")'
)
_CUT: Final = (
    "parts of a GPU reach each other neither over NVLink nor over PCIe, and jobs count whole GPUs"
)
_WHOLE: Final = "remove it: jobs and acceptance take whole GPUs (nvidia.com/gpu)."


def check_gpu_direct(spec: ClusterSpec) -> Findings:
    """GPUDirect RDMA is on if the site has GPUs.

    Otherwise every message is copied through the host's memory.
    """
    for host in spec.workers:
        if host.gpus and spec.settings_of(host).gpu_path == "none":
            place = _written_gpu_path(spec, host)
            is_short = place.path[-1] == "peermem"
            wanted = "peermem to true" if is_short else "gpu_direct to peermem or dma_buf"
            yield find("gpu-direct", place, needed=wanted)


def _written_gpu_path(spec: ClusterSpec, host: Host) -> Place:
    """Return the place of the setting for a host's GPU memory: at its group, or for all hosts."""
    owner: HostDefaults | HostGroup = spec.host_defaults
    here = Here(spec.host_defaults, ("host_defaults",))
    for group, of_group in walk(spec, "host_groups.*", HostGroup):
        if group.name == host.group and (group.gpu_direct or group.peermem is not None):
            owner, here = group, of_group
    return here("gpu_direct" if owner.gpu_direct else "peermem")[0]


def check_gpu_driver(spec: ClusterSpec) -> Findings:
    """The GPU driver has one owner: the host, or the GPU operator's container.

    With both, the operator's container cannot load its modules, and the node loses its GPUs. The
    file can demand a version only of the hosts' driver.
    """
    stated, operator = spec.host_defaults.gpu_driver, spec.operators.gpu
    if stated is not None and operator is not None and stated != operator.driver:
        where = places(spec, "host_defaults.gpu_driver", "operators.gpu.driver")
        yield find("gpu-driver-unlike", *where, stated=stated, operator=operator)
    if stated == "operator" and operator is None:
        yield find("gpu-driver-no-operator", *places(spec, "host_defaults.gpu_driver"))
    by_operator = gpu_driver_owner(spec) == "operator"
    for path, version, _ in host_blocks(spec, "gpu_driver_version", str) if by_operator else ():
        yield find("gpu-driver-version", at(path, version), version=version)


def check_gpu_driver_age(spec: ClusterSpec) -> Findings:
    """The hosts' GPU driver is not older than all drivers in the GPU operator's release notes.

    We infer that from the drivers that NVIDIA tried with each release: an older one was not tried
    with its other parts.
    """
    operator = spec.operators.gpu
    if operator is None or gpu_driver_owner(spec) != "host":
        return
    own = operator.chart.version
    line = operator_versions.show_version(operator_versions.parse_numbers(own)[:2])
    least = operator_versions.GPU_DRIVER_LEAST.get(line)
    for path, version, _ in host_blocks(spec, "gpu_driver_version", str):
        branch = operator_versions.gpu_branch(version)
        if least is not None and branch is not None and branch < least:
            where = (at(path, version), *places(spec, "operators.gpu.chart.version"))
            yield find("gpu-driver-age", *where, version=version, own=own, least=least)


def check_peer_memory(spec: ClusterSpec) -> Findings:
    """A card can reach GPU memory: with the module of its driver, or with DMA-BUF.

    nvidia_peermem comes with GPU driver 470; the older nv_peer_mem needs MLNX_OFED 5.1. DMA-BUF
    needs open kernel modules (driver 515) and Linux 5.12. One GPU operator cannot serve both paths.
    """
    for each in values(spec, "host_defaults host_groups.*"):
        owner, here = each.value, Here(each.value, each.path)
        long, short = owner.gpu_direct, owner.peermem
        stated = "peermem" in owner.model_fields_set and short is not None
        if stated and long and short != (long != "none"):
            where = here("peermem", "gpu_direct")
            yield find("peer-memory-unlike", *where, peermem=str(short).lower(), long=long)
    for host, here in walk(spec, "hosts.*", Host):
        if host.gpus:
            where = (*here("name"), _written_gpu_path(spec, host))
            found = _why_not(spec, spec.settings_of(host))
            yield from (Finding(what, where, fix) for what, fix in found)
    # The GPU operator's one driver container builds on one kind of RDMA drivers.
    operator, mixed = spec.operators.gpu, gpu_paths(spec)
    drivers = [spec.settings_of(host).driver for host in spec.workers if host.gpus]
    by_operator = operator is not None and operator.driver == "operator"
    kinds = {driver.is_ofed for driver in drivers} if by_operator else set[bool]()
    if len(kinds) > 1:
        shown = sorted({driver.shown for driver in drivers})
        yield find("peer-kinds", *places(spec, "operators.gpu.driver", "host_groups"), shown=shown)
    elif kinds == {False} and "peermem" in mixed and spec.operators.network is None:
        yield find("peer-inbox", *places(spec, "operators.gpu.driver", "host_defaults.driver"))
    if len(mixed) > 1 and gpu_driver_owner(spec) == "operator":
        where = places(spec, "host_groups", "operators.gpu.driver")
        yield find("peer-memory-mixed", *where, paths=" and ".join(sorted(mixed)))


def _why_not(spec: ClusterSpec, settings: HostDefaults) -> Iterator[tuple[str, str]]:
    """Explain why the path to GPU memory fails on a host, with the fix."""
    path, driver = settings.gpu_path, settings.driver
    branch = operator_versions.gpu_branch(settings.gpu_driver_version or "")
    if path == "nv_peer_mem" and (reason := _why_not_nv_peer_mem(spec, driver, branch)):
        fix = "set gpu_direct to peermem, or to dma_buf with Linux 5.12 and open GPU modules."
        yield f"nv_peer_mem cannot load: {reason}.", fix
    # The module needs `ib_register_peer_memory_client` of the host's driver, unless an operator's
    # container brings one of the two drivers.
    network = spec.operators.network
    by_operator = network is not None and network.driver == "operator"
    by_operator = by_operator or gpu_driver_owner(spec) == "operator"
    if path == "peermem" and not driver.is_ofed and not by_operator:
        what = f"nvidia_peermem needs MLNX_OFED or DOCA-OFED, not {driver.shown}."
        fix = "set driver to {kind: present} if the hosts have one, or name its package (kind: "
        fix += "doca_ofed); or set gpu_direct to dma_buf, which needs Linux 5.12 and open GPU "
        yield what, f"{fix}kernel modules."
    least = {
        "peermem": operator_versions.PEERMEM_LEAST,
        "dma_buf": operator_versions.OPEN_MODULES_LEAST,
    }.get(path, 0)
    if branch is not None and branch < least:
        what = f"{path} comes with GPU driver {least}, not {settings.gpu_driver_version}."
        yield what, f"update the GPU driver to {least} or later, or choose another gpu_direct."


def _why_not_nv_peer_mem(
    spec: ClusterSpec, driver: DriverPackage, branch: int | None
) -> str | None:
    """Explain why nv_peer_mem cannot load by the file alone; the host's kernel is checked later."""
    version = driver.version or driver.at_least
    found = operator_versions.parse_driver_version(version or "")
    needs = (
        f"it needs MLNX_OFED {operator_versions.show_version(operator_versions.NV_PEER_MEM_LEAST)}"
    )
    if gpu_driver_owner(spec) == "operator":
        return f"the GPU operator's driver is later than {operator_versions.PEERMEM_LEAST}"
    if branch is not None and branch >= operator_versions.PEERMEM_LEAST:
        return f"GPU driver {branch} brings nvidia_peermem in its place"
    if not driver.is_ofed or driver.kind == "doca_ofed" or driver.flavour == "doca":
        return f"{needs}, but the driver is {driver.shown}"
    if found is not None and found.numbers < operator_versions.NV_PEER_MEM_LEAST:
        return f"{needs}, but this is {version}"
    return None


def check_gpu_path(spec: ClusterSpec) -> Findings:
    """A GPU and the card that it sends through are on one NUMA node, best below one switch chip.

    From one processor to the other (SYS) GPUDirect RDMA is slower than a copy through the host;
    between host bridges (NODE) it loses bandwidth. `railyard discover` finds nearer pairs.
    """
    ways = {"SYS": "from the other NUMA node", "NODE": "over another host bridge"}
    for nic in [nic for nic in list_nics(spec) if nic.nic.gpu_path in ways and nic.host.gpus]:
        path = nic.nic.gpu_path or ""
        if spec.settings_of(nic.host).gpu_path != "none":
            is_short = _written_gpu_path(spec, nic.host).path[-1] == "peermem"
            off = "peermem: false" if is_short else "gpu_direct: none"
            severity = "error" if path == "SYS" else "warning"
            words = {"nic": nic, "way": ways[path], "path": path, "off": off, "severity": severity}
            yield find("gpu-path", *nic.at("gpu_path"), **words)


def check_gpu_pair(spec: ClusterSpec) -> Findings:
    """A GPU sends through one card, and the file names no more GPUs than the host has."""
    for host, here in walk(spec, "hosts.*", Host):
        named = [(pci, n) for n, nic in enumerate(host.nics) for pci in nic.gpu_pci]
        lists = [(*here.path, "nics", n, "gpu_pci") for n, _ in enumerate(host.nics)]
        for (pci, n), count in Counter(named).items():
            if count > 1:
                what = f"{host.name} {host.nics[n].netdev} lists the GPU at {pci} {count} times."
                fix = f"remove {'one of the two' if count == _TWO else 'all but one'}."
                yield Finding(what, (at(lists[n], pci),), fix)
        for pci, count in Counter(pci for pci, _ in dict.fromkeys(named)).items():
            if count > 1 and len(host.nics) <= host.gpus:
                where = tuple(at(lists[n], pci) for each, n in dict.fromkeys(named) if each == pci)
                yield find("gpu-pair-twice", *where, pci=pci, host=host, count=count)
        unlike = len({pci for pci, _ in named})
        if named and unlike > host.gpus:
            yield find("gpu-count", *here("gpus"), at(lists[named[0][1]]), host=host, unlike=unlike)


def check_pcie_rate(spec: ClusterSpec) -> Findings:
    """The PCIe link of a card carries its port's line rate, if the file describes the link.

    A card of 200 Gbit/s in a slot of generation 3 with 16 lanes gets 126: no test can be faster.
    """
    for nic in list_nics(spec):
        speed, width = nic.nic.link_gt_s or 0, nic.nic.link_width or 0
        limit = speed * width * (_OLD_CODING if speed <= _OLD_GT_S else _CODING)
        if 0 < limit < nic.nic.speed_gbit_s:
            where = nic.at("link_width", "link_gt_s", "speed_gbit_s")
            yield find("pcie-rate", *where, nic=nic, limit=limit)


def check_gpu_sharing(spec: ClusterSpec) -> Findings:
    """No value of a chart shares or splits the GPUs: time slicing, MPS, and MIG.

    NCCL stops if two of its ranks share a GPU; parts of MIG lack peer to peer (MIG user guide).
    Railyard does not read a ConfigMap of the site; using one is a warning.
    """
    for release, (owner, _, chart) in charts_by_release(spec).items():
        if release not in _KEYS:
            continue
        (strategy_key, config_key), path = _KEYS[release], (*chart[:-1], "values")
        strategy, layout = (_value_at(owner.values, key) for key in (strategy_key, _MIG_LAYOUT))
        if isinstance(strategy, str) and strategy not in _MIG_OFF:
            what = f"the MIG strategy is {strategy}: {_CUT}."
            yield Finding(what, (at((*path, *strategy_key), strategy),), _WHOLE)
        if release == "gpu-operator" and isinstance(layout, str) and layout != _ALL_OFF:
            what = f"the MIG layout of all nodes is {layout}: {_CUT}."
            yield Finding(what, (at((*path, *_MIG_LAYOUT), layout),), _WHOLE)
        config, path = _value_at(owner.values, config_key), (*path, *config_key)
        shared = next((key for key in _SHARING if key in str(config)), None)
        if isinstance(config, dict) and shared is not None:
            what = f"the device plugin shares GPUs ({shared}): {_SLICED}."
            yield Finding(what, (at(path),), _WHOLE)
        elif (
            isinstance(config, dict)
            and config.get("name")
            and not (config.get("create") or config.get("map"))
        ):
            yield find("gpu-sharing", at((*path, "name"), config["name"]), name=config["name"])


def _value_at(values: JsonValue, keys: tuple[str, ...]) -> JsonValue:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def check_container_toolkit(spec: ClusterSpec) -> Findings:
    """The container toolkit has one owner, who can bring it.

    Without it containers see no GPU. Railyard installs it from a repository with a pinned key, or
    in a pinned version from the hosts' repositories; with Docker and without `toolkit` in any
    version, which is a warning.
    """
    asked, operator = spec.host_defaults.toolkit, spec.operators.gpu
    if asked is None:
        if toolkit_owner(spec) == "host" and any(host.gpus for host in spec.workers):
            by_host = spec.host_defaults.docker
            key = "host_defaults.docker" if by_host else "kubernetes.container_runtime"
            yield find("container-toolkit-unpinned", *places(spec, key))
        return
    where = places(spec, "host_defaults.toolkit.kind")
    yield from _source_findings(asked, where)
    if asked.kind != "operator":
        if operator is not None and operator.driver == "operator":
            where += places(spec, "operators.gpu.driver")
            yield find("container-toolkit-driver", *where, asked=asked)
    elif operator is None:
        yield find("container-toolkit-should", *where)
    elif runs_docker(spec):
        yield find("container-toolkit-containerd", *where)


def _source_findings(asked: ContainerToolkit, where: tuple[Place, ...]) -> Findings:
    given = {"repository": asked.repository and asked.repository.url, "version": asked.version}
    extra = {key: value for key, value in given.items() if value is not None}
    keys = " and ".join(extra)
    if asked.kind == "host" and not extra:
        yield find("container-toolkit-repository", *where)
    elif asked.kind != "host" and extra:
        own = (at(("host_defaults", "toolkit", key), value) for key, value in extra.items())
        words = {"asked": asked, "keys": keys, "be": "is" if len(extra) == 1 else "are"}
        yield find("container-toolkit-kind", *own, *where, **words)

"""Rules on the work of operators: VFs, firmware, parts of a cluster, whole GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import charts_by_release
from components.catalogue.cluster_parts import PARTS, TABLE, Part
from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import list_nics
from components.core.problem import Place, SpecPath
from components.hosts.software import offered_vfs
from components.model.cards import ContainerToolkit
from components.model.cluster import ClusterSpec
from components.model.owners import (
    firmware_by_operator,
    needs,
    owners_of,
    runs_docker,
    toolkit_owner,
    vfs_by_operator,
    written_owner,
)

_NETWORK: SpecPath = ("operators", "network")


def check_vf_maker(spec: ClusterSpec) -> Findings:
    """Either the hosts or the SR-IOV network operator make VFs, never both.

    The operator makes as many as its policy states, with one MTU for PF and VFs, and gives VFs of
    InfiniBand other GUIDs at each boot. It would ignore further settings in the file. It drains a
    node before it makes VFs, which `disruption` must allow, and uses the same PCI addresses on all
    nodes.
    """
    network = spec.operators.network
    if network is None or network.vfs != "operator":
        return
    owner = at((*_NETWORK, "vfs"), network.vfs)
    if not vfs_by_operator(spec):
        what = f"the network operator makes VFs, but pods of mode {spec.pod_network.mode} get none."
        fix = "set operators.network.vfs to host, or pod_network.mode to sriov."
        yield Finding(what, (owner, at(("pod_network", "mode"), spec.pod_network.mode)), fix)
        return
    yield from _needs_drain(spec, owner, "makes VFs")
    yield from _of_hosts(spec, owner)
    yield from _slots(spec, owner)


def _needs_drain(spec: ClusterSpec, owner: Place, does: str) -> Findings:
    if spec.disruption.reboots == "deny":
        what = f"hosts may not be drained or rebooted, but the operator that {does} may do both."
        fix = "set disruption.reboots to allow, or leave it to the hosts, which wait for you."
        yield Finding(what, (owner, at(("disruption", "reboots"), spec.disruption.reboots)), fix)


def _of_hosts(spec: ClusterSpec, owner: Place) -> Findings:
    """Report settings that only the hosts' own steps would make."""
    for nic in list_nics(spec):
        if nic.host.role != "worker":
            continue
        values = {
            (*nic.path, "vf_mtu_bytes"): nic.nic.vf_mtu_bytes,
            (*nic.path, "sriov", "eswitch"): nic.nic.sriov.eswitch,
        }
        for path, value in values.items():
            if value is not None:
                what = f"{nic} has {path[-1]}, and the network operator makes its VFs."
                fix = f"remove {path[-1]}, or set operators.network.vfs to host."
                yield Finding(what, (at(path, value), owner), fix)
    for h, host in enumerate(spec.hosts):
        for p, port in enumerate(host.hca_sriov):
            if port.guids and host.role == "worker":
                what = f"{host.name} {port.pci} has GUIDs for VFs, but the operator sets others."
                fix = "remove guids, or set operators.network.vfs to host."
                yield Finding(what, (at(("hosts", h, "hca_sriov", p, "guids")), owner), fix)


def _slots(spec: ClusterSpec, owner: Place) -> Findings:
    rails: dict[str, str] = {}
    for nic in list_nics(spec):
        if nic.host.role != "worker":
            continue
        rail = rails.setdefault(nic.nic.pci, nic.nic.rail)
        if rail != nic.nic.rail:
            yield Finding(
                f"{nic.nic.pci} is {rail} on one host and {nic.nic.rail} on {nic.host.name}: a "
                "policy selects by PCI address, on all nodes alike.",
                (nic.at("rail"), owner),
                "number the rails by slot, or set operators.network.vfs to host.",
            )


def check_firmware_setter(spec: ClusterSpec) -> Findings:
    """Firmware is set by the hosts' own steps or by the NIC configuration operator.

    Its templates always write a number of VFs and a link type, name a card by its PCI device id,
    and put every other parameter of the card back to its default. 0 VFs would switch SR-IOV off.
    """
    network = spec.operators.network
    if network is None or network.firmware != "operator" or not firmware_by_operator(spec):
        return
    owner = at((*_NETWORK, "firmware"), network.firmware)
    yield from _needs_drain(spec, owner, "sets firmware")
    for h, host in enumerate(spec.hosts):
        asked = spec.settings_of(host).firmware
        if host.role != "worker" or not (host.nics or host.hca_sriov):
            continue
        if not asked.manage:
            what = f"the firmware of {host.name} is the operator's, and the file asks for none."
            fix = "set firmware.manage, or operators.network.firmware to host."
            yield Finding(what, (owner, at(("host_defaults", "firmware"))), fix)
            continue
        yield from _cards(spec, h, owner)


def _cards(spec: ClusterSpec, h: int, owner: Place) -> Findings:
    host = spec.hosts[h]
    asked = spec.settings_of(host).firmware
    for p, port in enumerate(host.hca_sriov):
        what = f"{host.name} {port.pci} (hca_sriov) has no model, which a template needs."
        fix = "set operators.network.firmware to host."
        yield Finding(what, (at(("hosts", h, "hca_sriov", p, "pci"), port.pci), owner), fix)
    for n, nic in enumerate(host.nics):
        path: SpecPath = ("hosts", h, "nics", n)
        if nic.pf_device is None:
            what = f"the PCI device id of a {nic.model} is not known, and a template names it."
            fix = "write pci_id under nic_models, or set operators.network.firmware to host."
            yield Finding(what, (at((*path, "model"), nic.model), owner), fix)
        if not offered_vfs(asked, host, nic):
            what = f"{host.name} {nic.netdev} needs no VFs, and a template would switch SR-IOV off."
            fix = "write firmware.num_of_vfs, or set operators.network.firmware to host."
            yield Finding(what, (at((*path, "vfs"), nic.vfs), owner), fix)


_BY_KEY: Final[Mapping[Part, str]] = {
    "gpu_operator": "gpu",
    "network_operator": "network",
    "gpu_device_plugin": "gpu_device_plugin",
}
"""Part to the key of `operators` that installs it."""


def _place(part: Part, owner: str) -> Place:
    return at(("kubernetes", "components", part), owner)


def check_cluster_part(spec: ClusterSpec) -> Findings:
    """Each part of an existing cluster has one owner, and each needed part has an owner.

    `ours` installs it, `theirs` uses the existing one, `none` goes without. A part that `operators`
    installs cannot be `theirs`, and Railyard brings only parts that the file needs.
    """
    for part in PARTS:
        owner = written_owner(spec, part)
        title = TABLE[part].title
        if owner == "none" and needs(spec, part):
            where = (_place(part, owner), *_asking(spec, part))
            fix = "write theirs if it is there, or ours."
            yield Finding(f"{title} is none, and the site needs it.", where, fix)
        elif owner == "ours" and not needs(spec, part):
            what = f"{title} is to be ours, and nothing in this file asks for it."
            yield Finding(what, (_place(part, owner),), _fix_of_unasked(part))
        elif owner == "theirs" and part in _BY_KEY and needs(spec, part):
            what = f"{title} is theirs, and operators.{_BY_KEY[part]} installs another one."
            fix = f"remove operators.{_BY_KEY[part]}, or write ours."
            yield Finding(what, (_place(part, owner), *_asking(spec, part)), fix)
    yield from _two_publishers(spec)


def _asking(spec: ClusterSpec, part: Part) -> tuple[Place, ...]:
    """Return the places in the file that need a part."""
    if part in _BY_KEY:
        path: SpecPath = ("operators", _BY_KEY[part], "chart", "version")
        return (at(path, getattr(spec.operators, _BY_KEY[part]).chart.version),)
    if part == "mpi_operator":
        return (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),)
    return (at(("pod_network", "mode"), spec.pod_network.mode),)


def _fix_of_unasked(part: Part) -> str:
    if part in _BY_KEY:
        return f"add operators.{_BY_KEY[part]}, or write theirs or none."
    if part == "trainer":
        return "write theirs if it is there, or none: Railyard installs no Trainer."
    return "remove the line, or write none."


def _two_publishers(spec: ClusterSpec) -> Findings:
    """Two device plugins register the same resource, and the later one takes it from the other."""
    owners = owners_of(spec)
    pair: tuple[Part, Part] = ("gpu_operator", "gpu_device_plugin")
    for theirs, ours in (pair, pair[::-1]):
        if (owners[theirs], owners[ours]) != ("theirs", "ours"):
            continue
        what = f"{TABLE[theirs].title} (theirs) and operators.{_BY_KEY[ours]} both publish GPUs."
        fix = f"remove operators.{_BY_KEY[ours]}."
        yield Finding(what, (_place(theirs, "theirs"), *_asking(spec, ours)), fix)


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
    """No value of a chart shares or splits the GPUs: time slicing, MPS, and MIG.

    Jobs ask for whole GPUs. With time slicing or MPS a node publishes more GPUs than it has, and
    NCCL stops if two of its ranks share one; with MIG the GPUs have another name or size, and their
    parts lack peer to peer (MIG user guide). Railyard does not read a ConfigMap of the site; using
    one is a warning.
    """
    for release, (owner, _, path) in charts_by_release(spec).items():
        if release not in _STRATEGY:
            continue
        values: SpecPath = (*path[:-1], "values")
        yield from _mig(owner.values, values, release)
        yield from _sliced(owner.values, values, _PLUGIN_CONFIG[release])


def _mig(values: JsonValue, path: SpecPath, release: str) -> Findings:
    strategy = _value_at(values, _STRATEGY[release])
    if isinstance(strategy, str) and strategy not in _MIG_OFF:
        yield _refuse(f"the MIG strategy is {strategy}: {_CUT}", path, _STRATEGY[release], strategy)
    layout = _value_at(values, _MIG_LAYOUT)
    if release == "gpu-operator" and isinstance(layout, str) and layout != _ALL_OFF:
        yield _refuse(f"the MIG layout of all nodes is {layout}: {_CUT}", path, _MIG_LAYOUT, layout)


def _sliced(values: JsonValue, path: SpecPath, keys: tuple[str, ...]) -> Findings:
    config = _value_at(values, keys)
    if not isinstance(config, dict):
        return
    shared = next((key for key in _SHARING if key in str(config)), None)
    if shared is not None:
        yield _refuse(f"the device plugin shares GPUs ({shared}): {_SLICED}", path, keys, None)
    elif config.get("name") and not (config.get("create") or config.get("map")):
        what = f"the device plugin uses the ConfigMap {config['name']}, which is not read here."
        fix = "see that it neither shares nor cuts GPUs."
        yield Finding(what, (at((*path, *keys, "name"), config["name"]),), fix, "warning")


def _refuse(what: str, path: SpecPath, keys: tuple[str, ...], value: str | None) -> Finding:
    return Finding(f"{what}.", (at((*path, *keys), value),), _WHOLE)


def _value_at(values: JsonValue, keys: tuple[str, ...]) -> JsonValue:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def check_gdrcopy(spec: ClusterSpec) -> Findings:
    """GDRCopy's module comes with the GPU operator's driver, or from the hosts themselves.

    Its container is a part of the driver's pod (GPU operator v26.3.3, values.yaml). With the driver
    on the hosts this pod does not exist, and the module would not be loaded.
    """
    operator = spec.operators.gpu
    if operator is not None and operator.gdrcopy and operator.driver == "host":
        what = "the GPU operator brings GDRCopy with its driver, but the hosts own the GPU driver."
        fix = "remove gdrcopy and install gdrdrv on the hosts, or set driver to operator."
        yield Finding(what, places(spec, "operators.gpu.gdrcopy", "operators.gpu.driver"), fix)


_PATH: SpecPath = ("host_defaults", "toolkit")


def check_container_toolkit(spec: ClusterSpec) -> Findings:
    """The container toolkit has one owner, who can bring it.

    Without it containers see no GPU, and K3s does not start if its configuration names the runtime.
    Railyard installs it from a repository with a pinned key, or in a pinned version from the
    repositories of the hosts; with Docker and without `toolkit` it installs any version that these
    offer, which is a warning.
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
        what = "the GPU operator should bring the container toolkit, but the site has none."
        yield Finding(what, (where,), "add operators.gpu, or set kind to present or host.")
    elif runs_docker(spec):
        what = "the GPU operator's toolkit works through containerd, and containers run in Docker."
        yield Finding(what, (where,), "set kind to present or host.")


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

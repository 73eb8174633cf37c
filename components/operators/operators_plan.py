"""The operators: Helm values, and the status that shows that an operator has done its work.

Sources: the GPU operator's chart and documentation (platform support, RDMA, CDI pages); the network
operator's chart, its NicClusterPolicy definition (v26.4.1) and its examples for host-device
(narrowed to InfiniBand), SR-IOV and shared RDMA devices; for the firmware of cards, README and
definitions of nic-configuration-operator 8bfbeb3 and of network operator v26.4.1
(lab/sources.md#operators). If two templates match one card, that operator applies neither, so each
template selects nodes by a separate label.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from math import ceil
from typing import Any, Final

from pydantic import JsonValue

from components.artefacts.listing import charts_by_release, network_device_plugin, network_operand
from components.artefacts.naming import in_registry
from components.artefacts.resolve import merged
from components.catalogue.cluster_parts import UPSTREAM
from components.catalogue.version_pairs import driver_tag
from components.core.errors import SpecError
from components.core.record import record, replace
from components.core.templates import fault_text, object_of
from components.hosts.keys.ask import find_row
from components.hosts.software import asked_settings
from components.kubernetes.manifest import Body, Manifest, login_manifests, make_manifest
from components.model import owners
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.kubernetes import ExistingPlane
from components.model.operators import GpuOperator, NetworkOperator
from components.pod_network.attachment import MELLANOX
from components.pod_network.manifests import GPU, discovery_values, gpu_runtime, tolerated
from components.pod_network.networks import function_plugin_config, shared_plugin_config, vf_labels
from components.pod_network.pools import NETWORK_NAMESPACE, pool_labels
from components.pod_network.rails import ib_rails

NAMESPACES: Final = {
    "nvidia-device-plugin": "nvidia-device-plugin",
    "gpu-operator": "gpu-operator",
    "network-operator": NETWORK_NAMESPACE,
}
"""Helm release to its namespace."""
_DEFAULTS: Final[dict[str, Body]] = {
    "gpu-operator": {"dcgmExporter": {"serviceMonitor": {"enabled": False}}}
}
"""Values that a site may override: a ServiceMonitor needs Prometheus' definitions."""
_CRITICAL: Final[dict[str, JsonValue]] = {"key": "CriticalAddonsOnly", "operator": "Exists"}
"""The toleration in the device plugin's own chart, besides that of GPU nodes."""
PRIVILEGED: Final = {"pod-security.kubernetes.io/enforce": "privileged"}
"""The level of Kubernetes' own pod policy that allows pods to use a node's devices and network."""
CHART_DEADLINE_S: Final = 900.0
"""Seconds for the chart's own Deployments; images of several GB come from a mirror."""
POLICY_DEADLINE_S: Final = 1800
"""Seconds until a policy is ready, for each group of nodes that gets its driver: a driver container
may compile for 20 minutes."""
_FIRST_KINDS: Final = frozenset({"NodePatch", "Namespace", "Secret"})
_LABELS: Final = "firmware.railyard.dev"
_OWN_FIELDS: Final = frozenset(
    {"fw_sriov_en", "fw_num_of_vfs", "fw_link_type_p1", "fw_link_type_p2"}
)
"""Settings for which a template has fields."""
_SWITCHES: Final = {"on": "True", "off": "False"}
"""mlxconfig's words, which the operator accepts."""


def node_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels of one node, sorted; empty on nodes that do not run jobs.

    Labels of pools, VFs and firmware select the network operator's objects for the node: the label
    of a pool gives it a block of addresses. `nvidia.com/gpu.present` lets the GPU device plugin's
    chart onto a node without node feature discovery. Training jobs find their nodes by `rdma` and
    `gpu-use-type`.
    """
    if host.role != "worker":
        return {}
    labels = {
        **pool_labels(spec, host),
        **vf_labels(spec, host),
        **{f"{_LABELS}/{name}": "true" for name, _ in _templates(spec, host)},
    }
    if spec.jobs.deepspeed is not None:
        labels["gpu-use-type"] = "exclusive"
    if spec.operators.gpu_device_plugin is not None and host.gpus:
        labels["nvidia.com/gpu.present"] = "true"
    if spec.pod_network.mode == "rdma_shared":
        labels["rdma"] = "hca"
    return labels


@record
class ChartPlan:
    """One Helm release."""

    release: str
    chart: str
    version: str
    repo: str | None
    namespace: str
    values: Body
    deadline_s: float
    away: bool = False
    """The chart is not on this machine and must not be fetched: a preview skips it."""


@record
class OperatorsPlan:
    """All operators, the objects they need before them, and the gates after them."""

    charts: tuple[ChartPlan, ...]
    """In the order of their installation."""
    manifests: tuple[Manifest, ...]

    @property
    def labels(self) -> tuple[Manifest, ...]:
        """The labels of nodes and the logins of registries, which come before the charts."""
        return tuple(manifest for manifest in self.manifests if manifest.kind in _FIRST_KINDS)

    def without(self, archives: Collection[str]) -> OperatorsPlan:
        """The same plan, with these charts marked as away."""
        charts = (replace(each, away=each.chart in archives) for each in self.charts)
        return replace(self, charts=tuple(charts))

    @property
    def gates(self) -> tuple[Manifest, ...]:
        """The gates that wait for the operators, and come after the charts."""
        return tuple(manifest for manifest in self.manifests if manifest.kind not in _FIRST_KINDS)


def plan_operators(spec: ClusterSpec) -> OperatorsPlan:
    """Plan the operators in the file; empty without Kubernetes."""
    if spec.kubernetes is None:
        return OperatorsPlan((), ())
    charts = tuple(
        ChartPlan(
            release=release,
            chart=source.chart,
            version=source.version,
            repo=source.repo,
            namespace=NAMESPACES[release],
            values=merged(
                merged(_DEFAULTS.get(release, {}), chart_values(spec, release)), owner.values
            ),
            deadline_s=CHART_DEADLINE_S,
        )
        for release, (owner, source, _) in charts_by_release(spec).items()
    )
    policies: list[list[Manifest]] = []
    if (network := spec.operators.network) is not None:
        # First: a GPU driver container waits for the RDMA driver before it becomes ready.
        policies.append([make_manifest("network-operator", nic_cluster_policy(spec, network), 0)])
        # The cluster knows their kind once the policy is ready.
        found = {name: each for host in spec.workers for name, each in _templates(spec, host)}
        bodies = (
            make("firmware-template", name=name, nodes={f"{_LABELS}/{name}": "true"}, wanted=wanted)
            for name, wanted in sorted(found.items())
        )
        policies.append([make_manifest("firmware", body, 0) for body in bodies])
    if spec.operators.gpu is not None:
        body = make("gpu-gate", deadline_s=str(POLICY_DEADLINE_S))
        gate = Manifest("gpu-operator-ready", "nvidia.com/v1", "ClusterPolicyPatch", body, 0)
        policies.append([gate])
    gates = (
        replace(policy, group=group)
        for group, together in enumerate(each for each in policies if each)
        for policy in together
    )
    labels = (
        Manifest(f"{host.name}-labels", "v1", "NodePatch", body, 0)
        for host in spec.hosts
        if (own := node_labels(spec, host))
        for body in [make("node", name=host.node, labels=own)]
    )
    return OperatorsPlan(charts, (*labels, *_namespaces(spec, charts), *gates))


def _namespaces(spec: ClusterSpec, charts: tuple[ChartPlan, ...]) -> Iterator[Manifest]:
    """The namespace of each chart, if more than Helm needs it, and the registry's login in it.

    In a cluster of others its labels say that its pods use the nodes' devices: a default policy
    would keep them out.
    """
    foreign = isinstance(spec.kubernetes, ExistingPlane)
    names = tuple(dict.fromkeys(chart.namespace for chart in charts))
    for name in names:
        if foreign or login_manifests(spec, "operators", name, 1):
            body = make("namespace", name=name, labels=PRIVILEGED if foreign else None)
            yield make_manifest("operators", body, 0)
    for name in names:
        yield from login_manifests(spec, "operators", name, 1)


def make(template: str, /, **words: object) -> dict[str, Any]:
    """An object of this room; see `object_of`."""
    return object_of("components.operators", template, **words)


def chart_values(spec: ClusterSpec, release: str) -> Body:
    """The values of a chart that follow from the plan, by the name of its Helm release."""
    gpu = spec.operators.gpu
    if release == "gpu-operator" and gpu is not None:
        return gpu_operator_values(spec, gpu)
    if release == "network-operator":
        return network_operator_values(spec)
    taints = tolerated(spec, _CRITICAL, GPU)
    values: Body = {"tolerations": taints} if taints else {}
    return values | gpu_runtime(spec)


def gpu_operator_values(spec: ClusterSpec, gpu: GpuOperator) -> Body:
    """The values in which we differ from the chart.

    With the driver on the host (DGX OS), the container toolkit is also on the host, unless the
    operator brings it: K3s finds its runtime when it starts and makes it the default
    (`default-runtime`), so the operator brings neither. The operator's toolkit works through
    containerd's NRI, so it needs none of K3s' paths and does not edit a file that K3s would
    rewrite. `driver.rdma` says whether that driver's container loads the peer memory module; with
    the driver on the host, the host loads it.
    """
    by_operator = owners.toolkit_owner(spec) == "operator"
    taints = tolerated(spec, GPU)
    pods: Body = {"daemonsets": {"tolerations": taints}} if taints else {}
    pods |= discovery_values(spec)
    driver: Body = {"enabled": False}
    if gpu.driver == "operator":
        paths = owners.gpu_paths(spec)
        rdma: Body = {
            "enabled": "peermem" in paths,
            "useHostMofed": owners.has_own_rdma_driver(spec),
        }
        driver = {"enabled": True, "rdma": rdma}
        if "dma_buf" in paths:  # it needs open modules; the default `auto` depends on the GPU
            driver["kernelModuleType"] = "open"
        if gpu.gdrcopy:
            pods["gdrcopy"] = {"enabled": True}
    nri = by_operator or None
    return make("gpu-values", driver=driver, toolkit=by_operator, nri=nri, pods=pods)


def _templates(spec: ClusterSpec, host: Host) -> Iterator[tuple[str, Body]]:
    """The firmware templates for a node's cards: one for each model and set of settings.

    The name contains a digest of the template, and so depends only on this node.
    """
    if host.role != "worker" or not owners.firmware_by_operator(spec):
        return
    cards: dict[str, list[Nic]] = {}
    for nic in host.nics:
        settings = asked_settings(spec, host, nic)
        if settings:
            if nic.pf_device is None:
                raise SpecError(fault_text(__file__, "no-device-id", host=host.name, nic=nic))
            shown = json.dumps([nic.pf_device, settings], sort_keys=True)
            cards.setdefault(shown, []).append(nic)
    for shown, nics in cards.items():
        device, settings = json.loads(shown)
        addresses: list[JsonValue] = [*sorted(nic.pci for nic in nics)]
        # The parameters for which a template lacks a field, with mlxconfig's names.
        raw: list[JsonValue] = [
            {"name": row.parameter, "value": _SWITCHES.get(value, value)}
            for key, value in sorted(settings.items())
            if key not in _OWN_FIELDS
            for row in [find_row(f"nic.0000:00:00.0.{key}")]
        ]
        wanted: Body = {
            "nicSelector": {"nicType": device, "pciAddresses": addresses},
            "template": {
                "numVfs": int(settings.get("fw_num_of_vfs", "0")),
                "linkType": "Infiniband" if "ib" in settings.values() else "Ethernet",
                **({"rawNvConfig": raw} if raw else {}),
            },
        }
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        yield f"{device}-{digest[:8]}", wanted


def network_operator_values(spec: ClusterSpec) -> Body:
    """The values in which we differ from the chart.

    The GPU operator brings node feature discovery, and two would overwrite each other's labels; its
    own settings already label nodes with cards, so the chart's rule is not needed either.
    """
    # Helm installs definitions once and never again; the chart's own hook upgrades them.
    values: Body = {"upgradeCRDs": True}
    if spec.operators.gpu is not None:
        values["nfd"] = {"enabled": False, "deployNodeFeatureRules": False}
    else:
        values |= discovery_values(spec)
    paths = owners.cni_paths(spec)
    if paths != UPSTREAM:  # the chart's own defaults
        values["operator"] = {"cniBinDirectory": paths.bin, "cniNetworkDirectory": paths.net_d}
    if owners.vfs_by_operator(spec):
        values |= make("sriov-values", prefix=spec.pod_network.resource_prefix, bin=paths.bin)
    if owners.firmware_by_operator(spec):
        # It drains a node before its cards are set.
        values["maintenanceOperator"] = {"enabled": True}
    return values


def nic_cluster_policy(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """The policy, and the wait for its state: the chart makes none since 24.10.

    It contains the one device plugin of the site's mode, with the configuration that the pod
    network would use: two plugins must not offer one card. It contains Multus and the reference
    plugins if the site leaves them to the operator, and nv-ipam if pods get addresses from it;
    otherwise the pod network installs them, or pods do not need them: with whole HCAs, NCCL needs
    no interface in the pod.
    """
    wanted: Body = {}
    if not owners.vfs_by_operator(spec):  # the SR-IOV network operator publishes its VFs itself
        key, config = _DEVICE_PLUGINS[spec.pod_network.mode]
        name = network_device_plugin(operator.chart.version, spec.pod_network.mode)
        wanted[key] = {**_image(spec, name), "config": config(spec)}
    wanted |= _parts(spec, operator)
    workers = [host.node for host in spec.workers]
    if workers and isinstance(spec.kubernetes, ExistingPlane):
        # By default it takes every node with a Mellanox card. AKS has such cards in its system
        # pools too, for accelerated networking, and the driver container would unload their driver
        # (Azure/aks-rdma-infiniband 700dabb, configs/nicclusterpolicy/base).
        wanted |= make("only-nodes", names=workers)
    wanted |= {"tolerations": taints} if (taints := tolerated(spec)) else {}
    groups = 1
    if operator.driver == "operator":
        tag = container_tag(operator)
        if tag is None:
            raise SpecError(fault_text(__file__, "no-driver-tag", chart=operator.chart))
        # A driver with another tag reaches the nodes only if they may be drained for it. Otherwise
        # the operator does not replace driver containers (its DaemonSet has `OnDelete`), and its
        # policy is not ready while an old one runs, so an update waits in vain (network operator
        # v26.4.1, state-ofed-driver and isDaemonSetReady). The drain does not end a pod without a
        # controller.
        asked, upgrades = spec.disruption, Body()
        if asked.reboots == "allow":
            nodes, drain_s = asked.max_unavailable, asked.drain_deadline_s
            upgrades = make("driver-upgrade", nodes=nodes, drain_s=drain_s)
            groups = max(1, ceil(len(spec.workers) / nodes))
        image = _operand(spec, operator, "doca-driver")
        wanted["ofedDriver"] = {**image, "version": tag, **upgrades}
    return make("nic-policy", deadline_s=str(POLICY_DEADLINE_S * groups), spec=wanted)


def _parts(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """Multus, the reference plugins, nv-ipam, partitions and firmware, if the operator has them."""
    wanted: Body = {}
    if owners.policy_networks(spec):
        parts = {"cniPlugins": "plugins", "multus": "multus-cni"}
        parts |= {"ipoib": "ipoib-cni"} if owners.way_of(spec) == "ipoib" else {}
        wanted["secondaryNetwork"] = {
            key: _operand(spec, operator, name) for key, name in parts.items()
        }
    if owners.draws_blocks(spec):
        # Its webhook would need a certificate manager; `railyard check` checks the same.
        addresses = _operand(spec, operator, "nvidia-k8s-ipam")
        wanted["nvIpam"] = {**addresses, "enableWebhook": False}
    if (keys := operator.ib_kubernetes) is not None:
        wanted["ibKubernetes"] = {
            **_operand(spec, operator, "ib-kubernetes"),
            "pKeyGUIDPoolRangeStart": re.sub(r"(..)(?!$)", r"\1:", keys.first_guid),
            "pKeyGUIDPoolRangeEnd": re.sub(r"(..)(?!$)", r"\1:", keys.last_guid),
            "periodicUpdateSeconds": keys.period_s,
            "ufmSecret": keys.ufm_secret,
        }
    if owners.firmware_by_operator(spec):
        wanted["nicConfigurationOperator"] = {
            "operator": _operand(spec, operator, "nic-configuration-operator"),
            "configurationDaemon": _operand(spec, operator, "nic-configuration-operator-daemon"),
        }
    return wanted


def _operand(spec: ClusterSpec, operator: NetworkOperator, name: str) -> Body:
    return _image(spec, network_operand(operator.chart.version, name))


def _image(spec: ClusterSpec, name: str) -> Body:
    """An image in the three parts of a policy."""
    whole, _, version = in_registry(name, spec.sources.registry).rpartition(":")
    repository, _, image = whole.rpartition("/")
    return {"image": image, "repository": repository, "version": version}


def host_device_config(spec: ClusterSpec) -> str:
    """`config` of the device plugin: one resource for each rail if the fabric has rails.

    Without rails it is one for every InfiniBand card, and no Ethernet card: it selects by link type
    and vendor, since a cloud names and places the cards; the vendor alone would take Ethernet ports
    for storage and management too.
    """
    if ib_rails(spec):
        return function_plugin_config(spec)
    entry: dict[str, JsonValue] = {
        "resourcePrefix": spec.pod_network.resource_prefix,
        "resourceName": spec.pod_network.host_device_resource,
        "selectors": {"vendors": [MELLANOX], "linkTypes": ["infiniband"], "isRdma": True},
    }
    return json.dumps({"resourceList": [entry]}, indent=1)


_DEVICE_PLUGINS: Final[Mapping[str, tuple[str, Callable[[ClusterSpec], str]]]] = {
    "host_device": ("sriovDevicePlugin", host_device_config),
    "sriov": ("sriovDevicePlugin", function_plugin_config),
    "rdma_shared": ("rdmaSharedDevicePlugin", shared_plugin_config),
}
"""Mode of the pod network to the plugin's key in the policy, and its configuration."""


def container_tag(operator: NetworkOperator) -> str | None:
    """The tag of the driver container: from the file, or from the operator's own release."""
    return operator.driver_tag or driver_tag(operator.chart.version)

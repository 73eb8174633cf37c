"""The operators: Helm values, and the status that shows that an operator has done its work.

Sources: the GPU operator's chart and documentation (platform support, RDMA, CDI pages); for the
firmware of cards, README and definitions of nic-configuration-operator 8bfbeb3 and of network
operator v26.4.1 (lab/sources.md#operators). If two templates match one card, that operator applies
neither, so each template selects nodes by a separate label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import charts_by_release
from components.artefacts.resolve import merged
from components.core.errors import SpecError
from components.hosts.keys.ask import parameter_of
from components.hosts.software import asked_settings
from components.kubernetes.manifest import (
    TIMEOUT,
    WAIT_FOR,
    Body,
    Manifest,
    login_manifests,
    make_manifest,
)
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.kubernetes import ExistingPlane
from components.model.operators import ByChart, ChartSource, GpuOperator
from components.model.owners import (
    firmware_by_operator,
    gpu_paths,
    has_own_rdma_driver,
    toolkit_owner,
)
from components.operators.network import network_operator_values, nic_cluster_policy
from components.pod_network.manifests import GPU, discovery_values, gpu_runtime, tolerated
from components.pod_network.pools import NETWORK_NAMESPACE, pool_labels
from components.pod_network.sriov import vf_labels


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


def _patch(host: Host, labels: dict[str, str]) -> Manifest:
    values: dict[str, JsonValue] = {**labels}
    body: Body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.node, "labels": values},
    }
    return Manifest(f"{host.name}-labels", "v1", "NodePatch", body, 0)


GPU_NAMESPACE: Final = "gpu-operator"
PLUGIN_NAMESPACE: Final = "nvidia-device-plugin"
NAMESPACES: Final = {
    "nvidia-device-plugin": PLUGIN_NAMESPACE,
    "gpu-operator": GPU_NAMESPACE,
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
POLICY: Final = "cluster-policy"
"""Name of the ClusterPolicy that the chart makes."""
CHART_DEADLINE_S: Final = 900.0
"""Seconds for the chart's own Deployments; images of several GB come from a mirror."""
POLICY_DEADLINE_S: Final = 1800
"""Seconds until the policy is ready: the driver container may compile for 20 minutes."""
_FIRST_KINDS: Final = frozenset({"NodePatch", "Namespace", "Secret"})


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
        _chart(spec, release, owner, source)
        for release, (owner, source, _) in charts_by_release(spec).items()
    )
    policies: list[list[Manifest]] = []
    if (network := spec.operators.network) is not None:
        # First: a GPU driver container waits for the RDMA driver before it becomes ready.
        policies.append([make_manifest("network-operator", nic_cluster_policy(spec, network), 0)])
        # The cluster knows their kind once the policy is ready.
        policies.append([make_manifest("firmware", each, 0) for each in firmware_templates(spec)])
    if spec.operators.gpu is not None:
        policies.append([_policy_gate()])
    gates = (
        replace(policy, group=group)
        for group, together in enumerate(each for each in policies if each)
        for policy in together
    )
    labels = (_patch(host, own) for host in spec.hosts if (own := node_labels(spec, host)))
    return OperatorsPlan(charts, (*labels, *_namespaces(spec, charts), *gates))


def _namespaces(spec: ClusterSpec, charts: tuple[ChartPlan, ...]) -> Iterator[Manifest]:
    """The namespace of each chart, if more than Helm needs it, and the registry's login in it.

    In a cluster of others its labels say that its pods use the nodes' devices: a default policy
    would keep them out.
    """
    foreign = isinstance(spec.kubernetes, ExistingPlane)
    for name in dict.fromkeys(chart.namespace for chart in charts):
        if foreign or login_manifests(spec, "operators", name, 1):
            metadata: Body = {"name": name, **({"labels": {**PRIVILEGED}} if foreign else {})}
            body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            yield make_manifest("operators", body, 0)
    for name in dict.fromkeys(chart.namespace for chart in charts):
        yield from login_manifests(spec, "operators", name, 1)


def _chart(spec: ClusterSpec, release: str, owner: ByChart, source: ChartSource) -> ChartPlan:
    return ChartPlan(
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
    by_operator = toolkit_owner(spec) == "operator"
    taints = tolerated(spec, GPU)
    pods: Body = {"daemonsets": {"tolerations": taints}} if taints else {}
    pods |= discovery_values(spec)
    cdi: Body = {"enabled": True, **({"nriPluginEnabled": True} if by_operator else {})}
    driver: Body = {"enabled": False}
    if gpu.driver == "operator":
        paths = gpu_paths(spec)
        rdma: Body = {"enabled": "peermem" in paths, "useHostMofed": has_own_rdma_driver(spec)}
        driver = {"enabled": True, "rdma": rdma}
        if "dma_buf" in paths:  # it needs open modules; the default `auto` depends on the GPU
            driver["kernelModuleType"] = "open"
        if gpu.gdrcopy:
            pods["gdrcopy"] = {"enabled": True}
    return {
        "driver": driver,
        "toolkit": {"enabled": by_operator},
        "cdi": cdi,
        "nfd": {"enabled": True},
        # Helm installs definitions once and never again; the chart's own hook upgrades them.
        "operator": {"upgradeCRD": True},
        **pods,
    }


def _policy_gate() -> Manifest:
    """A patch of the chart's ClusterPolicy that changes nothing and waits for its state.

    Running pods prove too little: the operator writes `ready` only when every node's operands work.
    """
    body: Body = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {
            "name": POLICY,
            "annotations": {
                "railyard.dev/gate": "ready",
                WAIT_FOR: "jsonpath={.status.state}=ready",
                TIMEOUT: str(POLICY_DEADLINE_S),
            },
        },
    }
    return Manifest("gpu-operator-ready", "nvidia.com/v1", "ClusterPolicyPatch", body, 0)


_LABELS: Final = "firmware.railyard.dev"
_OWN_FIELDS: Final = frozenset(
    {"fw_sriov_en", "fw_num_of_vfs", "fw_link_type_p1", "fw_link_type_p2"}
)
"""Settings for which a template has fields."""
_SWITCHES: Final = {"on": "True", "off": "False"}
"""mlxconfig's words, which the operator accepts."""


def firmware_templates(spec: ClusterSpec) -> tuple[Body, ...]:
    """The templates of a site, each once, sorted by their names."""
    found = {name: wanted for host in spec.workers for name, wanted in _templates(spec, host)}
    return tuple(
        {
            "apiVersion": "configuration.net.nvidia.com/v1alpha1",
            "kind": "NicConfigurationTemplate",
            "metadata": {"name": name, "namespace": NETWORK_NAMESPACE},
            "spec": {"nodeSelector": {f"{_LABELS}/{name}": "true"}, **found[name]},
        }
        for name in sorted(found)
    )


def _templates(spec: ClusterSpec, host: Host) -> Iterator[tuple[str, Body]]:
    """The firmware templates for a node's cards: one for each model and set of settings.

    The name contains a digest of the template, and so depends only on this node.
    """
    if host.role != "worker" or not firmware_by_operator(spec):
        return
    cards: dict[str, list[Nic]] = {}
    for nic in host.nics:
        settings = asked_settings(spec, host, nic)
        if settings:
            shown = json.dumps([_device(host, nic), settings], sort_keys=True)
            cards.setdefault(shown, []).append(nic)
    for shown, nics in cards.items():
        device, settings = json.loads(shown)
        addresses: list[JsonValue] = [*sorted(nic.pci for nic in nics)]
        wanted: Body = {
            "nicSelector": {"nicType": device, "pciAddresses": addresses},
            "template": {
                "numVfs": int(settings.get("fw_num_of_vfs", "0")),
                "linkType": "Infiniband" if "ib" in settings.values() else "Ethernet",
                **_raw(settings),
            },
        }
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        yield f"{device}-{digest[:8]}", wanted


def _device(host: Host, nic: Nic) -> str:
    if nic.pf_device is None:
        raise SpecError(
            f"the PCI device id of {host.name} {nic.netdev}, a {nic.model}, is not known, and a "
            "template of the NIC configuration operator names it. Write pci_id in nic_models"
        )
    return nic.pf_device


def _raw(settings: dict[str, str]) -> Body:
    """The parameters for which a template lacks a field, with mlxconfig's names."""
    raw: list[JsonValue] = [
        {"name": parameter_of(f"nic.0000:00:00.0.{key}"), "value": _SWITCHES.get(value, value)}
        for key, value in sorted(settings.items())
        if key not in _OWN_FIELDS
    ]
    return {"rawNvConfig": raw} if raw else {}

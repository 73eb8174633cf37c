"""The network operator's part of a node: whole HCAs, and the state of the NicClusterPolicy.

Nothing becomes ready by itself: the operator's Deployment must be ready, a node must carry the
label that node feature discovery sets, and the device plugin must be able to read its configuration
(lab/sources.md#operators).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from components.core.errors import DeviceError
from components.core.record import record, replace
from lab.cluster.device_plugin import Pool, plan_pools
from lab.cluster.devices import NodeDevices
from lab.cluster.document import Doc, Json, doc_at, docs_at, name_of, number_at, text_at
from lab.cluster.gpu_operator import NIC_LABEL
from lab.cluster.ipam import REFERENCE
from lab.cluster.nv_ipam import IMAGE, selects
from lab.cluster.shared_plugin import SharedPool, plan_shared

POLICIES = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
MOFED_WAIT = "network.nvidia.com/operator.mofed.wait"
"""Set to `false` on nodes whose RDMA driver is there; the device plugin waits for it."""
NAMESPACE = "nvidia-network-operator"
"""Where the operator works; nv-ipam reads the pools of that namespace."""
_PREFIX = "nvidia.com"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CONVENTIONAL = "nic-cluster-policy"
_PARTS = (
    (("secondaryNetwork", "multus"), "state-multus-cni", "multus"),
    (("secondaryNetwork", "cniPlugins"), "state-container-networking-plugins", REFERENCE),
    (("secondaryNetwork", "ipoib"), "state-ipoib-cni", "/ipoib-cni"),
    (("nvIpam",), "state-nv-ipam-cni", IMAGE),
)
"""Key of a policy, the state that the operator reports for it, and the image that it runs."""


@record
class NicPolicy:
    """A NicClusterPolicy and whether its operator works."""

    document: Doc
    operator_ready: bool

    @property
    def config(self) -> str:
        """The configuration of the SR-IOV device plugin; empty where the policy wants none."""
        return text_at(self.document, "spec", "sriovDevicePlugin", "config")

    @property
    def shared_config(self) -> str:
        """The configuration of the shared device plugin; empty where the policy wants none."""
        return text_at(self.document, "spec", "rdmaSharedDevicePlugin", "config")

    @property
    def valid(self) -> bool:
        """The operator looks at the policy of one name alone (`handleUnsupportedInstance`)."""
        return name_of(self.document) in {"", _CONVENTIONAL}

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """What runs on every node for it: the state that is reported, and the image."""
        spec = doc_at(self.document, "spec")
        return tuple((state, image) for path, state, image in _PARTS if doc_at(spec, *path))

    @property
    def brought(self) -> frozenset[str]:
        """The images of its DaemonSets, which are on every node, with a card or without."""
        if not self.operator_ready or not self.valid:
            return frozenset()
        return frozenset(image for _, image in self.parts)

    @property
    def gives_blocks(self) -> bool:
        """nv-ipam's controller runs, and its kinds are known."""
        return IMAGE in self.brought

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether its pods may be on a node: all manifests of v26.4.1 have its `nodeAffinity`."""
        required = doc_at(self.document, "spec", "nodeAffinity", _REQUIRED)
        return selects(docs_at(required, "nodeSelectorTerms"), labels)

    def serves(self, devices: NodeDevices, labels: Mapping[str, str]) -> bool:
        """Whether the operator's parts run on a node: the driver there, or brought by it."""
        brings = bool(doc_at(self.document, "spec", "ofedDriver"))
        driver = brings or any(card.rdma for card in devices.cards)
        marked = labels.get(NIC_LABEL) == "true" and self.takes(labels)
        return self.operator_ready and marked and driver

    def pools(self, devices: NodeDevices, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """The resources of a node.

        Raises:
            DeviceError: the device plugin would not start with this configuration.
        """
        if not self.config or not self.serves(devices, labels):
            return ()
        pools = plan_pools(self.config, devices.functions, _PREFIX, whole=True)
        functions = {function.pci for function in devices.vfs}
        # A VF goes to a pod by its attachment; only what is no VF is had by count alone.
        return tuple(
            replace(pool, whole=any(device.pci not in functions for device in pool.devices))
            for pool in pools
        )

    def shared(self, devices: NodeDevices, labels: Mapping[str, str]) -> tuple[SharedPool, ...]:
        """The shared resources of a node.

        Raises:
            DeviceError: the shared device plugin would not start with this configuration.
        """
        if not self.shared_config or not self.serves(devices, labels):
            return ()
        return plan_shared(self.shared_config, devices.cards)


def network_operator_ready(deployments: Sequence[Doc]) -> bool:
    """Whether a ready Deployment of the network operator exists."""
    return any(
        text_at(deployment, "metadata", "labels", "app.kubernetes.io/name") == "network-operator"
        and number_at(deployment, "status", "readyReplicas") > 0
        for deployment in deployments
    )


def nic_policy_status(
    policy: NicPolicy,
    devices: Mapping[str, NodeDevices],
    labels: Mapping[str, Mapping[str, str]],
) -> Doc:
    """The status that the operator would write: `ready`, `notReady` or `error`, and why."""
    state, reason = _judge(policy, devices, labels)
    wanted = {
        "state-SRIOV-device-plugin": policy.config,
        "state-RDMA-device-plugin": policy.shared_config,
    }
    everywhere = "ready" if policy.operator_ready and policy.valid else state
    states = {name: state for name, on in wanted.items() if on}
    states |= {name: everywhere for name, _ in policy.parts}
    applied: list[Json] = [{"name": name, "state": each} for name, each in states.items()]
    status: Doc = {"state": state, "appliedStates": applied}
    return status | ({"reason": reason} if reason else {})


def _judge(
    policy: NicPolicy,
    devices: Mapping[str, NodeDevices],
    labels: Mapping[str, Mapping[str, str]],
) -> tuple[str, str]:
    if not policy.valid:
        return "ignore", f"Unsupported NicClusterPolicy instance {name_of(policy.document)}"
    if not policy.operator_ready:
        return "notReady", "the operator's Deployment is not ready"
    try:
        if policy.config:
            plan_pools(policy.config, ())
        if policy.shared_config:
            plan_shared(policy.shared_config, ())
    except DeviceError as error:
        return "error", str(error)
    nodes = {name: labels.get(name, {}) for name in devices}
    marked = [
        name for name, own in nodes.items() if own.get(NIC_LABEL) == "true" and policy.takes(own)
    ]
    if not marked:
        return "notReady", f"no node has the label {NIC_LABEL}"
    waiting = [name for name in marked if not policy.serves(devices[name], labels[name])]
    if waiting:
        return "notReady", f"no RDMA driver on {', '.join(waiting)}"
    return "ready", ""

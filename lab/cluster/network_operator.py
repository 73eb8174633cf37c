"""The network operator's part of a node: whole HCAs, and the state of the NicClusterPolicy.

Nothing becomes ready by itself: the operator's Deployment must be ready, a node must carry the
label that node feature discovery sets, and the device plugin must be able to read its configuration
(docs/explanation/sources.md#operators).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from components.core.errors import DeviceError
from lab.cluster.device_plugin import Pool, plan_pools
from lab.cluster.devices import NodeDevices
from lab.cluster.document import Doc, Json, doc_at, number_at, text_at
from lab.cluster.gpu_operator import NIC_LABEL
from lab.cluster.shared_plugin import SharedPool, plan_shared

POLICIES = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
MOFED_WAIT = "network.nvidia.com/operator.mofed.wait"
"""Set to `false` on nodes whose RDMA driver is there; the device plugin waits for it."""
_PREFIX = "nvidia.com"


@dataclass(frozen=True, slots=True)
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

    def serves(self, devices: NodeDevices, labels: Mapping[str, str]) -> bool:
        """Whether the operator's parts run on a node: the driver there, or brought by it."""
        brings = bool(doc_at(self.document, "spec", "ofedDriver"))
        driver = brings or any(card.rdma for card in devices.cards)
        return self.operator_ready and labels.get(NIC_LABEL) == "true" and driver

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
    applied: list[Json] = [{"name": name, "state": state} for name, on in wanted.items() if on]
    status: Doc = {"state": state, "appliedStates": applied}
    return status | ({"reason": reason} if reason else {})


def _judge(
    policy: NicPolicy,
    devices: Mapping[str, NodeDevices],
    labels: Mapping[str, Mapping[str, str]],
) -> tuple[str, str]:
    if not policy.operator_ready:
        return "notReady", "the operator's Deployment is not ready"
    try:
        if policy.config:
            plan_pools(policy.config, ())
        if policy.shared_config:
            plan_shared(policy.shared_config, ())
    except DeviceError as error:
        return "error", str(error)
    marked = [name for name in devices if labels.get(name, {}).get(NIC_LABEL) == "true"]
    if not marked:
        return "notReady", f"no node has the label {NIC_LABEL}"
    waiting = [name for name in marked if not policy.serves(devices[name], labels[name])]
    if waiting:
        return "notReady", f"no RDMA driver on {', '.join(waiting)}"
    return "ready", ""

"""The network operator: chart values, and the policy that makes it publish the rails' devices.

Sources: the operator's chart, its NicClusterPolicy definition (v26.4.1) and its examples for
host-device (narrowed to InfiniBand), SR-IOV and shared RDMA devices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import network_device_plugin, network_operand
from components.artefacts.naming import in_registry
from components.catalogue.cluster_parts import UPSTREAM
from components.catalogue.version_pairs import driver_tag
from components.core.errors import SpecError
from components.kubernetes.manifest import TIMEOUT, WAIT_FOR, Body
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.operators import NetworkOperator
from components.model.owners import (
    cni_paths,
    draws_blocks,
    firmware_by_operator,
    policy_networks,
    vfs_by_operator,
    way_of,
)
from components.pod_network.attachment import MELLANOX
from components.pod_network.manifests import discovery_values, tolerated
from components.pod_network.networks import shared_plugin_config
from components.pod_network.rails import ib_rails
from components.pod_network.sriov import function_plugin_config

NIC_POLICY: Final = "nic-cluster-policy"
"""The conventional name; the operator accepts only one policy."""
POLICY_API: Final = "mellanox.com/v1alpha1"
POLICY_DEADLINE_S: Final = 1800
"""Seconds until the policy is ready, for each group of nodes that gets its driver: a driver
container may compile for 20 minutes."""


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
    paths = cni_paths(spec)
    if paths != UPSTREAM:  # the chart's own defaults
        values["operator"] = {"cniBinDirectory": paths.bin, "cniNetworkDirectory": paths.net_d}
    if vfs_by_operator(spec):
        # Its plugin `mellanox` would set SRIOV_EN, NUM_OF_VFS and the link type, and reboot: the
        # hosts, or the NIC configuration operator, set them.
        names: Body = {"resourcePrefix": spec.pod_network.resource_prefix, "cniBinPath": paths.bin}
        values["sriovNetworkOperator"] = {"enabled": True}
        values["sriov-network-operator"] = {
            "operator": names,
            "sriovOperatorConfig": {"deploy": True, "disablePlugins": ["mellanox"]},
        }
    if firmware_by_operator(spec):
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
    wanted: Body = {
        **_device_plugin(spec, operator),
        **_networks(spec, operator),
        **_cards(spec, operator),
        **_only_workers(spec),
    }
    if taints := tolerated(spec):
        wanted["tolerations"] = taints
    groups = 1
    if operator.driver == "operator":
        tag = container_tag(operator)
        if tag is None:
            raise SpecError(
                f"the driver container of network operator {operator.chart.version} is not known.\n"
                "  fix    write its tag as operators.network.driver_tag"
            )
        upgrades = _driver_upgrades(spec)
        driver = _operand(spec, operator, "doca-driver")
        wanted["ofedDriver"] = {**driver, "version": tag, **upgrades}
        if upgrades:
            groups = max(1, ceil(len(spec.workers) / spec.disruption.max_unavailable))
    return {
        "apiVersion": POLICY_API,
        "kind": "NicClusterPolicy",
        "metadata": {
            "name": NIC_POLICY,
            "annotations": {
                WAIT_FOR: "jsonpath={.status.state}=ready",
                TIMEOUT: str(POLICY_DEADLINE_S * groups),
            },
        },
        "spec": wanted,
    }


def _driver_upgrades(spec: ClusterSpec) -> Body:
    """How a driver with another tag reaches the nodes, if they may be drained for it.

    Without this the operator does not replace driver containers (its DaemonSet has `OnDelete`), and
    its policy is not ready while an old one runs, so an update waits in vain (network operator
    v26.4.1, state-ofed-driver and isDaemonSetReady). The drain does not end a pod without a
    controller.
    """
    asked = spec.disruption
    if asked.reboots != "allow":
        return {}
    drain: Body = {
        "enable": True,
        "deleteEmptyDir": True,
        "force": False,
        "timeoutSeconds": asked.drain_deadline_s,
    }
    nodes = asked.max_unavailable
    return {"upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": nodes, "drain": drain}}


def _device_plugin(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """The part of the policy that publishes the rails' devices.

    Empty if the SR-IOV network operator makes the VFs: it publishes them itself.
    """
    if vfs_by_operator(spec):
        return {}
    mode = spec.pod_network.mode
    key, config = _DEVICE_PLUGINS[mode]
    name = network_device_plugin(operator.chart.version, mode)
    return {key: {**_image(spec, name), "config": config(spec)}}


def _networks(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """Multus, the reference plugins and nv-ipam, if the operator brings them."""
    networks: Body = {}
    if policy_networks(spec):
        parts: Body = {
            "cniPlugins": _operand(spec, operator, "plugins"),
            "multus": _operand(spec, operator, "multus-cni"),
        }
        if way_of(spec) == "ipoib":
            parts["ipoib"] = _operand(spec, operator, "ipoib-cni")
        networks["secondaryNetwork"] = parts
    if draws_blocks(spec):
        # Its webhook would need a certificate manager; `railyard check` checks the same.
        addresses = _operand(spec, operator, "nvidia-k8s-ipam")
        networks["nvIpam"] = {**addresses, "enableWebhook": False}
    return networks


def _cards(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """The parts for firmware and partitions, if the operator manages them."""
    wanted: Body = {}
    if (keys := operator.ib_kubernetes) is not None:
        wanted["ibKubernetes"] = {
            **_operand(spec, operator, "ib-kubernetes"),
            "pKeyGUIDPoolRangeStart": re.sub(r"(..)(?!$)", r"\1:", keys.first_guid),
            "pKeyGUIDPoolRangeEnd": re.sub(r"(..)(?!$)", r"\1:", keys.last_guid),
            "periodicUpdateSeconds": keys.period_s,
            "ufmSecret": keys.ufm_secret,
        }
    if firmware_by_operator(spec):
        wanted["nicConfigurationOperator"] = {
            "operator": _operand(spec, operator, "nic-configuration-operator"),
            "configurationDaemon": _operand(spec, operator, "nic-configuration-operator-daemon"),
        }
    return wanted


def _only_workers(spec: ClusterSpec) -> Body:
    """In a cluster of others, the nodes that the operator may use: the workers of the file.

    By default it takes every node with a Mellanox card. AKS has such cards in its system pools too,
    for accelerated networking, and the driver container would unload their driver
    (Azure/aks-rdma-infiniband 700dabb, configs/nicclusterpolicy/base).
    """
    names: list[JsonValue] = [host.node for host in spec.workers]
    if not names or not isinstance(spec.kubernetes, ExistingPlane):
        return {}
    here: Body = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [here]}]
            }
        }
    }


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

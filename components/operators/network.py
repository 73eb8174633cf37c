"""The network operator: chart values, and the policy that makes it publish whole HCAs.

Sources: the operator's chart, its NicClusterPolicy definition (v26.4.1) and its host-device
example, narrowed to InfiniBand.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from components.artefacts.listing import network_device_plugin
from components.artefacts.naming import in_registry
from components.catalogue.cni_folders import UPSTREAM
from components.catalogue.upstream import network_operand_version
from components.catalogue.version_pairs import driver_tag
from components.core.errors import SpecError
from components.kubernetes.manifest import TIMEOUT, WAIT_FOR, Body
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths
from components.model.operators import NetworkOperator
from components.pod_network.attachment import MELLANOX
from components.pod_network.tolerations import discovery_values, tolerated

NETWORK_NAMESPACE: Final = "nvidia-network-operator"
NIC_POLICY: Final = "nic-cluster-policy"
"""The conventional name; the operator works on one policy only."""
POLICY_API: Final = "mellanox.com/v1alpha1"
POLICY_DEADLINE_S: Final = 1800
"""Seconds until the policy is ready: a driver container may compile for 20 minutes."""


def network_operator_values(spec: ClusterSpec) -> Body:
    """The values in which we differ from the chart.

    The GPU operator brings node feature discovery, and two would take turns at the same labels; its
    own settings already give the label of the cards, so the chart's rule is not needed either.
    """
    # Helm installs definitions once and never again; the chart's own hook upgrades them.
    values: Body = {"upgradeCRDs": True}
    if spec.operators.gpu is not None:
        values["nfd"] = {"enabled": False, "deployNodeFeatureRules": False}
    else:
        values |= discovery_values(spec)
    paths = cni_paths(spec)
    if paths != UPSTREAM:  # which are the chart's own defaults
        values["operator"] = {
            "cniBinDirectory": paths.bin,
            "cniNetworkDirectory": paths.net_d,
        }
    return values


def nic_cluster_policy(spec: ClusterSpec, operator: NetworkOperator) -> Body:
    """The policy, and the wait for its state: the chart makes none since 24.10.

    Neither Multus nor addresses: NCCL uses the HCAs without any interface in the pod.

    Raises:
        SpecError: The operator's driver container is wanted, and its tag is not known.
    """
    version = network_operand_version(operator.chart.version)
    registry = spec.sources.registry
    plugin = network_device_plugin(operator.chart.version)
    repository = in_registry(plugin, registry).rpartition("/")[0]
    wanted: Body = {
        "sriovDevicePlugin": {
            "image": "sriov-network-device-plugin",
            "repository": repository,
            "version": version,
            "config": host_device_config(spec),
        }
    }
    if taints := tolerated(spec):
        wanted["tolerations"] = taints
    if operator.driver == "operator":
        wanted["ofedDriver"] = {
            "image": "doca-driver",
            "repository": repository,
            "version": _driver_tag(operator),
        }
    return {
        "apiVersion": POLICY_API,
        "kind": "NicClusterPolicy",
        "metadata": {
            "name": NIC_POLICY,
            "annotations": {
                WAIT_FOR: "jsonpath={.status.state}=ready",
                TIMEOUT: str(POLICY_DEADLINE_S),
            },
        },
        "spec": wanted,
    }


def host_device_config(spec: ClusterSpec) -> str:
    """`config` of the device plugin: every InfiniBand card, and no Ethernet one.

    By link type and vendor, since a cloud names and places the cards; a vendor alone would take
    Ethernet ports for storage and management too.
    """
    selectors: dict[str, JsonValue] = {
        "vendors": [MELLANOX],
        "linkTypes": ["infiniband"],
        "isRdma": True,
    }
    entry: dict[str, JsonValue] = {
        "resourcePrefix": spec.pod_network.resource_prefix,
        "resourceName": spec.pod_network.host_device_resource,
        "selectors": selectors,
    }
    return json.dumps({"resourceList": [entry]}, indent=1)


def container_tag(operator: NetworkOperator) -> str | None:
    """The tag of the driver container: the file's, or that of the operator's own release."""
    return operator.driver_tag or driver_tag(operator.chart.version)


def _driver_tag(operator: NetworkOperator) -> str:
    tag = container_tag(operator)
    if tag is None:
        raise SpecError(
            f"the driver container of network operator {operator.chart.version} is not known.\n"
            "  fix    write its tag as operators.network.driver_tag"
        )
    return tag

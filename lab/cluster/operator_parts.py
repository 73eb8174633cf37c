"""What the network operator's DaemonSets do on nodes, and nv-ipam's controller in the cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from components.core.errors import RailyardError
from components.kubernetes.manifest import load_vendored
from lab.cluster.api import Api
from lab.cluster.device_plugin import Pool
from lab.cluster.document import Doc, Json, as_doc, at, name_of
from lab.cluster.network_operator import NAMESPACE, NicPolicy
from lab.cluster.nv_ipam import IMAGE, KINDS, POOLS, give_blocks, give_prefixes
from lab.cluster.pod_view import NodeState, Pod
from lab.cluster.shared_plugin import SharedPool

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRDS = ("components.pod_network", "nv-ipam-crds-v0.4.0.json.gz")


def policy_pools(
    policies: Sequence[NicPolicy], node: NodeState, labels: Mapping[str, str]
) -> tuple[Pool, ...]:
    """What the network operator's device plugin publishes on a node."""
    try:
        return tuple(pool for each in policies for pool in each.pools(node.devices, labels))
    except RailyardError as error:
        _say(node, error)
        return ()


def policy_shared(
    policies: Sequence[NicPolicy], node: NodeState, labels: Mapping[str, str]
) -> tuple[SharedPool, ...]:
    """What the network operator's shared device plugin publishes on a node."""
    try:
        return tuple(pool for each in policies for pool in each.shared(node.devices, labels))
    except RailyardError as error:
        _say(node, error)
        return ()


def policy_images(policies: Sequence[NicPolicy]) -> frozenset[str]:
    """The images that a policy runs on every node."""
    return frozenset(image for each in policies for image in each.brought)


def _say(node: NodeState, error: RailyardError) -> None:
    print(f"NicClusterPolicy on {node.name}: {error}", file=sys.stderr, flush=True)


def settle_blocks(
    api: Api,
    policies: Sequence[NicPolicy],
    pods: Sequence[Pod],
    labels: Mapping[str, Mapping[str, str]],
) -> list[Doc]:
    """Give each node its block of each pool, as nv-ipam's controller does.

    The operator brings the definitions with the controller: before it, nobody can make a pool.

    Returns:
        The pools that the daemons of the nodes see.
    """
    of_policy = any(policy.gives_blocks for policy in policies)
    if of_policy and api.find(POOLS) is None:
        for body in load_vendored(*_CRDS):
            api.apply(f"{_DEFINITIONS}/{name_of(body)}", as_doc(body))
    namespaces = {NAMESPACE} if of_policy else set[str]()
    namespaces |= {pod.namespace for pod in pods if _is_controller(pod)}
    found: list[Doc] = []
    for namespace in sorted(namespaces):
        for plural in KINDS:
            path = f"/apis/nv-ipam.nvidia.com/v1alpha1/namespaces/{namespace}/{plural}"
            found += [_settled(api, path, pool, labels) for pool in api.items(path)]
    return found


def _is_controller(pod: Pod) -> bool:
    return pod.phase == "Running" and pod.runs_image(IMAGE) and "/ipam-controller" in pod.command


def _settled(api: Api, path: str, pool: Doc, labels: Mapping[str, Mapping[str, str]]) -> Doc:
    try:
        give = give_prefixes if path.endswith("/cidrpools") else give_blocks
        wanted: list[Json] = give(pool, labels)
    except RailyardError as error:
        print(str(error), file=sys.stderr, flush=True)
        return pool
    if at(pool, "status", "allocations") == wanted or not (wanted or pool.get("status")):
        return pool
    status: Doc = {"allocations": wanted}
    api.merge(f"{path}/{name_of(pool)}/status", {"status": status})
    return {**pool, "status": status}

"""What of a rail its node's leaf has, as a file on each node: for rails on several leaves.

All workers of an MPIJob are of one template, so they name one attachment a rail; where each node is
plugged in decides which subnet its pods get. Whereabouts reads what an attachment leaves out from
the file at its `configuration_path` (docs/explanation/sources.md#pod-network).
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths, gives_addresses
from components.pod_network.leaf_pools import Pool, pools_of
from components.pod_network.manifests import (
    JsonObject,
    config_name,
    daemon_set,
    host_path,
    metadata,
    mount,
    resources,
)
from components.pod_network.networks import pool_file

POOL_FILES: Final = "rail-pools"
_SCRIPT: Final = """set -eu
mkdir -p /host/whereabouts.d
while read -r node rail leaf; do
  [ "$node" = "$NODENAME" ] || continue
  cp "/pools/$rail.$leaf.conf" "/host/whereabouts.d/.$rail.new"
  mv -f "/host/whereabouts.d/.$rail.new" "/host/whereabouts.d/$rail.conf"
done </pools/nodes
exec sleep infinity
"""


def has_pool_files(spec: ClusterSpec) -> bool:
    """Whether a node's place decides the addresses of its pods."""
    return gives_addresses(spec) and any(rail.leaves for rail in spec.rails)


def _pools(spec: ClusterSpec) -> list[Pool]:
    return [pool for pools in pools_of(spec).values() for pool in pools if pool.leaf]


def _files(spec: ClusterSpec) -> dict[str, str]:
    """The table of all nodes, and a file for each leaf of a rail."""
    pools = _pools(spec)
    nodes = (f"{node} {pool.rail} {pool.leaf}\n" for pool in pools for node in pool.nodes)
    files = {f"{pool.rail}.{pool.leaf}.conf": pool_file(spec, pool) for pool in pools}
    return {"nodes": "".join(nodes), **files}


def _name(files: dict[str, str]) -> str:
    return config_name(POOL_FILES, "\n".join(files.values()))


def pool_files_map(spec: ClusterSpec) -> Body:
    """The files; another text is another object, so that pods with the old one are replaced."""
    files = _files(spec)
    data: JsonObject = {**files}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(_name(files)),
        "immutable": True,
        "data": data,
    }


def pool_files_daemon_set(spec: ClusterSpec) -> Body:
    """Writes on each node the files of its own leaves."""
    paths, files = cni_paths(spec), _files(spec)
    node: JsonValue = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    main: JsonObject = {
        "name": POOL_FILES,
        "image": spec.sources.images.whereabouts,
        "command": ["/bin/sh", "-c", _SCRIPT],
        "env": [{"name": "NODENAME", "valueFrom": node}],
        "resources": resources("10m", "15Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("cni", "/host"), mount("pools", "/pools", readOnly=True)],
    }
    pod: JsonObject = {
        "containers": [main],
        "volumes": [
            host_path("cni", paths.net_d),
            {"name": "pools", "configMap": {"name": _name(files)}},
        ],
    }
    return daemon_set(POOL_FILES, pod)

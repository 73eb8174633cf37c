"""What of a rail its node's leaf has, as a file on each node: for rails on several leaves.

All workers of an MPIJob are of one template, so they name one attachment a rail; where each node is
plugged in decides which subnet its pods get. Whereabouts reads what an attachment leaves out from
the file at its `configuration_path`, and nv-ipam from `nv-ipam.conf` in its `confDir`
(docs/explanation/sources.md#pod-network).
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.cni import cni_paths
from components.model.fabric import Rail
from components.model.owners import pool_files_image
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

_NAMES: Final = {"whereabouts": "rail-pools", "nv-ipam": "nv-ipam-pools"}
"""Of the DaemonSet: the engine makes a new resource before the old one goes, so that a site that
changes its `ipam` must not have one object under two names of resources."""
_SCRIPT: Final = """set -eu
while read -r node rail leaf; do
  [ "$node" = "$NODENAME" ] || continue
  file=/host/{file}
  mkdir -p "${{file%/*}}"
  cp "/pools/$rail.$leaf.conf" "${{file%/*}}/.$rail.new"
  mv -f "${{file%/*}}/.$rail.new" "$file"
done </pools/nodes
exec sleep infinity
"""
_FILES: Final = {
    "whereabouts": "whereabouts.d/$rail.conf",
    "nv-ipam": "nv-ipam.d/$rail/nv-ipam.conf",
}
"""Where each reads what of a rail its node's leaf has, in the folder of networks."""


def has_pool_files(spec: ClusterSpec) -> bool:
    """Whether a node's place decides the addresses of its pods."""
    return pool_files_image(spec) is not None


def _pools(spec: ClusterSpec) -> list[tuple[Rail, Pool]]:
    found = pools_of(spec)
    return [(rail, pool) for rail in spec.rails for pool in found[rail.name] if pool.leaf]


def _files(spec: ClusterSpec) -> dict[str, str]:
    """The table of all nodes, and a file for each leaf of a rail."""
    pools = _pools(spec)
    nodes = (f"{node} {pool.rail} {pool.leaf}\n" for _, pool in pools for node in pool.nodes)
    files = {f"{pool.rail}.{pool.leaf}.conf": pool_file(spec, rail, pool) for rail, pool in pools}
    return {"nodes": "".join(nodes), **files}


def _name(spec: ClusterSpec, files: dict[str, str]) -> str:
    return config_name(_NAMES[spec.pod_network.ipam], "\n".join(files.values()))


def pool_files_map(spec: ClusterSpec) -> Body:
    """The files; another text is another object, so that pods with the old one are replaced."""
    files = _files(spec)
    data: JsonObject = {**files}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(_name(spec, files)),
        "immutable": True,
        "data": data,
    }


def pool_files_daemon_set(spec: ClusterSpec) -> Body:
    """Writes on each node the files of its own leaves."""
    paths, files = cni_paths(spec), _files(spec)
    node: JsonValue = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    key = pool_files_image(spec)
    assert key is not None  # noqa: S101 - else there are no files
    main: JsonObject = {
        "name": _NAMES[spec.pod_network.ipam],
        "image": getattr(spec.sources.images, key),
        "command": ["/bin/sh", "-c", _SCRIPT.format(file=_FILES[spec.pod_network.ipam])],
        "env": [{"name": "NODENAME", "valueFrom": node}],
        "resources": resources("10m", "15Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("cni", "/host"), mount("pools", "/pools", readOnly=True)],
    }
    pod: JsonObject = {
        "containers": [main],
        "volumes": [
            host_path("cni", paths.net_d),
            {"name": "pools", "configMap": {"name": _name(spec, files)}},
        ],
    }
    return daemon_set(_NAMES[spec.pod_network.ipam], pod)

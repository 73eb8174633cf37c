"""Kubelet's CPU and topology manager at its start: what it refuses, and the state that it keeps.

Words and order: kubelet 1.36 (pkg/kubelet/apis/config/validation, pkg/kubelet/cm/cpumanager,
pkg/kubelet/cm/topologymanager). Which CPUs a pod gets is not played: kwok runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from components.core.errors import DeviceError
from lab.cluster.k3s_config import HostPaths

STATE: Final = "/var/lib/kubelet/cpu_manager_state"
_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_SCOPES: Final = ("container", "pod")


def start_cpu_manager(paths: HostPaths, flags: Mapping[str, Sequence[str]]) -> None:
    """Check what the kubelet is told, then read or write its state.

    Args:
        paths: The host's files.
        flags: K3s' configuration; `kubelet-arg` holds the kubelet's own.

    Raises:
        DeviceError: in the words of the kubelet, which K3s ends with.
    """
    given = dict(each.split("=", 1) for each in flags.get("kubelet-arg", []) if "=" in each)
    policy = given.get("cpu-manager-policy", "none")
    if policy not in {"none", "static"}:
        raise _ended(f'unknown policy: "{policy}"')
    topology = given.get("topology-manager-policy", "none")
    if topology not in _POLICIES:
        raise _ended(f'unknown policy: "{topology}"')
    if given.get("topology-manager-scope", "container") not in _SCOPES:
        raise _ended(f'unknown scope: "{given["topology-manager-scope"]}"')
    if policy == "static" and not given.get("reserved-cpus"):
        raise _ended(
            "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than"
            " zero"
        )
    _restore(paths, policy)


def _restore(paths: HostPaths, policy: str) -> None:
    file = paths.at(STATE)
    if file.is_file():
        kept = cast("dict[str, object]", json.loads(file.read_text())).get("policyName")
        if kept != policy:
            raise _ended(
                f'could not restore state from checkpoint: configured policy "{policy}" differs'
                f' from state checkpoint policy "{kept}", please drain this node and delete the CPU'
                f' manager checkpoint file "{STATE}" before restarting Kubelet'
            )
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"policyName": policy, "defaultCpuSet": "", "checksum": 0}))


def _ended(words: str) -> DeviceError:
    return DeviceError(f"kubelet exited: {words}")

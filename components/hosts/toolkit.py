"""NVIDIA's container toolkit on a host: verified, installed, or left to the GPU operator."""

from __future__ import annotations

from typing import Final

from components.model.cluster import ClusterSpec
from components.model.gpu_direct import runs_docker, toolkit_owner
from components.model.hosts import Host

TOOLKIT_PARAMETERS: Final = frozenset({"toolkit_key", "toolkit_key_sha256"})
"""Lines on stdin that say how the toolkit is installed, and are no setting."""
_KEY_DIGITS: Final = 12
"""Digits of the key's checksum in the setting, as of the RDMA driver's."""


def toolkit_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The runtime for GPUs, which K3s looks for on its PATH at its start, and Docker by name.

    It comes before both: K3s ends where the runtime that its configuration names is missing.
    """
    if not _runs_gpus(spec, host):
        return {}
    owner, asked = toolkit_owner(spec), spec.host_defaults.toolkit
    if owner != "host":
        return {"toolkit.runtime": "present"} if owner == "present" else {}
    kept = {"docker.toolkit": "present"}
    if asked is not None and asked.repository is not None:
        digits = asked.repository.key_sha256[:_KEY_DIGITS]
        kept["toolkit.repository"] = f"{asked.repository.url} {digits}"
    if asked is not None and asked.version is not None:
        kept["toolkit.version"] = asked.version
    return kept


def toolkit_parameters(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The key that signs the repository: how the step is done, no setting."""
    asked = spec.host_defaults.toolkit
    if asked is None or asked.repository is None or not _runs_gpus(spec, host):
        return {}
    repository = asked.repository
    return {"toolkit_key": repository.key, "toolkit_key_sha256": repository.key_sha256}


def _runs_gpus(spec: ClusterSpec, host: Host) -> bool:
    """Containers with GPUs run here, in a Kubernetes of ours or in Docker."""
    ours = spec.k3s is not None or runs_docker(spec)
    return ours and host.gpus > 0 and host.role != "balancer"

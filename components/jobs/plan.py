"""What runs jobs: the MPI operator, and the samples that the file asks for."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from components.jobs.deepspeed import plan_deepspeed
from components.jobs.own_pods import plan_own_pods
from components.kubernetes.fields import name_of
from components.kubernetes.login import login_manifests
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.pods import pods_in, pulling, with_image
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.model.owners import installs
from components.pod_network.tolerations import tolerations

MPI_OPERATOR_FILE: Final = "mpi-operator-v0.8.2.json.gz"
MPI_NAMESPACE: Final = "mpi-operator"
_OF_PROFILES: Final = "kubeflow-"
"""Begins the names of roles that Kubeflow's profiles are made of: no user has them without it."""
_LAST_KINDS: Final = frozenset({"Deployment"})


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """The MPI operator, and the sample jobs of the file."""

    manifests: tuple[Manifest, ...]


def plan_jobs(spec: ClusterSpec) -> JobsPlan:
    """Plan the operator and the samples; nothing of it on a site without Kubernetes."""
    if spec.kubernetes is None:
        return JobsPlan(manifests=())
    operator = _mpi_operator(spec) if installs(spec, "mpi_operator") else ()
    login = login_manifests(spec, "jobs", spec.pod_network.namespace, 0)
    own = plan_own_pods(spec, 0)
    return JobsPlan(manifests=login + own + operator + plan_deepspeed(spec))


def _mpi_operator(spec: ClusterSpec) -> tuple[Manifest, ...]:
    vendored = load_vendored("components.jobs", MPI_OPERATOR_FILE)
    image = spec.sources.images.mpi_operator
    needed = [body for body in vendored if not name_of(body).startswith(_OF_PROFILES)]
    bodies = [_tolerant(spec, pulling(spec, with_image(body, image))) for body in needed]
    made = [make_manifest("mpi-operator", body, _group(body)) for body in bodies]
    made += login_manifests(spec, "mpi-operator", MPI_NAMESPACE, 1)
    return tuple(sorted(made, key=lambda manifest: manifest.group))


def _tolerant(spec: ClusterSpec, body: Body) -> Body:
    """The operator's pod with the file's tolerations: each node of a cluster may be tainted."""
    changed = deepcopy(body)
    for pod in pods_in(changed):
        pod.update(tolerations(spec))
    return changed


def _group(body: Body) -> int:
    """The namespace first, then what needs it, then the operator."""
    if body["kind"] == "Namespace":
        return 0
    return 2 if body["kind"] in _LAST_KINDS else 1

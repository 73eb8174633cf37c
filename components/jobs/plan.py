"""What runs jobs: the MPI operator, and the samples that the file asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.jobs.deepspeed import plan_deepspeed
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec

MPI_OPERATOR_FILE: Final = "mpi-operator-v0.8.2.json.gz"
_LAST_KINDS: Final = frozenset({"Deployment"})


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """The MPI operator, and the sample jobs of the file."""

    manifests: tuple[Manifest, ...]


def plan_jobs(spec: ClusterSpec) -> JobsPlan:
    """Plan the operator and the samples; nothing of it on a site without Kubernetes."""
    if spec.kubernetes is None:
        return JobsPlan(manifests=())
    operator = _mpi_operator() if spec.jobs.mpi_operator else ()
    return JobsPlan(manifests=operator + plan_deepspeed(spec))


def _mpi_operator() -> tuple[Manifest, ...]:
    bodies = load_vendored("components.jobs", MPI_OPERATOR_FILE)
    ordered = sorted(bodies, key=_group)
    return tuple(make_manifest("mpi-operator", body, _group(body)) for body in ordered)


def _group(body: Body) -> int:
    """The namespace first, then what needs it, then the operator and roles made of other roles."""
    if body["kind"] == "Namespace":
        return 0
    return 2 if body["kind"] in _LAST_KINDS or "aggregationRule" in body else 1

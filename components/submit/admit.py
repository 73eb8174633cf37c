"""What a cluster says before a job is created: closed nodes, names in use, kinds it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.acceptance.collect.cluster_jobs import path_of
from components.acceptance.collect.cluster_objects import Api, Body
from components.core.errors import DeviceError
from components.kubernetes.live.nodes import NodeTrouble, troubles_of
from components.kubernetes.manifest import name_of
from components.model.hosts import Host
from components.submit.choose import Trouble
from components.submit.make import UserJob

TRAINER: Final = "/apis/trainer.kubeflow.org/v1alpha1"
_INSTALL: Final[Mapping[str, str]] = {
    "kubeflow.org/v2beta1": "set jobs.mpi_operator to true and update the stack.",
    "trainer.kubeflow.org/v1alpha1": "install Kubeflow Trainer, or leave --form out.",
}
"""API that a job may need, and how a cluster gets it."""
_MEND: Final[Mapping[str, str]] = {
    "absent": "let it join, or leave it out of --nodes.",
    "not ready": "look at its kubelet (kubectl describe node), or leave it out of --nodes.",
    "cordoned": "kubectl uncordon opens it; or leave it out of --nodes.",
    "tainted": "take the taint away, tolerate it in the file, or leave the node out of --nodes.",
}


def has_trainer(api: Api) -> bool:
    """Whether the cluster has Kubeflow Trainer."""
    return api.get(TRAINER) is not None


def node_troubles(
    api: Api, hosts: Sequence[Host], tolerations: Sequence[Body]
) -> Iterator[Trouble]:
    """The chosen nodes that take no pod of the job, each with all that keeps pods off it."""
    for host in hosts:
        node = api.get(f"/api/v1/nodes/{host.node}")
        found = [NodeTrouble("absent")] if node is None else troubles_of(node, tolerations)
        for each in found:
            what = each.words(host.node).partition(": kubectl")[0]
            yield Trouble(what, _MEND[each.kind])


def object_troubles(api: Api, job: UserJob) -> Iterator[Trouble]:
    """Kinds that the cluster lacks, and objects whose names are in use."""
    versions = [str(body["apiVersion"]) for body in job.objects]
    lacking = [each for each in dict.fromkeys(versions) if each in _INSTALL]
    lacking = [each for each in lacking if api.get(f"/apis/{each}") is None]
    for version in lacking:
        kinds = [str(body["kind"]) for body in job.objects if body["apiVersion"] == version]
        what = f"the cluster has no {' and no '.join(kinds)} ({version})"
        yield Trouble(what, _INSTALL[version])
    for body in job.objects:
        if body["apiVersion"] not in lacking and api.get(path_of(body)) is not None:
            name = name_of(body)
            what = f"{body['kind']} {name} is in namespace {job.namespace} already"
            fix = f"give the job another --name, or delete that one: {delete_line(job)}"
            yield Trouble(what, fix)


def delete_line(job: UserJob) -> str:
    """The command that takes a job away."""
    names = " ".join(f"{str(body['kind']).lower()}/{name_of(body)}" for body in job.objects)
    return f"kubectl -n {job.namespace} delete {names}"


def create(api: Api, job: UserJob) -> None:
    """Create all objects of a job, or none.

    Raises:
        DeviceError: The cluster refused one; those before it are deleted again.
    """
    made: list[Body] = []
    try:
        for body in job.objects:
            api.post(path_of(body).rpartition("/")[0], body)
            made.append(body)
    except DeviceError:
        for body in reversed(made):
            api.delete(path_of(body))
        raise

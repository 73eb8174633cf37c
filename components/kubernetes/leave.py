"""`railyard device leave-cluster`: ask the API once, before the first object is deleted.

Without it, `destroy` over a dead API ends with one error of the provider for each object, and none
of them says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from components.core.errors import DeviceError, UnreachableError
from components.core.to_json import to_json
from components.kubernetes.calls import KubernetesCalls
from components.kubernetes.client import read_kubeconfig
from components.kubernetes.reference import ClusterRef
from components.remote.host_session import run_on_hosts
from components.remote.lines import read_request, render_lines
from components.remote.step import secrets_from

STEP: Final = "cluster-leave"
KEEP: Final = "device keep-cluster"
LEAVE: Final = "device leave-cluster"
DROP: Final = "PULUMI_K8S_DELETE_UNREACHABLE"
"""With `true` the provider takes objects of a dead API out of the state (its documentation)."""


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """What is on stdin."""

    cluster: ClusterRef
    stack: str

    def render(self) -> str:
        """The request, a line a value."""
        return render_lines(to_json(self))


_REQUEST: Final = TypeAdapter(LeaveRequest)


def run_keep_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Do nothing: the step matters only when it is deleted."""
    del text, environ
    return "{}"


def run_leave_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Let the deletion of objects begin if their API answers, or if they are to be dropped.

    Raises:
        DeviceError: The API does not answer; the text says how to go on.
    """
    request = read_request(_REQUEST, text, "request to leave a cluster")
    if environ.get(DROP) == "true":
        return "{}"
    run = run_on_hosts((each.endpoint for each in request.cluster.servers), environ)
    try:
        kubeconfig = read_kubeconfig(request.cluster, run, secrets_from(environ))
        if kubeconfig is None:
            raise UnreachableError("no server has a kubeconfig")
        KubernetesCalls(kubeconfig).call("GET", "/version")
    except DeviceError as error:
        raise DeviceError(_refusal(request, str(error))) from error
    return "{}"


def _refusal(request: LeaveRequest, why: str) -> str:
    stack, name = request.stack, request.cluster.name
    words = (
        f"the API of cluster {name} does not answer, so its objects and charts cannot be deleted:"
        f" {why}\n  where  nothing was undone on any device.\n  fix    "
    )
    if request.cluster.kubeconfig_secret:
        return words + "run destroy again when it answers: the objects would stay in that cluster"
    return (
        f"{words}`pulumi up -s {stack}` starts K3s again where the host answers. If all of it goes"
        f" anyway, drop them: {DROP}=true pulumi destroy --refresh -s {stack}"
    )

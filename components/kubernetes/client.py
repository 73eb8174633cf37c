"""Access to a cluster at the moment of use, and the one place that makes a client of its API.

No step has the kubeconfig as an input: it reads it from a server over SSH, or from the environment
for an existing cluster. So a new certificate changes no step, and no request contains a secret. An
eviction that a disruption budget refuses (429) or a node that does not exist (404) is an answer,
not a failure.

`railyard device leave-cluster` asks the API once, before the first object is deleted. Without it,
`destroy` over a dead API ends with one provider error for each object, without the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from pydantic import TypeAdapter

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.core.limits import LOG_BYTES, Deadline, end_within, read_all
from components.core.to_json import to_json
from components.kubernetes.kubeconfig import choose_context, render_kubeconfig
from components.kubernetes.planes.base import ClusterRef, Server
from components.kubernetes.session import open_session
from components.remote.host_session import Run, run_on_hosts
from components.remote.lines import read_request, render_lines
from components.remote.step import OBSERVE_DEADLINE_S, env_name, render_remote_command, secrets_from

_NONE: Final = "none"
_K3S: Final = "/etc/rancher/k3s/k3s.yaml"
"""K3s writes the file at the first start of a server, and its uninstall removes it."""


def read_kubeconfig(
    cluster: ClusterRef, run: Run, secrets: Mapping[str, str], last: str = ""
) -> str | None:
    """The administrator's kubeconfig as it is now, or None if no server has started yet.

    `last` is the host to ask last, because it is about to leave service. DeviceError: a server does
    not answer, and no other server returns a kubeconfig.
    """
    if name := cluster.kubeconfig_secret:
        if name not in secrets:
            raise UsageError(f"no kubeconfig: set {env_name(name)} in the environment")
        return choose_context(secrets[name], cluster.context, cluster.name)
    silent: list[str] = []
    for server in sorted(cluster.servers, key=lambda each: each.endpoint.device == last):
        try:
            raw = _ask(server, run)
        except UnreachableError as error:
            silent.append(str(error).splitlines()[0])
            continue
        if raw.strip() != _NONE:
            return render_kubeconfig(raw, server.url, cluster.name)
    if silent:
        raise UnreachableError("; ".join(silent))
    return None


def _ask(server: Server, run: Run) -> str:
    read = f"cat {server.kubeconfig or _K3S} 2>/dev/null || echo {_NONE}\n"
    command = render_remote_command(read, OBSERVE_DEADLINE_S)
    answer = run(server.endpoint, command, "", OBSERVE_DEADLINE_S)
    if answer.exit_status:
        raise DeviceError(f"{server.endpoint.where}: {answer.stderr.strip()}")
    return answer.stdout


Body = Mapping[str, Any]
REQUEST_DEADLINE_S: Final = 5.0
"""Seconds for one try of a request."""
TRIES: Final = 4
"""Attempts before the client gives up: the first one, and urllib3's three retries."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API."""

    status: int
    text: str

    @property
    def body(self) -> Body:
        """The object; empty if the answer is not a JSON object."""
        try:
            document: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast("Body", document) if isinstance(document, dict) else {}

    @property
    def words(self) -> str:
        """The reason, in the API's words."""
        return str(self.body.get("message") or self.text.strip()[:200] or f"status {self.status}")


class Calls(Protocol):
    """A cluster that answers requests."""

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request; UnreachableError if no answer came."""
        ...


class KubernetesCalls:
    """`Calls` over HTTP, from the text of a kubeconfig."""

    def __init__(self, kubeconfig: str, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        """Read the kubeconfig; nothing is connected yet. The deadline is that of one try."""
        self._session, self._deadline_s = open_session(kubeconfig), deadline_s

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request; a PATCH is a JSON merge patch."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - most runs never need it

        try:
            with end_within(Deadline(TRIES * self._deadline_s)):
                answer = self._session.request(method, path, body, self._deadline_s)
                # A timeout of urllib3 restarts with each byte, and its `read` is unlimited.
                data = read_all(answer.read1, Deadline(self._deadline_s), LOG_BYTES)
        except (HTTPError, OSError) as error:
            words = str(error).strip().splitlines()[-1]
            raise UnreachableError(
                f"the cluster did not answer {method} {path}: {words}"
            ) from error
        return Answer(int(answer.status), data.decode(errors="replace"))


STEP: Final = "cluster-leave"
KEEP: Final = "device keep-cluster"
LEAVE: Final = "device leave-cluster"
DROP: Final = "PULUMI_K8S_DELETE_UNREACHABLE"
"""With `true` the provider drops objects of a dead API from the state (its documentation)."""


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """The request on stdin."""

    cluster: ClusterRef
    stack: str

    def render(self) -> str:
        """The request, one value a line."""
        return render_lines(to_json(self))


_REQUEST: Final = TypeAdapter(LeaveRequest)


def run_keep_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Do nothing: the step matters only when it is deleted."""
    del text, environ
    return "{}"


def run_leave_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Allow the deletion of objects if their API answers, or if the user drops them."""
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
        f" {why}\n  result no device was changed.\n  fix    "
    )
    if request.cluster.kubeconfig_secret:
        return words + "run destroy again when it answers: the objects would stay in that cluster"
    return (
        f"{words}`pulumi up -s {stack}` starts K3s again on each host that answers. If you remove "
        f"the whole site anyway, drop them: {DROP}=true pulumi destroy --refresh -s {stack}"
    )

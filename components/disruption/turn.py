"""Run one host's turn out of service, and open its cluster when a drain needs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.disruption.leave_plan import how_to_allow
from components.disruption.node import (
    Clock,
    Node,
    Nodes,
    check_quorum,
    is_cordoned,
    is_ours,
    is_ready,
    read_nodes,
)
from components.disruption.request import HostReboot, NodeUpgrade
from components.kubernetes.client import Calls, KubernetesCalls, read_kubeconfig
from components.kubernetes.planes.base import ClusterRef
from components.model.texts import unfold_names
from components.remote.host_session import Run, run_call, run_on_hosts
from components.remote.one_run import hold_lock
from components.remote.step import secrets_from
from components.remote.tools import ToolCall

Asked: TypeAlias = HostReboot | NodeUpgrade
"""A request on stdin: one node, and its cluster."""
LOCK_DEADLINE_S: Final = 60.0
"""Seconds to wait for another run's lock on the node; a killed engine may leave a run behind."""
_Request = TypeVar("_Request", bound=Asked)


def open_cluster(
    cluster: ClusterRef,
    host: str,
    run: Run,
    environ: Mapping[str, str],
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> Calls | None:
    """Open the cluster, or return None if it does not exist yet; DeviceError if that is unknown.

    The API of `host`, which will leave service, is the last choice.
    """
    try:
        kubeconfig = read_kubeconfig(cluster, run, secrets_from(environ), last=host)
    except UnreachableError as error:
        words = f"cannot find out whether {host} must be drained: {error}"
        raise DeviceError(words) from error
    return None if kubeconfig is None else connect(kubeconfig)


def check_allowance(calls: Calls, request: Asked) -> None:
    """Refuse if this worker would exceed the file's limit of workers out of service.

    The hosts of a group ask at the same time. So each asks before its cordon, to refuse without
    changes, and again after it: if there are too many, the last one to cordon sees all others.
    """
    name, most = request.node_name, max(1, request.max_unavailable)
    nodes = read_nodes(calls)
    workers = unfold_names(request.workers)
    away = [each for each in workers if each != name and _is_away(nodes, each)]
    if len(away) < most:
        return
    leaving = [each for each in away if each in request.group and is_ours(nodes[each])]
    out = ", ".join(each for each in away if each not in leaving)
    with_it = f"{', '.join(leaving)} of its group left before it, and " if leaving else ""
    raise DeviceError(
        f"{out} is out of service already (not Ready, or cordoned), {with_it}{name} would make it"
        f" {len(away) + 1}: disruption.max_unavailable is {request.max_unavailable}. Bring {out}"
        " back, or take it out of the file"
    )


def refuse_too_many(
    calls: Calls, names: Sequence[str], workers: Sequence[str], max_unavailable: int
) -> None:
    """Refuse if workers that leave together, and those out already, would exceed the limit."""
    nodes = read_nodes(calls)
    away = [each for each in workers if each not in names and _is_away(nodes, each)]
    if names and len(names) + len(away) > max_unavailable:
        out = f", and {', '.join(away)} is out of service already" if away else ""
        raise DeviceError(
            f"{', '.join(names)} would have to leave service at once{out}:"
            f" disruption.max_unavailable is {max_unavailable}. Nothing was changed.\n"
            f"  fix    {how_to_allow(len(names) + len(away))}"
        )


def _is_away(nodes: Nodes, name: str) -> bool:
    """Whether a node is not Ready, or cordoned. A host without a node runs no jobs."""
    node = nodes.get(name)
    return node is not None and (is_cordoned(node) or not is_ready(node))


@dataclass(slots=True)
class Turn(Clock, Generic[_Request]):
    """One run: the request, connections to host and cluster, and its progress."""

    request: _Request
    run: Run
    cluster: Callable[[], Calls | None]
    done: list[str] = field(default_factory=list[str])
    phase: str = "the first look"
    node: Node | None = None
    loss: str = ""
    """What is lost while this server is down, if it is not a boot."""

    def perform(self) -> dict[str, object]:
        """Do the work, or finish an earlier run; return the evidence."""
        raise NotImplementedError

    def _patient_cluster(self, deadline_s: float) -> Calls | None:
        """Open the cluster, and wait for its API if its only server is starting."""
        failed = DeviceError("the cluster was not asked")
        for _ in self.tries(deadline_s):
            try:
                calls = self.cluster()
                if calls is not None:
                    read_nodes(calls)
            except HostKeyError:
                raise
            except DeviceError as error:  # a starting API refuses before it answers
                failed = error
            else:
                return calls
        raise failed

    def _ask_to_go(self, calls: Calls) -> None:
        if self.request.role != "control_plane":
            check_allowance(calls, self.request)
            return
        planned = self.request.cluster.servers if self.request.cluster else ()
        names = tuple(each.node_name for each in planned)
        lost = check_quorum(calls, self.request.node_name, names)
        said = self.loss or lost
        if lost and said not in self.done:
            self.done.append(said)

    def _take_out(self, node: Node, *, ends_vfs: bool, drains: bool, begun: bool) -> None:
        """Cordon and drain the node; undo both after a refusal, unless an earlier run began."""
        self.phase = "draining"
        try:
            node.cordon(ends_vfs=ends_vfs)
            self._ask_to_go(node.calls)  # another host of its group may have asked at the same time
            if drains:
                node.drain(self.request.drain_deadline_s)
        except DeviceError:
            if not begun:  # without changes yet, do not leave a node idle
                with suppress(DeviceError):
                    self._stay(node)
            raise

    def _stay(self, node: Node) -> None:
        node.uncordon()

    def _on_host(self, call: ToolCall, stdin: str, deadline_s: float) -> str:
        answer = run_call(self.run, self.request.endpoint, call, stdin, deadline_s)
        if answer.exit_status:
            words = answer.stderr.strip() or f"status {answer.exit_status} and no words"
            raise DeviceError(words)
        return answer.stdout

    def _say_stuck(self, what: str, last: str, look: str) -> str:
        """Return the text for a failed run; `look` is the user's task before the next one."""
        return (
            f"{self.request.endpoint.where}, {self.phase}: {what}\n"
            f"  last   {last}\n"
            f"  done   {', '.join(self.done) or 'nothing'}\n"
            f"  next   the groups after this one are not touched. {look}, then run"
            " `pulumi up` again: it continues from this point"
        )


def run_alone(
    make: Callable[[_Request, Run, Callable[[], Calls | None]], Turn[_Request]],
    request: _Request,
    environ: Mapping[str, str],
    name: str,
    busy: str,
) -> str:
    """Run one node's turn under a lock; the evidence is indented JSON."""
    run = run_on_hosts(request.endpoints, environ)

    def cluster() -> Calls | None:
        if request.cluster is None:
            return None
        return open_cluster(request.cluster, request.endpoint.device, run, environ)

    with hold_lock(name, busy, LOCK_DEADLINE_S):
        evidence = make(request, run, cluster).perform()
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"

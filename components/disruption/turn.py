"""The cluster of a host that may leave service, opened when its node has to be drained."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final, Generic, Protocol, TypeVar

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.disruption.health import Nodes, check_quorum, is_ready, read_nodes
from components.disruption.leave_plan import how_to_allow
from components.disruption.node import POLL_S, Node, is_cordoned, is_ours
from components.kubernetes.client import Calls, KubernetesCalls, read_kubeconfig
from components.kubernetes.planes.base import ClusterRef
from components.model.texts import unfold_names
from components.remote.host_session import Run, run_call, run_on_hosts
from components.remote.one_run import hold_lock
from components.remote.step import Endpoint, secrets_from
from components.remote.tools import ToolCall


def open_cluster(
    cluster: ClusterRef,
    host: str,
    run: Run,
    environ: Mapping[str, str],
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> Calls | None:
    """The cluster, or None where there is none yet.

    Args:
        cluster: Which one.
        host: The host that shall leave service: its own API is the last choice.
        run: How a server is asked.
        environ: Holds the secret kubeconfig of an existing cluster.
        connect: Makes a client from a kubeconfig.

    Raises:
        DeviceError: It cannot be known whether there is one, since a server does not answer.
        UsageError: The secret kubeconfig is not in the environment.
    """
    try:
        kubeconfig = read_kubeconfig(cluster, run, secrets_from(environ), last=host)
    except UnreachableError as error:
        words = f"whether {host} is a node that has to be drained is not known: {error}"
        raise DeviceError(words) from error
    return None if kubeconfig is None else connect(kubeconfig)


class Leaving(Protocol):
    """A host that asks to go."""

    @property
    def node_name(self) -> str:
        """Name of its node."""
        ...

    @property
    def group(self) -> tuple[str, ...]:
        """The nodes that may be out of service together with it."""
        ...

    @property
    def workers(self) -> str:
        """The nodes that count, as a list of names with ranges."""
        ...

    @property
    def max_unavailable(self) -> int:
        """Most of them that may be out of service."""
        ...


def check_allowance(calls: Calls, request: Leaving) -> None:
    """Refuse where this worker and those that are out are more than the file allows.

    The hosts of a group ask at the same time. So each asks before its cordon, to leave all as it
    is, and again after it: of too many, the last one to cordon sees all the others.

    Raises:
        DeviceError: Which workers are out of service, which are leaving, and what is allowed.
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
    """Refuse where some workers that go at once are more than the file allows, with those away.

    Raises:
        DeviceError: Which go, which are out of service, and what is allowed.
    """
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
    """It does not serve: not Ready, or cordoned. A host that is no node has no jobs to miss it."""
    node = nodes.get(name)
    return node is not None and (is_cordoned(node) or not is_ready(node))


LOCK_DEADLINE_S: Final = 60.0
"""Seconds to wait for another run that holds the node; a killed engine may leave one."""


class Asked(Leaving, Protocol):
    """A request on stdin: one node, and its cluster."""

    @property
    def endpoint(self) -> Endpoint:
        """Its host."""
        ...

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to by SSH."""
        ...

    @property
    def role(self) -> str:
        """`control_plane`, `worker`, or what else a host is."""
        ...

    @property
    def cluster(self) -> ClusterRef | None:
        """Its cluster; None for a host of no cluster."""
        ...

    @property
    def drain_deadline_s(self) -> float:
        """Seconds for its pods to leave."""
        ...


_Request = TypeVar("_Request", bound=Asked)


@dataclass(slots=True)
class Turn(Generic[_Request]):
    """One run: what was asked, how host and cluster are reached, and what was done so far."""

    request: _Request
    run: Run
    cluster: Callable[[], Calls | None]
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = Event().wait
    done: list[str] = field(default_factory=list[str])
    phase: str = "the first look"
    node: Node | None = None

    def perform(self) -> dict[str, object]:
        """Do the work, or finish what was begun; the evidence.

        Raises:
            DeviceError: What was done, what was not, the last known state and the next command.
        """
        raise NotImplementedError

    def _patient_cluster(self, deadline_s: float) -> Calls | None:
        """The cluster of a run that may go on after a start of the API's only server."""
        ends_at_s = self.now() + deadline_s
        while True:
            try:
                calls = self.cluster()
                if calls is not None:
                    read_nodes(calls)
            except HostKeyError:
                raise
            except DeviceError:  # an API that starts refuses before it answers
                if self.now() >= ends_at_s:
                    raise
                self.pause(POLL_S)
            else:
                return calls

    def _ask_to_go(self, calls: Calls) -> None:
        """Refuse where the cluster cannot spare one more.

        Raises:
            DeviceError: Which nodes are out of service already.
        """
        if self.request.role != "control_plane":
            check_allowance(calls, self.request)
            return
        planned = self.request.cluster.servers if self.request.cluster else ()
        names = tuple(each.node_name for each in planned)
        lost = check_quorum(calls, self.request.node_name, names)
        said = self._what_is_lost(lost) if lost else ""
        if said and said not in self.done:
            self.done.append(said)

    def _what_is_lost(self, lost: str) -> str:
        """What the cluster loses while the server is away, as this run says it."""
        return lost

    def _take_out(self, node: Node, *, ends_vfs: bool, drains: bool, begun: bool) -> None:
        """Closed to new pods, and drained; a refusal puts all back as it was.

        Args:
            node: The node.
            ends_vfs: This run takes VFs away.
            drains: Its pods have to leave.
            begun: An earlier run changed something already.
        """
        self.phase = "draining"
        try:
            node.cordon(ends_vfs=ends_vfs)
            self._ask_to_go(node.calls)  # others of its group may have asked at the same time
            if drains:
                node.drain(self.request.drain_deadline_s)
        except DeviceError:
            if not begun:  # nothing was changed yet: do not leave a node idle for nothing
                with suppress(DeviceError):
                    self._stay(node)
            raise

    def _stay(self, node: Node) -> None:
        """Put back what leaving has changed so far."""
        node.uncordon()

    def _on_host(self, call: ToolCall, stdin: str, deadline_s: float) -> str:
        answer = run_call(self.run, self.request.endpoint, call, stdin, deadline_s)
        if answer.exit_status:
            words = answer.stderr.strip() or f"status {answer.exit_status} and no words"
            raise DeviceError(words)
        return answer.stdout

    def _say_stuck(self, what: str, last: str, look: str) -> str:
        """The refusal of a run that got stuck.

        Args:
            what: What is wrong.
            last: The last known state.
            look: What to do before the next run.
        """
        return (
            f"{self.request.endpoint.where}, {self.phase}: {what}\n"
            f"  last   {last}\n"
            f"  done   {', '.join(self.done) or 'nothing'}\n"
            f"  next   the groups after this one are not touched. {look}, then run"
            " `pulumi up` again: it goes on where this ended"
        )


def run_alone(
    make: Callable[[_Request, Run, Callable[[], Calls | None]], Turn[_Request]],
    request: _Request,
    environ: Mapping[str, str],
    name: str,
    busy: str,
) -> str:
    """Let one node have its turn, while no other run holds it; the evidence is indented JSON.

    Args:
        make: Makes the run.
        request: What is asked.
        environ: Holds the keys of the hosts.
        name: What is locked.
        busy: What another run that holds it is doing.

    Raises:
        UsageError: A key is not in the environment.
        DeviceError: See `Turn.perform`.
    """
    run = run_on_hosts(request.endpoints, environ)

    def cluster() -> Calls | None:
        if request.cluster is None:
            return None
        return open_cluster(request.cluster, request.endpoint.device, run, environ)

    with hold_lock(name, busy, LOCK_DEADLINE_S):
        evidence = make(request, run, cluster).perform()
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"

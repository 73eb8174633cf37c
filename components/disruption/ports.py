"""`disruption.ports: drain`: hosts leave service before the ports that they are cabled to change.

`railyard device apply-drained` first looks which ports its changes interrupt. The nodes behind
these are cordoned and drained, then the switch changes, and then they take pods again. A mark on a
node names the switch for which it left, so that the next run takes up what a killed one began.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic import TypeAdapter

from components.core.errors import DeviceError
from components.disruption.access import open_cluster
from components.disruption.health import check_quorum
from components.disruption.leave import LeaveRun
from components.disruption.node import Node, is_ours
from components.disruption.ports_plan import FIELD, PortsLeave
from components.disruption.request import READY_DEADLINE_S
from components.disruption.turn import refuse_too_many
from components.fabric import device
from components.kubernetes.calls import Calls
from components.remote.host_runs import run_on_hosts
from components.remote.lines import as_json
from components.remote.lock import hold_lock
from components.remote.request import read_request

_LEAVE: Final = TypeAdapter(PortsLeave)


@dataclass(slots=True, kw_only=True)
class PortsRun(LeaveRun):
    """The nodes of one switch while its ports change."""

    ports: PortsLeave
    served: list[str] = field(default_factory=list[str])
    """Nodes that are back after their ports changed."""

    @contextmanager
    def out_of_service(self, ports: Sequence[str]) -> Generator[tuple[str, ...]]:
        """Keep the nodes behind some ports out of service; gives the names of those that left.

        Raises:
            DeviceError: The cluster cannot spare them, or a pod does not leave: its name. They
                take pods again then. Or the change failed: they take pods again only if the switch
                is as it was, and the text says which do.
        """
        names, calls = self.ports.behind(ports), self.cluster()
        if calls is None:
            yield ()  # no cluster yet, and so no pods
            return
        marked = self._marked(calls)
        self.request = replace(self.ports.leave, nodes=names)
        self._ask(calls, names)
        nodes = [Node(name, calls, self.now, self.pause) for name in names]
        fresh = [node for node in nodes if node.name not in {each.name for each in marked}]
        try:
            for node in nodes:
                node.sign(self.ports.switch)
            left = self.perform()["changed"]
        except DeviceError:
            for node in fresh:
                node.sign(None)
            raise
        try:
            yield tuple(cast("Mapping[str, object]", left))
        except DeviceError as error:
            back = fresh if error.kept else []
            raise type(error)(f"{error}{self._became_of(nodes, back)}") from error
        for node in (*nodes, *(each for each in marked if each.name not in names)):
            if node.signed_for == self.ports.switch:
                node.await_service((), READY_DEADLINE_S)
                node.uncordon()
                node.sign(None)
        self.served += names

    def _became_of(self, nodes: Sequence[Node], back: Sequence[Node]) -> str:
        """Return some nodes to service after a failure; the text says what became of all."""
        for node in back:
            with suppress(DeviceError):
                node.uncordon()
                node.sign(None)
        switch, lines = self.ports.switch, ""
        if self.served:
            lines = f"\n  before  the ports of {', '.join(self.served)} were changed, and saved"
        returned = [node.name for node in back if "uncordoned" in node.done]
        stay = [node.name for node in nodes if _may_be_held(node)]
        if returned:
            lines += f"\n  nodes   {', '.join(returned)} take pods again: {switch} is as it was"
        if stay:
            lines += (
                f"\n  nodes   {', '.join(stay)} stay cordoned: whether {switch} can serve them is"
                " not known\n"
                "  next    run `pulumi up` again: it looks at the switch, and brings them back."
                f"\n          Or look yourself, then run `kubectl uncordon {' '.join(stay)}`"
            )
        return lines

    def _marked(self, calls: Calls) -> list[Node]:
        """The nodes that an earlier run took out of service for this switch."""
        found = [Node(name, calls, self.now, self.pause) for name in {*self.ports.nodes.values()}]
        return [node for node in found if node.signed_for == self.ports.switch]

    def _ask(self, calls: Calls, names: Sequence[str]) -> None:
        workers = [name for name in names if name in self.ports.workers]
        refuse_too_many(calls, workers, self.ports.workers, self.ports.max_unavailable)
        for name in names:
            if name not in workers:
                check_quorum(calls, name, ())

    def _stuck(self, what: str, nodes: list[Node]) -> str:
        done = "; ".join(f"{node.name}: {', '.join(node.done)}" for node in nodes if node.done)
        return (
            f"{', '.join(self.request.nodes)} cannot leave service for a change of"
            f" {self.ports.switch}: {what}\n"
            f"  done   {done or 'nothing'}\n"
            "  next   the switch was not touched. End what holds the pods, then run `pulumi up`"
            " again"
        )


def _may_be_held(node: Node) -> bool:
    """Whether our cordon is still on a node, or the cluster does not answer."""
    try:
        return is_ours(node.read() or {})
    except DeviceError:
        return True


def run_apply_drained(text: str, environ: Mapping[str, str]) -> str:
    """Apply what a switch's request says, after the hosts behind its ports left service.

    Raises:
        UsageError: It is no request, or a key is not in the environment.
        DeviceError: See `components.fabric.device.run_apply` and `PortsRun.out_of_service`.
    """
    asked = json.dumps(json.loads(as_json(text)).get(FIELD))
    ports = read_request(_LEAVE, asked, "request to drain hosts behind ports")
    run = run_on_hosts(ports.endpoints, environ)

    def cluster() -> Calls | None:
        return open_cluster(ports.leave.cluster, ports.switch, run, environ)

    busy = "hosts behind the ports of another switch are out of service"
    with hold_lock(f"ports-{ports.leave.stack}", busy, 2 * ports.leave.drain_deadline_s):
        away = PortsRun(ports.leave, cluster, ports=ports)
        return device.run_apply(text, environ, away.out_of_service, ports.groups)

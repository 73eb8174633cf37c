"""Whether a cluster can spare one more worker, beside those that are out of service now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from components.core.errors import DeviceError
from components.disruption.health import Nodes, is_ready, read_nodes
from components.disruption.node import is_cordoned, is_ours
from components.kubernetes.calls import Calls
from components.model.name_lists import unfold_names


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

    Args:
        calls: The cluster.
        request: What is asked of the host that shall go.

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
            f" disruption.max_unavailable is {max_unavailable}. The switch was not touched. Raise"
            " it, or set disruption.ports to allow for a window"
        )


def _is_away(nodes: Nodes, name: str) -> bool:
    """It does not serve: not Ready, or cordoned. A host that is no node has no jobs to miss it."""
    node = nodes.get(name)
    return node is not None and (is_cordoned(node) or not is_ready(node))

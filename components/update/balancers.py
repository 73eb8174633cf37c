"""Whether the address of two balancers is free: looked at before keepalived runs anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.core.key_values import HostState, parse_state
from components.core.problem import Lines
from components.drift.watched import Watched
from components.plan.make import ClusterPlan
from components.update.seen import Seen
from components.update.upgrades import place_of

ADDRESS: Final = "others.address"
"""The hardware address of a machine that answers for the address, and is no balancer."""
ROUTER: Final = "others.router"
"""The address of another VRRP router of the same number."""
_PATH: Final = ("kubernetes", "virtual_address")
_NUMBER: Final = "virtual_router_id "


def balancers_refused(plan: ClusterPlan, seen: Seen, lines: Lines) -> tuple[str, ...]:
    """Refuse a virtual address that another machine has, and a VRRP number that another router has.

    A balancer on which keepalived runs with the address is not asked: it would find itself. What
    was not read is passed over: the step there looks again before it changes anything.

    Args:
        plan: All that is wanted.
        seen: What was read.
        lines: Where the values of the file stand.
    """
    balancers = plan.kubernetes.balancers if plan.kubernetes else ()
    return tuple(dict.fromkeys(text for each in balancers for text in _refused(each, seen, lines)))


def _refused(watched: Watched, seen: Seen, lines: Lines) -> Iterator[str]:
    facts = seen.host(watched.device)
    if not isinstance(facts, HostState):
        return
    found = facts.values
    wanted = parse_state(watched.step.desired).values
    if mac := found.get(ADDRESS):
        address = wanted["virtual_address"]
        yield (
            f"virtual-address: {address} is in use: {mac} answers for it, and that is no balancer"
            " of this site.\n"
            f"  where  {place_of(lines, (*_PATH, 'address'), address)}\n"
            "  fix    choose a free address of that network, or take it from that machine. Nothing"
            " was changed on any device."
        )
    if router := found.get(ROUTER):
        number = _number(wanted)
        yield (
            f"virtual-router: {router} is a VRRP router of the number {number} in the network of"
            " the balancers.\n"
            f"  where  {place_of(lines, (*_PATH, 'router_id'), number)}\n"
            "  fix    choose another router_id, from 1 to 255. Nothing was changed on any device."
        )


def _number(wanted: Mapping[str, str]) -> str:
    found = (line.strip() for key, line in wanted.items() if key.startswith("keepalived.conf."))
    return next(line for line in found if line.startswith(_NUMBER)).removeprefix(_NUMBER)

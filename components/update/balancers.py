"""Two looks before an update: the address of the balancers is free, and no guard refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.core.difference import Beside
from components.core.key_values import HostState, parse_state
from components.core.plain_text import plain_text
from components.core.problem import Lines
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Watched
from components.model.guards import Guards
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


def guards_refused(
    guards: Guards, plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """Refuse, at preview and all of them at once, what the file says `refuse` of.

    A device that was not read has none, so that `railyard:observe: never` refuses nothing here.
    """
    known = applied.instances
    addresses = {switch.name: switch.endpoint.where for switch in plan.switches}
    addresses |= {each.device: each.step.endpoint.known(known).where for each in plan.watched}
    return tuple(
        _refusal(drift.device, beside, addresses.get(drift.device, ""))
        for drift in drifts
        for beside in drift.beside
        if guards.way(beside.kind) == "refuse"
    )


def _refusal(device: str, beside: Beside, where: str) -> str:
    return (
        f"guards: {device}: {beside.setting}; it is not ours, and it breaks {beside.breaks}\n"
        f"  where  {where}; guards.{beside.kind} is refuse. Nothing was changed on any device.\n"
        f"  fix    {plain_text(beside.fix)}; to go on with a warning: guards.{beside.kind}: warn"
    )

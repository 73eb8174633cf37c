"""BGP's neighbours of routed switches: how many are up of those planned, and what is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from components.core.finding import Finding, Severity
from components.drift.applied import Applied
from components.fabric.drift import lost_ways, networks_of
from components.fabric.parts import Sessions
from components.fabric.plan import SwitchPlan
from components.fabric.sessions import RoutedLinks
from components.fabric.state import SwitchState
from components.preflight.report import Neighbors
from components.update.seen import Seen

_SEVERITIES: Final[dict[str, Severity]] = {
    "lost": "warning",
    "unread": "unreachable",
    "unsaid": "warning",
}
"""An update needs no session and brings none back; a switch without an answer is as any other."""


def list_neighbors(plans: Sequence[SwitchPlan], applied: Applied, seen: Seen) -> list[Neighbors]:
    """The neighbours of each routed switch that was read."""
    found: list[Neighbors] = []
    for plan in plans:
        facts = seen.switch(plan.name)
        if plan.links is not None and isinstance(facts, SwitchState) and facts.sessions is not None:
            begun = applied.step(plan.step) is not None
            found.append(_count(plan.name, plan.links, facts.sessions, begun=begun))
    return found


def _count(device: str, links: RoutedLinks, sessions: Sessions, *, begun: bool) -> Neighbors:
    why = sessions.unread and f"not known: {sessions.unread}"
    known = sessions.neighbors
    down = tuple(
        f"{end.port} to {end.to}: {known[name].state if name in known else 'never heard'}"
        for name, end in links.ends.items()
        if name not in known or not known[name].is_up
    )
    return Neighbors(
        device=device,
        up=len(links.ends) - len(down),
        planned=len(links.ends),
        down=() if why else down,
        note=why or ("" if begun or not down else "no update has set them up yet"),
    )


def judge_links(plans: Sequence[SwitchPlan], applied: Applied, seen: Seen) -> Iterator[Finding]:
    """What the links lack of what was applied, as `railyard drift` says it."""
    networks = networks_of(plans, applied)
    for plan in plans:
        for lost in lost_ways(plan, applied, seen.switch(plan.name), networks):
            yield Finding(
                plan.name,
                "routing",
                "a routed link does not carry what the file says.",
                f"{lost.where}: {lost.what}",
                "every neighbour and network of the file",
                lost.fix,
                _SEVERITIES[lost.kind],
            )

"""Whether an update would shut the API to who runs it: looked at before anything is changed."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network

from components.core.key_values import parse_state
from components.core.problem import Lines
from components.drift.watched import Watched
from components.plan.make import ClusterPlan
from components.update.seen import Seen
from components.update.upgrades import place_of

_LIST = ("kubernetes", "api_from")


def api_refused(plan: ClusterPlan, seen: Seen, lines: Lines) -> tuple[str, ...]:
    """Refuse where a server sees Railyard come from an address that `api_from` does not have.

    A host that was not read is passed over: its own step refuses. So is one behind a jump host,
    whose address it sees, and a session by IPv6: the API is asked by another way then.

    Args:
        plan: All that is wanted.
        seen: What was read; hosts that serve the API say where the session came from.
        lines: Where the values of the file stand.
    """
    found: dict[str, list[str]] = {}
    filters = plan.kubernetes.filters if plan.kubernetes else ()
    allowed = ""
    for watched in filters:
        allowed = parse_state(watched.step.desired).values["allowed"]
        peer = _peer(watched, seen)
        if peer is not None and not any(peer in IPv4Network(each) for each in allowed.split()):
            found.setdefault(str(peer), []).append(watched.step.endpoint.device)
    return tuple(
        (
            f"api-from: {', '.join(hosts)} would no longer be reached at the API by Railyard, which"
            f" comes from {address} there.\n"
            f"  where  {place_of(lines, _LIST, allowed)}\n"
            "  fix    add that address to api_from. Nothing was changed on any device."
        )
        for address, hosts in found.items()
    )


def _peer(watched: Watched, seen: Seen) -> IPv4Address | None:
    """Where the host sees the session come from, if that is also the way to its API."""
    facts = seen.host(watched.device)
    text = getattr(facts, "values", {}).get("peer", "")
    try:
        address = IPv4Address(text)
    except AddressValueError:
        return None
    return None if watched.step.endpoint.jump or address.is_loopback else address

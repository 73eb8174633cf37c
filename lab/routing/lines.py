"""What bgpd is given for what a switch routes by: plain lines, and the lines of a change.

NVUE writes such lines into frr.conf itself (lab/sources.md#cumulus); SONiC's frrcfgd
gives them to vtysh, one row of its database after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from components.core.record import record
from lab.views import BfdView, RouterView

_FAMILY = "address-family ipv4 unicast"


@record
class _Part:
    """Something that bgpd is given and can be taken from it again."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


def plan_lines(held: RouterView | None, wanted: RouterView) -> tuple[str, ...]:
    """The lines that bring bgpd from one configuration to another; empty where nothing changes.

    A changed neighbour has another key, so that it is removed and added: its session restarts in
    any case. What has one value, as the router's ID, is written over.
    """
    before = held.asn if held is not None else None
    lines: list[str] = []
    old = _parts(held) if held is not None and before == wanted.asn else {}
    if before is not None and before != wanted.asn:
        lines.append(f"no router bgp {before}")
    new = _parts(wanted) if wanted.asn is not None else {}
    inner = [line for key in reversed(old) if key not in new for line in old[key].remove]
    inner += [line for key, part in new.items() if old.get(key) != part for line in part.add]
    maps = () if held is None else held.route_maps
    for each in wanted.route_maps:
        lines += [] if each in maps else [f"route-map {each}", "exit"]
    if wanted.asn is not None and (inner or not old):
        lines += [f"router bgp {wanted.asn}", *inner, "exit"]
    lines += [f"no route-map {each}" for each in maps if each not in wanted.route_maps]
    return ("configure terminal", *lines, "end") if lines else ()


def _parts(view: RouterView) -> dict[str, _Part]:
    parts = dict(_neighbors(view))
    if view.router_id:
        parts["router-id"] = _Part((f"bgp router-id {view.router_id}",), ("no bgp router-id",))
    if view.drained:
        parts["drained"] = _Part(("bgp graceful-shutdown",), ("no bgp graceful-shutdown",))
    if view.max_paths is not None:
        parts["paths"] = _in_family(f"maximum-paths {view.max_paths}", "no maximum-paths")
    for network in view.networks:
        parts[f"network {network}"] = _in_family(f"network {network}", f"no network {network}")
    return parts


def _in_family(add: str, remove: str) -> _Part:
    return _Part((_FAMILY, add, "exit-address-family"), (_FAMILY, remove, "exit-address-family"))


def _neighbors(view: RouterView) -> Iterator[tuple[str, _Part]]:
    for name, number in view.neighbors.items():
        kind = "" if _is_address(name) else " interface"
        asked = f" remote-as {number}" if number else ""
        lines = [f"neighbor {name}{kind}{asked}"]
        bfd = view.bfd.get(name)
        if bfd is not None:
            lines.append(_render_bfd(name, bfd))
        yield "; ".join(lines), _Part(tuple(lines), (f"no neighbor {name}{kind}",))
        for word, named in zip(("in", "out"), view.policies.get(name, ()), strict=False):
            line = f"neighbor {name} route-map {named} {word}"
            if named:  # it goes and comes with its neighbour
                yield f"{lines}; {line}", _in_family(line, f"no {line}")


def _render_bfd(name: str, bfd: BfdView) -> str:
    return f"neighbor {name} bfd {bfd.multiplier} {bfd.receive_ms} {bfd.send_ms}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

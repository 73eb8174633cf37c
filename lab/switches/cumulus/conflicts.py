"""Split ports, and NVUE's checks at `nv config apply`; the wording of each refusal is a guess.

Source of splits: the Cumulus Linux guide, page "Switch Port Attributes" (sources.md#cumulus).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lab.switches.cumulus.config import BRIDGE, Tree, child
from lab.switches.front import Front

_WHOLE: Final = 100
"""Percent."""


def parts_of(tree: Tree, whole: str) -> tuple[str, ...]:
    """The ports into which a port is split, or the port itself."""
    mode = next(iter(child(tree, "interface", whole, "link", "breakout")), "1x")
    if mode in {"1x", "disabled"}:
        return (whole,)
    return tuple(f"{whole}s{number}" for number in range(int(mode[0])))


def _split_ports(tree: Tree, front: Front) -> Mapping[str, tuple[str, ...]]:
    found = {whole: parts_of(tree, whole) for whole in _wholes(front)}
    return {whole: parts for whole, parts in found.items() if len(parts) > 1}


def ports_of(tree: Tree, front: Front) -> tuple[str, ...]:
    """The existing ports: parts instead of their split port, without ports that a split blocks."""
    split = _split_ports(tree, front)
    there = (whole for whole in _wholes(front) if whole not in {*_blocked(split, front)})
    return tuple(name for whole in there for name in split.get(whole, (whole,)))


def names_of(tree: Tree, front: Front) -> tuple[str, ...]:
    """The port names that NVUE accepts; a split port keeps the settings of the whole port."""
    split = _split_ports(tree, front)
    return (*_wholes(front), *(part for parts in split.values() for part in parts))


def _blocked(split: Mapping[str, tuple[str, ...]], front: Front) -> Iterator[str]:
    """The ports that NVUE disables automatically, because the previous port's split needs that."""
    for whole, parts in split.items():
        number = int(whole[3:])
        form = front.split(number, len(parts), "cumulus")
        if form is not None and form.blocks_next:
            yield f"swp{number + 1}"


def _wholes(front: Front) -> tuple[str, ...]:
    return tuple(f"swp{number}" for number in range(1, front.ports + 1))


def find_conflict(tree: Tree, front: Front) -> str | None:
    """The first conflict in a revision, or with the model's ports; None if all is good."""
    splits = (*_split_conflicts(tree, front), *_link_conflicts(tree, front))
    found = (*splits, *_schedule_conflicts(tree), *_bridge_conflicts(tree), *_bfd_conflicts(tree))
    return next(iter(found), None)


def _split_conflicts(tree: Tree, front: Front) -> Iterator[str]:
    split = _split_ports(tree, front)
    interfaces = child(tree, "interface")
    for whole, parts in split.items():
        if front.split(int(whole[3:]), len(parts), "cumulus") is None:
            yield f"interface {whole}: breakout {len(parts)}x is not supported on this port"
        if {*child(interfaces, whole)} - {"link", "type"}:
            yield f"interface {whole}: a port with a breakout has settings of its own"
    for name in _blocked(split, front):
        if name in interfaces:
            yield f"interface {name}: it is disabled by the breakout of the port before it"
    known = {*names_of(tree, front)}
    for name in interfaces:
        if name.startswith("swp") and name not in known:
            yield f"interface {name}: there is no breakout that makes it"


def _link_conflicts(tree: Tree, front: Front) -> Iterator[str]:
    """Find speeds that the port, or the part, lacks. FEC is never a conflict.

    Page "Switch Port Attributes": if a module needs Reed-Solomon, it is on even if it is set to
    off.
    """
    interfaces = child(tree, "interface")
    known = {f"{speed}G" for speed in front.speeds_gbit_s} | {"auto"}
    for name in interfaces:
        said = child(interfaces, name, "link").get("speed")
        if said is None or not name.startswith("swp"):
            continue
        most = fastest_gbit_s(tree, front, name)
        if said not in known or (said != "auto" and int(str(said)[:-1]) > most):
            yield f"interface {name}: speed {said} is not supported on this port"


def fastest_gbit_s(tree: Tree, front: Front, port: str) -> int:
    """The fastest speed of a port or a part."""
    number, _, part = port.removeprefix("swp").partition("s")
    split = front.split(int(number), len(parts_of(tree, f"swp{number}")), "cumulus")
    return int(split.mode.split("x")[1]) if part and split else front.speed(int(number))


def _bfd_conflicts(tree: Tree) -> Iterator[str]:
    there = child(tree, "router", "bfd", "profile")
    neighbors = child(tree, "vrf", "default", "router", "bgp", "neighbor")
    for name in neighbors:
        profile = child(neighbors, name, "bfd").get("profile")
        if profile is not None and profile not in there:
            yield f"vrf default router bgp neighbor {name}: there is no bfd profile {profile}"


def _schedule_conflicts(tree: Tree) -> Iterator[str]:
    """Page "Quality of Service": at most 100 percent together, and a share for each dwrr class."""
    profiles = child(tree, "qos", "egress-scheduler")
    for profile in profiles:
        table = child(profiles, profile, "traffic-class")
        rows = {number: child(table, number) for number in table}
        head = f"qos egress-scheduler {profile}"
        shares = [share for row in rows.values() if isinstance(share := row.get("bw-percent"), int)]
        if sum(shares) > _WHOLE:
            yield f"{head}: the sum of bw-percent is over {_WHOLE}"
        for number, row in rows.items():
            if row.get("mode") == "dwrr" and not row.get("bw-percent"):
                yield f"{head}: dwrr of {number} needs a bw-percent"


def _bridge_conflicts(tree: Tree) -> Iterator[str]:
    interfaces = child(tree, "interface")
    for name in interfaces:
        domains, member = (
            child(interfaces, name, "bridge", "domain", *end) for end in ((), (BRIDGE,))
        )
        if "access" in member and {"vlan", "untagged"} & {*member}:
            yield f"interface {name}: `access` excludes `vlan` and `untagged`"
        if BRIDGE in domains and {"ip", "ipv4"} & {*child(interfaces, name)}:
            yield f"interface {name}: a bridge port has no IP address"

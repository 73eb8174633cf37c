"""What NVUE finds at `nv config apply`; the wording of each refusal is a guess."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from lab.switches.cumulus.breakouts import find_split_conflicts, parts_of
from lab.switches.cumulus.config import Tree, child
from lab.switches.front import Front

_WHOLE: Final = 100


def find_conflict(tree: Tree, front: Front) -> str | None:
    """What does not go together in a revision, or is not there on the model; None: nothing."""
    splits = (*find_split_conflicts(tree, front), *_link_conflicts(tree, front))
    found = (*splits, *_schedule_conflicts(tree), *_bridge_conflicts(tree), *_bfd_conflicts(tree))
    return next(iter((*found, *_bond_conflicts(tree))), None)


def _link_conflicts(tree: Tree, front: Front) -> Iterator[str]:
    """A speed that the port, or the part, has not. Without error correction it switches on itself.

    Page "Switch Port Attributes": a module that needs Reed-Solomon has it where it is set to off.
    """
    interfaces = child(tree, "interface")
    known = {f"{speed}G" for speed in front.speeds_gbit_s} | {"auto"}
    for name in interfaces:
        said = child(interfaces, name, "link").get("speed")
        if said is None or not name.startswith("swp"):
            continue
        number, _, part = name.removeprefix("swp").partition("s")
        most = front.speed(int(number))
        split = front.split(int(number), len(parts_of(tree, f"swp{number}")), "cumulus")
        if part and split is not None:
            most = int(split.mode.split("x")[1])
        if said not in known or (said != "auto" and int(str(said)[:-1]) > most):
            yield f"interface {name}: speed {said} is not supported on this port"


def _bond_conflicts(tree: Tree) -> Iterator[str]:
    """Pages "Bonding - Link Aggregation" and "MLAG": a port is in one bundle; a pair has a link."""
    interfaces = child(tree, "interface")
    taken: dict[str, str] = {}
    for name in interfaces:
        for port in child(interfaces, name, "bond", "member"):
            if taken.setdefault(port, name) != name:
                yield f"interface {port}: it is in {taken[port]} and in {name}"
            if {"bridge", "ip"} & {*child(interfaces, port)}:
                yield f"interface {port}: a bond member is in no bridge and has no IP address"
        numbered = child(interfaces, name, "bond", "mlag")
        if numbered and not child(tree, "mlag"):
            yield f"interface {name}: bond mlag needs mlag"
    held = child(tree, "mlag")
    if held and not {"backup", "peer-ip"} <= {*held}:
        yield "mlag: backup and peer-ip are needed"
    if held and "peerlink" not in interfaces:
        yield "mlag: there is no peerlink"


def _bfd_conflicts(tree: Tree) -> Iterator[str]:
    """A neighbour names a profile that there is."""
    there = child(tree, "router", "bfd", "profile")
    neighbors = child(tree, "vrf", "default", "router", "bgp", "neighbor")
    for name in neighbors:
        profile = child(neighbors, name, "bfd").get("profile")
        if profile is not None and profile not in there:
            yield f"vrf default router bgp neighbor {name}: there is no bfd profile {profile}"


def _schedule_conflicts(tree: Tree) -> Iterator[str]:
    """Page "Quality of Service": at most 100 percent together, and one for each class of dwrr."""
    for profile, table in child(tree, "qos", "egress-scheduler").items():
        rows = _rows(table)
        head = f"qos egress-scheduler {profile}"
        shares = [share for row in rows.values() if isinstance(share := row.get("bw-percent"), int)]
        if sum(shares) > _WHOLE:
            yield f"{head}: the sum of bw-percent is over {_WHOLE}"
        for number, row in rows.items():
            if row.get("mode") == "dwrr" and not row.get("bw-percent"):
                yield f"{head}: dwrr of {number} needs a bw-percent"


def _rows(profile: JsonValue) -> dict[str, Tree]:
    classes = child(profile, "traffic-class") if isinstance(profile, dict) else {}
    return {number: row for number, row in classes.items() if isinstance(row, dict)}


def _bridge_conflicts(tree: Tree) -> Iterator[str]:
    interfaces = tree.get("interface")
    for name, entry in interfaces.items() if isinstance(interfaces, dict) else ():
        member = _member(entry)
        if member is None or not isinstance(entry, dict):
            continue
        if "access" in member and {"vlan", "untagged"} & {*member}:
            yield f"interface {name}: `access` excludes `vlan` and `untagged`"
        if {"ip", "ipv4"} & {*entry}:
            yield f"interface {name}: a bridge port has no IP address"


def _member(entry: JsonValue) -> Tree | None:
    here: JsonValue = entry
    for key in ("bridge", "domain", "br_default"):
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else None

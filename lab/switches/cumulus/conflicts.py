"""What NVUE finds at `nv config apply`; the wording of each refusal is a guess."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from lab.switches.cumulus.config import Tree, child

_WHOLE: Final = 100


def find_conflict(tree: Tree) -> str | None:
    """What does not go together in a revision, or None."""
    found = (*_schedule_conflicts(tree), *_bridge_conflicts(tree), *_bfd_conflicts(tree))
    return next(iter(found), None)


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
        if "ip" in entry:
            yield f"interface {name}: a bridge port has no IP address"


def _member(entry: JsonValue) -> Tree | None:
    here: JsonValue = entry
    for key in ("bridge", "domain", "br_default"):
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else None

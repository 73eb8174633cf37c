"""QoS that is set over the RoCE profile, read from NVUE's tree (page "Quality of Service").

A port has the profile that it names, else `default-global`, which is for all ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.fabric.state import EcnState
from components.fabric.systems.cumulus.facts import BYTES_PER_KIB
from components.fabric.systems.cumulus.tree import Tree, child, expand_names

_GLOBAL: Final = "default-global"
_ON: Final = frozenset({"on", "enable", "enabled"})
"""`enable` in the page, `enabled` where later releases show it."""


@dataclass(frozen=True, slots=True)
class OwnQos:
    """What a port has that the RoCE profile did not give it; the default value: nothing."""

    rewrite_dscp: bool = False
    ecn: Mapping[int, EcnState | None] = field(default_factory=dict[int, EcnState | None])
    pfc_priorities: tuple[int, ...] | None = None
    priorities: Mapping[int, int] = field(default_factory=dict[int, int])
    """DSCP to switch priority, of the DSCPs that are named."""
    strict: tuple[int, ...] | None = None
    """None: the schedule is the profile's."""
    shares: Mapping[int, int] = field(default_factory=dict[int, int])
    """Class to its percent of the port."""


def own_qos(tree: Tree, entry: Tree) -> OwnQos:
    """What is set for one port.

    Args:
        tree: The whole configuration.
        entry: The interface in it.
    """

    def profile(section: str) -> Tree:
        name = child(entry, "qos", section).get("profile", _GLOBAL)
        return child(tree, "qos", section, str(name))

    scheduled = {*_rows(profile("egress-scheduler"), "traffic-class")}
    modes = {tc: str(row.get("mode", "")) for tc, row in _each(profile("egress-scheduler"))}
    shares = {tc: row.get("bw-percent") for tc, row in _each(profile("egress-scheduler"))}
    paused = profile("pfc")
    return OwnQos(
        rewrite_dscp=profile("remark").get("rewrite") in {"l3", "both"},
        ecn={tc: _ecn(row) for tc, row in _each(profile("congestion-control"))},
        pfc_priorities=tuple(sorted(_rows(paused, "switch-priority"))) if paused else None,
        priorities={
            dscp: int(str(row["switch-priority"]))
            for dscp, row in _each(profile("mapping"), "dscp")
            if "switch-priority" in row
        },
        strict=tuple(sorted(tc for tc, mode in modes.items() if mode == "strict"))
        if scheduled
        else None,
        shares={tc: share for tc, share in shares.items() if isinstance(share, int)},
    )


def _rows(profile: Tree, key: str) -> Iterator[int]:
    """The numbers below a key; one key may stand for several: `0-2,5`."""
    for name in child(profile, key):
        yield from (int(each) for each in expand_names(name) if each.isdecimal())


def _each(profile: Tree, key: str = "traffic-class") -> Iterator[tuple[int, Tree]]:
    for name in child(profile, key):
        row = child(profile, key, name)
        yield from ((int(each), row) for each in expand_names(name) if each.isdecimal())


def _ecn(row: Tree) -> EcnState | None:
    """Both spellings of the thresholds are published, and both are bytes."""
    marks, drops = (str(row.get(key, "")) in _ON for key in ("ecn", "red"))
    if not (marks or drops):
        return None
    low, high = (
        int(str(row.get(f"{end}-threshold-bytes", row.get(f"{end}-threshold", 0))))
        for end in ("min", "max")
    )
    kind = "both" if marks and drops else "ecn" if marks else "red"
    return EcnState(
        min_kib=low // BYTES_PER_KIB,
        max_kib=high // BYTES_PER_KIB,
        percent=int(str(row.get("probability", 100))),
        kind=kind,
    )

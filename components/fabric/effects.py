"""What the change of one setting of a switch does to running traffic: one table, asked by all.

The preview, the refusal of an update, the step itself, plain execs and the repair of drift ask the
same functions about the same differences, so that they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from components.core.difference import ABSENT, Difference, diff_settings
from components.core.effect import Effect
from components.fabric.state import PortState, SwitchState


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of some settings, as `SwitchState.settings` names them."""

    settings: str
    """A regular expression for the whole name."""
    effect: Effect
    """Of another value, and of the setting going away."""
    why: str
    new: Effect | None = None
    """Of a value where the switch had none; None: the same as of any other value."""
    to: Mapping[str, Effect] = field(default_factory=dict[str, Effect])
    """Of these values."""
    grows: bool = False
    """The value is a list with commas, and one that only gets longer has the effect `new`."""
    where: str = ".*"
    """A regular expression for what the setting belongs to."""
    systems: Mapping[str, tuple[Effect, str]] = field(default_factory=dict[str, tuple[Effect, str]])
    """What differs on some systems, and why; it holds for every change there."""


NONE, CLASS, TRAFFIC, LINK = Effect.NONE, Effect.CLASS, Effect.TRAFFIC, Effect.LINK
_BUFFERS: Final = "unproven, so link: no page says whether the port keeps what its buffers hold"
_MANAGER: Final = "subnet manager"
_PARTITION: Final = "partition .*"
TABLE: Final = (
    Row("pkey", TRAFFIC, "ports lose the old key", NONE, where=_PARTITION),
    Row("member .*", TRAFFIC, "the port's connections break", NONE, where=_PARTITION),
    Row("ipoib", TRAFFIC, "IP over the partition ends", NONE, {"on": NONE}, where=_PARTITION),
    Row("mtu_bytes|rate_gbit_s", TRAFFIC, "unproven: its members may join again", NONE,
        where=_PARTITION),
    Row("function|state", TRAFFIC, "the subnet loses this manager", NONE, {"on": NONE},
        where=_MANAGER),
    Row("priority|routing_engine", TRAFFIC, "unproven: paths are computed again", where=_MANAGER),
    Row("adaptive_routing", NONE, "it is only read", where=_MANAGER),
    Row(r"vlan_\d+", TRAFFIC, "every port loses this VLAN", NONE),
    Row(r"trunk_vlan_\d+", TRAFFIC, "the port loses this VLAN", NONE),
    Row("access_vlan", TRAFFIC, "untagged frames get into another VLAN", NONE),
    Row("native_vlan", TRAFFIC, "untagged frames get into another VLAN"),
    Row("mode", TRAFFIC, "the port is in other VLANs, or in none"),
    Row("admin_state", LINK, "the port goes down", to={"up": NONE}),
    Row("mtu_bytes|mtu_.+", LINK, "unproven, so link: no page says that the port stays up",
        systems={"onyx": (LINK, "the port must be shut for a new MTU (ESXi guide)")}),
    Row("speed|fec|autoneg", LINK, "the link ends and comes back"),
    Row("edge_port", TRAFFIC, "unproven: the port may have to learn again", to={"on": NONE}),
    Row("bpdu_guard", NONE, "nothing until it hears a BPDU",
        to={"on": LINK, "default": TRAFFIC}),
    Row("breakout", LINK, "other ports take its place"),
    Row("roce|roce_cable_m", LINK, "unproven, so link: every port gets new buffers",
        systems={"onyx": (LINK, "the one-shot may toggle every port (manual)")}),
    Row("adaptive_routing", LINK, "switchd restarts or reloads"),
    Row("pfc|pfc_priorities", LINK, _BUFFERS,
        systems={"onyx": (LINK, "unproven, so link: `force`, which elsewhere shuts a port first")}),
    Row(r"priority_\d+_buffer|cable_m", LINK, _BUFFERS),
    Row("trust|rewrite_dscp", CLASS, "traffic gets into other classes or gets other marks"),
    Row(r"dscp_\d+_class|dscp_\d+_priority|priority_\d+_class", CLASS,
        "traffic gets into another class"),
    Row(r"tc\d+_ecn_kib|tc\d+_schedule|tc\d+_share", CLASS,
        "the class is marked or served otherwise"),
    Row("pfc_watchdog|pfc_watchdog_ms", CLASS, "a paused class is dropped earlier or later"),
    Row("address_.+", TRAFFIC, "routes over this address go", NONE),
    Row("bgp_asn|bgp_router_id", TRAFFIC, "every BGP session restarts", NONE),
    Row("bgp_bfd_.+", TRAFFIC, "the session may restart", NONE,
        systems={"cumulus": (TRAFFIC, "routing restarts on the whole switch")}),
    Row("bgp_neighbor_.+|bgp_network_.+|bgp_max_paths", TRAFFIC, "routes go or change", NONE),
    Row("ip_routing", TRAFFIC, "nothing is routed", NONE, {"on": NONE}),
)  # fmt: skip
"""The first row that fits counts. A setting without a row has the effect `link`."""


@cache
def find_row(where: str, setting: str) -> Row | None:
    """The row of a setting, or None."""
    fitting = (row for row in TABLE if re.fullmatch(row.settings, setting))
    return next((row for row in fitting if re.fullmatch(row.where, where)), None)


def effect_of(system: str, change: Difference) -> Effect:
    """What making this one setting as wanted does, on ports that carry traffic."""
    row = find_row(change.where, change.setting)
    if row is None:
        return LINK
    if system in row.systems:
        return row.systems[system][0]
    if change.desired in row.to:
        return row.to[change.desired]
    old, new = ({*text.split(",")} for text in (change.actual, change.desired))
    adds = change.actual == ABSENT or (row.grows and (old < new or old == {"none"}))
    return row.effect if row.new is None or not adds else row.new


class ByTable:
    """What every driver has: the answer of the table for its system."""

    system: str

    def interrupts(self, change: Difference) -> bool:
        """Whether making this one setting as wanted interrupts traffic."""
        return effect_of(self.system, change).interrupts


def find_changes(actual: SwitchState, target: SwitchState) -> tuple[Difference, ...]:
    """Every setting that moves on the way from what a switch has to a target.

    Args:
        actual: What it has, or what was last applied to it.
        target: From `components.fabric.targets`: its lists are all that will be there.
    """
    has, wanted = actual.settings(), target.settings()
    gone = {key: ABSENT for key in has if key not in wanted and _is_gone(*key, target)}
    return diff_settings(has, wanted | gone)


def _is_gone(where: str, setting: str, target: SwitchState) -> bool:
    """Whether the target says all that there is of the list that the setting is in."""
    kind, _, name = where.partition(" ")
    port = target.ports.get(name, PortState())
    routed = [(f"address_{each}_", f"mtu_{each}") for each in target.addresses or {}]
    lists = {
        "partition": target.ib is not None,
        "port": (setting.startswith("trunk_vlan_") and port.trunk_vlans is not None)
        or (setting.endswith("_schedule") and port.strict_classes is not None)
        # What was recorded of maps and buffers comes back as the system's own words.
        or (
            setting.startswith(("dscp_", "priority_"))
            and bool({"trust", "buffers"} & {*port.native})
        ),
        "switch": setting.startswith("vlan_")
        or (setting.startswith("bgp_") and setting != "bgp_max_paths" and target.bgp is not None)
        or any(setting.startswith(begins) for begins in routed),
    }
    return lists.get(kind, False)


def find_effects(
    system: str, actual: SwitchState, target: SwitchState
) -> Mapping[Difference, Effect]:
    """The changes on this way that running traffic notices, and what each of them does.

    A port that is down carries nothing, and a subnet manager that is off manages nothing.
    """
    effects = {
        change: effect_of(system, change)
        for change in find_changes(actual, target)
        if not _is_idle(change.where, actual)
    }
    return {change: effect for change, effect in effects.items() if effect}


def _is_idle(where: str, actual: SwitchState) -> bool:
    if where == _MANAGER:
        return actual.ib is not None and False in {actual.ib.sm_function, actual.ib.sm_enabled}
    return actual.ports.get(where.removeprefix("port "), PortState()).admin_up is False


def interrupting(effects: Mapping[Difference, Effect]) -> tuple[Difference, ...]:
    """The changes that `disruption.ports` has to allow."""
    return tuple(change for change, effect in effects.items() if effect.interrupts)


def ports_of(changes: Iterable[Difference]) -> tuple[str, ...]:
    """The ports that changes are about; an empty name for what is about the whole switch."""
    places = (each.where.partition(" ") for each in changes)
    return tuple(dict.fromkeys(name if kind == "port" else "" for kind, _, name in places))


def describe_changes(
    changes: Iterable[Difference], order: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """One text for each place: `ports 1/1 to 1/4: mtu_bytes: 9216 -> 9000`.

    Args:
        changes: What changes.
        order: Port to its number on the switch, for ranges of ports; None: each port is named.
    """
    moved = {(each.where, each.setting): f"{each.actual} -> {each.desired}" for each in changes}
    return tuple(_joined(group_settings(moved, order or {})))


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """`group_settings` gives a line for a place, and its settings indented below it."""
    place, said = "", list[str]()
    for line in lines:
        if line.startswith(" "):
            said.append(line.strip())
            continue
        if said:
            yield f"{place}: {', '.join(said)}"
        place, said = line, []
    if said:
        yield f"{place}: {', '.join(said)}"


_NUMBERED = re.compile(r"(.*_)(0|[1-9]\d*)")
_SHORTEST_RUN = 3
"""Fewer neighbouring ports are written one by one."""


def group_settings(words: Mapping[tuple[str, str], str], order: Mapping[str, int]) -> Iterator[str]:
    """Each place once, with its settings below it; ports of which the same is said are one place.

    Args:
        words: (where, setting), as in `SwitchState.settings`, to what is said of it.
        order: Port to its number on the switch; ports that it lacks are named one by one.
    """
    by_place: dict[str, dict[str, list[str]]] = {}
    for (where, setting), said in words.items():
        by_place.setdefault(where, {}).setdefault(said, []).append(setting)
    alike: dict[tuple[str, ...], list[str]] = {}
    for where, changes in by_place.items():
        lines = (f"{_names(settings)}: {said}" for said, settings in changes.items())
        alike.setdefault(tuple(sorted(lines)), []).append(where)
    for changes, places in alike.items():
        ports = [place.removeprefix("port ") for place in places if place.startswith("port ")]
        others = [place for place in places if not place.startswith("port ")]
        yield ", ".join([*others, *([collapse(ports, order)] if ports else [])])
        yield from (f"  {line}" for line in changes)


def _names(settings: Sequence[str]) -> str:
    """`vlan_9`, `vlan_10`, `vlan_11` as `vlan_9-11`, whatever their order."""
    numbers: dict[str, list[int]] = {}
    for setting in settings:
        # `vlan_111` is `vlan_` and 111; a name without a plain number at its end is itself.
        found = _NUMBERED.fullmatch(setting)
        held = numbers.setdefault(found[1] if found else setting, [])
        held += [int(found[2])] if found else []
    return ", ".join(
        f"{head}{run}" for head, held in numbers.items() for run in (_number_runs(held) or [""])
    )


def _number_runs(numbers: Iterable[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ["-".join(map(str, run)) for run in runs]


def collapse(ports: Iterable[str], order: Mapping[str, int]) -> str:
    """Ports for people: `ports swp1 to swp16, swp32`; names that the model lacks come last."""
    known = sorted((each for each in ports if each in order), key=order.__getitem__)
    runs: list[list[str]] = []
    for name in known:
        if runs and order[runs[-1][-1]] + 1 == order[name]:
            runs[-1].append(name)
        else:
            runs.append([name])
    words = [text for run in runs for text in _run(run)] + [p for p in ports if p not in order]
    single = len(words) == 1 and " " not in words[0]
    return f"{'port' if single else 'ports'} {', '.join(words)}"


def _run(ports: Sequence[str]) -> Sequence[str]:
    return ports if len(ports) < _SHORTEST_RUN else (f"{ports[0]} to {ports[-1]}",)

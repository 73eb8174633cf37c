"""Configuration lines: what each does to the configuration that is being edited.

Every line has its source in docs/explanation/sources.md#eos; a guess is marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lab.switches.eos.config import ALL_VLANS, Config, Marking, Port, Queue, default_class
from lab.switches.eos.grammar import INVALID, EosError, expand, port_name, table, within
from lab.switches.eos.render import default_name

UNITS: Final = "segments|bytes|kbytes|mbytes"


@dataclass(slots=True)
class Place:
    """Where a login stands in a configuration, from the outside in."""

    config: Config
    port: str | None = None
    queue: int | None = None
    vlans: tuple[int, ...] = ()

    def held(self) -> Port:
        """The port that is being edited."""
        if self.port is None:
            raise EosError(INVALID)
        return self.config.ports[self.port]

    def held_queue(self) -> Queue:
        """The queue that is being edited."""
        return self.held().queues.setdefault(self.queue or 0, Queue())


def _vlan(place: Place, text: str) -> str:
    place.vlans = tuple(expand(text))
    for vlan in place.vlans:
        place.config.vlans.setdefault(vlan, default_name(vlan))
    place.port, place.queue = None, None
    return ""


def _no_vlan(place: Place, text: str) -> str:
    for vlan in expand(text):
        if vlan == 1:
            raise EosError("% Default VLAN 1 may not be deleted")  # a guess
        place.config.vlans.pop(vlan, None)
    return ""


def _name(place: Place, text: str) -> str:
    for vlan in place.vlans:
        place.config.vlans[vlan] = text
    return ""


def _interface(place: Place, text: str) -> str:
    name = port_name(text)
    if name not in place.config.ports:
        raise EosError(INVALID)
    place.port, place.queue, place.vlans = name, None, ()
    return ""


def _map_dscp(place: Place, text: str) -> str:
    found = re.fullmatch(r"([\d ,-]+) to traffic-class (\d)", text)
    if found is None:
        raise EosError(INVALID)
    for dscp in expand(found[1], high=63, low=0):
        tc = within(found[2], 0, 7)
        place.config.dscp_classes[dscp] = tc
        if tc == default_class(dscp):  # that the default is not kept as a line is a guess
            del place.config.dscp_classes[dscp]
    return ""


def _map_class(place: Place, text: str) -> str:
    found = re.fullmatch(r"([\d ,-]+) to tx-queue (\d)", text)
    if found is None:
        raise EosError(INVALID)
    for tc in expand(found[1], high=7, low=0):
        place.config.class_queues[tc] = within(found[2], 0, 7)
        if place.config.class_queues[tc] == tc:
            del place.config.class_queues[tc]
    return ""


def _hostname(place: Place, text: str) -> str:
    place.config.hostname = text
    return ""


CONFIG: Final = table(
    (
        ("vlan <vlans>", _vlan),
        ("no vlan <vlans>", _no_vlan),
        ("interface <port>", _interface),
        ("interface ethernet <port>", _interface),
        ("qos map dscp <text>", _map_dscp),
        ("qos map traffic-class <text>", _map_class),
        ("hostname <word>", _hostname),
    )
)
VLAN: Final = table((("name <word>", _name),))


def _set(place: Place, **values: object) -> str:
    port = place.held()
    for key, value in values.items():
        setattr(port, key, value)
    return ""


def _allowed(place: Place, verb: str, text: str = "") -> str:
    port = place.held()
    held = {*(ALL_VLANS if port.allowed is None else port.allowed)}
    named = {*expand(text)} if text else set[int]()
    wanted = {"add": held | named, "remove": held - named, "set": named, "none": set[int]()}[verb]
    port.allowed = None if wanted == {*ALL_VLANS} else sorted(wanted)
    return ""


def _priority(place: Place, number: str, verb: str) -> str:
    port = place.held()
    held = {*port.no_drop} - {within(number, 0, 7)}
    port.no_drop = sorted(held | ({int(number)} if verb == "no-drop" else set()))
    return ""


def _extra(place: Place, line: str) -> str:
    port = place.held()
    if line not in port.extra:
        port.extra = [*port.extra, line]
    return ""


def _enter_queue(place: Place, number: str) -> str:
    place.held()
    place.queue = within(number, 0, 7)
    return ""


PORT: Final = table(
    (
        ("description <text>", lambda p, text: _set(p, description=text)),
        ("no description", lambda p: _set(p, description=None)),
        ("shutdown", lambda p: _set(p, shutdown=True)),
        ("no shutdown", lambda p: _set(p, shutdown=False)),
        ("mtu <int>", lambda p, n: _set(p, mtu=within(n, 68, 65535))),
        ("no mtu", lambda p: _set(p, mtu=None)),
        ("l2 mtu <int>", lambda p, n: _set(p, l2_mtu=within(n, 64, 65535))),
        ("no l2 mtu", lambda p: _set(p, l2_mtu=None)),
        ("switchport", lambda p: _set(p, routed=False)),
        ("no switchport", lambda p: _set(p, routed=True)),
        ("switchport mode access|trunk", lambda p, mode: _set(p, mode=mode)),
        ("switchport access vlan <int>", lambda p, n: _set(p, access_vlan=within(n, 1, 4094))),
        ("no switchport access vlan", lambda p: _set(p, access_vlan=1)),
        (
            "switchport trunk native vlan <int>",
            lambda p, n: _set(p, native_vlan=within(n, 1, 4094)),
        ),
        ("switchport trunk allowed vlan <vlans>", lambda p, v: _allowed(p, "set", v)),
        ("switchport trunk allowed vlan add|remove <vlans>", _allowed),
        ("switchport trunk allowed vlan none", lambda p: _allowed(p, "none")),
        ("switchport trunk allowed vlan all", lambda p: _set(p, allowed=None)),
        ("no switchport trunk allowed vlan", lambda p: _set(p, allowed=None)),
        ("qos trust cos|dscp", lambda p, trust: _set(p, trust=trust)),
        ("no qos trust", lambda p: _set(p, trust="none")),
        ("default qos trust", lambda p: _set(p, trust=None)),
        ("priority-flow-control on", lambda p: _set(p, pfc=True)),
        # That the list of priorities stays is a guess, on which the driver does not depend.
        ("no priority-flow-control", lambda p: _set(p, pfc=False)),
        ("priority-flow-control priority <int> drop|no-drop", _priority),
        (
            "no priority-flow-control priority <int> no-drop",
            lambda p, n: _priority(p, n, "drop"),
        ),
        ("spanning-tree portfast", lambda p: _extra(p, "spanning-tree portfast")),
        (
            "channel-group <int> mode active|on",
            lambda p, n, m: _extra(p, f"channel-group {n} mode {m}"),
        ),
        ("uc-tx-queue <int>", _enter_queue),
    )
)


def _mark(place: Place, *said: str) -> str:
    """Thresholds with a unit each; then, if said, the probability and the weight."""
    low, low_unit, high, high_unit, percent, weight = (*said, *("100", "0")[len(said) - 4 :])
    if low_unit != high_unit or int(low) >= int(high):
        raise EosError(INVALID)
    place.held_queue().marking = Marking.model_validate(
        {
            "minimum": within(low, 1, 256_000_000),
            "maximum": within(high, 1, 256_000_000),
            "unit": low_unit,
            "percent": within(percent, 1, 100),
            "weight": within(weight, 0, 15),
        }
    )
    return ""


def _set_queue(place: Place, **values: object) -> str:
    queue = place.held_queue()
    for key, value in values.items():
        setattr(queue, key, value)
    return ""


_MARK: Final = f"random-detect ecn minimum-threshold <int> {UNITS} maximum-threshold <int> {UNITS}"
QUEUE: Final = table(
    (
        (_MARK, _mark),
        (f"{_MARK} max-mark-probability <int>", _mark),
        (f"{_MARK} max-mark-probability <int> weight <int>", _mark),
        ("no random-detect ecn minimum-threshold", lambda p: _set_queue(p, marking=None)),
        ("random-detect ecn count", lambda p: _set_queue(p, count=True)),
        ("no random-detect ecn count", lambda p: _set_queue(p, count=False)),
        (
            "bandwidth percent <int>",
            lambda p, n: _set_queue(p, bandwidth_percent=within(n, 1, 100)),
        ),
        ("no bandwidth percent", lambda p: _set_queue(p, bandwidth_percent=None)),
        ("priority strict", lambda p: _set_queue(p, strict=True)),
        ("no priority", lambda p: _set_queue(p, strict=False)),
    )
)


def tidy(config: Config) -> None:
    """Forget queues of which nothing is left, as the configuration does."""
    for port in config.ports.values():
        port.queues = {n: queue for n, queue in sorted(port.queues.items()) if queue != Queue()}

"""Configuration lines: what each does to the configuration that is being edited.

Every line has its source in docs/explanation/sources.md#eos; a guess is marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from lab.switches.eos.config import (
    ALL_VLANS,
    ChannelMode,
    Config,
    Marking,
    Port,
    Queue,
    default_class,
)
from lab.switches.eos.grammar import (
    INVALID,
    EosError,
    Handler,
    expand,
    port_name,
    table,
    within,
    within_seconds,
)
from lab.switches.eos.render import PAUSE_WATCHDOG, default_name

UNITS: Final = "segments|bytes|kbytes|mbytes"
_TIMES: Final = "timeout|recovery-time|polling-interval"
_TIMER: Final = f"{PAUSE_WATCHDOG} port timer timeout <seconds> polling-interval"
_MAX_GROUP: Final = 2000
"""Numbers of channel groups (the schema of aristanetworks/avd)."""


@dataclass(slots=True)
class Place:
    """Where a login stands in a configuration, from the outside in."""

    config: Config
    port: str | None = None
    queue: int | None = None
    vlans: tuple[int, ...] = ()
    interface: str | None = None
    """A loopback, or the routed interface of a VLAN."""
    router: bool = False
    family: bool = False
    maintenance: str = ""
    """`maintenance`, or the unit in it."""

    @property
    def is_inside(self) -> bool:
        """Whether it is in a mode below the configuration itself."""
        inner = (self.port, self.vlans, self.interface, self.router)
        return any(inner) or bool(self.maintenance)

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


def _watchdog_time(place: Place, key: str, text: str) -> str:
    """Ranges: notes on EOS 4.36. That decimals are kept as they were typed is a guess."""
    low, high = (0.005, 30.0) if key == "polling-interval" else (0.01, 60.0)
    place.config.watchdog_defaults[f"default {key}"] = within_seconds(text, low, high)
    return ""


def _no_watchdog_time(place: Place, key: str) -> str:
    place.config.watchdog_defaults.pop(f"default {key}", None)
    return ""


def _watchdog_action(place: Place, *said: str) -> str:
    if said == ("drop",):
        place.config.watchdog_defaults["action"] = "drop"
    else:  # that `errdisable`, the default, is not kept as a line is a guess
        place.config.watchdog_defaults.pop("action", None)
    return ""


def _rewrite(*, on: bool) -> Callable[[Place], str]:
    def change(place: Place) -> str:
        place.config.rewrite_dscp = on
        return ""

    return change


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
        ("qos rewrite dscp", _rewrite(on=True)),
        ("no qos rewrite dscp", _rewrite(on=False)),
        (f"{PAUSE_WATCHDOG} default {_TIMES} <seconds>", _watchdog_time),
        (f"no {PAUSE_WATCHDOG} default {_TIMES}", _no_watchdog_time),
        (f"{PAUSE_WATCHDOG} action drop|errdisable", _watchdog_action),
        (f"no {PAUSE_WATCHDOG} action", _watchdog_action),
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


def _enter_queue(place: Place, number: str) -> str:
    place.held()
    place.queue = within(number, 0, 7)
    return ""


def _assign(**values: object) -> Handler:
    """A line that sets values of the port."""

    def answer(place: Place) -> str:
        return _set(place, **values)

    return answer


def _number(key: str, low: int, high: int) -> Handler:
    """A line that sets a number of the port."""

    def answer(place: Place, text: str) -> str:
        return _set(place, **{key: within(text, low, high)})

    return answer


def _word(key: str) -> Handler:
    """A line that sets a word of the port, one of those that the table allows."""

    def answer(place: Place, text: str) -> str:
        return _set(place, **{key: text})

    return answer


def _verb(verb: str) -> Handler:
    """A line on the allowed VLANs whose verb is not its last word but one."""

    def answer(place: Place, text: str = "") -> str:
        return _allowed(place, verb, text)

    return answer


def _no_priority(place: Place, number: str) -> str:
    return _priority(place, number, "drop")


def _watch(**values: object) -> Handler:
    """A line that sets values of the port's watchdog, and leaves the others: a guess."""

    def answer(place: Place) -> str:
        for key, value in values.items():
            setattr(place.held().watchdog, key, value)
        return ""

    return answer


def _watch_timer(place: Place, *times: str) -> str:
    """Timeout, polling interval unless it is `auto`, recovery time."""
    timeout, *said, recovery = times
    polling = within_seconds(said[0], 0.005, 30.0) if said else "auto"
    for text in (timeout, recovery):
        within_seconds(text, 0.01, 60.0)
    words = f"timeout {timeout} polling-interval {polling} recovery-time {recovery}"
    return _watch(timer=words)(place)


def _watch_forced(place: Place, *times: str) -> str:
    _watch_timer(place, *times)
    return _watch(timer=f"{place.held().watchdog.timer} forced")(place)


def _watch_action(place: Place, action: str) -> str:
    return _watch(action=action)(place)


def _group(place: Place, number: str, mode: str) -> str:
    place.held().group = within(number, 1, _MAX_GROUP), cast("ChannelMode", mode)
    return ""


PORT: Final = table(
    (
        ("channel-group <int> mode active|passive|on", _group),
        ("no channel-group", _assign(group=None)),
        ("description <text>", _word("description")),
        ("no description", _assign(description=None)),
        ("shutdown", _assign(shutdown=True)),
        ("no shutdown", _assign(shutdown=False)),
        ("mtu <int>", _number("mtu", 68, 65535)),
        ("no mtu", _assign(mtu=None)),
        ("l2 mtu <int>", _number("l2_mtu", 64, 65535)),
        ("no l2 mtu", _assign(l2_mtu=None)),
        ("switchport", _assign(routed=False)),
        ("no switchport", _assign(routed=True)),
        ("switchport mode access|trunk", _word("mode")),
        ("switchport access vlan <int>", _number("access_vlan", 1, 4094)),
        ("no switchport access vlan", _assign(access_vlan=1)),
        ("switchport trunk native vlan <int>", _number("native_vlan", 1, 4094)),
        ("switchport trunk native vlan tag", _assign(native_vlan=0)),
        ("no switchport trunk native vlan", _assign(native_vlan=1)),
        ("switchport trunk allowed vlan <vlans>", _verb("set")),
        ("switchport trunk allowed vlan add|remove <vlans>", _allowed),
        ("switchport trunk allowed vlan none", _verb("none")),
        ("switchport trunk allowed vlan all", _assign(allowed=None)),
        ("no switchport trunk allowed vlan", _assign(allowed=None)),
        ("qos trust cos|dscp", _word("trust")),
        ("no qos trust", _assign(trust="none")),
        ("default qos trust", _assign(trust=None)),
        ("priority-flow-control on", _assign(pfc=True)),
        # That the list of priorities stays is a guess, on which the driver does not depend.
        ("no priority-flow-control", _assign(pfc=False)),
        ("priority-flow-control priority <int> drop|no-drop", _priority),
        ("no priority-flow-control priority <int> no-drop", _no_priority),
        (PAUSE_WATCHDOG, _watch(enabled=True)),
        (f"no {PAUSE_WATCHDOG}", _watch(enabled=False)),
        (f"{_TIMER} auto recovery-time <seconds>", _watch_timer),
        (f"{_TIMER} <seconds> recovery-time <seconds>", _watch_timer),
        (f"{_TIMER} auto recovery-time <seconds> forced", _watch_forced),
        (f"{_TIMER} <seconds> recovery-time <seconds> forced", _watch_forced),
        (f"no {PAUSE_WATCHDOG} port timer", _watch(timer=None)),
        (f"{PAUSE_WATCHDOG} port action drop|notify-only", _watch_action),
        (f"no {PAUSE_WATCHDOG} port action", _watch(action=None)),
        ("spanning-tree portfast", _assign(portfast="edge")),
        ("spanning-tree portfast edge|network|auto|normal", _word("portfast")),
        ("no spanning-tree portfast", _assign(portfast=None)),
        ("spanning-tree bpduguard enable|disable", _word("bpduguard")),
        ("no spanning-tree bpduguard", _assign(bpduguard=None)),
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


def _assign_queue(**values: object) -> Handler:
    """A line that sets values of the queue."""

    def answer(place: Place) -> str:
        return _set_queue(place, **values)

    return answer


def _bandwidth(place: Place, percent: str) -> str:
    return _set_queue(place, bandwidth_percent=within(percent, 1, 100))


_MARK: Final = f"random-detect ecn minimum-threshold <int> {UNITS} maximum-threshold <int> {UNITS}"
QUEUE: Final = table(
    (
        (_MARK, _mark),
        (f"{_MARK} max-mark-probability <int>", _mark),
        (f"{_MARK} max-mark-probability <int> weight <int>", _mark),
        ("no random-detect ecn minimum-threshold", _assign_queue(marking=None)),
        ("random-detect ecn count", _assign_queue(count=True)),
        ("no random-detect ecn count", _assign_queue(count=False)),
        ("bandwidth percent <int>", _bandwidth),
        ("no bandwidth percent", _assign_queue(bandwidth_percent=None)),
        ("priority strict", _assign_queue(strict=True)),
        ("no priority", _assign_queue(strict=False)),
    )
)


def tidy(config: Config) -> None:
    """Forget queues of which nothing is left, as the configuration does."""
    for port in config.ports.values():
        port.queues = {n: queue for n, queue in sorted(port.queues.items()) if queue != Queue()}

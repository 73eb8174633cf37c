"""Configuration lines without a row in config.py, and the whole configuration as text.

Sources: lab/sources.md#eos; guesses are marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

from lab.switches.command_line import CliError, assign, commands_of, flag, lines_of, rows_of, table
from lab.switches.eos.config import (
    ALL_VLANS,
    ENCODING,
    EOS_RELEASE,
    INVALID,
    WATCHDOG,
    ChannelMode,
    Config,
    Marking,
    Place,
    Port,
    Queue,
    Watchdog,
    entering,
    expand_within,
    indent,
    some_of,
    within,
)
from lab.switches.eos.routing import GLOBAL, NO_ADDRESS, global_lines, svi_lines

_UNITS: Final = "segments|bytes|kbytes|mbytes"
_TIMES: Final = "timeout|recovery-time|polling-interval"
_MAX_GROUP: Final = 2000
"""Numbers of channel groups (the schema of aristanetworks/avd)."""


_HOSTNAME, _REWRITE = rows_of(Config)


def default_name(vlan: int) -> str:
    """The name of a VLAN without a `name` line."""
    return f"VLAN{vlan:04}"


def _vlan(place: Place, text: str) -> None:
    vlans = expand_within(text)
    for vlan in vlans:
        place.config.vlans.setdefault(vlan, default_name(vlan))
    place.enter("vlan", ",".join(map(str, vlans)))


def _no_vlan(place: Place, text: str) -> None:
    for vlan in expand_within(text):
        if vlan == 1:
            raise CliError("% Default VLAN 1 may not be deleted")  # a guess
        place.config.vlans.pop(vlan, None)


def _name(place: Place, text: str) -> None:
    place.config.vlans |= dict.fromkeys(expand_within(place.inside("vlan")), text)


def _interface(place: Place, text: str) -> None:
    place.enter("port", place.known_port(text))


def _mapped(text: str, of: str, highest: int) -> tuple[list[int], int]:
    """The numbers before the words `of`, and the class or queue after them."""
    found = re.fullmatch(rf"([\d ,-]+) {of} (\d)", text)
    if found is None:
        raise CliError(INVALID)
    return expand_within(found[1], 0, highest), within(found[2], 0, 7)


def default_class(dscp: int) -> int:
    """The traffic class of a DSCP without its own line: classes 0 and 1 are swapped (manual)."""
    return (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8]


def class_of(config: Config, dscp: int) -> int:
    """The traffic class of a DSCP."""
    return config.dscp_classes.get(dscp, default_class(dscp))


def _map_dscp(place: Place, text: str) -> None:
    dscps, tc = _mapped(text, "to traffic-class", 63)
    held = place.config.dscp_classes | dict.fromkeys(dscps, tc)
    # The default is not kept as a line: a guess.
    place.config.dscp_classes = {d: tc for d, tc in held.items() if tc != default_class(d)}


def _map_class(place: Place, text: str) -> None:
    classes, queue = _mapped(text, "to tx-queue", 7)
    held = place.config.class_queues | dict.fromkeys(classes, queue)
    place.config.class_queues = {tc: queue for tc, queue in held.items() if tc != queue}


def _seconds(key: str, text: str) -> str:
    """Check a time against its range and keep it as typed: notes on EOS 4.36."""
    low, high = (0.005, 30.0) if key == "polling-interval" else (0.01, 60.0)
    if not low <= float(text) <= high:
        raise CliError(INVALID)
    return text


def _watchdog_time(place: Place, key: str, text: str) -> None:
    """Keep the decimals as typed, which is a guess."""
    place.config.watchdog_defaults[f"default {key}"] = _seconds(key, text)


def _no_watchdog_time(place: Place, key: str) -> None:
    place.config.watchdog_defaults.pop(f"default {key}", None)


def _watchdog_action(place: Place, said: str = "errdisable") -> None:
    place.config.watchdog_defaults.pop("action", None)
    if said == "drop":  # `errdisable`, the default, leaves no line: a guess
        place.config.watchdog_defaults["action"] = said


_QUIESCE: Final = flag("quiesce", "quiesced")
"""AVD, template of `maintenance`. A guess: `no quiesce` leaves nothing behind."""
CONFIG: Final = table(
    (
        ("vlan <vlans>", _vlan),
        ("no vlan <vlans>", _no_vlan),
        ("interface <port>", _interface),
        ("interface ethernet <port>", _interface),
        ("qos map dscp <text>", _map_dscp),
        ("qos map traffic-class <text>", _map_class),
        (f"{WATCHDOG} default {_TIMES} <seconds>", _watchdog_time),
        (f"no {WATCHDOG} default {_TIMES}", _no_watchdog_time),
        (f"{WATCHDOG} action drop|errdisable", _watchdog_action),
        (f"no {WATCHDOG} action", _watchdog_action),
        ("maintenance", entering("maintenance")),
        *commands_of((_HOSTNAME, _REWRITE), lambda place: place.config),
        *GLOBAL,
    )
)
VLAN: Final = table((("name <word>", _name),))
_UNIT: Final = ("unit System", assign(lambda place: place, "modes", (("unit", "System"),)))
UNITS: Final = table((_UNIT,))
UNIT: Final = table((*commands_of((_QUIESCE,), lambda place: place.config), _UNIT))


def _encoding(place: Place, kind: str) -> None:
    """Add one kind of FEC; two kinds can be on together, and a line for one ends `no`."""
    held = {*place.held().fec} - {"no", f"no {kind}"}
    place.held().fec = sorted({*held, kind})


def _no_encoding(place: Place, kind: str = "") -> None:
    held = {*place.held().fec} - {kind} if kind else set[str]()
    place.held().fec = sorted({*held, f"no {kind}".strip()})


def _group(place: Place, number: str, mode: str) -> None:
    place.held().group = within(number, 1, _MAX_GROUP), cast("ChannelMode", mode)


def _change_allowed(place: Place, verb: str, text: str) -> None:
    port, named = place.held(), {*expand_within(text)}
    held = {*(ALL_VLANS if port.allowed is None else port.allowed)}
    port.allowed = some_of(held | named if verb == "add" else held - named)


def _priority(place: Place, number: str, verb: str = "drop") -> None:
    held = {*place.held().no_drop} - {within(number, 0, 7)}
    place.held().no_drop = sorted(held | ({int(number)} if verb == "no-drop" else set()))


def _timer(place: Place, *times: str) -> None:
    keys = ("timeout", "polling-interval", "recovery-time")
    words = (
        f"{key} {text if text == 'auto' else _seconds(key, text)}"
        for key, text in zip(keys, times, strict=True)
    )
    place.held().watchdog.timer = " ".join(words)


def _forced_timer(place: Place, *times: str) -> None:
    _timer(place, *times)
    place.held().watchdog.timer = f"{place.held().watchdog.timer} forced"


def _enter_queue(place: Place, number: str) -> None:
    place.enter("queue", str(within(number, 0, 7)))


_TIMER: Final = (
    f"{WATCHDOG} port timer timeout <seconds> polling-interval auto|<seconds> recovery-time"
)
_WATCH, _, _ACTION = rows_of(Watchdog)
PORT: Final = table(
    (
        *commands_of(rows_of(Port), Place.held),
        NO_ADDRESS,
        # How a line affects the other kind is a guess: the driver starts without any.
        (f"{ENCODING} reed-solomon|fire-code", _encoding),
        (f"no {ENCODING}", _no_encoding),
        (f"no {ENCODING} reed-solomon|fire-code", _no_encoding),
        (f"default {ENCODING}", assign(Place.held, "fec", [])),
        ("channel-group <int> mode active|passive|on", _group),
        ("no channel-group", assign(Place.held, "group", None)),
        ("switchport trunk allowed vlan add|remove <vlans>", _change_allowed),
        ("priority-flow-control priority <int> drop|no-drop", _priority),
        ("no priority-flow-control priority <int> no-drop", _priority),
        # A watchdog line does not change the others: a guess.
        *commands_of((_WATCH, _ACTION), lambda place: place.held().watchdog),
        (f"{_TIMER} <seconds>", _timer),
        (f"{_TIMER} <seconds> forced", _forced_timer),
        (f"no {WATCHDOG} port timer", assign(lambda place: place.held().watchdog, "timer", None)),
        ("spanning-tree portfast", assign(Place.held, "portfast", "edge")),
        ("uc-tx-queue <int>", _enter_queue),
    )
)


def _mark(place: Place, *said: str) -> None:
    """Thresholds with a unit each; then the optional probability and weight."""
    low, low_unit, high, high_unit, percent, weight = (*said, *("100", "0")[len(said) - 4 :])
    if low_unit != high_unit or int(low) >= int(high):
        raise CliError(INVALID)
    limits = (within(text, 1, 256_000_000) for text in (low, high))
    shares = within(percent, 1, 100), within(weight, 0, 15)
    words = dict(zip(Marking.model_fields, (*limits, low_unit, *shares), strict=True))
    place.held_queue().marking = Marking.model_validate(words)


_MARK: Final = (
    f"random-detect ecn minimum-threshold <int> {_UNITS} maximum-threshold <int> {_UNITS}"
)
QUEUE: Final = table(
    (
        (_MARK, _mark),
        (f"{_MARK} max-mark-probability <int>", _mark),
        (f"{_MARK} max-mark-probability <int> weight <int>", _mark),
        ("no random-detect ecn minimum-threshold", assign(Place.held_queue, "marking", None)),
        *commands_of(rows_of(Queue), Place.held_queue),
    )
)


def tidy(config: Config) -> None:
    """Forget queues without any setting, as the real configuration does."""
    for port in config.ports.values():
        port.queues = {n: queue for n, queue in sorted(port.queues.items()) if queue != Queue()}


def render(config: Config, model: str, release: str = EOS_RELEASE) -> str:
    """`show running-config`."""
    lines = [
        f"! device: {config.hostname} ({model}, EOS-{release})",
        "!\n! boot system flash:/EOS.swi\n!",
        f"service routing protocols model {config.routing.model}",
        f"!\nhostname {config.hostname}\n!",
        "username admin privilege 15 role network-admin secret sha512 <removed>\n!",
    ]
    for vlan, name in sorted(config.vlans.items()):
        named = [f"name {name}"] if name != default_name(vlan) else []
        lines += [f"vlan {vlan}", *indent(named), "!"] if vlan != 1 else []
    for name, port in config.ports.items():
        lines += [f"interface {name}", *indent(lines_of(rows_of(Port), port)), "!"]
    lines += svi_lines(config, "Loopback")
    lines += ["interface Management1", "   ip address 192.0.2.5/24", "!"]
    lines += svi_lines(config, "Vlan")
    maps = [*_maps(config), *_watchdog_lines(config)]
    lines += [*maps, "!"] if maps else []
    lines += global_lines(config)
    if config.quiesced:
        lines += ["maintenance", "   unit System", "      quiesce", "!"]
    return "\n".join([*lines, "end", ""])


def _maps(config: Config) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for dscp, tc in sorted(config.dscp_classes.items()):
        groups.setdefault(tc, []).append(dscp)
    yield from lines_of((_REWRITE,), config)  # before the maps: AVD's template of `qos`
    for tc, dscps in sorted(groups.items()):
        yield f"qos map dscp {' '.join(map(str, dscps))} to traffic-class {tc}"
    for tc, queue in sorted(config.class_queues.items()):
        yield f"qos map traffic-class {tc} to tx-queue {queue}"


def _watchdog_lines(config: Config) -> Iterator[str]:
    """The defaults of the whole switch, after the maps (4.35.1F, aristanetworks/avd #6402)."""
    for key in ("default timeout", "default recovery-time", "default polling-interval", "action"):
        if key in config.watchdog_defaults:
            yield f"{WATCHDOG} {key} {config.watchdog_defaults[key]}"

"""Configuration lines: what each does to the configuration that is edited, and how it is printed.

Every line has its source in docs/explanation/sources.md#eos; a guess is marked. Their order is that
of the configurations that aristanetworks/avd renders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

from lab.switches.command_line import CliError, Row, assign, commands_of, flag, lines_of, table
from lab.switches.eos.config import (
    ALL_VLANS,
    EOS_RELEASE,
    ChannelMode,
    Config,
    Marking,
    Port,
    Queue,
    default_class,
)
from lab.switches.eos.place import (
    INVALID,
    Place,
    between,
    expand_within,
    indent,
    within,
    within_seconds,
)
from lab.switches.eos.routing import ADDRESSES, NO_ADDRESS, global_lines, svi_lines
from lab.switches.text import collapse

_UNITS: Final = "segments|bytes|kbytes|mbytes"
_WATCHDOG: Final = "priority-flow-control pause watchdog"
_TIMES: Final = "timeout|recovery-time|polling-interval"
_ENCODING: Final = "error-correction encoding"
_MAX_GROUP: Final = 2000
"""Numbers of channel groups (the schema of aristanetworks/avd)."""


def default_name(vlan: int) -> str:
    """The name of a VLAN that nobody named."""
    return f"VLAN{vlan:04}"


def _vlan(place: Place, text: str) -> None:
    place.vlans = tuple(expand_within(text))
    for vlan in place.vlans:
        place.config.vlans.setdefault(vlan, default_name(vlan))
    place.port, place.queue = None, None


def _no_vlan(place: Place, text: str) -> None:
    for vlan in expand_within(text):
        if vlan == 1:
            raise CliError("% Default VLAN 1 may not be deleted")  # a guess
        place.config.vlans.pop(vlan, None)


def _name(place: Place, text: str) -> None:
    place.config.vlans |= dict.fromkeys(place.vlans, text)


def _interface(place: Place, text: str) -> None:
    place.port, place.queue, place.vlans = place.known_port(text), None, ()


def _mapped(text: str, of: str, highest: int) -> tuple[list[int], int]:
    """The numbers before the words `of`, and the class or queue after them."""
    found = re.fullmatch(rf"([\d ,-]+) {of} (\d)", text)
    if found is None:
        raise CliError(INVALID)
    return expand_within(found[1], 0, highest), within(found[2], 0, 7)


def _map_dscp(place: Place, text: str) -> None:
    dscps, tc = _mapped(text, "to traffic-class", 63)
    held = place.config.dscp_classes | dict.fromkeys(dscps, tc)
    # That the default is not kept as a line is a guess.
    place.config.dscp_classes = {d: tc for d, tc in held.items() if tc != default_class(d)}


def _map_class(place: Place, text: str) -> None:
    classes, queue = _mapped(text, "to tx-queue", 7)
    held = place.config.class_queues | dict.fromkeys(classes, queue)
    place.config.class_queues = {tc: queue for tc, queue in held.items() if tc != queue}


def _watchdog_time(place: Place, key: str, text: str) -> None:
    """Ranges: notes on EOS 4.36. That decimals are kept as they were typed is a guess."""
    low, high = (0.005, 30.0) if key == "polling-interval" else (0.01, 60.0)
    place.config.watchdog_defaults[f"default {key}"] = within_seconds(text, low, high)


def _no_watchdog_time(place: Place, key: str) -> None:
    place.config.watchdog_defaults.pop(f"default {key}", None)


def _watchdog_action(place: Place, said: str = "errdisable") -> None:
    if said == "drop":
        place.config.watchdog_defaults["action"] = said
    else:  # that `errdisable`, the default, is not kept as a line is a guess
        place.config.watchdog_defaults.pop("action", None)


_HOSTNAME: Final = Row("hostname <word>", "hostname", removable=False)
_REWRITE: Final = flag("qos rewrite dscp", "rewrite_dscp")
_QUIESCE: Final = flag("quiesce", "quiesced")
"""AVD, template of `maintenance`. That nothing of it stays after `no quiesce` is a guess."""
CONFIG: Final = table(
    (
        ("vlan <vlans>", _vlan),
        ("no vlan <vlans>", _no_vlan),
        ("interface <port>", _interface),
        ("interface ethernet <port>", _interface),
        ("qos map dscp <text>", _map_dscp),
        ("qos map traffic-class <text>", _map_class),
        (f"{_WATCHDOG} default {_TIMES} <seconds>", _watchdog_time),
        (
            f"no {_WATCHDOG} default {_TIMES}",
            _no_watchdog_time,
        ),
        (f"{_WATCHDOG} action drop|errdisable", _watchdog_action),
        (f"no {_WATCHDOG} action", _watchdog_action),
        ("maintenance", assign(lambda place: place, "maintenance", "maintenance")),
        *commands_of((_HOSTNAME, _REWRITE), lambda place: place.config),
    )
)
VLAN: Final = table((("name <word>", _name),))
UNITS: Final = table((("unit System", assign(lambda place: place, "maintenance", "System")),))
UNIT: Final = table(commands_of((_QUIESCE,), lambda place: place.config))


def _speed(place: Place, text: str) -> str:
    """Speed and lanes; what the model has not is refused (a guessed wording)."""
    word = text.removeprefix("auto ")
    if word not in place.config.speeds:
        raise CliError(f"% Unsupported speed {word}")
    return text


def _encoding(place: Place, kind: str) -> None:
    """Two kinds can be there together; a line for one ends that none is."""
    held = {*place.held().fec} - {"no", f"no {kind}"}
    place.held().fec = sorted({*held, kind})


def _no_encoding(place: Place, kind: str = "") -> None:
    held = {*place.held().fec} - {kind} if kind else set[str]()
    place.held().fec = sorted({*held, f"no {kind}".strip()})


def _encodings(port: Port) -> Iterator[str]:
    """`no` alone is for every kind (AVD's template)."""
    for word in port.fec:
        kind = word.removeprefix("no").strip()
        yield f"{'no ' * word.startswith('no')}{_ENCODING} {kind}".strip()


def _group(place: Place, number: str, mode: str) -> None:
    place.held().group = within(number, 1, _MAX_GROUP), cast("ChannelMode", mode)


def _group_line(port: Port) -> list[str]:
    return [f"channel-group {port.group[0]} mode {port.group[1]}"] if port.group else []


def _native(_place: Place, text: str) -> int:
    return 0 if text == "tag" else within(text, 1, 4094)


def _allowed(_place: Place, text: str) -> list[int] | None:
    if text in {"all", "none"}:
        return None if text == "all" else []
    vlans = {*expand_within(text)}
    return None if vlans == {*ALL_VLANS} else sorted(vlans)


def _change_allowed(place: Place, verb: str, text: str) -> None:
    port, named = place.held(), {*expand_within(text)}
    held = {*(ALL_VLANS if port.allowed is None else port.allowed)}
    wanted = held | named if verb == "add" else held - named
    port.allowed = None if wanted == {*ALL_VLANS} else sorted(wanted)


def _priority(place: Place, number: str, verb: str = "drop") -> None:
    held = {*place.held().no_drop} - {within(number, 0, 7)}
    place.held().no_drop = sorted(held | ({int(number)} if verb == "no-drop" else set()))


def _priorities(port: Port) -> Iterator[str]:
    return (f"priority-flow-control priority {number} no-drop" for number in port.no_drop)


def _timer(place: Place, *times: str) -> None:
    """Timeout, polling interval, recovery time, and whether it is forced."""
    timeout, polling, recovery = times
    if polling != "auto":
        within_seconds(polling, 0.005, 30.0)
    for text in (timeout, recovery):
        within_seconds(text, 0.01, 60.0)
    words = f"timeout {timeout} polling-interval {polling} recovery-time {recovery}"
    place.held().watchdog.timer = words


def _forced_timer(place: Place, *times: str) -> None:
    _timer(place, *times)
    place.held().watchdog.timer = f"{place.held().watchdog.timer} forced"


def _watchdog(port: Port) -> Iterator[str]:
    """In the order of 4.35 (aristanetworks/avd #6318)."""
    timer = port.watchdog.timer
    yield from _WATCH.lines(port.watchdog)
    yield from () if timer is None else (f"{_WATCHDOG} port timer {timer}",)
    yield from _ACTION.lines(port.watchdog)


_WATCH: Final = flag(_WATCHDOG, "enabled")
_ACTION: Final = Row(f"{_WATCHDOG} port action drop|notify-only", "action")


def _enter_queue(place: Place, number: str) -> None:
    place.held()
    place.queue = within(number, 0, 7)


def _queues(port: Port) -> Iterator[str]:
    for number, queue in sorted(port.queues.items()):
        inner = [*lines_of(_OF_QUEUE, queue)]
        yield from ("!", f"uc-tx-queue {number}", *indent(inner)) if inner else ()


_OF_PORT: Final = (
    Row("description <text>", "description"),
    flag("shutdown", "shutdown"),
    Row("speed <text>", "speed", read=_speed, resets=True),
    Row("mtu <int>", "mtu", read=between(68, 65535)),
    Row("l2 mtu <int>", "l2_mtu", read=between(64, 65535)),
    _encodings,
    _group_line,
    Row("switchport access vlan <int>", "access_vlan", without=1, read=between(1, 4094)),
    Row(
        "switchport trunk native vlan tag|<int>",
        "native_vlan",
        without=1,
        read=_native,
        show=lambda vlan: str(vlan or "tag"),
    ),
    Row(
        "switchport trunk allowed vlan none|all|<vlans>",
        "allowed",
        read=_allowed,
        show=lambda vlans: collapse(vlans) or "none",
    ),
    Row("switchport mode access|trunk", "mode", without="access"),
    Row("switchport", "routed", value=False, without=True),
    *ADDRESSES,
    Row("qos trust cos|dscp", "trust", without="none", resets=True),
    # That the list of priorities stays is a guess, on which the driver does not depend.
    flag("priority-flow-control on", "pfc", "priority-flow-control"),
    _priorities,
    _watchdog,
    Row(
        "spanning-tree portfast edge|network|auto|normal",
        "portfast",
        show=lambda word: word.removeprefix("edge"),
    ),
    Row("spanning-tree bpduguard enable|disable", "bpduguard"),
    _queues,
)
_TIMER: Final = (
    f"{_WATCHDOG} port timer timeout <seconds> polling-interval auto|<seconds> recovery-time"
)
PORT: Final = table(
    (
        *commands_of(_OF_PORT, Place.held),
        NO_ADDRESS,
        # What a line of one kind does to another one's is a guess: the driver begins from none.
        (f"{_ENCODING} reed-solomon|fire-code", _encoding),
        (f"no {_ENCODING}", _no_encoding),
        (f"no {_ENCODING} reed-solomon|fire-code", _no_encoding),
        (f"default {_ENCODING}", assign(Place.held, "fec", [])),
        ("channel-group <int> mode active|passive|on", _group),
        ("no channel-group", assign(Place.held, "group", None)),
        ("switchport trunk allowed vlan add|remove <vlans>", _change_allowed),
        ("priority-flow-control priority <int> drop|no-drop", _priority),
        ("no priority-flow-control priority <int> no-drop", _priority),
        # That a line of the watchdog leaves the others is a guess.
        *commands_of((_WATCH, _ACTION), lambda place: place.held().watchdog),
        (f"{_TIMER} <seconds>", _timer),
        (f"{_TIMER} <seconds> forced", _forced_timer),
        (f"no {_WATCHDOG} port timer", assign(lambda place: place.held().watchdog, "timer", None)),
        ("spanning-tree portfast", assign(Place.held, "portfast", "edge")),
        ("uc-tx-queue <int>", _enter_queue),
    )
)


def _mark(place: Place, *said: str) -> None:
    """Thresholds with a unit each; then, if said, the probability and the weight."""
    low, low_unit, high, high_unit, percent, weight = (*said, *("100", "0")[len(said) - 4 :])
    if low_unit != high_unit or int(low) >= int(high):
        raise CliError(INVALID)
    limits = (within(text, 1, 256_000_000) for text in (low, high))
    shares = within(percent, 1, 100), within(weight, 0, 15)
    words = dict(zip(Marking.model_fields, (*limits, low_unit, *shares), strict=True))
    place.held_queue().marking = Marking.model_validate(words)


def _marking(queue: Queue) -> Iterator[str]:
    found = queue.marking
    if found is not None:
        low, high = (f"{each} {found.unit}" for each in (found.minimum, found.maximum))
        yield (
            f"random-detect ecn minimum-threshold {low} maximum-threshold {high} "
            f"max-mark-probability {found.percent} weight {found.weight}"
        )


_OF_QUEUE: Final = (
    Row("bandwidth percent <int>", "bandwidth_percent", read=between(1, 100)),
    flag("priority strict", "strict", "priority"),
    _marking,
    flag("random-detect ecn count", "count"),
)
_MARK: Final = (
    f"random-detect ecn minimum-threshold <int> {_UNITS} maximum-threshold <int> {_UNITS}"
)
QUEUE: Final = table(
    (
        (_MARK, _mark),
        (f"{_MARK} max-mark-probability <int>", _mark),
        (f"{_MARK} max-mark-probability <int> weight <int>", _mark),
        (
            "no random-detect ecn minimum-threshold",
            assign(Place.held_queue, "marking", None),
        ),
        *commands_of(_OF_QUEUE, Place.held_queue),
    )
)


def tidy(config: Config) -> None:
    """Forget queues of which nothing is left, as the configuration does."""
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
        lines += [f"interface {name}", *indent(lines_of(_OF_PORT, port)), "!"]
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
    """The QoS maps of the whole switch: DSCPs of one class share a line."""
    groups: dict[int, list[int]] = {}
    for dscp, tc in sorted(config.dscp_classes.items()):
        groups.setdefault(tc, []).append(dscp)
    yield from _REWRITE.lines(config)  # before the maps: AVD's template of `qos`
    for tc, dscps in sorted(groups.items()):
        yield f"qos map dscp {' '.join(map(str, dscps))} to traffic-class {tc}"
    for tc, queue in sorted(config.class_queues.items()):
        yield f"qos map traffic-class {tc} to tx-queue {queue}"


def _watchdog_lines(config: Config) -> Iterator[str]:
    """The defaults of the whole switch, after the maps (4.35.1F, aristanetworks/avd #6402)."""
    for key in ("default timeout", "default recovery-time", "default polling-interval", "action"):
        if key in config.watchdog_defaults:
            yield f"{_WATCHDOG} {key} {config.watchdog_defaults[key]}"

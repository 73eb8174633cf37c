"""The show commands: what the switch answers, as text and as `| json-print`.

Sources: docs/explanation/sources.md#onyx, the fixtures and captures that it names. A text
form that nobody has captured is made by `_guessed_text` and says so here; Railyard's driver reads
none of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import JsonValue

from lab.switches.onyx import show_ports, show_qos
from lab.switches.onyx.config import Stored
from lab.switches.onyx.grammar import Command, collapse_vlans
from lab.switches.onyx.running_config import RELEASE, render_running_config
from lab.switches.stored import FACTORY_CHASSIS, Chassis


@dataclass(frozen=True, slots=True)
class Device:
    """What a show command may look at."""

    stored: Stored
    model: str
    cabled: frozenset[str]
    """Ports with a cable to a host that has power."""
    plugged: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Port to who tells its name there by LLDP, and by which of its ports."""
    release: str = RELEASE
    chassis: Chassis = FACTORY_CHASSIS


@dataclass(frozen=True, slots=True)
class Answer:
    """The two forms of one answer."""

    text: str | None
    data: JsonValue = None


Show = Callable[[Device, list[str]], Answer]

_VERSION: Final = {
    "Product name": "Onyx",
    "Product release": RELEASE,
    "Build ID": "#1-dev",
    "Build date": "2021-04-29 06:31:55",
    "Target arch": "x86_64",
    "Target hw": "x86_64",
    "Built by": "sw-r2d2-bot@26dc75704811",
    "Version summary": f"X86_64 {RELEASE} 2021-04-29 06:31:55 x86_64",
    "Product model": "x86onie",
}
"""oxidized's capture of `show version` on 3.9.2504, without the clocks."""


def chassis_lines(chassis: Chassis) -> dict[str, str]:
    """The rest of `show version`: captures of 3.8.2004 and 3.9.0300 (sources.md)."""
    return {"Host ID": chassis.base_mac.upper(), "System serial num": chassis.serial}


def _version(device: Device, _values: list[str]) -> Answer:
    table = {key: value.replace(RELEASE, device.release) for key, value in _VERSION.items()}
    table |= chassis_lines(device.chassis)
    lines = [f"{key + ':':<19}{value}" for key, value in table.items()]
    return Answer("\n".join(lines) + "\n", dict[str, JsonValue](table))


def inventory(model: str, chassis: Chassis) -> Answer:
    """`show inventory`: a public client reads the first line of a chassis (NOC's profile).

    The rest of the table, and the end of a part number, are a guess.
    """
    head = ("Module", "Part Number", "Serial Number", "Asic Rev.", "HW Rev.")
    rows = (head, ("CHASSIS", f"M{model}-CS2F", chassis.serial, "N/A", "A1"))
    lines = ["".join(f"{cell:<18}" for cell in row).rstrip() for row in rows]
    return Answer("".join(f"{line}\n" for line in lines))


def _running(device: Device, _values: list[str]) -> Answer:
    clock = datetime.now(UTC).strftime("%Y/%m/%d %H:%M:%S +0000")
    return Answer(render_running_config(device.stored.running, clock, device.release))


def _saved(device: Device, _values: list[str]) -> Answer:
    return Answer(render_running_config(device.stored.saved, release=device.release))


def _vlan(device: Device, _values: list[str]) -> Answer:
    """JSON: fixture onyx_vlan_show.cfg, with its line break after each fifth port."""
    config = device.stored.running
    table: dict[str, JsonValue] = {}
    for vlan, name in config.vlans.items():
        ports = [
            f"Eth{port}"
            for port, held in config.ports.items()
            if (held.mode != "trunk" and held.access_vlan == vlan)
            or (held.mode != "access" and _carries(held.allowed_vlans, vlan))
        ]
        lines = [", ".join(ports[at : at + 5]) for at in range(0, len(ports), 5)]
        table[str(vlan)] = {"Name": name, "Ports": ",\n".join(lines)}
    return Answer(_guessed_text(table), table)


def _carries(allowed: Literal["all"] | list[int], vlan: int) -> bool:
    return allowed == "all" or vlan in allowed


def _switchport(device: Device, _values: list[str]) -> Answer:
    """JSON: fixture onyx_l2_interface_show.cfg; `N/A` of a trunk: capture C9; `all` is a guess."""
    table: dict[str, JsonValue] = {}
    for name, port in device.stored.running.ports.items():
        if port.routed:  # the fixture of a routed port has no `Switchport mode`
            continue
        allowed = port.allowed_vlans
        table[f"Eth{name}"] = {
            "Access vlan": "N/A" if port.mode == "trunk" else str(port.access_vlan),
            "Allowed vlans": allowed if isinstance(allowed, str) else collapse_vlans(allowed),
            "Mode": port.mode,
        }
    return Answer(_guessed_text(table), table)


def _guessed_text(table: dict[str, JsonValue]) -> str:
    """A readable text form where no capture exists (sources.md#onyx-unknown)."""
    return "".join(f"{key}: {value}\n" for key, value in table.items())


Ports = Callable[[Stored, str], JsonValue]


def _data(render: Ports) -> Show:
    """An answer about ports that exists as JSON alone."""
    return lambda device, values: Answer(None, render(device.stored, values[0]))


def _of_all(render: Show) -> Show:
    """Without a port it is about each of them."""
    return lambda device, values: render(device, [",".join(device.stored.running.ports), *values])


def _interfaces(device: Device, values: list[str]) -> Answer:
    held = (device.stored, device.model, device.cabled)
    return Answer(*show_ports.interfaces(*held, values[0]))


def _status(device: Device, _values: list[str]) -> Answer:
    return Answer(show_ports.status(device.stored, device.model, device.cabled))


def _counters(device: Device, values: list[str]) -> Answer:
    return Answer(show_ports.counters(device.stored, values[0]))


def _priority_counters(device: Device, values: list[str]) -> Answer:
    return Answer(show_ports.priority_counters(device.stored, values[0], int(values[1])))


def _class_counters(device: Device, values: list[str]) -> Answer:
    return Answer(show_ports.class_counters(device.stored, values[0], int(values[1])))


def _lldp(device: Device, _values: list[str]) -> Answer:
    return Answer(show_ports.lldp(device.stored, device.cabled, device.plugged))


_PORT: Final = "show interfaces ethernet <ports>"
_FORMS: Final[tuple[tuple[str, Show], ...]] = (
    ("show version", _version),
    ("show running-config", _running),
    ("show configuration", _saved),
    ("show vlan", _vlan),
    ("show interfaces switchport", _switchport),
    ("show interfaces ethernet status", _status),
    (_PORT, _interfaces),
    (f"{_PORT} counters", _counters),
    ("show interfaces ethernet counters", _of_all(_counters)),
    ("show interfaces ethernet counters pfc prio <int>", _of_all(_priority_counters)),
    ("show interfaces ethernet counters tc <int>", _of_all(_class_counters)),
    (f"{_PORT} counters pfc prio <int>", _priority_counters),
    (f"{_PORT} counters tc <int>", _class_counters),
    (f"{_PORT} counters roce", _data(show_ports.roce_counters)),
    (f"{_PORT} congestion-control", _data(show_qos.congestion)),
    ("show qos interface ethernet <ports>", _data(show_qos.qos)),
    ("show dcb ets interface ethernet <ports>", _data(show_qos.ets)),
    (
        "show dcb priority-flow-control",
        lambda device, _: Answer(*show_qos.pfc(device.stored, device.cabled)),
    ),
    ("show roce", lambda device, _: Answer(show_qos.roce(device.stored))),
    ("show inventory", lambda device, _: inventory(device.model, device.chassis)),
    ("show lldp interfaces ethernet remote", _lldp),
)
SHOW_COMMANDS: Final = tuple(Command(tuple(form.split()), handler) for form, handler in _FORMS)

"""The show commands of ports, VLANs and the system: as text and as `| json-print`.

Sources: lab/sources.md#onyx, with its fixtures and captures. If the text form was never captured,
`_guessed_text` makes it, and a comment says so; Railyard's driver does not read such text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from components.core.record import record
from lab.switches.command_line import CliError, table
from lab.switches.front import front_of
from lab.switches.neighbours import tell
from lab.switches.onyx import show_qos
from lab.switches.onyx.config import TRAFFIC_CLASSES, expand_ports
from lab.switches.onyx.lines import RELEASE, render_running_config
from lab.switches.text import collapse, columns

if TYPE_CHECKING:
    from lab.switches.onyx.cli import CliSwitch
    from lab.switches.onyx.server import OnyxSwitch

FRAME_OVERHEAD_BYTES: Final = 22
"""`Maximum packet size` is the MTU plus this in every capture found."""
MEAN_FRAME_BYTES: Final = 4174
"""A 4096-byte RDMA segment with its headers: packets are derived from bytes."""
_HOST_MAC: Final = "24:8a:07:00:00:01"


@record
class Answer:
    """The two forms of one answer."""

    text: str | None
    data: JsonValue = None


_VERSION: Final = {
    "Product name": "Onyx",
    "Product release": RELEASE,
    "Build ID": "#1-dev",
    "Build date": "2021-04-29 06:31:55",
    **dict.fromkeys(("Target arch", "Target hw"), "x86_64"),
    "Built by": "sw-r2d2-bot@26dc75704811",
    "Version summary": f"X86_64 {RELEASE} 2021-04-29 06:31:55 x86_64",
    "Product model": "x86onie",
}
"""oxidized's capture of `show version` on 3.9.2504, without the clocks."""


def version_of(switch: CliSwitch[Any], rows: dict[str, str]) -> Answer:
    """`show version`: its last two lines are in captures of 3.8.2004 and 3.9.0300 (sources.md)."""
    chassis = switch.chassis
    found = {key: value.replace(RELEASE, switch.release) for key, value in rows.items()}
    found |= {"Host ID": chassis.base_mac.upper(), "System serial num": chassis.serial}
    text = "".join(f"{key + ':':<19}{value}\n" for key, value in found.items())
    return Answer(text, dict[str, JsonValue](found))


def inventory(switch: CliSwitch[Any]) -> Answer:
    """`show inventory`: a public client reads the first line of a chassis (NOC's profile).

    The rest of the table, and the end of a part number, are a guess.
    """
    head = ("Module", "Part Number", "Serial Number", "Asic Rev.", "HW Rev.")
    row = ("CHASSIS", f"M{switch.model}-CS2F", switch.chassis.serial, "N/A", "A1")
    return Answer(columns((head, row), *(18 for _ in head)))


def _running(switch: OnyxSwitch) -> Answer:
    clock = datetime.now(UTC).strftime("%Y/%m/%d %H:%M:%S +0000")
    return Answer(render_running_config(switch.stored.running, clock, switch.release))


def _saved(switch: OnyxSwitch) -> Answer:
    return Answer(render_running_config(switch.stored.saved, release=switch.release))


def _vlan(switch: OnyxSwitch) -> Answer:
    """JSON: fixture onyx_vlan_show.cfg, with its line break after each fifth port."""
    config = switch.stored.running
    found: dict[str, JsonValue] = {}
    for vlan, name in config.vlans.items():
        ports = [
            f"Eth{port}"
            for port, held in config.ports.items()
            if (held.mode != "trunk" and held.access_vlan == vlan)
            or (held.mode != "access" and held.carries(vlan))
        ]
        rows = (", ".join(ports[at : at + 5]) for at in range(0, len(ports), 5))
        found[str(vlan)] = {"Name": name, "Ports": ",\n".join(rows)}
    return _guessed(found)


def _switchport(switch: OnyxSwitch) -> Answer:
    """JSON: fixture onyx_l2_interface_show.cfg; `N/A` of a trunk: capture C9; `all` is a guess."""
    found: dict[str, JsonValue] = {}
    for name, port in switch.stored.running.ports.items():
        if not port.routed:  # the fixture of a routed port has no `Switchport mode`
            allowed = port.allowed_vlans
            found[f"Eth{name}"] = {
                "Access vlan": "N/A" if port.mode == "trunk" else str(port.access_vlan),
                "Allowed vlans": allowed if isinstance(allowed, str) else collapse(allowed),
                "Mode": port.mode,
            }
    return _guessed(found)


def _guessed(found: dict[str, JsonValue]) -> Answer:
    """A readable text form for answers without a capture (sources.md#onyx-unknown)."""
    return Answer("".join(f"{key}: {value}\n" for key, value in found.items()), found)


def _interfaces(switch: OnyxSwitch, ports: str) -> Answer:
    """Layout of capture C5, Rx/Tx of capture C8; JSON: fixture."""
    blocks: list[str] = []
    found: list[JsonValue] = []
    for port in expand_ports(ports, switch.ports):
        rows = _rows(switch, port)
        lines = [f"  {key:<42}: {value}" for key, value in rows.items()]
        blocks.append("\n".join([f"Eth{port}:", *lines, "", *_totals(switch, port)]) + "\n")
        found.append({"header": f"Eth{port}", **rows})
    return Answer("\n".join(blocks), found)


def _rows(switch: OnyxSwitch, port: str) -> dict[str, JsonValue]:
    config = switch.stored.running.ports[port]
    up, mtu = switch.up(port), config.mtu_bytes
    flaps = switch.counted(port).flaps
    return {
        "Admin state": "Enabled" if config.admin_up else "Disabled",
        "Operational state": "Up" if up else "Down",
        "Last change in operational status": f"0:00:48 ago ({flaps} oper change)",
        "Boot delay time": "0 sec",
        "Description": config.description or "N\\A",
        "Mac address": f"00:02:c9:8e:e6:{int(port.split('/')[1]):02x}",
        "MTU": f"{mtu} bytes (Maximum packet size {mtu + FRAME_OVERHEAD_BYTES} bytes)",
        "Fec": "auto",
        "Flow-control": "receive off send off",
        "Actual speed": f"{_speed(switch, port)} Gbps" if up else "0 Gbps",
    }


def _speed(switch: OnyxSwitch, port: str) -> int:
    return front_of(switch.model, "onyx").speed(int(port.split("/")[1]))


def _status(switch: OnyxSwitch) -> Answer:
    """Columns and row of capture C7."""
    rows = [("Port", "Operational state", "Admin", "Speed", "MTU", "Description")]
    for name, port in switch.stored.running.ports.items():
        up = switch.up(name)
        state, speed = ("Up", f"{_speed(switch, name)}Gx4") if up else ("Down", "Unknown")
        admin = "Enabled" if port.admin_up else "Disabled"
        text = port.description or "-"
        rows.append((f"Eth{name}", state, admin, speed, str(port.mtu_bytes), text))
    return Answer(columns(rows, 17, 22, 19, 18, 8).rstrip("\n"))


def _lldp(switch: OnyxSwitch) -> Answer:
    """The lines that five public clients look for; an empty answer with LLDP off is a guess."""
    blocks: list[str] = []
    plugged = switch.plugged.items() if switch.stored.running.lldp else ()
    for port, (system, name) in plugged:
        if port in switch.ports and switch.up(port):
            told = tell(name, _HOST_MAC)
            kind = "Interface Name (5)" if told.is_switch else "MAC Address (3)"
            rows = {
                "Remote Index": "1",
                "Remote chassis id": f"{_HOST_MAC} ; chassis id subtype: MAC Address (4)",
                "Remote port-id": f"{told.port} ; port id subtype: {kind}",
                "Remote port description": told.description,
                "Remote system name": system,
                "Remote system description": "Not Advertised",
            }
            lines = (f"\n  {key:<28}: {value}" for key, value in rows.items())
            blocks.append(f"Eth{port}{''.join(lines)}\n")
    return Answer("\n".join(blocks))


Counters = Callable[["OnyxSwitch", str, int], Iterator[str]]


def _counters(lines: Counters, switch: OnyxSwitch, *said: str) -> Answer:
    """`<number> <name>` under heads (capture C8); without a port, for each of them."""
    named = bool(said) and "/" in said[0]
    ports, number = said[0] if named else ",".join(switch.ports), [*said[named:], "0"][0]
    if int(number) not in TRAFFIC_CLASSES:
        raise CliError("% Please enter an integer between 0 and 7.")
    return Answer(
        "\n".join(
            "\n".join([f"Eth{port}:", *lines(switch, port, int(number)), ""])
            for port in expand_ports(ports, switch.ports)
        )
    )


def _counts(head: str, bytes_: int, *more: tuple[int, str]) -> Iterator[str]:
    yield f"  {head}"
    for number, name in ((bytes_ // MEAN_FRAME_BYTES, "packets"), (bytes_, "bytes"), *more):
        yield f"    {number:<20} {name}"


def _totals(switch: OnyxSwitch, port: str, _number: int = 0) -> Iterator[str]:
    held, errors = switch.counted(port), (0, "error packets")
    lost = (held.rx_discards, "discard packets")
    yield from _counts("Rx:", sum(held.rx_bytes.values()), errors, lost)
    yield from _counts("Tx:", sum(held.tx_bytes.values()), errors, (0, "discard packets"))


def _of_priority(switch: OnyxSwitch, port: str, number: int) -> Iterator[str]:
    """Public clients show that the command exists and prints `<number> pause packets`.

    The rest of the layout is a guess after `counters`. Received packets count under the priority
    that the port gave them.
    """
    held, lasted = switch.counted(port), (0, "pause duration")
    yield f"  PFC {number}:"
    for head, sizes, frames in (
        ("Rx:", held.rx_bytes, held.rx_pauses),
        ("Tx:", held.tx_bytes, held.tx_pauses),
    ):
        pauses = (frames.get(number, 0), "pause packets")
        yield from _counts(head, sizes.get(number, 0), pauses, lasted)


def _of_class(switch: OnyxSwitch, port: str, number: int) -> Iterator[str]:
    """Public clients use the command; the layout is a guess."""
    sent = switch.counted(port).tx_bytes.get(number, 0)
    return _counts(f"TC {number}:", sent, (0, "queue depth"), (0, "unicast no buffer discard"))


def _roce_counters(switch: OnyxSwitch, port: str) -> Iterator[JsonValue]:
    """The keys of capture C10."""
    held, parts = switch.counted(port), list[JsonValue]()
    for head, kind, sizes in (("Rx", "PG", held.rx_bytes), ("Tx", "TC", held.tx_bytes)):
        count = sizes.get(3, 0)
        packets = str(count // MEAN_FRAME_BYTES)
        parts.append({head: [{f"RoCE {kind} packets": packets, f"RoCE {kind} bytes": str(count)}]})
    yield {f"Eth{port}": parts}


def _data(
    render: Callable[[OnyxSwitch, str], Iterator[JsonValue]], switch: OnyxSwitch, ports: str
) -> Answer:
    """An answer about ports that exists only as JSON."""
    found = expand_ports(ports, switch.ports)
    return Answer(None, [row for port in found for row in render(switch, port)])


def _pfc(switch: OnyxSwitch) -> Answer:
    return Answer(*show_qos.pfc(switch))


def _roce(switch: OnyxSwitch) -> Answer:
    return Answer(show_qos.roce(switch.stored.running))


_ALL: Final = "show interfaces ethernet"
_PORT: Final = f"{_ALL} <ports>"
SHOW_COMMANDS: Final = table(
    (
        ("show version", partial(version_of, rows=_VERSION)),
        ("show running-config", _running),
        ("show configuration", _saved),
        ("show vlan", _vlan),
        ("show interfaces switchport", _switchport),
        (f"{_ALL} status", _status),
        ("show dcb priority-flow-control", _pfc),
        ("show roce", _roce),
        ("show inventory", inventory),
        ("show lldp interfaces ethernet remote", _lldp),
        (_PORT, _interfaces),
        *(
            (f"{head} counters{end}", partial(_counters, lines))
            for head in (_PORT, _ALL)
            for end, lines in (
                ("", _totals),
                (" pfc prio <int>", _of_priority),
                (" tc <int>", _of_class),
            )
        ),
        (f"{_PORT} counters roce", partial(_data, _roce_counters)),
        (f"{_PORT} congestion-control", partial(_data, show_qos.congestion)),
        ("show qos interface ethernet <ports>", partial(_data, show_qos.qos)),
        ("show dcb ets interface ethernet <ports>", partial(_data, show_qos.ets)),
    )
)

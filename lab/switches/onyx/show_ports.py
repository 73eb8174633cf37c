"""Show commands of Ethernet ports: state and counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import JsonValue

from lab.switches.front import front_of
from lab.switches.lldp import tell
from lab.switches.onyx.config import Stored
from lab.switches.onyx.grammar import CliError, expand_ports
from lab.switches.stored import PortCounters

FRAME_OVERHEAD_BYTES = 22
"""`Maximum packet size` is the MTU plus this in every capture found."""
MEAN_FRAME_BYTES = 4174
"""A 4096-byte RDMA segment with its headers: packets are derived from bytes."""


def oper_up(stored: Stored, cabled: Collection[str], port: str) -> bool:
    """Whether the port has link: not shut, cabled, and its cable not pulled."""
    config = stored.running.ports[port]
    return config.admin_up and port in cabled and port not in stored.link_down


def interfaces(
    stored: Stored, model: str, cabled: Collection[str], ports: str
) -> tuple[str, JsonValue]:
    """`show interfaces ethernet 1/1`: layout of capture C5, Rx/Tx of capture C8; JSON: fixture."""
    blocks: list[str] = []
    table: list[JsonValue] = []
    for port in expand_ports(ports, stored.running.ports):
        rows = _rows(stored, model, cabled, port)
        lines = [f"  {key:<42}: {value}" for key, value in rows.items()]
        blocks.append("\n".join([f"Eth{port}:", *lines, "", _counter_block(_of(stored, port))]))
        table.append({"header": f"Eth{port}", **rows})
    return "\n".join(blocks), table


def _rows(stored: Stored, model: str, cabled: Collection[str], port: str) -> dict[str, JsonValue]:
    config = stored.running.ports[port]
    up = oper_up(stored, cabled, port)
    mtu = config.mtu_bytes
    flaps = _of(stored, port).flaps
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
        "Actual speed": f"{_speed(model, port)} Gbps" if up else "0 Gbps",
    }


def status(stored: Stored, model: str, cabled: Collection[str]) -> str:
    """`show interfaces ethernet status`: columns and row of capture C7."""
    head = ("Port", "Operational state", "Admin", "Speed", "MTU", "Description")
    widths = (17, 22, 19, 18, 8, 0)
    rows: list[tuple[str, ...]] = [head]
    for name, port in stored.running.ports.items():
        up = oper_up(stored, cabled, name)
        speed = f"{_speed(model, name)}Gx4" if up else "Unknown"
        admin = "Enabled" if port.admin_up else "Disabled"
        text = port.description or "-"
        rows.append((f"Eth{name}", "Up" if up else "Down", admin, speed, str(port.mtu_bytes), text))
    return "\n".join(
        "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


_HOST_MAC = "24:8a:07:00:00:01"


def lldp(stored: Stored, cabled: Collection[str], plugged: Mapping[str, tuple[str, str]]) -> str:
    """`show lldp interfaces ethernet remote`: the lines that five public clients look for.

    That nothing is printed while LLDP is off is a guess.
    """
    if not stored.running.lldp:
        return ""
    blocks: list[str] = []
    for port, (system, name) in plugged.items():
        if port not in stored.running.ports or not oper_up(stored, cabled, port):
            continue
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
        lines = [f"Eth{port}", *(f"  {key:<28}: {value}" for key, value in rows.items())]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def _of(stored: Stored, port: str) -> PortCounters:
    return stored.counters.get(port, PortCounters())


def _counter_block(held: PortCounters) -> str:
    received, sent = sum(held.rx_bytes.values()), sum(held.tx_bytes.values())
    rows = (
        ("Rx:", received, (("error packets", 0), ("discard packets", held.rx_discards))),
        ("Tx:", sent, (("error packets", 0), ("discard packets", 0))),
    )
    lines: list[str] = []
    for head, count, more in rows:
        lines.append(f"  {head}")
        named = (("packets", count // MEAN_FRAME_BYTES), ("bytes", count), *more)
        lines += [f"    {number:<20} {name}" for name, number in named]
    return "\n".join(lines) + "\n"


def counters(stored: Stored, ports: str) -> str:
    """`show interfaces ethernet 1/1 counters`: `<number> <name>` under Rx: and Tx: (capture C8)."""
    return "\n".join(
        f"Eth{port}:\n{_counter_block(_of(stored, port))}"
        for port in expand_ports(ports, stored.running.ports)
    )


def priority_counters(stored: Stored, ports: str, priority: int) -> str:
    """`… counters pfc prio N`.

    That the command exists and prints `<number> pause packets` is seen in public clients; the
    rest of the layout is a guess after `counters`. What is received is counted by the priority
    that the port gave it.
    """
    _check_class(priority)
    blocks: list[str] = []
    for port in expand_ports(ports, stored.running.ports):
        held, lines = _of(stored, port), [f"Eth{port}:"]
        lines.append(f"  PFC {priority}:")
        for head, sizes, frames in (
            ("Rx:", held.rx_bytes, held.rx_pauses),
            ("Tx:", held.tx_bytes, held.tx_pauses),
        ):
            count = sizes.get(priority, 0)
            named = (
                (count // MEAN_FRAME_BYTES, "packets"),
                (count, "bytes"),
                (frames.get(priority, 0), "pause packets"),
                (0, "pause duration"),
            )
            lines += [f"  {head}", *(f"    {number:<20} {name}" for number, name in named)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def class_counters(stored: Stored, ports: str, traffic_class: int) -> str:
    """`… counters tc N`: the command is seen in public clients; the layout is a guess."""
    _check_class(traffic_class)
    blocks: list[str] = []
    for port in expand_ports(ports, stored.running.ports):
        sent = _of(stored, port).tx_bytes.get(traffic_class, 0)
        named = (
            (sent // MEAN_FRAME_BYTES, "packets"),
            (sent, "bytes"),
            (0, "queue depth"),
            (0, "unicast no buffer discard"),
        )
        rows = [f"    {number:<20} {name}" for number, name in named]
        blocks.append("\n".join([f"Eth{port}:", f"  TC {traffic_class}:", *rows]) + "\n")
    return "\n".join(blocks)


def _check_class(value: int) -> None:
    if value > 7:  # noqa: PLR2004 - eight priorities and classes
        raise CliError("% Please enter an integer between 0 and 7.")


def roce_counters(stored: Stored, ports: str) -> JsonValue:
    """`… counters roce | json-print`: the keys of capture C10."""
    table: list[JsonValue] = []
    for port in expand_ports(ports, stored.running.ports):
        held = _of(stored, port)
        received, sent = held.rx_bytes.get(3, 0), held.tx_bytes.get(3, 0)
        rx = {"RoCE PG packets": str(received // MEAN_FRAME_BYTES), "RoCE PG bytes": str(received)}
        tx = {"RoCE TC packets": str(sent // MEAN_FRAME_BYTES), "RoCE TC bytes": str(sent)}
        table.append(
            {f"Eth{port}": [{"Rx": [dict[str, JsonValue](rx)]}, {"Tx": [dict[str, JsonValue](tx)]}]}
        )
    return table


def _speed(model: str, port: str) -> int:
    return front_of(model, "onyx").speed(int(port.split("/")[1]))

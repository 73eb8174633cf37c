"""The traffic classes of `mlnx_qos`: priorities, shares, rate limits, and receive buffers.

Sources: lab/sources.md#host-guards (mlnx-tools 1.2; the mlx5 driver of Linux).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Never

from lab.hosts.nic import MAX_MTU_BYTES, PRIORITIES, Nic, QosState
from lab.hosts.tools.call import ToolResult

USAGE: Final = "Usage: mlnx_qos -i <interface> [options]\n\n"
_WHOLE_LINE: Final = 100
"""What the driver says of the share of a class that has none."""
_MOST_GBIT_S: Final = 1_000_000
_CELL_BYTES: Final = 128
_ALGORITHMS: Final = ("strict", "ets", "vendor")


class _Refused(Exception):  # noqa: N818 - the tool refuses a list
    """The tool's words about a list that it does not take."""


def _refuse(words: str) -> Never:
    raise _Refused(f"{words}\n")


def _numbers(value: str, highest: int, name: str) -> list[int]:
    """The numbers of a list; a wrong one is told before their count."""
    for item in value.split(","):
        if not item.strip().removeprefix("-").isdigit():
            words = f"invalid literal for int() with base 10: '{item}'"
        elif not 0 <= int(item) <= highest:
            words = f"{int(item)} is not in the range 0..{highest}"
        else:
            continue
        _refuse(f"Bad value for {name}: {words}\n{USAGE.rstrip()}\n")
    return [int(item) for item in value.split(",")]


def _demand_eight(count: int, option: str, many: str) -> None:
    if count > PRIORITIES:
        _refuse(f"Too many items {many}")
    if count < PRIORITIES:
        _refuse(f"{option} must have 8 items")


def _algorithms(value: str) -> list[str]:
    words = value.split(",")
    bad = next((word for word in words if word not in _ALGORITHMS), None)
    if bad is not None:
        _refuse(f"('Bad TSA value: ', '{bad}')\n{USAGE.rstrip()}\n")
    _demand_eight(len(words), "tsa list", "for TSA")
    return words


def _shares(value: str, tsa: list[str]) -> list[int]:
    wanted = _numbers(value, _WHOLE_LINE, "ETS BW")
    if any(share for share, each in zip(wanted, tsa, strict=False) if each != "ets"):
        _refuse(f"ETS BW for a strict/vendor TC must be 0\n{USAGE.rstrip()}\n")
    _demand_eight(len(wanted), "tcbw list", "for ETS BW")
    return wanted


def _classes(value: str) -> list[int]:
    wanted = _numbers(value, PRIORITIES - 1, "UP => TC mapping")
    _demand_eight(len(wanted), "prio_tc list", "in UP => TC mapping")
    return wanted


def set_ets(qos: QosState, changes: Mapping[str, str]) -> ToolResult | None:
    """`-s`, `-t` and `-p`: one message to the card with what was asked and all else as it is."""
    try:
        tsa = _algorithms(changes["-s"]) if "-s" in changes else list(qos.tsa)
        shares = _shares(changes["-t"], tsa) if "-t" in changes else list(qos.tc_bandwidth)
        classes = _classes(changes["-p"]) if "-p" in changes else list(qos.priority_to_tc)
    except _Refused as refused:
        return ToolResult(1, str(refused))
    of_ets = [share for share, each in zip(shares, tsa, strict=True) if each == "ets"]
    if of_ets and sum(of_ets) != _WHOLE_LINE:
        return ToolResult(1, "Netlink error: Bad value. see dmesg.\n")
    qos.tsa, qos.priority_to_tc = tsa, classes
    # Of classes without a share the driver says that they have the whole line.
    qos.tc_bandwidth = [
        share if each == "ets" else _WHOLE_LINE for share, each in zip(shares, tsa, strict=True)
    ]
    return None


def set_rates(qos: QosState, value: str) -> ToolResult | None:
    """`-r`: whole Gbit/s of each class; 0 is no limit."""
    try:
        wanted = _numbers(value, _MOST_GBIT_S, "ratelimit")
        _demand_eight(len(wanted), "ratelimit", "for ratelimit")
    except _Refused as refused:
        return ToolResult(1, str(refused))
    qos.rate_gbit_s = wanted
    return None


def show_classes(qos: QosState, *, whole: bool) -> list[str]:
    """The lines of each class that a priority is in; with `-a` those of all."""
    lines: list[str] = []
    for tc in range(PRIORITIES):
        inside = [p for p in range(PRIORITIES) if qos.priority_to_tc[p] == tc]
        if not (inside or whole):
            continue
        rate = f"{qos.rate_gbit_s[tc]:.1f} Gbps" if qos.rate_gbit_s[tc] else "unlimited"
        share = f", bw: {qos.tc_bandwidth[tc]}%" if qos.tsa[tc] == "ets" else ""
        lines.append(f"tc: {tc} ratelimit: {rate}, tsa: {qos.tsa[tc]}{share}")
        lines += [f"\t priority:  {priority}" for priority in inside]
    return lines


def is_too_small(nic: Nic, sizes: tuple[int, ...], priorities: tuple[int, ...]) -> bool:
    """Whether a buffer that pauses holds less than the driver demands (port_buffer.c)."""
    speed_gbit_s = max(nic.config.speed_gbit_s, 40)
    under_way = (301 + 216 * nic.qos.cable_length_m // 100) * speed_gbit_s
    needed = under_way + 272 * nic.mtu_bytes // 100 + MAX_MTU_BYTES + _CELL_BYTES
    paused = {priorities[priority] for priority, on in enumerate(nic.qos.pfc) if on}
    return any(sizes[number] < needed for number in paused)

"""iproute2's `dcb -j`: what the kernel keeps of a card's QoS, by netlink and without mlnx_qos.

Names, order and values of the answers, and words of the refusals: iproute2 v6.1.0, `dcb/dcb*.c`.
What mlx5 makes of a message: Linux `mlx5/core/en_dcbnl.c` (sources.md#host-qos).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lab.hosts.nic import BUFFER_BYTES, DSCPS, PRIORITIES, Nic, QosState
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.qos_classes import is_too_small

_KBIT_PER_GBIT: Final = 1_000_000
"""The kernel's unit of limits, which 6.1.0 prints and takes as if it were bytes (fixed in 6.18)."""
_WHOLE: Final = 100
_INVALID: Final = "Attribute write: Invalid argument\n"


class _Refused(Exception):  # noqa: N818 - the tool or the kernel refuses
    """What the tool prints of it."""


def dcb(call: ToolCall) -> ToolResult:
    """`dcb -j OBJECT show dev DEV`, and `dcb OBJECT set|add|flush dev DEV …`."""
    words = list(call.argv)
    as_json = words[:1] == ["-j"]
    del words[: int(as_json)]
    match words:
        case [kind, verb, "dev", netdev, *rest] if kind in _SHOWN:
            pass
        case _:
            return call.unmodelled(ToolResult(1, err=f'What is "{" ".join(words)}"?\n'))
    nic = call.model.nic_by_netdev(netdev)
    if nic is None:
        out = "\n" if as_json else ""  # the end of an object that it never began
        return ToolResult(1, out, "Attribute read: No such device\n")
    if verb == "show" and as_json and not rest:
        return ToolResult(out=json.dumps(_SHOWN[kind](nic), separators=(",", ":")) + "\n")
    return _change(call, nic, (kind, verb), () if as_json else rest)


def _change(call: ToolCall, nic: Nic, what: tuple[str, str], rest: Sequence[str]) -> ToolResult:
    change = _CHANGES.get(what)
    if change is None or not rest:
        return call.unmodelled(ToolResult(1, err=f'What is "{what[1]}"?\n'))
    if call.uid:
        return ToolResult(1, err="Attribute write: Operation not permitted\n")
    try:
        change(nic, _groups(rest))
    except _Refused as refused:
        return ToolResult(1, err=str(refused))
    return ToolResult()


def _groups(words: Sequence[str]) -> dict[str, list[str]]:
    """Each name with the values that follow it; `0:on` is a value, and so is a number."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if ":" in word or word.isdigit():
            found.setdefault(name, []).append(word)
        else:
            name = word
            found[name] = []
    return found


def _mapped(given: Mapping[str, list[str]], name: str, now: Sequence[str]) -> list[str]:
    """`PRIO-MAP` and its likes: what is not named stays."""
    values = [*now]
    for item in given.get(name, ()):
        key, _, value = item.partition(":")
        if key != "all" and (not key.isdigit() or int(key) >= len(values)):
            raise _Refused(f"Invalid {name} mapping {item}\n")
        for number in range(len(values)) if key == "all" else (int(key),):
            values[number] = value
    return values


def _numbers(given: Mapping[str, list[str]], name: str, now: Sequence[int]) -> tuple[int, ...]:
    values = _mapped(given, name, [str(each) for each in now])
    bad = next((value for value in values if not value.isdigit()), None)
    if bad is not None:
        raise _Refused(f"Invalid {name} mapping {bad}\n")
    return tuple(map(int, values))


def _show_app(nic: Nic) -> dict[str, object]:
    entries = _entries(nic.qos)
    pairs = [[dscp, nic.qos.dscp_to_priority[dscp]] for dscp in entries]
    return {"dscp_prio": pairs} if pairs else {}


def _entries(qos: QosState) -> list[int]:
    """The DSCPs in the APP table: trust is whether there are any."""
    if qos.trust != "dscp":
        return []
    return list(range(DSCPS)) if qos.dscp_entries is None else qos.dscp_entries


def _show_dcbx(nic: Nic) -> dict[str, object]:
    flags = ("host", "cee", "ieee") if nic.qos.dcbx == "os" else ("cee", "ieee")
    return dict.fromkeys(flags, True)


def _show_pfc(nic: Nic) -> dict[str, object]:
    enabled = [bool(on) for on in nic.qos.pfc]
    delay = nic.qos.cable_length_m
    return {"pfc_cap": PRIORITIES, "macsec_bypass": False, "delay": delay, "prio_pfc": enabled}


def _show_buffer(nic: Nic) -> dict[str, object]:
    sizes, priorities = nic.qos.shown_buffers()
    return {"prio_buffer": priorities, "buffer_size": sizes, "total_size": BUFFER_BYTES}


def _show_ets(nic: Nic) -> dict[str, object]:
    qos, none = nic.qos, [0] * PRIORITIES
    return {
        "willing": False, "ets_cap": PRIORITIES, "cbs": False, "tc_bw": qos.tc_bandwidth,
        "pg_bw": none, "tc_tsa": qos.tsa, "prio_tc": qos.priority_to_tc, "reco_tc_bw": none,
        "reco_tc_tsa": ["strict"] * PRIORITIES, "reco_prio_tc": none,
    }  # fmt: skip


def _show_maxrate(nic: Nic) -> dict[str, object]:
    return {"tc_maxrate": [rate * _KBIT_PER_GBIT for rate in nic.qos.rate_gbit_s]}


def _add_app(nic: Nic, given: Mapping[str, list[str]]) -> None:
    """mlx5 trusts DSCP from the first entry on, and takes the old entry of a DSCP away itself."""
    entries = {*_entries(nic.qos)}
    for item in given.get("dscp-prio", ()):
        dscp, _, priority = item.partition(":")
        if not (dscp.isdigit() and int(dscp) < DSCPS and priority in "01234567"):
            raise _Refused(f"Invalid mapping {item}\n")
        if int(dscp) in entries and nic.qos.dscp_to_priority[int(dscp)] == int(priority):
            raise _Refused("Attribute write: File exists\n")
        entries.add(int(dscp))
        nic.qos.dscp_to_priority[int(dscp)] = int(priority)
    nic.qos.trust = "dscp"
    nic.qos.dscp_entries = None if len(entries) == DSCPS else sorted(entries)


def _flush_app(nic: Nic, given: Mapping[str, list[str]]) -> None:
    if "dscp-prio" in given:
        nic.qos.trust, nic.qos.dscp_entries = "pcp", None
        nic.qos.dscp_to_priority = [dscp >> 3 for dscp in range(DSCPS)]  # which no one sees


def _set_dcbx(nic: Nic, given: Mapping[str, list[str]]) -> None:
    if "host" not in given:
        raise _Refused("Attribute write: Unknown error\n")
    nic.qos.dcbx = "os"


def _set_pfc(nic: Nic, given: Mapping[str, list[str]]) -> None:
    now = ["on" if on else "off" for on in nic.qos.pfc]
    wanted = [int(each == "on") for each in _mapped(given, "prio-pfc", now)]
    if "delay" in given:
        nic.qos.cable_length_m = int(given["delay"][0])
    if wanted != nic.qos.pfc:
        nic.toggle_link()
    nic.qos.pfc = wanted
    if nic.qos.buffers is not None and is_too_small(nic, *nic.qos.buffers):
        raise _Refused(_INVALID)  # after the port pauses, as with mlnx_qos
    nic.qos.settle_buffers()


def _set_buffer(nic: Nic, given: Mapping[str, list[str]]) -> None:
    """The driver judges the new priorities by the old sizes, and then both (port_buffer.c)."""
    sizes, priorities = nic.qos.shown_buffers()
    wanted = _numbers(given, "prio-buffer", priorities)
    after = _numbers(given, "buffer-size", sizes)
    fit = not (is_too_small(nic, sizes, wanted) or is_too_small(nic, after, wanted))
    if not fit or sum(after) > BUFFER_BYTES or max(wanted) >= PRIORITIES:
        raise _Refused(_INVALID)
    nic.qos.set_buffers(after, wanted)


def _set_ets(nic: Nic, given: Mapping[str, list[str]]) -> None:
    """The tool wants shares of 100 in all, or of 0 without a class of ETS, before it sends any."""
    qos = replace(nic.qos)
    qos.tsa = _mapped(given, "tc-tsa", qos.tsa)
    shares = _numbers(given, "tc-bw", qos.tc_bandwidth)
    qos.priority_to_tc = [*_numbers(given, "prio-tc", qos.priority_to_tc)]
    total, has_ets = sum(shares), "ets" in qos.tsa
    if total != _WHOLE and (has_ets or total):
        expected = _WHOLE if has_ets else 0
        raise _Refused(f"Bandwidth percentages in tc-bw sum to {total}%, expected {expected}%\n")
    nic.qos.tsa, nic.qos.priority_to_tc = qos.tsa, qos.priority_to_tc
    nic.qos.tc_bandwidth = [
        share if each == "ets" else _WHOLE for share, each in zip(shares, qos.tsa, strict=True)
    ]


def _set_maxrate(nic: Nic, given: Mapping[str, list[str]]) -> None:
    now = [f"{rate}Gbit" for rate in nic.qos.rate_gbit_s]
    rates = _mapped(given, "tc-maxrate", now)
    if any(after not in (before, "0bit") for before, after in zip(now, rates, strict=True)):
        raise _Refused("the lab plays no limit that dcb sets\n")
    nic.qos.rate_gbit_s = [
        0 if rate == "0bit" else int(rate.removesuffix("Gbit")) for rate in rates
    ]


_SHOWN: Final[Mapping[str, Callable[[Nic], dict[str, object]]]] = {
    "app": _show_app,
    "dcbx": _show_dcbx,
    "pfc": _show_pfc,
    "buffer": _show_buffer,
    "ets": _show_ets,
    "maxrate": _show_maxrate,
}
_CHANGES: Final[Mapping[tuple[str, str], Callable[[Nic, Mapping[str, list[str]]], None]]] = {
    ("app", "add"): _add_app,
    ("app", "flush"): _flush_app,
    ("dcbx", "set"): _set_dcbx,
    ("pfc", "set"): _set_pfc,
    ("buffer", "set"): _set_buffer,
    ("ets", "set"): _set_ets,
    ("maxrate", "set"): _set_maxrate,
}

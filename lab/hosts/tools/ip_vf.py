"""The VF part of `ip link`: what it shows of the VFs of a PF, and how it sets them.

Texts: iproute2 6.1 and the kernel's answers through RTNETLINK; lab/sources.md#vfs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lab.hosts.nic import Nic, Vf
from lab.hosts.tools.call import ToolCall, ToolResult

_GUID: Final = re.compile(r"([0-9a-fA-F]{2}:){7}[0-9a-fA-F]{2}")
_MAC: Final = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_HIGHEST: Final = {"vlan": 4094, "qos": 7}
_ON_OFF: Final = {"on": True, "off": False}


def show_vf(nic: Nic, vf: Vf) -> str:
    """One row of `ip link show` below the PF."""
    return _ib_row(vf) if nic.is_ib else _row(vf)


def _ib_row(vf: Vf) -> str:
    return (
        f"    vf {vf.index}     link/infiniband 00:00:00:08:fe:80:00:00:00:00:00:00:52:54:00:c0:fe:"
        "12:34:55 brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff, spoof checking "
        f"off, NODE_GUID {vf.node_guid}, PORT_GUID {vf.port_guid}, link-state {vf.link_state}, "
        "trust off, query_rss off\n"
    )


def _row(vf: Vf) -> str:
    vlan = f", vlan {vf.vlan}" + (f", qos {vf.qos}" if vf.qos else "") if vf.vlan else ""
    # The kernel gives the most rate twice, under its old name and under its new one.
    rate = f", tx rate {vf.max_rate_mbit_s} (Mbps)" if vf.max_rate_mbit_s else ""
    rate += f", max_tx_rate {vf.max_rate_mbit_s}Mbps" if vf.max_rate_mbit_s else ""
    rate += f", min_tx_rate {vf.min_rate_mbit_s}Mbps" if vf.min_rate_mbit_s else ""
    return (
        f"    vf {vf.index}     link/ether {vf.admin_mac} brd ff:ff:ff:ff:ff:ff{vlan}{rate}, "
        f"spoof checking {_word(vf.spoofchk)}, link-state {vf.link_state}, "
        f"trust {_word(vf.trust)}, query_rss off\n"
    )


def _word(value: bool) -> str:  # noqa: FBT001 - a word for a flag
    return "on" if value else "off"


def set_vf(call: ToolCall, nic: Nic | None, words: list[str]) -> int | ToolResult:
    """Run `vf NUMBER SETTING VALUE…`; the number is how many words it took.

    Args:
        call: The call, to record what is not modelled.
        nic: The PF; None where the device is none.
        words: What follows `vf`.
    """
    if nic is None or not words[0].isdigit() or (nic.eswitch != "legacy" and words[1] != "mac"):
        # mlx5 has these operations in legacy mode only, but for the MAC (sources.md#vfs).
        return ToolResult(2, err="RTNETLINK answers: Operation not supported\n")
    vf = next((v for v in nic.vfs if v.index == int(words[0])), None)
    pairs: dict[str, str] = {}
    rest = words[1:]
    while len(rest) > 1 and rest[0] in _SETTERS:
        pairs[rest[0]] = rest[1]
        rest = rest[2:]
    if not pairs:
        return call.unmodelled(ToolResult(255, err=f'Error: argument "{rest[0]}" is wrong\n'))
    wrong = next((name for name, value in pairs.items() if not _is_value(name, value)), None)
    if wrong is not None:
        text = f'Error: argument "{pairs[wrong]}" is wrong: Invalid "{wrong}" value\n\n'
        return ToolResult(255, err=text)
    if vf is None or not _rates_fit(vf, pairs):
        return ToolResult(2, err="RTNETLINK answers: Invalid argument\n")
    for name, value in pairs.items():
        _SETTERS[name](vf, value)
    return len(words) - len(rest) + 1


def _rates_fit(vf: Vf, pairs: Mapping[str, str]) -> bool:
    """The least rate is not above the most; the one that is not given is the one of before."""
    least = int(pairs.get("min_tx_rate", vf.min_rate_mbit_s))
    most = int(pairs.get("max_tx_rate", vf.max_rate_mbit_s))
    return most == 0 or least <= most


def _is_value(name: str, value: str) -> bool:
    checks: Mapping[str, Callable[[], bool]] = {
        "mac": lambda: _MAC.fullmatch(value) is not None,
        "vlan": lambda: value.isdigit() and int(value) <= _HIGHEST["vlan"],
        "qos": lambda: value.isdigit() and int(value) <= _HIGHEST["qos"],
        "spoofchk": lambda: value in _ON_OFF,
        "trust": lambda: value in _ON_OFF,
        "state": lambda: value in ("auto", "enable", "disable"),
        "min_tx_rate": value.isdigit,
        "max_tx_rate": value.isdigit,
        "node_guid": lambda: _GUID.fullmatch(value) is not None,
        "port_guid": lambda: _GUID.fullmatch(value) is not None,
    }
    return checks.get(name, lambda: True)()


def _setter(attribute: str, read: Callable[[str], object]) -> Callable[[Vf, str], None]:
    return lambda vf, value: setattr(vf, attribute, read(value))


_SETTERS: Final[Mapping[str, Callable[[Vf, str], None]]] = {
    "mac": lambda vf, value: vf.set_admin_mac(value.lower()),
    "vlan": _setter("vlan", int),
    "qos": _setter("qos", int),
    "spoofchk": _setter("spoofchk", _ON_OFF.__getitem__),
    "trust": _setter("trust", _ON_OFF.__getitem__),
    "state": _setter("link_state", str),
    "min_tx_rate": _setter("min_rate_mbit_s", int),
    "max_tx_rate": _setter("max_rate_mbit_s", int),
    "node_guid": _setter("node_guid", str.lower),
    "port_guid": _setter("port_guid", str.lower),
}

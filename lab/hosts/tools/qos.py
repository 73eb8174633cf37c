"""mlnx_qos, cma_roce_mode, cma_roce_tos and ethtool: the QoS side of an emulated card.

Sources: lab/sources.md#host-qos (mlnx-tools 1.2); ethtool 5.16's texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lab.hosts.model import HostModel
from lab.hosts.nic import BUFFER_BYTES, DSCPS, PRIORITIES, Nic
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.options import split_options
from lab.hosts.tools.qos_classes import is_too_small, set_ets, set_rates, show_classes

MAX_TOS = 255
LONG_OPTIONS = {
    "--pfc": "-f", "--interface": "-i", "--prio_tc": "-p", "--tsa": "-s", "--tcbw": "-t",
    "--pfc-prio": "-P", "--all": "-a", "--dcbx": "-d", "--ratelimit": "-r",
}  # fmt: skip


VALUED = (
    "-i", "-f", "-F", "-P", "-p", "-s", "-t", "-r", "-d", "--trust", "--dscp2prio", "--cable_len",
    "--prio2buffer", "--buffer_size", *LONG_OPTIONS,
)  # fmt: skip
LLDPAD = "****** WARNING: lldpad service is running and may overwrite your settings ******\n\n"


def mlnx_qos(call: ToolCall) -> ToolResult:
    """Set and show trust, PFC, DSCP map and ETS of one PF; errors go to stdout with status 1."""
    options = split_options(call.argv, VALUED, ("-a", "--all"), mixed=True)
    if isinstance(options, str) or options.words:
        bad = options if isinstance(options, str) else options.words[0]
        text = (
            f"\nUsage: mlnx_qos -i <interface> [options]\n\nmlnx_qos: error: no such option: {bad}"
        )
        return call.unmodelled(ToolResult(2, err=f"{text}\n"))
    given = [(LONG_OPTIONS.get(name, name), value) for name, value in options.given]
    interface = options.last("-i", "--interface")
    if not interface:
        return ToolResult(1, "Interface name is required\n")
    nic = call.model.nic_by_netdev(interface)
    if nic is None:
        return ToolResult(1, "Netdev not found or it is not an mlx5 PF\n")
    if call.uid and {name for name, _ in given} - {"-i", "-a"}:
        return ToolResult(1, "Operation not permitted\n")
    result = _change_qos(nic, given)
    return ToolResult(result.rc, LLDPAD + result.out) if call.model.lldpad else result


def _change_qos(nic: Nic, given: list[tuple[str, str]]) -> ToolResult:
    changes = dict(given)
    if "-P" in changes:
        return _probe(nic, changes["-P"])
    if {"--trust", "--dscp2prio"} <= set(changes):
        text = "trust and dscp2prio commands cannot be used at the same time.\n"
        return ToolResult(1, text)
    if "--cable_len" in changes and "-f" not in changes:
        if any(nic.qos.pfc):
            nic.toggle_link()
        nic.qos.pfc = [0] * PRIORITIES  # the tool sends both together, and PFC as 0 then
    # The driver takes the map of buffers before their sizes, in whichever order they are given.
    for name, value in sorted(given, key=lambda option: option[0] == "--buffer_size"):
        outcome = _apply(nic, name, value)
        if outcome is not None:
            return outcome
    if {"-s", "-t", "-p"} & set(changes) and (refused := set_ets(nic.qos, changes)) is not None:
        return refused
    shown = ToolResult(out=show_qos(nic, whole="-a" in changes))
    return ToolResult() if "-F" in changes else shown


def _probe(nic: Nic, text: str) -> ToolResult:
    if not text.isdigit() or int(text) >= PRIORITIES:
        return ToolResult(1, "Bad arguments\n")
    return ToolResult(out=f"{nic.qos.pfc[int(text)]}\n")


def _apply(nic: Nic, name: str, value: str) -> ToolResult | None:
    setters: dict[str, Callable[[], ToolResult | None]] = {
        "--trust": lambda: _set_trust(nic, value),
        "-f": lambda: _set_pfc(nic, value.split(","), partial=False),
        "-F": lambda: _set_pfc(nic, value.split(","), partial=True),
        "--dscp2prio": lambda: _set_dscp(nic, value),
        "-r": lambda: set_rates(nic.qos, value),
        "--cable_len": lambda: _set_cable(nic, value),
        "-d": lambda: _set_dcbx(nic, value),
        "--buffer_size": lambda: _set_buffers(nic, value, None),
        "--prio2buffer": lambda: _set_buffers(nic, None, value),
    }
    setter = setters.get(name)
    return None if setter is None else setter()


def _set_cable(nic: Nic, value: str) -> ToolResult | None:
    if not value.isdigit():
        return ToolResult(1, "Bad arguments\n")
    nic.qos.cable_length_m = int(value)
    return None


def _set_buffers(nic: Nic, sizes: str | None, priorities: str | None) -> ToolResult | None:
    items = (sizes or priorities or "").split(",")
    if len(items) != PRIORITIES or not all(item.isdigit() for item in items):
        return ToolResult(1, "Buffers commands error\n")
    numbers = tuple(int(item) for item in items)
    if sizes is not None:
        if sum(numbers) > BUFFER_BYTES or is_too_small(nic, numbers, nic.qos.shown_buffers()[1]):
            return ToolResult(1, "Buffers commands error\n")
        nic.qos.set_buffers(numbers, nic.qos.shown_buffers()[1])
    else:
        if max(numbers) >= PRIORITIES:
            return ToolResult(1, f"Bad value for prio buffer: {max(numbers)}\n")
        if is_too_small(nic, nic.qos.shown_buffers()[0], numbers):
            return ToolResult(1, "Buffers commands error\n")
        nic.qos.set_buffers(nic.qos.shown_buffers()[0], numbers)
    return None


def _set_dcbx(nic: Nic, value: str) -> ToolResult | None:
    if value not in ("os", "fw", "get"):
        return ToolResult(1, "Bad arguments\n")
    nic.qos.dcbx = nic.qos.dcbx if value == "get" else value
    return None


def _set_trust(nic: Nic, value: str) -> ToolResult | None:
    if value not in ("dscp", "pcp"):
        return ToolResult(1, "Invalid trust state command. Refer to the help.\n")
    if value != nic.qos.trust:
        # Trust is whether there are DSCP entries in the table: the tool makes all, or drops all.
        nic.qos.dscp_to_priority = [dscp >> 3 for dscp in range(DSCPS)]
    nic.qos.trust = value
    return None


def _set_pfc(nic: Nic, items: list[str], *, partial: bool) -> ToolResult | None:
    if len(items) != PRIORITIES:
        return ToolResult(1, "pfc list must have 8 items\n")
    allowed = ("0", "1", "x") if partial else ("0", "1")
    bad = next((item for item in items if item not in allowed), None)
    if bad is not None:
        return ToolResult(1, f"Bad value for 'PFC': {bad}\n")
    before = [*nic.qos.pfc]
    for priority, item in enumerate(items):
        if item != "x":
            nic.qos.pfc[priority] = int(item)
    if nic.qos.pfc != before:
        nic.toggle_link()
    if nic.qos.buffers is not None and is_too_small(nic, *nic.qos.buffers):
        # The port pauses by now: the driver looks at the buffers after that. And the tool's own
        # words about it fail.
        text = 'TypeError: can only concatenate str (not "OSError") to str\n'
        return ToolResult(1, err=f"Traceback (most recent call last):\n{text}")
    nic.qos.settle_buffers()
    return None


def _set_dscp(nic: Nic, value: str) -> ToolResult | None:
    if value == "flush":
        nic.qos.dscp_to_priority = [dscp >> 3 for dscp in range(DSCPS)]
        return None
    match = re.fullmatch(r"(set|del),(\d+),(\d)", value)
    if match is None or int(match[2]) >= DSCPS or int(match[3]) >= PRIORITIES:
        return ToolResult(1, "dscp2prio command failed\n")
    dscp, priority = int(match[2]), int(match[3])
    if match[1] == "del":
        if nic.qos.dscp_to_priority[dscp] != priority:
            return ToolResult(1, "dscp2prio command failed\n")
        priority = dscp >> 3
    nic.qos.trust = "dscp"  # by the first entry in the table
    nic.qos.dscp_to_priority[dscp] = priority
    return None


def show_qos(nic: Nic, *, whole: bool) -> str:
    """The report that mlnx_qos prints after every call without -P and -F; `-a` is `whole`."""
    qos = nic.qos
    mode = "OS controlled" if qos.dcbx == "os" else "Firmware controlled"
    lines = [f"DCBX mode: {mode}", f"Priority trust state: {qos.trust}"]
    if qos.trust == "dscp":
        lines.append("dscp2prio mapping:")
        for priority in range(PRIORITIES):
            dscps = [d for d in range(DSCPS - 1, -1, -1) if qos.dscp_to_priority[d] == priority]
            lines += [
                f"\tprio:{priority} dscp:" + "".join(f"{d:02d}," for d in dscps[i : i + 8])
                for i in range(0, len(dscps), 8)
            ]
    sizes, priorities = qos.shown_buffers()
    lines += [
        f"Receive buffer size (bytes): {','.join(map(str, sizes))},max_buffer_size={BUFFER_BYTES}",
        f"Cable len: {qos.cable_length_m}",
        "PFC configuration:",
        "\tpriority    " + "   ".join(str(p) for p in range(PRIORITIES)),
        "\tenabled     " + "".join(f"{on}   " for on in qos.pfc),
        "\tbuffer      " + "".join(f"{number}   " for number in priorities),
    ]
    lines += show_classes(qos, whole=whole)
    return "\n".join(lines) + "\n"


def _cma(call: ToolCall, setting: str) -> ToolResult | tuple[Nic, str | None]:
    refused = needs_root(call, "You must be root to run this\n")
    if refused is not None:
        return refused
    if "rdma_cm" not in call.model.modules:
        text = "Module rdma_cm is not loaded or does not support configfs\n"
        return ToolResult(1, text)
    words = dict(zip(call.argv[::2], call.argv[1::2], strict=False))
    nic = call.model.nic_by_rdma(words.get("-d", ""))
    if nic is None or not set(words) <= {"-d", "-p", setting}:
        return ToolResult(1, f"Usage:\n\t{call.tool} -d <dev> [-p <port>] [{setting} <value>]\n")
    return nic, words.get(setting)


def cma_roce_mode(call: ToolCall) -> ToolResult:
    """Set or print the RoCE version that RDMA-CM connections use."""
    found = _cma(call, "-m")
    if isinstance(found, ToolResult):
        return found
    nic, value = found
    modes = {"1": "IB/RoCE v1", "2": "RoCE v2"}
    if value is not None:
        if value not in modes:
            return ToolResult(1, f"Usage:\n\t{call.tool} -d <dev> [-p <port>] [-m <1|2>]\n")
        nic.qos.roce_mode = modes[value]
    return ToolResult(out=f"{nic.qos.roce_mode}\n")


def cma_roce_tos(call: ToolCall) -> ToolResult:
    """Set or print the type of service of RDMA-CM connections."""
    found = _cma(call, "-t")
    if isinstance(found, ToolResult):
        return found
    nic, value = found
    if value is not None:
        if not value.isdigit() or int(value) > MAX_TOS:
            return ToolResult(1, f"Usage:\n\t{call.tool} -d <dev> [-p <port>] [-t <TOS>]\n")
        nic.qos.rdma_cm_tos = int(value)
    return ToolResult(out=f"{nic.qos.rdma_cm_tos}\n")


COUNTERS: tuple[str, ...] = (
    "rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_out_of_buffer",
    "rx_discards_phy", "tx_discards_phy", "rx_crc_errors_phy", "rx_symbol_err_phy",
    "rx_pcs_symbol_err_phy", "link_down_events_phy", "tx_pause_storm_error_events",
)  # fmt: skip
PRIORITY_COUNTERS = ("bytes", "packets", "pause", "discards")


def counter_names() -> list[str]:
    """Names of the `ethtool -S` counters, in the driver's order."""
    names = list(COUNTERS)
    for priority in range(PRIORITIES):
        for direction in ("rx", "tx"):
            names += [f"{direction}_prio{priority}_{kind}" for kind in PRIORITY_COUNTERS]
    return names


NO_DEVICE = {
    "-i": "driver information",
    "-S": "stats strings information",
    "-a": "device pause settings",
}


def ethtool(call: ToolCall) -> ToolResult:
    """`ethtool DEV`, and -i, -S, -a, -A."""
    words = list(call.argv)
    option = words.pop(0) if words and words[0].startswith("-") else ""
    if not words:
        return ToolResult(1, err="ethtool: bad command line argument(s)\n")
    nic = call.model.nic_by_netdev(words[0])
    if nic is None:
        kind = NO_DEVICE.get(option, "device settings")
        return ToolResult(75, err=f"Cannot get {kind}: No such device\n")
    if option == "-A":
        return _set_pause(call, nic, words[1:])
    if option == "-i":
        return ToolResult(out=_show_driver(call.model, nic))
    reports = {"": _show_link, "-S": _show_statistics, "-a": _show_pause}
    if option not in reports:
        return call.unmodelled(ToolResult(1, err="ethtool: bad command line argument(s)\n"))
    return ToolResult(out=reports[option](nic))


_OFED_VERSION: Final = re.compile(r"\d+\.\d+-\d+\.\d+\.\d+")


def _show_driver(model: HostModel, nic: Nic) -> str:
    """The kernel's own driver has the kernel's version, a package's has its own in three parts."""
    packaged = _OFED_VERSION.match(model.drivers.loaded)
    return (
        f"driver: mlx5_core\nversion: {packaged[0] if packaged else model.kernel}\n"
        f"firmware-version: {nic.firmware_version} (MT_0000000012)\nexpansion-rom-version: \n"
        f"bus-info: {nic.config.pci}\nsupports-statistics: yes\nsupports-test: yes\n"
        "supports-eeprom-access: no\nsupports-register-dump: no\nsupports-priv-flags: yes\n"
    )


def _show_statistics(nic: Nic) -> str:
    names = [*counter_names(), *sorted(set(nic.counters) - set(counter_names()))]
    downs = {"link_down_events_phy": nic.carrier_down_count}
    counted = {name: nic.counters.get(name, 0) + downs.get(name, 0) for name in names}
    lines = [f"     {name}: {value}\n" for name, value in counted.items()]
    return "NIC statistics:\n" + "".join(lines)


def _show_pause(nic: Nic) -> str:
    return (
        f"Pause parameters for {nic.config.netdev}:\nAutonegotiate:\toff\n"
        f"RX:\t\t{_on(nic.qos.pause_rx)}\nTX:\t\t{_on(nic.qos.pause_tx)}\n\n"
    )


def _show_link(nic: Nic) -> str:
    speed = f"{nic.config.speed_gbit_s * 1000}Mb/s" if nic.link_up else "Unknown!"
    return (
        f"Settings for {nic.config.netdev}:\n\tSpeed: {speed}\n\tDuplex: Full\n"
        f"\tAuto-negotiation: on\n\tLink detected: {'yes' if nic.link_up else 'no'}\n"
    )


def _set_pause(call: ToolCall, nic: Nic, words: list[str]) -> ToolResult:
    pairs = list(zip(words[::2], words[1::2], strict=False))
    known = all(n in ("rx", "tx", "autoneg") and v in ("on", "off") for n, v in pairs)
    if not pairs or not known:
        return call.unmodelled(ToolResult(1, err="ethtool: bad command line argument(s)\n"))
    if call.uid:
        return ToolResult(76, err="Cannot set device pause parameters: Operation not permitted\n")
    for name, value in pairs:
        if name == "rx":
            nic.qos.pause_rx = value == "on"
        elif name == "tx":
            nic.qos.pause_tx = value == "on"
    return ToolResult()


def _on(value: bool) -> str:  # noqa: FBT001 - a word for a flag
    return "on" if value else "off"

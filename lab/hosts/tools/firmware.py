"""mlxconfig/mstconfig, mlxfwreset and flint: what a card's firmware holds, and its restart.

Sources: lab/sources.md#hosts (mstflint's sources, captures of its output).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import cast

from lab.hosts.cards import CARDS
from lab.hosts.firmware import Firmware
from lab.hosts.model import HostModel
from lab.hosts.nic import Nic
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.mst import mst_name
from lab.hosts.tools.options import Options, split_options

BOOLEANS = frozenset(
    {"SRIOV_EN", "ATS_ENABLED", "ADVANCED_PCI_SETTINGS"}
    | {f"KEEP_ETH_LINK_UP_P{port}" for port in (1, 2)}
)
LINK_TYPES = {"1": "IB", "2": "ETH"}
ENUMS = {
    "LINK_TYPE_P1": LINK_TYPES,
    "LINK_TYPE_P2": LINK_TYPES,
    "PCI_WR_ORDERING": {"0": "per_mkey", "1": "force_relax"},
    "ROCE_CONTROL": {"0": "DEVICE_DEFAULT", "1": "DISABLE", "2": "ENABLE"},
    "INTERNAL_CPU_MODEL": {"0": "SEPARATED_HOST", "1": "EMBEDDED_CPU"},
    "INT_CPU_AUTO_SHUTDOWN": {"0": "DEVICE_DEFAULT", "1": "ENABLE", "2": "DISABLE"},
    "INTERNAL_CPU_OFFLOAD_ENGINE": {"0": "ENABLED", "1": "DISABLED"},
}
MAX_FIRMWARE_VFS = 127
NAME_WIDTH = 44
VALUE_WIDTH = 21
RESET_LEVELS = (
    (0, 'Driver, PCI link, network link will remain up ("live-Patch")'),
    (1, 'Only ARM side will not remain up ("Immediate reset").'),
    (3, "Driver restart and PCI reset"),
    (4, "Warm Reboot"),
)
PCI_RESET = 3


def shown_value(name: str, value: str) -> str:
    """A firmware value as mlxconfig prints it: `True(1)`, `ETH(2)`, or the number."""
    if name in BOOLEANS:
        return f"{'True' if value == '1' else 'False'}({value})"
    return f"{ENUMS[name].get(value, '')}({value})" if name in ENUMS else value


def mlxconfig(call: ToolCall) -> ToolResult:
    """`mlxconfig -d DEV [-e] [-y] [-j FILE] query|set …`."""
    refused = needs_root(call, "-E- Failed to open device: Permission denied\n")
    if refused is not None:
        return refused
    flags = ("-e", "-y", "--enable_verbosity", "--yes")
    options = split_options(call.argv, ("-d", "--dev", "-j", "--json"), flags, mixed=False)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(1, err=f"-E- Unknown flag: {options}\n"))
    device = options.last("-d", "--dev")
    nic = find_card(call.model, device)
    if nic is None:
        none = not device and not call.model.nics
        why = "No devices found." if none else f"Failed to open the device: {device}"
        return ToolResult(1, err=f"-E- {why}\n")
    verb, rest = (options.words[0], list(options.words[1:])) if options.words else ("query", [])
    firmware = call.model.firmware[nic.config.pci]
    if verb in ("q", "query"):
        how = (device, options.last("-j", "--json"), options.has("-e", "--enable_verbosity"))
        return _query(call, nic, firmware, rest, how)
    if verb in ("s", "set"):
        return _set(call, nic, firmware, rest, agreed=options.has("-y", "--yes"))
    return call.unmodelled(ToolResult(1, err=f"-E- Unknown command: {verb}\n"))


def find_card(model: HostModel, device: str) -> Nic | None:
    """The card that mst names, or that has this PCI address."""
    for number, nic in enumerate(model.nics):
        names = [nic.config.pci, nic.config.pci.removeprefix("0000:")]
        if model.mst_started:
            names.append(mst_name(nic, number))
        if device in names:
            return nic
    return None


def _query(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, str, bool]
) -> ToolResult:
    device, json_file, extended = how
    unknown = [name for name in names if name not in firmware.shown]
    if unknown:
        return ToolResult(3, err=f"-E- The Device doesn't support {unknown[0]} parameter\n")
    wanted = names or firmware.shown
    if json_file:
        return _query_json(call, nic, firmware, wanted, how)
    columns = [firmware.default, firmware.current, firmware.next] if extended else [firmware.next]
    heads = ["Default", "Current", "Next Boot"] if extended else ["Next Boot"]
    card = CARDS[nic.config.device]
    lines = [
        "", "Device #1:", "----------", "", f"Device type:        {card.kind}",
        f"Name:               {card.part}", f"Description:        {card.description}",
        f"Device:             {device}", "",
        f"{'Configurations:':<{NAME_WIDTH + 8}}" + "".join(f"{h:<{VALUE_WIDTH}}" for h in heads),
    ]  # fmt: skip
    for name in wanted:
        differs = extended and _modified(firmware, name)
        values = "".join(f"{shown_value(name, c[name]):<{VALUE_WIDTH}}" for c in columns)
        lines.append(f"{'*' if differs else ' '}       {name:<{NAME_WIDTH}}{values}".rstrip())
    return ToolResult(out="\n".join(lines) + "\n")


def _modified(firmware: Firmware, name: str) -> bool:
    return firmware.next[name] not in (firmware.default[name], firmware.current[name]) or (
        firmware.default[name] != firmware.current[name]
    )


def _query_json(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, str, bool]
) -> ToolResult:
    device, json_file, extended = how
    card = CARDS[nic.config.device]
    values: dict[str, object] = {}
    for name in names:
        value: dict[str, object] = {
            "read_only": False,
            "next_value": _json_value(name, firmware.next),
        }
        if extended:
            value |= {
                "modified": _modified(firmware, name),
                "default_value": _json_value(name, firmware.default),
                "current_value": _json_value(name, firmware.current),
            }
        values[name] = value
    document: dict[str, object] = {
        "Device #1": {
            "device_type": card.kind, "name": card.part, "device": device,
            "description": card.description, "tlv_configuration": values,
        }
    }  # fmt: skip
    path = posixpath.join(call.cwd, json_file)
    told = f"Query output saved to {json_file} successfully\n"
    return ToolResult(out=told, files={path: _styled(document, 0) + "\n"})


def _json_value(name: str, column: dict[str, str]) -> object:
    """A number without a name is a number in the JSON too."""
    shown = shown_value(name, column[name])
    return int(shown) if shown.isdigit() else shown


def _styled(value: object, depth: int) -> str:
    """JSON as the tool's writer lays it out: sorted keys, tabs, braces on lines of their own."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, Mapping):
        return '"' + str(value).replace('"', '\\"') + '"'
    inner = "\t" * (depth + 1)
    rows: list[str] = []
    entries = cast("Mapping[str, object]", value)
    for key, item in sorted(entries.items()):
        text = _styled(item, depth + 1)
        gap = f"\n{inner}" if text.startswith("{") else ""
        rows.append(f'{inner}"{key}" : {gap}{text}')
    tabs = "\t" * depth
    return "{\n" + ",\n".join(rows) + f"\n{tabs}}}"


def _set(
    call: ToolCall, nic: Nic, firmware: Firmware, words: list[str], *, agreed: bool
) -> ToolResult:
    changes: dict[str, str] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in firmware.shown:
            return ToolResult(3, err=f"-E- The Device doesn't support {name} parameter\n")
        value = _read_value(name, text)
        if value is None:
            return ToolResult(3, err=f"-E- Failed to parse {name}={text}: bad value\n")
        changes[name] = value
    head = f"\nDevice #1:\n----------\n\nDevice:             {nic.config.pci}\n\n"
    head += f"{'Configurations:':<{NAME_WIDTH + 8}}{'Next Boot':<{VALUE_WIDTH}}New\n"
    for name, value in changes.items():
        now = shown_value(name, firmware.next[name])
        head += f"         {name:<{NAME_WIDTH}}{now:<{VALUE_WIDTH}}{shown_value(name, value)}\n"
    head += "\n Apply new Configuration? (y/n) [n] : "
    if not agreed and not call.stdin_text().strip().lower().startswith("y"):
        return ToolResult(1, head + "n\n", "-E- Aborted by user\n")
    firmware.next.update(changes)
    call.model.save_firmware()
    how = "power cycle" if call.model.power_cycle_pending else "reboot"
    told = f"Please {how} machine to load new configurations."
    if not firmware.prepares_reset:
        told = "Skipped reset preparation"
    return ToolResult(out=f"{head}y\nApplying... Done!\n-I- {told}\n")


def _read_value(name: str, text: str) -> str | None:
    if name in BOOLEANS:
        return {"1": "1", "0": "0", "true": "1", "false": "0"}.get(text.lower())
    if name in ENUMS:
        known = ENUMS[name]
        return text if text in known else {v: k for k, v in known.items()}.get(text.upper())
    if not text.isdigit() or (name == "NUM_OF_VFS" and int(text) > MAX_FIRMWARE_VFS):
        return None
    return text


def mlxfwreset(call: ToolCall) -> ToolResult:
    """`mlxfwreset -d DEV [-y] [-l 3] query|reset`: what the card can do, and its restart."""
    refused = needs_root(call, "-E- Permission denied: You need to run this tool as root\n")
    if refused is not None:
        return refused
    valued = ("-d", "--device", "-l", "--level")
    options = split_options(call.argv, valued, ("-y", "--yes"), mixed=True)
    if isinstance(options, str) or len(options.words) != 1:
        return call.unmodelled(ToolResult(1, err="mlxfwreset: error: unrecognized arguments\n"))
    device = options.last("-d", "--device")
    nic = find_card(call.model, device)
    if nic is None:
        return ToolResult(1, err=f"-E- Failed to open the device: {device}\n")
    if options.words[0] in ("q", "query"):
        return ToolResult(out=_reset_levels())
    return _reset(call, nic, options)


def _reset(call: ToolCall, nic: Nic, options: Options) -> ToolResult:
    if options.words[0] not in ("r", "reset"):
        return call.unmodelled(ToolResult(1, err="mlxfwreset: error: invalid choice\n"))
    level = int(options.last("-l", "--level", default=str(PCI_RESET)))
    if level != PCI_RESET:
        return ToolResult(1, err=f"-E- Requested reset level '{level}' is not supported\n")
    asked = "Continue with reset?[y/N] "
    agreed = options.has("-y", "--yes")
    if not agreed and call.stdin_text().strip().lower() not in ("y", "yes"):
        return ToolResult(1, asked, "-E- Aborted by user\n")
    call.model.restart_card(nic.config.pci)
    return ToolResult(out=f"{asked}{'y' if agreed else ''}\n-I- FW was loaded successfully.\n")


def _reset_levels() -> str:
    lines = ["Reset-levels:"]
    for level, text in RESET_LEVELS:
        known = "Supported" if level >= PCI_RESET else "Not Supported"
        default = "(default)" if level == PCI_RESET else ""
        lines.append(f"{level}: {text:<62}-{known:<14}{default}")
    lines += ["", "Reset-types (relevant only for reset-levels 1,3,4):"]
    lines.append(f"0: {'Full chip reset':<62}-{'Supported':<14}(default)")
    return "\n".join(lines) + "\n"


def flint(call: ToolCall) -> ToolResult:
    """`flint -d DEV query`: the release that the card holds."""
    refused = needs_root(call, "-E- Cannot open Device: Permission denied\n")
    if refused is not None:
        return refused
    options = split_options(call.argv, ("-d", "--device"), (), mixed=True)
    if isinstance(options, str) or options.words not in (("q",), ("query",)):
        return call.unmodelled(ToolResult(1, err="-E- Unknown command\n"))
    device = options.last("-d", "--device")
    nic = find_card(call.model, device)
    if nic is None:
        return ToolResult(1, err=f"-E- Cannot open Device: {device}. No such file or directory\n")
    version = call.model.firmware_version(nic.config.pci)
    return ToolResult(out=f"Image type:            FS4\nFW Version:            {version}\n")

"""mlxconfig/mstconfig and mst: what the firmware of a card holds for now and for the next boot.

Sources: docs/explanation/sources.md#hosts (mstflint's sources, captures of its output).
"""

from __future__ import annotations

import json

from lab.hosts.cards import CARDS
from lab.hosts.model import Firmware, HostModel
from lab.hosts.nic import Nic
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.options import split_options

BOOLEANS = frozenset({"SRIOV_EN", "ATS_ENABLED", "ADVANCED_PCI_SETTINGS", "KEEP_ETH_LINK_UP_P1"})
ENUMS = {
    "LINK_TYPE_P1": {"1": "IB", "2": "ETH"},
    "PCI_WR_ORDERING": {"0": "per_mkey", "1": "force_relax"},
    "ROCE_CONTROL": {"0": "DEVICE_DEFAULT", "1": "DISABLE", "2": "ENABLE"},
}
MAX_FIRMWARE_VFS = 127
NAME_WIDTH = 44
VALUE_WIDTH = 21


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
        return ToolResult(1, err=f"-E- Failed to open the device: {device}\n")
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


def mst_name(nic: Nic, number: int) -> str:
    """The card's mst device: the PCI id in decimal (mstflint)."""
    return f"/dev/mst/mt{int(nic.config.device, 16)}_pciconf{number}"


def _query(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, str, bool]
) -> ToolResult:
    device, json_file, extended = how
    unknown = [name for name in names if name not in firmware.default]
    if unknown:
        return ToolResult(3, err=f"-E- The Device doesn't support {unknown[0]} parameter\n")
    wanted = names or list(firmware.default)
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
        differs = extended and firmware.next[name] != firmware.default[name]
        values = "".join(f"{shown_value(name, c[name]):<{VALUE_WIDTH}}" for c in columns)
        lines.append(f"{'*' if differs else ' '}       {name:<{NAME_WIDTH}}{values}".rstrip())
    return ToolResult(out="\n".join(lines) + "\n")


def _query_json(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, str, bool]
) -> ToolResult:
    device, json_file, extended = how
    card = CARDS[nic.config.device]
    values: dict[str, dict[str, object]] = {}
    for name in names:
        values[name] = {"read_only": False, "next_value": shown_value(name, firmware.next[name])}
        if extended:
            values[name] |= {
                "modified": firmware.next[name] != firmware.default[name],
                "default_value": shown_value(name, firmware.default[name]),
                "current_value": shown_value(name, firmware.current[name]),
            }
    document = {"Device #1": {
        "device_type": card.kind, "name": card.part, "device": device,
        "description": card.description,
        "tlv_configuration": values,
    }}  # fmt: skip
    text = json.dumps(document, indent=4) + "\n"
    path = json_file if json_file.startswith("/") else f"{call.cwd}/{json_file}"
    if path in ("/dev/stdout", "/dev/fd/1"):
        return ToolResult(out=text)
    if path.startswith(("/tmp/", "/run/")):  # noqa: S108 - a path of the emulated host
        return call.unmodelled(ToolResult(1, err="-E- Cannot write to a tmpfs of the lab host\n"))
    call.host_path(path).write_text(text)
    return ToolResult()


def _set(
    call: ToolCall, nic: Nic, firmware: Firmware, words: list[str], *, agreed: bool
) -> ToolResult:
    changes: dict[str, str] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in firmware.default:
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
    done = f"y\nApplying... Done!\n-I- Please {how} machine to load new configurations.\n"
    return ToolResult(out=head + done)


def _read_value(name: str, text: str) -> str | None:
    if name in BOOLEANS:
        return {"1": "1", "0": "0", "true": "1", "false": "0"}.get(text.lower())
    if name in ENUMS:
        known = ENUMS[name]
        return text if text in known else {v: k for k, v in known.items()}.get(text.upper())
    if not text.isdigit() or (name == "NUM_OF_VFS" and int(text) > MAX_FIRMWARE_VFS):
        return None
    return text


def mst(call: ToolCall) -> ToolResult:
    """`mst start`, `mst stop`, `mst status [-v]`."""
    if call.argv in (("start",), ("stop",)):
        refused = needs_root(call, "-E- You must be root to use mst tool\n")
        if refused is not None:
            return refused
        call.model.mst_started = call.argv == ("start",)
        verb = "Starting" if call.model.mst_started else "Stopping"
        return ToolResult(out=f"{verb} MST (Mellanox Software Tools) driver set\n")
    if call.argv[:1] != ("status",) or call.argv[1:] not in ((), ("-v",)):
        return call.unmodelled(ToolResult(1, err="mst: unknown command\n"))
    loaded = "loaded" if call.model.mst_started else "is not loaded"
    head = "MST modules:\n------------\n    MST PCI module is not loaded\n"
    head += f"    MST PCI configuration module {loaded}\n\n"
    if call.argv[1:] == ("-v",):
        return ToolResult(out=head + "PCI devices:\n------------\n" + _mst_table(call.model))
    head += "MST devices:\n------------\n"
    if not call.model.mst_started:
        return ToolResult(
            out=head + "    No MST devices were found or MST modules are not loaded.\n"
        )
    rows = "".join(
        f"{mst_name(nic, number):<33}- PCI configuration cycles access.\n"
        f"{'':<35}domain:bus:dev.fn={nic.config.pci} addr.reg=88 data.reg=92 "
        f"cr_bar.gw_offset=-1\n{'':<35}Chip revision is: 00\n"
        for number, nic in enumerate(call.model.nics)
    )
    return ToolResult(out=head + rows)


def _mst_table(model: HostModel) -> str:
    rows = f"{'DEVICE_TYPE':<24}{'MST':<30}{'PCI':<10}{'RDMA':<16}{'NET':<26}NUMA\n"
    for number, nic in enumerate(model.nics):
        c = nic.config
        name = mst_name(nic, number) if model.mst_started else "NA"
        rows += (
            f"{CARDS[c.device].kind + '(rev:0)':<24}{name:<30}"
            f"{c.pci.removeprefix('0000:'):<10}{c.rdma:<16}{'net-' + c.netdev:<26}{c.numa}\n"
        )
    return rows

"""lspci, mlxconfig/mstconfig, mst, rdma, ibdev2netdev, show_gids, nvidia-smi, hostname.

Sources: docs/explanation/sources.md#hosts; pci.ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from lab.hosts.model import Firmware, HostModel
from lab.hosts.nic import Nic
from lab.hosts.sysfs import gpu_addresses
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.options import split_options

CARD_NAMES = {
    "1017": "MT27800 Family [ConnectX-5]",
    "1018": "MT27800 Family [ConnectX-5 Virtual Function]",
    "101b": "MT28908 Family [ConnectX-6]",
    "101d": "MT2892 Family [ConnectX-6 Dx]",
    "101e": "ConnectX Family mlx5Gen Virtual Function",
    "1021": "MT2910 Family [ConnectX-7]",
}
BOOLEANS = frozenset({"SRIOV_EN", "ATS_ENABLED", "ADVANCED_PCI_SETTINGS", "KEEP_ETH_LINK_UP_P1"})
ENUMS = {
    "LINK_TYPE_P1": {"1": "IB", "2": "ETH"},
    "PCI_WR_ORDERING": {"0": "per_mkey", "1": "force_relax"},
    "ROCE_CONTROL": {"0": "DEVICE_DEFAULT", "1": "DISABLE", "2": "ENABLE"},
}
MAX_FIRMWARE_VFS = 127
NAME_WIDTH = 44
VALUE_WIDTH = 21


def pci_functions(model: HostModel) -> list[tuple[str, str, str, str]]:
    """Address, class, ids and name of each PCI function, sorted by address."""
    rows = [
        (pci, "0302", "10de:1db1", "3D controller: NVIDIA Corporation GV100GL [Tesla V100 SXM2]")
        for pci, _ in gpu_addresses(model)
    ]
    cards = [(n.config.pci, n.config.device) for n in model.nics]
    cards += [(vf.pci, nic.config.vf_device) for nic, vf in model.all_vfs()]
    for pci, device in cards:
        name = f"Ethernet controller: Mellanox Technologies {CARD_NAMES.get(device, device)}"
        rows.append((pci, "0200", f"15b3:{device}", name))
    return sorted(rows)


LSPCI_FLAGS = ("-n", "-nn", "-D", "-Dn", "-nD", "-Dnn", "-nnD")


def lspci(call: ToolCall) -> ToolResult:
    """List PCI functions: -n, -nn, -D, -d VENDOR:[DEVICE], -s ADDRESS."""
    options = split_options(call.argv, ("-d", "-s"), LSPCI_FLAGS, mixed=False)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(1, err=f"lspci: invalid option -- '{options[1:2]}'\n"))
    letters = "".join(name for name, _ in options.given if name in LSPCI_FLAGS)
    vendor, _, device = options.last("-d").lower().partition(":")
    lines = [
        _lspci_row(row, letters)
        for row in pci_functions(call.model)
        if row[2].startswith(vendor)
        and row[2].endswith(device)
        and row[0].endswith(options.last("-s"))
    ]
    return ToolResult(out="".join(lines))


def _lspci_row(row: tuple[str, str, str, str], letters: str) -> str:
    pci, kind, ids, name = row
    shown = pci if "D" in letters else pci.removeprefix("0000:")
    if letters.count("n") == 1:
        return f"{shown} {kind}: {ids}\n"
    if "n" not in letters:
        return f"{shown} {name}\n"
    head, _, tail = name.partition(":")
    return f"{shown} {head} [{kind}]:{tail} [{ids}]\n"


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
        how = (options.last("-j", "--json"), options.has("-e", "--enable_verbosity"))
        return _query(call, nic, firmware, rest, how)
    if verb in ("s", "set"):
        return _set(call, nic, firmware, rest, agreed=options.has("-y", "--yes"))
    return call.unmodelled(ToolResult(1, err=f"-E- Unknown command: {verb}\n"))


def find_card(model: HostModel, device: str) -> Nic | None:
    """The card that mst names, or that has this PCI address."""
    for number, nic in enumerate(model.nics):
        if device in (nic.config.pci, nic.config.pci.removeprefix("0000:"), mst_name(nic, number)):
            return nic
    return None


def mst_name(nic: Nic, number: int) -> str:
    """The card's mst device: the PCI id in decimal (mstflint)."""
    return f"/dev/mst/mt{int(nic.config.device, 16)}_pciconf{number}"


def _query(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, bool]
) -> ToolResult:
    json_file, extended = how
    unknown = [name for name in names if name not in firmware.default]
    if unknown:
        return ToolResult(3, err=f"-E- The Device doesn't support {unknown[0]} parameter\n")
    wanted = names or list(firmware.default)
    if json_file:
        return _query_json(call, nic, firmware, wanted, how)
    columns = [firmware.default, firmware.current, firmware.next] if extended else [firmware.next]
    heads = ["Default", "Current", "Next Boot"] if extended else ["Next Boot"]
    lines = [
        "", "Device #1:", "----------", "", "Device type:        ConnectX5",
        "Name:               MCX555A-ECA_Ax_Bx",
        "Description:        ConnectX-5 VPI adapter card; EDR IB and 100GbE",
        f"Device:             {nic.config.pci}", "",
        f"{'Configurations:':<{NAME_WIDTH + 8}}" + "".join(f"{h:<{VALUE_WIDTH}}" for h in heads),
    ]  # fmt: skip
    for name in wanted:
        differs = extended and firmware.next[name] != firmware.default[name]
        values = "".join(f"{shown_value(name, c[name]):<{VALUE_WIDTH}}" for c in columns)
        lines.append(f"{'*' if differs else ' '}       {name:<{NAME_WIDTH}}{values}".rstrip())
    return ToolResult(out="\n".join(lines) + "\n")


def _query_json(
    call: ToolCall, nic: Nic, firmware: Firmware, names: list[str], how: tuple[str, bool]
) -> ToolResult:
    json_file, extended = how
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
        "device_type": "ConnectX5", "name": "MCX555A-ECA_Ax_Bx", "device": nic.config.pci,
        "description": "ConnectX-5 VPI adapter card; EDR IB and 100GbE",
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
    done = "y\nApplying... Done!\n-I- Please reboot machine to load new configurations.\n"
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
    """`mst start`, `mst status [-v]`."""
    if call.argv[:1] == ("start",):
        return ToolResult(out="Starting MST (Mellanox Software Tools) driver set\n")
    if call.argv[:1] != ("status",):
        return call.unmodelled(ToolResult(1, err="mst: unknown command\n"))
    head = "MST modules:\n------------\n    MST PCI module is not loaded\n"
    head += "    MST PCI configuration module loaded\n\n"
    if call.argv[1:] == ("-v",):
        rows = f"{'DEVICE_TYPE':<24}{'MST':<30}{'PCI':<10}{'RDMA':<16}{'NET':<26}NUMA\n"
        for number, nic in enumerate(call.model.nics):
            c = nic.config
            rows += (
                f"{'ConnectX5(rev:0)':<24}{mst_name(nic, number):<30}"
                f"{c.pci.removeprefix('0000:'):<10}{c.rdma:<16}{'net-' + c.netdev:<26}{c.numa}\n"
            )
        return ToolResult(out=head + "PCI devices:\n------------\n" + rows)
    rows = "".join(
        f"{mst_name(nic, number):<33}- PCI configuration cycles access.\n"
        f"{'':<35}domain:bus:dev.fn={nic.config.pci} addr.reg=88 data.reg=92 "
        f"cr_bar.gw_offset=-1\n{'':<35}Chip revision is: 00\n"
        for number, nic in enumerate(call.model.nics)
    )
    return ToolResult(out=head + "MST devices:\n------------\n" + rows)


def _rdma_rows(model: HostModel) -> list[tuple[str, str, Nic]]:
    rows = [(nic.config.rdma, nic.config.netdev, nic) for nic in model.nics]
    rows += [(vf.rdma, vf.netdev, nic) for nic, vf in model.all_vfs()]
    return sorted(rows, key=lambda row: int(row[0].removeprefix("mlx5_")))


def ibdev2netdev(call: ToolCall) -> ToolResult:
    """Map RDMA devices to network devices."""
    return ToolResult(out="".join(
        f"{rdma} port 1 ==> {netdev} ({'Up' if nic.link_up else 'Down'})\n"
        for rdma, netdev, nic in _rdma_rows(call.model)
    ))  # fmt: skip


def rdma(call: ToolCall) -> ToolResult:
    """`rdma link [show]`, `rdma dev`, `rdma system`."""
    words = [w for w in call.argv if w != "show"]
    if words[:1] == ["system"] and len(words) == 1:
        return ToolResult(out="netns shared copy-on-fork on\n")
    if words[:1] not in (["link"], ["dev"]) or len(words) > 1:
        text = f'Unknown object "{words[0] if words else ""}".\n'
        return call.unmodelled(ToolResult(1, err=text))
    lines: list[str] = []
    for number, (name, netdev, nic) in enumerate(_rdma_rows(call.model)):
        up = nic.link_up
        if words[0] == "dev":
            lines.append(f"{number}: {name}: node_type ca fw 16.35.2000\n")
        else:
            lines.append(
                f"link {name}/1 state {'ACTIVE' if up else 'DOWN'} physical_state "
                f"{'LINK_UP' if up else 'DISABLED'} netdev {netdev} \n"
            )
    return ToolResult(out="".join(lines))


def nvidia_smi(call: ToolCall) -> ToolResult:
    """`nvidia-smi -L` and the query form that inventory scripts use."""
    gpus = gpu_addresses(call.model)
    if not gpus:
        return ToolResult(6, "No devices were found\n")
    if call.argv == ("-L",):
        return ToolResult(out="".join(
            f"GPU {i}: Tesla V100-SXM2-32GB (UUID: GPU-{i:08x}-0000-0000-0000-{i:012x})\n"
            for i in range(len(gpus))
        ))  # fmt: skip
    values: dict[str, Callable[[int], str]] = {
        "index": str,
        "name": lambda _: "Tesla V100-SXM2-32GB",
        "driver_version": lambda _: "580.126.20",
        "pci.bus_id": lambda i: f"0000{gpus[i][0]}".upper(),
    }
    query = next((a for a in call.argv if a.startswith("--query-gpu=")), "").partition("=")[2]
    fields = query.split(",")
    if not query or not set(fields) <= set(values):
        return call.unmodelled(ToolResult(1, f"Field {query!r} is not a valid field to query.\n"))
    return ToolResult(out="".join(
        ", ".join(values[name](i) for name in fields) + "\n" for i in range(len(gpus))
    ))  # fmt: skip

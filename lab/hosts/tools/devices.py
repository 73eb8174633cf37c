"""lspci and the RDMA listings: rdma, ibdev2netdev, ibstat, ibv_devinfo.

Sources: lab/sources.md#hosts; pci.ids.
"""

from __future__ import annotations

from components.core.record import record
from lab.hosts.bridges import ROOT_PORT, all_bridges, gpu_addresses
from lab.hosts.cards import CARD_NAMES, CARDS, gpu_of
from lab.hosts.hca_sysfs import FIRMWARE, is_active, lid_of, port_guid
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import split_options
from lab.hosts.tools.pci import acs_lines

HCA_NAME = "Infiniband controller: Mellanox Technologies ConnectX Family mlx5Gen Virtual Function"


def pci_functions(model: HostModel) -> list[tuple[str, str, str, str]]:
    """Address, class, ids and name of each PCI function, sorted by address."""
    gpu = gpu_of(model)
    rows = [
        (pci, "0302", f"10de:{gpu.device}", f"3D controller: NVIDIA Corporation {gpu.pci_name}")
        for pci, _ in gpu_addresses(model.config)
    ]
    rows += [(hca.pci, "0207", "15b3:101e", HCA_NAME) for hca in model.config.hcas]
    for pci, (ids, _, _) in all_bridges(model.config).items():
        port = "Intel Corporation Xeon E7 v4/Xeon E5 v4 PCI Express Root Port 2"
        switch = "PLX Technology, Inc. PEX 8747 48-Lane, 5-Port PCI Express Gen 3 Switch"
        name = f"PCI bridge: {port if ids == ROOT_PORT else switch}"
        rows.append((pci, "0604", f"{ids[0]}:{ids[1]}", name))
    cards = [(n.config.pci, n.config.device, n.is_ib) for n in model.nics]
    cards += [(vf.pci, nic.config.vf_device, nic.is_ib) for nic, vf in model.all_vfs()]
    for pci, device, is_ib in cards:
        kind, number = ("Infiniband", "0207") if is_ib else ("Ethernet", "0200")
        name = f"{kind} controller: Mellanox Technologies {CARD_NAMES.get(device, device)}"
        rows.append((pci, number, f"15b3:{device}", name))
    return sorted(rows)


LSPCI_FLAGS = ("-n", "-nn", "-D", "-Dn", "-nD", "-Dnn", "-nnD", "-v", "-vv", "-vvv")


def lspci(call: ToolCall) -> ToolResult:
    """List PCI functions: -n, -nn, -D, -v to -vvv, -d VENDOR:[DEVICE], -s ADDRESS."""
    options = split_options(call.argv, ("-d", "-s"), LSPCI_FLAGS, mixed=False)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(1, err=f"lspci: invalid option -- '{options[1:2]}'\n"))
    letters = "".join(name for name, _ in options.given if name in LSPCI_FLAGS)
    vendor, _, device = options.last("-d").lower().partition(":")
    lines = [
        _lspci_row(row, letters) + _capabilities(call, row[0], letters.count("v"))
        for row in pci_functions(call.model)
        if row[2].startswith(vendor)
        and row[2].endswith(device)
        and row[0].endswith(options.last("-s"))
    ]
    return ToolResult(out="".join(lines))


def _capabilities(call: ToolCall, pci: str, verbosity: int) -> str:
    """The part of `lspci -vvv` that says whether ATS is on.

    Its form is the ESXi guide's (lab/sources.md#hosts). Whether a card whose
    firmware has ATS off shows the capability is not known: `Enable-` is the documented sign that
    the hypervisor was not rebooted.
    """
    if not verbosity:
        return ""
    if call.uid:
        return "\tCapabilities: <access denied>\n\n"
    if verbosity < len("vvv") or call.model.nic_by_pci(pci) is None:
        return _vital_data(call, pci) + (acs_lines(call, pci) if verbosity > 1 else "") + "\n"
    sign = "+" if call.model.ats_active(pci) else "-"
    return _vital_data(call, pci) + (
        "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        "\tCapabilities: [180 v1] Single Root I/O Virtualization (SR-IOV)\n"
        "\tCapabilities: [480 v1] Address Translation Service (ATS)\n"
        "\t\tATSCap:\tInvalidate Queue Depth: 00\n"
        f"\t\tATSCtl:\tEnable{sign}, Smallest Translation Unit: 00\n\n"
    )


def _vital_data(call: ToolCall, pci: str) -> str:
    """The board's part and serial number, with the blanks that fill the fields (sources.md#vfs)."""
    nic = call.model.nic_by_pci(pci)
    if nic is None:
        return ""
    part = CARDS[nic.config.device].part if nic.config.device in CARDS else "unknown"
    return (
        "\tCapabilities: [48] Vital Product Data\n\t\tRead-only fields:\n"
        f"\t\t\t[PN] Part number: {part}         \n"
        f"\t\t\t[SN] Serial number: {nic.serial}           \n\t\tEnd\n"
    )


def devlink(call: ToolCall) -> ToolResult:
    """`devlink dev eswitch show|set pci/ADDRESS [mode legacy|switchdev]`."""
    match list(call.argv):
        case ["dev", "eswitch", "show", device]:
            mode = None
        case ["dev", "eswitch", "set", device, "mode", "legacy" | "switchdev" as mode]:
            pass
        case _:
            return call.unmodelled(ToolResult(1, err='Command "dev" is unknown\n'))
    nic = call.model.nic_by_pci(device.removeprefix("pci/"))
    if nic is None:
        return ToolResult(1, err="kernel answers: No such device\n")
    if mode is None:
        text = f"{device}: mode {nic.eswitch} inline-mode none encap-mode basic\n"
        return ToolResult(out=text)
    if call.uid:
        return ToolResult(1, err="kernel answers: Operation not permitted\n")
    nic.eswitch = mode
    return ToolResult()


def _lspci_row(row: tuple[str, str, str, str], letters: str) -> str:
    pci, kind, ids, name = row
    shown = pci if "D" in letters else pci.removeprefix("0000:")
    if letters.count("n") == 1:
        return f"{shown} {kind}: {ids}\n"
    if "n" not in letters:
        return f"{shown} {name}\n"
    head, _, tail = name.partition(":")
    return f"{shown} {head} [{kind}]:{tail} [{ids}]\n"


@record
class RdmaDevice:
    """One RDMA device with one port, as the tools list it."""

    name: str
    netdev: str
    """Its network device; empty for an InfiniBand adapter."""
    up: bool
    firmware: str
    part_id: int
    """Decimal PCI device id, as ibv_devinfo prints it."""
    link_layer: str
    rate_gbit_s: int
    guid: str
    lid: int = 0


def rdma_devices(model: HostModel) -> list[RdmaDevice]:
    """All RDMA devices of the host, in the order of their numbers."""
    found: list[RdmaDevice] = []
    macs = [(n, n.mac.replace(":", "")) for n in model.nics]
    functions = [
        (n.config.rdma, n.config.netdev, n.config.device, n, f"{mac[:6]}0300{mac[6:]}")
        for n, mac in macs
    ]
    functions += [
        (v.rdma, v.netdev, n.config.vf_device, n, v.active_guid.replace(":", ""))
        for n, v in model.all_vfs()
    ]
    for name, netdev, device, nic, guid in functions:
        found.append(
            RdmaDevice(
                name, netdev, nic.link_up, nic.firmware_version, int(device, 16),
                "Ethernet", nic.config.speed_gbit_s, guid,
            )
        )  # fmt: skip
    found += [
        RdmaDevice(
            hca.name, "", is_active(model, hca), FIRMWARE, 0x101E,
            hca.link_layer, hca.rate_gbit_s, port_guid(model, hca), lid_of(model, hca),
        )
        for hca in model.config.hcas
    ]  # fmt: skip
    return sorted(found, key=lambda device: (len(device.name), device.name))


def ibdev2netdev(call: ToolCall) -> ToolResult:
    """Map RDMA devices to network devices."""
    return ToolResult(out="".join(
        f"{d.name} port 1 ==> {d.netdev} ({'Up' if d.up else 'Down'})\n"
        for d in rdma_devices(call.model) if d.netdev
    ))  # fmt: skip


def rdma(call: ToolCall) -> ToolResult:
    """`rdma link [show]`, `rdma dev`, `rdma system`."""
    words = [w for w in call.argv if w != "show"]
    if words[:1] == ["system"]:
        return _rdma_system(call, words[1:])
    if words[:1] not in (["link"], ["dev"]) or len(words) > 1:
        text = f'Unknown object "{words[0] if words else ""}".\n'
        return call.unmodelled(ToolResult(1, err=text))
    lines: list[str] = []
    for number, device in enumerate(rdma_devices(call.model)):
        if words[0] == "dev":
            lines.append(f"{number}: {device.name}: node_type ca fw {device.firmware}\n")
            continue
        state = "ACTIVE" if device.up else "DOWN"
        physical = "LINK_UP" if device.up else "DISABLED"
        end = f"netdev {device.netdev}" if device.netdev else f"lid {device.lid}"
        lines.append(f"link {device.name}/1 state {state} physical_state {physical} {end} \n")
    return ToolResult(out="".join(lines))


def _rdma_system(call: ToolCall, words: list[str]) -> ToolResult:
    """The namespace mode: the kernel refuses to change it while there are other namespaces."""
    platform = call.model.platform
    if not words:
        return ToolResult(out=f"netns {platform.netns_mode} copy-on-fork on\n")
    if words[:2] != ["set", "netns"] or words[2:] not in (["shared"], ["exclusive"]):
        return call.unmodelled(
            ToolResult(1, err="Usage: rdma system set netns { shared | exclusive }\n")
        )
    if call.uid or call.model.other_namespaces:
        reason = "Operation not permitted" if call.uid else "Device or resource busy"
        return ToolResult(1, err=f"error: {reason}\n")
    platform.netns_mode = words[2]
    return ToolResult()


def _selected(call: ToolCall, names: list[str]) -> list[RdmaDevice]:
    return [d for d in rdma_devices(call.model) if not names or d.name in names]


def ibstat(call: ToolCall) -> ToolResult:
    """`ibstat [-l] [CA]`."""
    names = [word for word in call.argv if not word.startswith("-")]
    if not {word for word in call.argv if word.startswith("-")} <= {"-l"}:
        return call.unmodelled(ToolResult(1, err="Usage: ibstat [options] <ca_name> [portnum]\n"))
    found = _selected(call, names)
    if not found:
        text = f"ibpanic: [1] main: '{names[0]}' IB device can't be found\n" if names else ""
        return ToolResult(255, err=text or "ibpanic: [1] main: stat of IB device failed\n")
    if "-l" in call.argv:
        return ToolResult(out="".join(f"{device.name}\n" for device in found))
    return ToolResult(out="".join(_ibstat_block(device) for device in found))


def _ibstat_block(device: RdmaDevice) -> str:
    sm_lid = 1 if device.link_layer == "InfiniBand" and device.up else 0
    return (
        f"CA '{device.name}'\n\tCA type: MT{device.part_id}\n\tNumber of ports: 1\n"
        f"\tFirmware version: {device.firmware}\n\tHardware version: 0\n"
        f"\tNode GUID: 0x{device.guid}\n\tSystem image GUID: 0x{device.guid}\n\tPort 1:\n"
        f"\t\tState: {'Active' if device.up else 'Down'}\n"
        f"\t\tPhysical state: {'LinkUp' if device.up else 'Disabled'}\n"
        f"\t\tRate: {device.rate_gbit_s}\n\t\tBase lid: {device.lid}\n\t\tLMC: 0\n"
        f"\t\tSM lid: {sm_lid}\n\t\tCapability mask: 0xa751e848\n"
        f"\t\tPort GUID: 0x{device.guid}\n\t\tLink layer: {device.link_layer}\n"
    )


def ibv_devinfo(call: ToolCall) -> ToolResult:
    """`ibv_devinfo [-d DEVICE] [-l]`."""
    options = split_options(call.argv, ("-d", "--ib-dev"), ("-l", "--list"), mixed=True)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(1, err=f"ibv_devinfo: invalid option -- '{options}'\n"))
    found = _selected(call, list(options.all("-d", "--ib-dev")))
    if not found:
        return ToolResult(255, err="No IB devices found\n")
    if options.has("-l", "--list"):
        rows = "".join(f"\t{device.name}\n" for device in found)
        return ToolResult(out=f"{len(found)} HCAs found:\n{rows}\n")
    return ToolResult(out="".join(_devinfo_block(device) for device in found))


def _devinfo_block(device: RdmaDevice) -> str:
    guid = ":".join(device.guid[i : i + 4] for i in range(0, 16, 4))
    state = "PORT_ACTIVE (4)" if device.up else "PORT_DOWN (1)"
    return (
        f"hca_id:\t{device.name}\n\ttransport:\t\t\tInfiniBand (0)\n"
        f"\tfw_ver:\t\t\t\t{device.firmware}\n\tnode_guid:\t\t\t{guid}\n"
        f"\tvendor_part_id:\t\t\t{device.part_id}\n\tphys_port_cnt:\t\t\t1\n"
        f"\t\tport:\t1\n\t\t\tstate:\t\t\t{state}\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tport_lid:\t\t{device.lid}\n"
        f"\t\t\tlink_layer:\t\t{device.link_layer}\n\n"
    )

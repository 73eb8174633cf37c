"""mst: the devices of Mellanox Software Tools.

Sources: lab/sources.md#hosts (captures of its output, mstflint's device numbers).
"""

from __future__ import annotations

from lab.hosts.cards import CARDS
from lab.hosts.model import HostModel
from lab.hosts.nic import Nic
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root


def mst_name(nic: Nic, number: int) -> str:
    """The card's mst device: the PCI id in decimal (mstflint)."""
    return f"/dev/mst/mt{int(nic.config.device, 16)}_pciconf{number}"


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

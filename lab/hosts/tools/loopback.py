"""A bandwidth test from a card to itself: client and server on one host, over 127.0.0.1.

The card turns the packets round, so neither its cable nor a switch has a part in it. The texts are
perftest's (sources.md#acceptance); that a looped write runs at line rate is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.hosts.hca_sysfs import is_active
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolResult
from lab.physics.calibration import pair_gbit_s

ADDRESSES: Final = frozenset({"127.0.0.1", "localhost"})
"""What a client on the same host calls its server."""
RULE: Final = "-" * 87
SIZE_BYTES: Final = 65536
"""perftest's default."""


def play_loopback(model: HostModel, argv: Sequence[str]) -> ToolResult:
    """What the client of such a test prints, and its exit status."""
    words = list(argv)
    device = words[words.index("-d") + 1] if "-d" in words else "mlx5_0"
    port = _port(model, device)
    if port is None:
        text = f"IB device {device} not found\n Unable to find the Infiniband/RoCE device\n"
        return ToolResult(1, err=text)
    is_up, speed_gbit_s = port
    if not is_up:
        text = " Port number 1 state is Down\n Couldn't set the link layer\n"
        return ToolResult(1, err=text + " Couldn't get context for the device\n")
    gbit_s = pair_gbit_s(speed_gbit_s, 1.0, SIZE_BYTES)
    rate = gbit_s * 1e9 / 8 / SIZE_BYTES / 1e6
    mib_s = gbit_s * 1e9 / 8 / 2**20
    lines = [
        RULE,
        "                    RDMA_Write BW Test",
        f" Dual-port       : OFF          Device         : {device}",
        RULE,
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
        f" {SIZE_BYTES:<7}    1000       {mib_s:10.2f}            {mib_s:10.2f}     {rate:.6f}",
        RULE,
    ]
    return ToolResult(out="\n".join(lines) + "\n")


def _port(model: HostModel, device: str) -> tuple[bool, int] | None:
    """Whether the port of a card or InfiniBand adapter is up, and its rate in Gbit/s."""
    nic = model.nic_by_rdma(device)
    if nic is not None:
        return nic.link_up, nic.config.speed_gbit_s
    hca = next((each for each in model.config.hcas if each.name == device), None)
    return (is_active(model, hca), hca.rate_gbit_s) if hca else None

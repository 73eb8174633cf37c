"""mlxreg and mstreg: the registers of a card that hold until its driver starts again.

The table and its head: NVIDIA's page "Adaptive Retransmission: Parameters Control", and public
scripts. What a refusal says is a guess; so is that every card of the lab has the field.
"""

from __future__ import annotations

from typing import Final

from lab.hosts.nic import Nic
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.firmware import find_card
from lab.hosts.tools.options import split_options

REGISTER: Final = "ROCE_ACCL"
FIELD: Final = "adaptive_routing_forced_en"
_BITS: Final = {"0": False, "0x0": False, "1": True, "0x1": True}
_REFUSED: Final = 1


def mlxreg(call: ToolCall) -> ToolResult:
    """`mlxreg -d DEV --reg_name ROCE_ACCL --get | --set FIELD=VALUE --yes`."""
    refused = needs_root(call, "-E- Failed to open device: Permission denied\n")
    if refused is not None:
        return refused
    valued = ("-d", "--device", "--reg_name", "--set", "-s")
    options = split_options(call.argv, valued, ("--get", "-g", "--yes", "-y"), mixed=False)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(_REFUSED, err=f"-E- Unknown flag: {options}\n"))
    device = options.last("-d", "--device")
    nic = find_card(call.model, device)
    if nic is None:
        return ToolResult(_REFUSED, err=f"-E- Failed to open device: {device}\n")
    name = options.last("--reg_name")
    if name != REGISTER:
        return call.unmodelled(ToolResult(_REFUSED, err=f"-E- Unknown register: {name}\n"))
    if options.has("--get", "-g"):
        return ToolResult(out=_shown(nic))
    return _set(call, nic, options.last("--set", "-s"), agreed=options.has("--yes", "-y"))


def _set(call: ToolCall, nic: Nic, words: str, *, agreed: bool) -> ToolResult:
    field, _, value = words.partition("=")
    if field != FIELD or value not in _BITS:
        return call.unmodelled(ToolResult(_REFUSED, err=f"-E- Bad field: {words}\n"))
    if not agreed:  # it asks, and nobody answers
        return ToolResult(_REFUSED, err="-E- Aborted by user\n")
    nic.qos.spreads = _BITS[value]
    told = f"You are about to send access register: {REGISTER}\nSending access register...\n"
    return ToolResult(out=told)


def _shown(nic: Nic) -> str:
    rows = ("adaptive_routing_forced_en_field_select", False), (FIELD, nic.qos.spreads)
    lines = [f"{name:<46} | 0x{int(value):08x}" for name, value in rows]
    head = ["Sending access register...", "", f"{'Field Name':<46} | Data", "=" * 60]
    return "\n".join([*head, *lines, "=" * 60]) + "\n"

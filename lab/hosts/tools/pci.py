"""setpci on the ACS control word, and what `lspci -vvv` shows of it.

Texts and the order of work: setpci.c of pciutils, commit 04d90bec (it gives up at the first device
that lacks the capability).
"""

from __future__ import annotations

import re

from lab.hosts.bridges import all_bridges
from lab.hosts.platform import ACS_BITS
from lab.hosts.tools.call import ToolCall, ToolResult

ACS_OFFSET = 0x148
"""Where the capability lies; the lab's own number."""
_ACS_REGISTER = re.compile(r"ECAP_ACS\+0x6\.w(?:=([0-9a-fA-F]{1,4}))?")
_FLAGS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl",
          "DirectTrans")  # fmt: skip


def setpci(call: ToolCall) -> ToolResult:
    """`setpci [-v] (-s ADDRESS ECAP_ACS+0x6.w[=WORD])...`."""
    words = list(call.argv)
    verbose = words[:1] == ["-v"]
    words = words[1:] if verbose else words
    out = ""
    while words:
        match = _ACS_REGISTER.fullmatch(words[2]) if len(words) > 2 and words[0] == "-s" else None  # noqa: PLR2004 - -s ADDRESS REGISTER
        if match is None:
            text = f"setpci: Unable to parse register {words[-1]}.\nTry `setpci --help'\n"
            return call.unmodelled(ToolResult(1, out, text))
        pci, words = words[1], words[3:]
        if pci not in known_devices(call):
            return ToolResult(
                0, out, "setpci: Warning: No devices selected for operation group 1.\n"
            )
        if call.uid or pci not in call.model.platform.acs:
            text = f"setpci: {pci}: Instance #0 of Extended capability 000d not found"
            text += " - there are no capabilities with that id.\n"
            return ToolResult(1, out + (f"{pci} " if verbose else ""), text)
        out += _one(call, pci, match[1], verbose=verbose)
    return ToolResult(out=out)


def known_devices(call: ToolCall) -> set[str]:
    """Addresses of the bridges and of the cards."""
    return {*all_bridges(call.model.config), *(nic.config.pci for nic in call.model.nics)}


def _one(call: ToolCall, pci: str, word: str | None, *, verbose: bool) -> str:
    head = f"{pci} (ecap 000d @{ACS_OFFSET:03x}) @{ACS_OFFSET + 6:02x}" if verbose else ""
    acs = call.model.platform.acs
    if word is None:
        return f"{head}{' = ' if verbose else ''}{acs[pci]:04x}\n"
    if not call.model.locked_down:
        acs[pci] = int(word, 16) & ACS_BITS
    return f"{head} {word}\n" if verbose else ""


def acs_lines(call: ToolCall, pci: str) -> str:
    """The lines of `lspci -vvv` on the control word; empty for a device without ACS."""
    word = call.model.platform.acs.get(pci)
    if word is None:
        return ""
    shown = " ".join(f"{n}{'+' if word >> bit & 1 else '-'}" for bit, n in enumerate(_FLAGS))
    return f"\tCapabilities: [{ACS_OFFSET:03x} v1] Access Control Services\n\t\tACSCtl:\t{shown}\n"

"""`nmcli device`: the list in its terse form, and `set NAME managed yes|no`.

Texts and exit codes: nmcli(1) and src/nmcli of NetworkManager 1.42.8.
"""

from __future__ import annotations

from typing import Final

from lab.hosts.tools.call import ToolCall, ToolResult

_NOT_RUNNING: Final = 8
_NO_DEVICE: Final = 10
_ATTEMPT: Final = "connecting (getting IP configuration)"


def nmcli(call: ToolCall) -> ToolResult:
    """Run one command."""
    manager = call.model.network_manager
    manager.look(call.model)
    match call.argv:
        case _ if not manager.runs:
            return ToolResult(_NOT_RUNNING, err="Error: NetworkManager is not running.\n")
        case ("-t", "-f", "DEVICE,STATE", "device"):
            states = {
                name: _ATTEMPT if has else "unmanaged" for name, has in manager.devices.items()
            }
            lines = {"eno1": "connected", **states, "lo": "unmanaged"}
            return ToolResult(out="".join(f"{name}:{state}\n" for name, state in lines.items()))
        case ("device", "set", name, "managed", "yes" | "no" as managed):
            if call.uid:
                return ToolResult(1, err="Error: Failed to set property: Not authorized.\n")
            if manager.decide(call.model, name, managed=managed == "yes"):
                return ToolResult()
            return ToolResult(_NO_DEVICE, err=f"Error: Device '{name}' not found.\n")
        case _:
            return call.unmodelled(ToolResult(2, err="Error: argument is unknown.\n"))

"""What a host learns of its subnet: infiniband-diags, which are the real ones, and ibdiagnet.

Debian's programs run at the host's own HCA in ibsim. ibdiagnet is emulated: Debian's crashes there,
and NVIDIA's is not to be had. Forms: lab/sources.md#infiniband-diagnostics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from lab.hosts.stream_tools import Streams, run_on_streams
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.infiniband.fabric import Fabric
from lab.infiniband.ports import STATES, KnownManager
from lab.views import HcaPort, SubnetView

REAL_TOOLS: Final = frozenset({"sminfo", "saquery", "smpquery", "iblinkinfo", "perfquery"})
_LINE: Final = "-" * 45
_STAGES: Final = (
    "Discovery",
    "Lids Check",
    "Links Check",
    "Subnet Manager",
    "Port Counters",
    "Nodes Information",
    "Speed / Width checks",
    "Virtualization",
    "Partition Keys",
    "Temperature Sensing",
)
_LANE_GBIT_S: Final = {100: 25, 200: 50, 400: 100, 800: 200}
"""Rate of a link of four lanes to that of one lane, in Gbit/s."""


async def run_tool(call: ToolCall, streams: Streams) -> ToolResult:
    """Answer a call of a tool that asks the subnet; the real ones write to the caller's streams."""
    fabric = call.model.fabric
    if fabric is None or "ib_umad" not in call.model.modules or call.uid != 0:
        return _no_umad(call)
    words, hca = await asyncio.to_thread(_choose, call, fabric)
    if hca is None:
        return _no_umad(call)
    if call.tool == "ibdiagnet":
        return await asyncio.to_thread(_ibdiagnet, call, fabric, hca.guid)
    argv, environment = fabric.command(hca.guid, call.tool, words)
    return await run_on_streams(argv, environment, call, streams)


def _no_umad(call: ToolCall) -> ToolResult:
    """Without the module, or without root, no management datagram leaves the host."""
    text = "ibwarn: [4711] mad_rpc_open_port: can't open UMAD port ((null):0)\n"
    return ToolResult(
        255, err=f"{text}{call.tool}: iberror: failed: Failed to open '(null)' port '0'\n"
    )


def _choose(call: ToolCall, fabric: Fabric) -> tuple[list[str], HcaPort | None]:
    """The HCA of `-C NAME`, else the first active one, else the first with a link.

    So libibumad chooses; ibsim shows one HCA a process, so the option itself is left out.
    """
    ports, words = call.model.ports_on_fabric(), list(call.argv)
    named = {port.name: port for port in ports}
    if "-C" in words[:-1] and words[words.index("-C") + 1] in named:
        place = words.index("-C")
        return words[:place] + words[place + 2 :], named[words[place + 1]]
    ranked = sorted(ports, key=lambda port: -_rank(fabric.port(port.guid).state))
    return words, ranked[0] if ranked else None


def _rank(state: int) -> int:
    return 2 if state == STATES["Active"] else int(state > STATES["Down"])


def _ibdiagnet(call: ToolCall, fabric: Fabric, guid: str) -> ToolResult:
    """`ibdiagnet [-o FOLDER] [--routing]`: what a look at the whole fabric finds."""
    words = [word for word in call.argv if word != "--routing"]
    if words[:1] == ["-o"] and len(words) == 2:  # noqa: PLR2004 - the option and its value
        words = []
    if words:
        text = f"-E- Illegal argument: {words[0]}\n"  # guess
        return call.unmodelled(ToolResult(1, err=text))
    lines = _report(fabric, guid, routing="--routing" in call.argv)
    return ToolResult(out="\n".join(lines) + "\n")


def _report(fabric: Fabric, guid: str, *, routing: bool) -> Iterator[str]:
    switches, ports, links = fabric.reach(guid)
    managers = fabric.managers(guid)
    errors = {stage: list[str]() for stage in _STAGES}
    if not managers:
        errors["Subnet Manager"].append("-E- Missing master SM in the discover fabric")
    for port in ports:
        if fabric.port(port.guid).state != STATES["Active"]:
            errors["Links Check"].append(
                f"-E- Link: {port.host}/{port.name}/P1 - link was not activated by the SM"  # guess
            )
    yield 'Running version: "IBDIAGNET 2.7.0.MLNX20210617.4883fca","IBDIAG 2.1.1.4883fca"'
    yield "Running command: ibdiagnet"
    for stage in _STAGES:
        yield from (_LINE, stage)
        found = errors[stage]
        end = "finished with errors" if found else "finished successfully"
        yield f"-{'E' if found else 'I'}- {stage} {end}"
        yield from (*found, "")
    yield from _summary(switches, ports, links, routing=routing, adaptive=fabric.is_adaptive)
    yield from _managers(managers, switches)
    yield from (_LINE, "Summary", f"{'-I- Stage':<40}Warnings   Errors     Comment")
    for stage in (*_STAGES, *(("Routing",) if routing else ())):
        yield f"-I- {stage:<36}0          {len(errors.get(stage, ())):<10}"


def _summary(
    switches: Sequence[SubnetView],
    ports: Sequence[HcaPort],
    links: int,
    *,
    routing: bool,
    adaptive: bool,
) -> Iterator[str]:
    yield from (_LINE, "Fabric Summary", "")
    yield f"Total Nodes             : {len(switches) + len(ports)}"
    yield f"IB Switches             : {len(switches)}"
    yield f"IB Channel Adapters     : {len(ports)}"
    yield "IB Aggregation Nodes    : 0"
    yield "IB Routers              : 0"
    yield ""
    if routing:
        # The switches' own manager has none (the vendor's manual), UFM's by its routing engine.
        yield from (f"Adaptive Routing is enabled on {len(switches) * adaptive} switches", "")
    yield f"Total number of links   : {links}"
    for rate in sorted({port.rate_gbit_s for port in ports}):
        count = sum(port.rate_gbit_s == rate for port in ports)
        yield f"Links at 4x{_LANE_GBIT_S.get(rate, rate // 4):<13}: {count}"
    yield ""


def _managers(managers: Sequence[KnownManager], switches: Sequence[SubnetView]) -> Iterator[str]:
    if managers:
        shown = [_manager(each, switches) for each in managers]
        yield f"Master SM: {shown[0]}"
        yield f"Standby SM : {', '.join(shown[1:]) or 'No Standby SM'}"
    yield ""


def _manager(manager: KnownManager, switches: Sequence[SubnetView]) -> str:
    name = next(
        (f"MF0;{each.switch}:M{each.model}/U1" for each in switches if each.guid == manager.guid),
        "",
    )
    return (
        f"Port=0 LID={manager.lid} GUID=0x{manager.guid} devid=54000 "
        f"Priority:{manager.priority} Node_Type=SW Node_Description={name}"
    )

"""sminfo, saquery and ibdiagnet: what a host learns of its subnet.

Forms: docs/explanation/sources.md#infiniband-diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.hosts.tools.call import ToolCall, ToolResult
from lab.physics.subnet import Subnet

MASTER, STANDBY = 3, 2
STATES: Final = {MASTER: "SMINFO_MASTER", STANDBY: "SMINFO_STANDBY"}
ACTIVITY: Final = 4711
"""Activity counter of a subnet manager: the clock stands still."""
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
_LANE_GBIT_S: Final = {100: 25, 200: 50, 400: 100}
"""Rate of a link of four lanes to that of one lane, in Gbit/s."""


def _refusal(call: ToolCall) -> ToolResult | None:
    """Without the module, or without root, no management datagram leaves the host."""
    if "ib_umad" in call.model.modules and call.uid == 0 and call.model.subnet() is not None:
        return None
    text = "ibwarn: [4711] mad_rpc_open_port: can't open UMAD port ((null):0)\n"
    return ToolResult(
        255, err=f"{text}{call.tool}: iberror: failed: Failed to open '(null)' port '0'\n"
    )


def _subnet(call: ToolCall) -> Subnet:
    return call.model.subnet() or Subnet((), ())


def _can_ask(call: ToolCall, subnet: Subnet) -> bool:
    """The first HCA has a path to a master."""
    own = call.model.ports_on_fabric()
    return subnet.master is not None and any(subnet.is_active(port.guid) for port in own)


def sminfo(call: ToolCall) -> ToolResult:
    """`sminfo`: the subnet manager that the local port was set up by."""
    if call.argv:
        return call.unmodelled(ToolResult(255, err="Usage: sminfo [options]\n"))
    refused, subnet = _refusal(call), _subnet(call)
    if refused is not None:
        return refused
    if not _can_ask(call, subnet) or subnet.master is None:
        return ToolResult(255, err="sminfo: iberror: failed: query\n")
    master = subnet.master
    return ToolResult(
        out=f"sminfo: sm lid {subnet.lid_of(master.guid)} sm guid 0x{master.guid}, activity count "
        f"{ACTIVITY} priority {master.sm_priority} state {MASTER} {STATES[MASTER]}\n"
    )


def saquery(call: ToolCall) -> ToolResult:
    """`saquery SMIR`: every subnet manager that the master knows."""
    if call.argv != ("SMIR",):
        return call.unmodelled(ToolResult(1, err="Usage: saquery [options]\n"))
    refused, subnet = _refusal(call), _subnet(call)
    if refused is not None:
        return refused
    if not _can_ask(call, subnet):
        return ToolResult(1, err="saquery: Query SA failed: Connection timed out\n")  # guess
    rows = [
        f"SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{subnet.lid_of(each.guid)}\n"
        f"\t\tSMInfo dump:\n\t\tGUID..................0x{each.guid}\n"
        f"\t\tSM_Key................0x0000000000000000\n\t\tActCount..............{ACTIVITY}\n"
        f"\t\tPriority..............{each.sm_priority}\n"
        f"\t\tSMState...............{STANDBY if number else MASTER}\n"
        for number, each in enumerate(subnet.managers)
    ]
    return ToolResult(out="".join(rows))


def ibdiagnet(call: ToolCall) -> ToolResult:
    """`ibdiagnet [-o FOLDER] [--routing]`: what a look at the whole fabric finds."""
    words = [word for word in call.argv if word != "--routing"]
    if words[:1] == ["-o"] and len(words) == 2:  # noqa: PLR2004 - the option and its value
        words = []
    if words:
        text = f"-E- Illegal argument: {words[0]}\n"  # guess
        return call.unmodelled(ToolResult(1, err=text))
    refused = _refusal(call)
    if refused is not None:
        return refused
    subnet = _subnet(call)
    return ToolResult(out="\n".join(_report(subnet, routing="--routing" in call.argv)) + "\n")


def _report(subnet: Subnet, *, routing: bool) -> Iterator[str]:
    errors = {stage: list[str]() for stage in _STAGES}
    if subnet.master is None:
        errors["Subnet Manager"].append("-E- Missing master SM in the discover fabric")
    idle = [port for port in subnet.ports if subnet.has_link(port)]
    for port in idle if subnet.master is None else ():
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
    yield from _fabric(subnet, routing=routing)
    yield from (_LINE, "Summary", f"{'-I- Stage':<40}Warnings   Errors     Comment")
    for stage in (*_STAGES, *(("Routing",) if routing else ())):
        yield f"-I- {stage:<36}0          {len(errors.get(stage, ())):<10}"


def _fabric(subnet: Subnet, *, routing: bool) -> Iterator[str]:
    linked = [port for port in subnet.ports if subnet.has_link(port)]
    yield from (_LINE, "Fabric Summary", "")
    yield f"Total Nodes             : {len(subnet.switches) + len(linked)}"
    yield f"IB Switches             : {len(subnet.switches)}"
    yield f"IB Channel Adapters     : {len(linked)}"
    yield "IB Aggregation Nodes    : 0"
    yield "IB Routers              : 0"
    yield ""
    if routing:
        # The switches' own manager has none (the vendor's manual).
        yield from ("Adaptive Routing is enabled on 0 switches", "")
    yield f"Total number of links   : {len(linked)}"
    for rate in sorted({port.rate_gbit_s for port in linked}):
        count = sum(port.rate_gbit_s == rate for port in linked)
        yield f"Links at 4x{_LANE_GBIT_S.get(rate, rate // 4):<13}: {count}"
    yield ""
    if subnet.master is not None:
        yield f"Master SM: {_manager(subnet, 0)}"
        standbys = [_manager(subnet, number) for number in range(1, len(subnet.managers))]
        yield f"Standby SM : {', '.join(standbys) or 'No Standby SM'}"
    yield ""


def _manager(subnet: Subnet, number: int) -> str:
    each = subnet.managers[number]
    return (
        f"Port=0 LID={subnet.lid_of(each.guid)} GUID=0x{each.guid} devid=54000 "
        f"Priority:{each.sm_priority} Node_Type=SW "
        f"Node_Description=MF0;{each.switch}:M{each.model}/U1"
    )

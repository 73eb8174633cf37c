"""What the file says about settings beside ours that break our traffic: refuse, or warn."""

from __future__ import annotations

from components.core.beside import Beside
from components.core.plain_text import plain_text
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift
from components.model.guards import Guards
from components.plan.make import ClusterPlan


def guards_refused(
    guards: Guards, plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """Refuse, at preview and all of them at once, what the file says `refuse` of.

    A device that was not read has none, so that `railyard:observe: never` refuses nothing here.
    """
    known = applied.instances
    addresses = {switch.name: switch.endpoint.where for switch in plan.switches}
    addresses |= {each.device: each.step.endpoint.known(known).where for each in plan.watched}
    return tuple(
        _refusal(drift.device, beside, addresses.get(drift.device, ""))
        for drift in drifts
        for beside in drift.beside
        if guards.way(beside.kind) == "refuse"
    )


def _refusal(device: str, beside: Beside, where: str) -> str:
    return (
        f"guards: {device}: {beside.setting}; it is not ours, and it breaks {beside.breaks}\n"
        f"  where  {where}; guards.{beside.kind} is refuse. Nothing was changed on any device.\n"
        f"  fix    {plain_text(beside.fix)}; to go on with a warning: guards.{beside.kind}: warn"
    )

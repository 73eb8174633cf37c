"""What an update would interrupt, against what the file allows (`disruption`)."""

from __future__ import annotations

from collections.abc import Mapping

from components.drift import DeviceDrift, Facts
from components.fabric.drivers import DRIVERS
from components.fabric.state import SwitchState, diff_states
from components.model.cluster import ClusterSpec
from components.planning import ClusterPlan
from components.remote.difference import Difference


def disruptions_refused(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
) -> tuple[str, ...]:
    """Refuse, at preview, what would interrupt traffic where the file says `deny`.

    Only what was observed can be judged: with `railyard:observe: never` an interruption cannot be
    told from a first setting, so every such difference to the last applied state counts.
    """
    if spec.disruption.ports == "allow":
        return ()
    changing = {drift.device for drift in drifts if drift.edited or drift.differences}
    refused: list[str] = []
    for switch in plan.switches:
        seen = facts.get(switch.name)
        if switch.name not in changing or not isinstance(seen, SwitchState):
            continue
        pending = diff_states(seen, switch.desired)
        flapping = [change for change in pending if DRIVERS[switch.os].interrupts(change)]
        refused += [_refusal(switch.name, change) for change in flapping]
    return tuple(refused)


def _refusal(device: str, change: Difference) -> str:
    return (
        f"disruption: {change.where} of {device} would flap: {change}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or take the change back"
    )

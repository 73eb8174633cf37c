"""ESXi: own switches, and GPU virtual machines on hypervisors that Railyard may reboot."""

from __future__ import annotations

from components.disruption.component import Departures, Reboots
from components.fabric.component import Fabric
from components.hosts.component import GuestProofs, Hosts
from components.hypervisor.component import FirmwareReboots, Hypervisors
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from stacks.upper import prove


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Set up the site, stage by stage.

    Hypervisors come twice: before their guests for the settings that guests need, and after them,
    because a passed-through card loads its firmware settings only when the hypervisor boots.

    Args:
        plan: The whole plan of the site.
        remote: Secrets and repair notes of this run.
        run: Number of the acceptance run; a new number proves the path again.
    """
    left = plan.departures
    drained = Departures("departures", left, remote).ready if left else None
    fabric = Fabric("fabric", plan.switches, remote, drained, plan.ports).ready
    hypervisors = Hypervisors("hypervisors", plan.hypervisors, remote, fabric).ready
    guests = Hosts("hosts", plan.hosts, remote, hypervisors).ready
    back = Reboots("reboots", plan.reboots, remote, guests).ready
    restarted = FirmwareReboots("firmware", plan.hypervisors, remote, back).ready
    proven = GuestProofs("guests", plan.hosts, remote, restarted).ready
    return prove(plan, remote, proven, run)

"""ESXi: own switches, and GPU virtual machines on hypervisors that Railyard may reboot."""

from __future__ import annotations

from components.disruption.component import Reboots
from components.hosts.component import GuestProofs, Hosts
from components.hypervisor.component import FirmwareReboots, Hypervisors
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from stacks.onprem import lay_fabric
from stacks.upper import prove


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Set up the site, stage by stage; the arguments are those of `onprem.compose`.

    Hypervisors come twice: before their guests for the settings that guests need, and after them,
    because a passed-through card loads its firmware settings only when the hypervisor boots.
    """
    fabric = lay_fabric(plan, remote)
    hypervisors = Hypervisors("hypervisors", plan.hypervisors, remote, fabric).ready
    guests = Hosts("hosts", plan.hosts, remote, hypervisors).ready
    back = Reboots("reboots", plan.reboots, remote, guests).ready
    restarted = FirmwareReboots("firmware", plan.hypervisors, remote, back).ready
    proven = GuestProofs("guests", plan.hosts, remote, restarted).ready
    return prove(plan, remote, proven, run)

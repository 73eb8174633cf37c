"""On-prem: own switches, own hosts. This module only sets the order of the stages."""

from __future__ import annotations

from components.disruption.component import Departures, Reboots
from components.fabric.component import Fabric
from components.hosts.component import Hosts
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport, FabricReady
from stacks.upper import prove


def lay_fabric(plan: ClusterPlan, remote: Remote) -> FabricReady:
    """Drain the nodes that left the file, then bring the switches to their plans."""
    left = plan.departures
    drained = Departures("departures", left, remote).ready if left else None
    return Fabric("fabric", plan.switches, remote, drained, plan.ports).ready


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Set up the site, stage by stage.

    Args:
        plan: The whole plan of the site.
        remote: Secrets and repair notes of this run.
        run: Number of the acceptance run; a new number proves the path again.
    """
    hosts = Hosts("hosts", plan.hosts, remote, lay_fabric(plan, remote)).ready
    back = Reboots("reboots", plan.reboots, remote, hosts).ready
    return prove(plan, remote, back, run)

"""On-prem: own switches, own hosts. The order of the stages, and nothing else."""

from __future__ import annotations

from components.disruption.component import Reboots
from components.fabric.component import Fabric
from components.hosts.component import Hosts
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from stacks.upper import prove


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Stand the site up, stage by stage.

    Args:
        plan: Everything that is wanted.
        remote: Secrets and repair notes of this run.
        run: Number of the acceptance run; a new number proves the path again.
    """
    fabric = Fabric("fabric", plan.switches, remote).ready
    hosts = Hosts("hosts", plan.hosts, remote, fabric).ready
    back = Reboots("reboots", plan.reboots, remote, hosts).ready
    return prove(plan, remote, back, run)

"""Cloud InfiniBand: the cloud owns the fabric; Railyard makes the instances or gets them."""

from __future__ import annotations

from dataclasses import replace

from components.cloud.component import Instances
from components.disruption.component import Departures, Reboots
from components.fabric.component import Fabric
from components.hosts.component import Hosts
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from stacks.upper import prove


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Set up the site, stage by stage.

    Args:
        plan: The whole plan of the site.
        remote: Secrets and repair notes of this run.
        run: Number of the acceptance run; a new number proves the path again.
    """
    if plan.cloud is None:
        left = plan.departures
        drained = Departures("departures", left, remote).ready if left else None
        underlay = Fabric("fabric", plan.switches, remote, drained, plan.ports).ready
        hosts = Hosts("hosts", plan.hosts, remote, underlay).ready
        return prove(plan, remote, Reboots("reboots", plan.reboots, remote, hosts).ready, run)
    made = Instances("cloud", plan.cloud, remote).ready
    remote = replace(remote, instances=made.facts, machines=made.machines)
    hosts = Hosts("hosts", plan.hosts, remote, made).ready
    return prove(plan, remote, Reboots("reboots", plan.reboots, remote, hosts).ready, run)

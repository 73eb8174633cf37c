"""Cloud InfiniBand: the cloud owns the fabric; Railyard makes the instances or gets them."""

from __future__ import annotations

from dataclasses import replace

from components.cloud.component import Instances
from components.disruption.component import Reboots
from components.hosts.component import Hosts
from components.plan.make import ClusterPlan
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from stacks import onprem
from stacks.upper import prove


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Set up the site, stage by stage; the arguments are those of `onprem.compose`."""
    if plan.cloud is None:  # the program leaves out the hosts
        return onprem.compose(plan, remote, run)
    made = Instances("cloud", plan.cloud, remote).ready
    remote = replace(remote, instances=made.facts, machines=made.machines)
    hosts = Hosts("hosts", plan.hosts, remote, made).ready
    return prove(plan, remote, Reboots("reboots", plan.reboots, remote, hosts).ready, run)

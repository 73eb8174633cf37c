"""On-prem: own switches, own hosts. The order of the stages, and nothing else."""

from __future__ import annotations

from components.acceptance.component import Acceptance
from components.fabric.component import Fabric
from components.handoffs import AcceptanceReport
from components.hosts.component import Hosts
from components.jobs.component import Jobs
from components.kubernetes.component import Cluster
from components.operators.component import Operators
from components.planning import ClusterPlan
from components.pod_network.component import PodNetwork
from components.remote.component import Remote


def compose(plan: ClusterPlan, remote: Remote, run: int) -> AcceptanceReport:
    """Stand the site up, stage by stage.

    Args:
        plan: Everything that is wanted.
        remote: Secrets and repair notes of this run.
        run: Number of the acceptance run; a new number proves the path again.
    """
    fabric = Fabric("fabric", plan.switches, remote).ready
    hosts = Hosts("hosts", plan.hosts, remote, fabric).ready
    cluster = Cluster("kubernetes", plan.kubernetes, remote, hosts).access
    gpus = Operators("operators", plan.operators, cluster).ready
    pods = PodNetwork("pod-network", plan.pod_network, gpus).ready
    jobs = Jobs("jobs", plan.jobs, pods).ready
    return Acceptance("acceptance", plan, remote, jobs, run).report

"""The stages on prepared hosts, which are the same for every kind of site."""

from __future__ import annotations

from dataclasses import replace

import pulumi

from components.acceptance.component import Acceptance
from components.acceptance.handover import AcceptRequest
from components.containers.component import Payload
from components.disruption.component import Upgrades
from components.jobs.component import Jobs
from components.kubernetes.component import Cluster
from components.kubernetes.objects import JobsReady, ask_before_deletion
from components.kubernetes.planes.base import KubernetesPlan
from components.operators.component import Operators, Repairs
from components.plan.make import ClusterPlan
from components.pod_network.component import PodNetwork
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport, HostsReady
from components.update.proof import repairs_of


def prove(plan: ClusterPlan, remote: Remote, hosts: HostsReady, run: int) -> AcceptanceReport:
    """Set up the layer that runs the jobs, then prove the path.

    Args:
        plan: The whole plan of the site.
        remote: Secrets and repair notes of this run.
        hosts: The prepared hosts.
        run: Number of the acceptance run; a new number proves the path again.
    """
    if plan.payload is not None:
        runs = Payload("payload", plan.payload, remote, hosts).ready
    elif plan.kubernetes is not None:
        runs = _cluster(plan, plan.kubernetes, remote, hosts)
    else:
        # A program without this part; its verdict still waits for the hosts.
        return AcceptanceReport(hosts.gate.urn.apply(lambda _: ""))
    request = AcceptRequest(
        plan.digest,
        plan.stack,
        remote.provenance,
        plan.asked or plan.acceptance,
        repairs_of(remote.notes),
    )
    report = Acceptance("acceptance", request, remote, runs, run).report
    access = runs.access.kubeconfig if isinstance(runs, JobsReady) else None
    return replace(report, kubeconfig=access)


def _cluster(
    plan: ClusterPlan, kubernetes: KubernetesPlan, remote: Remote, hosts: HostsReady
) -> JobsReady:
    if plan.upgrades:
        hosts = Upgrades("upgrades", plan.upgrades, remote, hosts).ready
    cluster = Cluster("kubernetes", kubernetes, remote, hosts).access
    access = plan.acceptance.access
    repairs = Repairs(access, remote) if access else None
    gpus = Operators("operators", plan.operators, cluster, repairs=repairs).ready
    pods = PodNetwork("pod-network", plan.pod_network, gpus).ready
    jobs = Jobs("jobs", plan.jobs, pods)
    if access:
        opts = pulumi.ResourceOptions(parent=jobs, depends_on=[jobs.ready.gate])
        ask_before_deletion(access, plan.stack, remote, opts)
    return jobs.ready

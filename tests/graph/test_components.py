"""Each component on its own, as a user of one room would write it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes

from components.acceptance import Acceptance
from components.acceptance.handover import AcceptRequest
from components.fabric import Fabric
from components.hosts import Hosts
from components.jobs import Jobs
from components.kubernetes import Cluster
from components.kubernetes.objects import ClusterAccess, GpuReady, JobsReady, PodNetworkReady
from components.kubernetes.planes.base import ExistingAccess, KubernetesPlan
from components.operators import Operators
from components.operators.component import Repairs
from components.plan.make import make_plan
from components.pod_network import PodNetwork
from components.remote.component import Remote
from components.remote.handoffs import FabricReady, HostsReady
from components.remote.lines import parse_lines
from components.remote.sending import split_parts
from components.testing import Graph, Run, record_program, unwrap
from tests.acceptance.test_watch_plan import watched
from tests.graph.dev_site import STDOUT, dev_plan
from tests.graph.vault import Vault

RUN = Run(config={}, stdout=STDOUT)


def before() -> pulumi.Resource:
    """Whatever a user has in front of the room."""
    return pulumi.Stash("before", input="before")


def dev_kubernetes() -> KubernetesPlan:
    plan = dev_plan().kubernetes
    assert plan is not None
    return plan


def access() -> ClusterAccess:
    """A cluster that somebody else made."""
    provider = kubernetes.Provider("existing", kubeconfig="{}", cluster_identifier="existing")
    kubeconfig = pulumi.Output.secret("{}")
    return ClusterAccess(before(), dev_kubernetes(), kubeconfig, provider)


def names(graph: Graph, prefix: str) -> list[str]:
    return sorted(item.name for item in graph.of_type(prefix))


def waits_for_what_was_before(graph: Graph) -> bool:
    return any("before" in item.dependencies for item in graph.resources)


def test_fabric() -> None:
    secrets = Vault()

    def program() -> None:
        Fabric("my-fabric", dev_plan().switches, Remote(secrets, {}))

    graph = record_program(RUN, program)
    assert names(graph, "command:") == ["leaf-01-apply", "leaf-01-baseline"]
    assert graph.named("my-fabric-ready").dependencies == ("leaf-01-apply",)
    assert secrets.asked == {"switch_password"}


def test_hosts() -> None:
    secrets = Vault()

    def program() -> None:
        remote = Remote(secrets, {"gpu01-host": "1: vfs were lost"})
        Hosts("my-hosts", dev_plan().hosts, remote, FabricReady(before()))

    graph = record_program(RUN, program)
    hosts = ("gpu01", "gpu02", "mgmt01")
    assert names(graph, "command:") == [f"{host}-host" for host in hosts]
    assert graph.named("gpu01-host").dependencies == ("before",)
    parts = split_parts(graph.named("gpu01-host").text("stdin"))
    assert [part.step for part in parts] == ["gpu01-tools", "gpu01-host"]
    names_of_all = cast("dict[str, str]", graph.named("my-hosts").inputs["names"])
    assert names_of_all["gpu01"] == "127.41.0.11"
    assert graph.named("gpu01-host").text("stdin").endswith("\nrepair=1: vfs were lost\n")
    assert "repair=" not in graph.named("gpu02-host").text("stdin")


def test_cluster() -> None:
    kept: list[ClusterAccess] = []

    def program() -> None:
        remote = Remote(Vault(), {})
        plan = dev_kubernetes()
        kept.append(Cluster("my-cluster", plan, remote, HostsReady(before())).access)

    graph = record_program(RUN, program)
    assert graph.named("mgmt01-k3s-token").dependencies == ("before",)
    environment = graph.named("mgmt01-k3s-token").plain("environment")
    assert isinstance(environment, dict)
    assert unwrap(environment["RAILYARD_SECRET_K3S_TOKEN"]) == "from a vault: k3s_token"
    parts = split_parts(graph.named("gpu01-k3s").text("stdin"))
    assert [part.step for part in parts] == ["gpu01-k3s-token", "gpu01-k3s", "gpu01-node"]
    assert graph.named("my-cluster-provider").is_secret("kubeconfig")
    assert kept[0].plan.cluster == "dgx-roce"


def test_operators() -> None:
    def program() -> None:
        Operators("my-operators", dev_plan().operators, access())

    graph = record_program(RUN, program)
    release = graph.named("gpu-operator")
    assert release.type == "kubernetes:helm.sh/v3:Release"
    assert release.options["provider"] == "existing"
    assert waits_for_what_was_before(graph)


def test_what_users_share_outlives_the_stack_in_a_cluster_of_others_alone() -> None:
    theirs = replace(dev_kubernetes(), existing=ExistingAccess("kubeconfig", None))

    def recorded(plan: KubernetesPlan) -> set[str]:
        def program() -> None:
            cluster = replace(access(), plan=plan)
            PodNetwork("my-network", dev_plan().pod_network, GpuReady(cluster.gate, cluster))

        kept = record_program(RUN, program).resources
        return {item.name for item in kept if item.options.get("retainOnDelete")}

    definitions = {
        f"{owner}-customresourcedefinition-{name}"
        for owner, name in (
            ("multus", "network-attachment-definitions.k8s.cni.cncf.io"),
            ("whereabouts", "ippools.whereabouts.cni.cncf.io"),
            ("whereabouts", "overlappingrangeipreservations.whereabouts.cni.cncf.io"),
        )
    }
    assert recorded(theirs) == definitions
    assert recorded(dev_kubernetes()) == set()


def test_a_release_that_was_repaired_once_has_its_step_before_it() -> None:
    notes = {"gpu-operator-restore": "1: it was absent", "gpu-operator": "1: it was failed"}

    def program() -> None:
        plan = dev_plan()
        assert plan.acceptance.access is not None
        repairs = Repairs(plan.acceptance.access, Remote(Vault(), notes))
        Operators("my-operators", plan.operators, access(), repairs=repairs)

    graph = record_program(RUN, program)
    step, release = graph.named("gpu-operator-restore"), graph.named("gpu-operator")
    assert step.text("create").endswith(" device restore-release")
    request = parse_lines(step.text("stdin"))
    assert (request["release"], request["namespace"]) == ("gpu-operator", "gpu-operator")
    assert request["repair"] == "1: it was absent"
    assert "gpu-operator-restore" in release.dependencies
    assert release.text("description") == "1: it was failed"
    assert "gpu-operator-restore" in graph.named("gpu-operator-ready").dependencies
    assert waits_for_what_was_before(graph)


def test_pod_network() -> None:
    def program() -> None:
        cluster = access()
        PodNetwork("my-network", dev_plan().pod_network, GpuReady(cluster.gate, cluster))

    graph = record_program(RUN, program)
    attachments = names(graph, "kubernetes:k8s.cni.cncf.io/v1:NetworkAttachmentDefinition")
    assert len(attachments) == 4
    assert waits_for_what_was_before(graph)


def test_the_job_of_watch_comes_after_its_rights() -> None:
    plan = make_plan(watched("dgx-roce"), "dev")

    def program() -> None:
        cluster = access()
        Jobs("my-jobs", plan.jobs, PodNetworkReady(cluster.gate, cluster))

    graph = record_program(RUN, program)
    assert {each.resource_name for each in plan.jobs.watch} <= {*names(graph, "kubernetes:")}
    needed = graph.named("railyard-watch-cronjob").dependencies
    assert {"railyard-watch-clusterrolebinding", "railyard-watch-configmap"} <= {*needed}


def test_jobs() -> None:
    def program() -> None:
        cluster = access()
        Jobs("my-jobs", dev_plan().jobs, PodNetworkReady(cluster.gate, cluster))

    graph = record_program(RUN, program)
    assert "mpi-operator-deployment" in names(graph, "kubernetes:apps/v1:Deployment")
    assert waits_for_what_was_before(graph)


def test_acceptance() -> None:
    def program() -> None:
        cluster = access()
        remote = Remote(Vault(), {})
        plan = dev_plan()
        request = AcceptRequest(plan.digest, plan.stack, remote.provenance, plan.acceptance)
        Acceptance("my-proof", request, remote, JobsReady(cluster.gate, cluster), 7)

    graph = record_program(RUN, program)
    evidence = graph.named("acceptance-evidence")
    assert evidence.dependencies == ("before",)
    assert evidence.text("create").endswith(" evidence collect --number 7")
    assert 'provenance = "real"' in evidence.text("stdin")
    assert graph.named("acceptance-gate").dependencies == ("acceptance-evidence",)

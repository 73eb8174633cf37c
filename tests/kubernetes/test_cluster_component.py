"""The Cluster component: three servers behind a balancer, and a cluster that is there already."""

from __future__ import annotations

import base64
import itertools
import json

import pulumi
import yaml

from components.kubernetes import Cluster
from components.kubernetes.planes.base import KubernetesPlan
from components.model.kubernetes import ExistingPlane
from components.remote.component import Remote
from components.remote.handoffs import HostsReady
from components.remote.sending import split_parts
from components.testing import Graph, Run, record_program
from tests.golden.site import changed_spec, load_example
from tests.graph.dev_site import kubeconfig
from tests.graph.engine_order import waits_for
from tests.kubernetes.plans import planned

CA = "-----BEGIN CERTIFICATE-----\nY2E=\n-----END CERTIFICATE-----\n"
STDOUT = {
    "crusoe-k3s-0-cluster-access": kubeconfig(),
    "crusoe-k3s-0-cluster-ca": CA,
    "crusoe-k3s-0-member-removal": '{"changed":[],"state":"none"}\n',
}


class Secrets:
    def require_secret(self, key: str) -> pulumi.Output[str]:
        text = kubeconfig() if key == "kubeconfig" else f"value of {key}"
        return pulumi.Output.secret(text)


def run(plan: KubernetesPlan) -> Graph:
    names = {step.endpoint.device for step in plan.steps}
    names |= {each.step.endpoint.device for each in plan.balancers}

    def program() -> None:
        facts = {
            name: pulumi.Output.from_input(
                json.dumps({
                    "public_ip": f"203.0.113.{number}",
                    "private_ip": f"10.100.0.{number}",
                    "host_key": f"ssh-ed25519 {name}",
                })
            )
            for number, name in enumerate(sorted(names), 10)
        }  # fmt: skip
        before = pulumi.Stash("before", input="before")
        Cluster("k", plan, Remote(Secrets(), {}, instances=facts), HostsReady(before))

    return record_program(Run(config={}, stdout=STDOUT), program)


def test_servers_join_one_by_one_with_the_balancer_after_the_first() -> None:
    graph = run(planned(load_example("crusoe-k3s"), "ha"))
    order = [
        *("crusoe-k3s-0-member-removal", "crusoe-k3s-0-k3s-token", "crusoe-k3s-0-k3s"),
        *("crusoe-k3s-0-node", "crusoe-k3s-0-cluster-ca", "crusoe-k3s-lb-0-haproxy"),
        *("crusoe-k3s-1-member-removal", "crusoe-k3s-1-k3s", "crusoe-k3s-1-node"),
        *("crusoe-k3s-2-member-removal", "crusoe-k3s-2-k3s", "crusoe-k3s-2-node"),
        "crusoe-k3s-worker-0-k3s",
    ]
    for earlier, later in itertools.pairwise(order):
        assert waits_for(graph, later, earlier), (later, earlier)
    assert not waits_for(graph, "crusoe-k3s-worker-0-k3s", "crusoe-k3s-worker-1-k3s")
    assert waits_for(graph, "k-ready", "crusoe-k3s-worker-1-k3s")


def test_the_holes_of_every_step_are_filled() -> None:
    graph = run(planned(load_example("crusoe-k3s"), "ha"))
    for command in graph.of_type("command:"):
        assert "@{" not in json.dumps(dict(command.inputs)), command.name
    stdin = graph.named("crusoe-k3s-lb-0-haproxy").text("stdin")
    line = next(line for line in stdin.splitlines() if line.startswith("ca_base64="))
    assert base64.b64decode(line.removeprefix("ca_base64=")).decode() == CA
    assert "cluster=none\n" in graph.named("crusoe-k3s-0-k3s").text("stdin")


def test_the_kubeconfig_has_the_public_address_of_the_balancer() -> None:
    graph = run(planned(load_example("crusoe-k3s"), "ha"))
    (balancer,) = split_parts(graph.named("crusoe-k3s-lb-0-haproxy").text("stdin"))
    public = json.loads(balancer.on)["address"]
    provider = graph.named("k-provider")
    assert provider.is_secret("kubeconfig")
    config = yaml.safe_load(provider.text("kubeconfig"))
    assert config["clusters"][0]["cluster"]["server"] == f"https://{public}:6443"


def test_an_existing_cluster_is_reached_and_nothing_is_installed() -> None:
    plane = ExistingPlane(plane="existing", version="v1.36.3", context=None)
    spec = changed_spec(load_example("dgx-roce"), kubernetes=plane)
    plan = planned(spec)
    assert plan.steps == ()
    graph = run(plan)
    assert graph.of_type("command:") == []
    provider = graph.named("k-provider")
    assert provider.is_secret("kubeconfig")
    config = yaml.safe_load(provider.text("kubeconfig"))
    assert config["current-context"] == "dgx-roce"
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"

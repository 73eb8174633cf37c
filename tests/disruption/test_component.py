"""The reboots as resources: groups one after the other, the hosts of one group together."""

from __future__ import annotations

from typing import cast

import pulumi
import yaml

from components.disruption import Reboots, Upgrades
from components.disruption.disruption_plan import plan_upgrades
from components.model.cluster import ClusterSpec, Disruption
from components.model.kubernetes import ExistingPlane
from components.remote.component import Remote
from components.remote.handoffs import HostsReady
from components.remote.lines import parse_lines
from components.testing import Graph, Run, record_program
from tests.disruption.played import groups_of
from tests.golden.site import EXAMPLES, changed_spec, load_example, spread_document
from tests.graph.vault import Vault
from tests.kubernetes.plans import planned

NOTES = {"gpu02-host": "1: vfs is 0, want 8"}


def record(spec: ClusterSpec, secrets: Vault | None = None) -> Graph:
    def program() -> None:
        remote = Remote(secrets or Vault(), NOTES)
        before = HostsReady(pulumi.Stash("before", input="before"))
        Reboots("reboots", groups_of(spec), remote, before)

    return record_program(Run(config={}), program)


def rail_site(most: int) -> ClusterSpec:
    return changed_spec(
        load_example("rail-optimised"),
        disruption=Disruption(ports="allow", reboots="allow", max_unavailable=most),
    )


def test_one_worker_after_the_other() -> None:
    graph = record(load_example("dgx-roce"))
    assert graph.named("gpu01-reboot").dependencies == ("before",)
    assert graph.named("gpu02-reboot").dependencies == ("gpu01-reboot",)
    assert graph.named("reboots-ready").dependencies == ("gpu02-reboot",)


def test_within_a_group_hosts_go_together_and_groups_are_chained() -> None:
    spec = rail_site(2)
    groups = groups_of(spec)
    graph = record(spec)
    assert len(groups) > 1
    before = "before"
    for group in groups:
        for name in group.hosts:
            assert graph.named(f"{name}-reboot").dependencies == (before,)
        if len(group.hosts) > 1:
            before = f"reboots-{group.number}-ready"
            waits = graph.named(before).dependencies
            assert waits == tuple(sorted(f"{name}-reboot" for name in group.hosts))
        else:
            before = f"{next(iter(group.hosts))}-reboot"
    assert graph.named("reboots-ready").dependencies == (before,)


def repair(graph: Graph, name: str) -> str:
    return cast("dict[str, str]", parse_lines(graph.named(name).text("stdin"))).get("repair", "")


def test_a_reboot_repeats_the_note_of_its_host_alone() -> None:
    graph = record(load_example("dgx-roce"))
    assert repair(graph, "gpu01-reboot") == ""
    assert repair(graph, "gpu02-reboot") == NOTES["gpu02-host"]


def test_secrets_stand_in_the_environment_alone() -> None:
    secrets = Vault()
    graph = record(load_example("dgx-roce"), secrets)
    step = graph.named("gpu01-reboot")
    assert secrets.asked == {"ssh_private_key"}
    environment = step.plain("environment")
    assert isinstance(environment, dict)
    assert list(environment) == ["RAILYARD_SECRET_SSH_PRIVATE_KEY"]
    assert "vault" not in step.text("stdin")
    assert "delete" not in step.inputs
    assert step.text("create") == ".venv/bin/railyard device reboot-host"


def test_the_kubeconfig_of_an_existing_cluster_is_a_secret_of_the_environment() -> None:
    text = (EXAMPLES / "shared-rdma" / "existing.yaml").read_text()
    spec = ClusterSpec.model_validate(spread_document(yaml.safe_load(text)))
    assert isinstance(spec.kubernetes, ExistingPlane)
    secrets = Vault()
    graph = record(spec, secrets)
    name = groups_of(spec)[0].hosts[0]
    assert spec.kubernetes.kubeconfig.secret in secrets.asked
    environment = graph.named(f"{name}-reboot").plain("environment")
    assert isinstance(environment, dict)
    assert f"RAILYARD_SECRET_{spec.kubernetes.kubeconfig.secret.upper()}" in environment


def _servers_alone(spec: ClusterSpec) -> ClusterSpec:
    return changed_spec(spec, hosts=spec.servers)


def test_a_site_where_nothing_can_wait_still_has_its_gate() -> None:
    graph = record(_servers_alone(load_example("dgx-roce")))
    assert graph.named("reboots-ready").dependencies == ("before",)


def test_upgrades_go_servers_first_and_then_in_groups() -> None:
    spec = changed_spec(
        load_example("dgx-roce"), disruption=Disruption(reboots="allow", max_unavailable=2)
    )

    def program() -> None:
        before = HostsReady(pulumi.Stash("before", input="before"))
        Upgrades("upgrades", plan_upgrades(spec, planned(spec)), Remote(Vault(), {}), before)

    graph = record_program(Run(config={}), program)
    assert graph.named("mgmt01-upgrade").dependencies == ("before",)
    for name in ("gpu01", "gpu02"):
        assert graph.named(f"{name}-upgrade").dependencies == ("mgmt01-upgrade",)
        assert graph.named(f"{name}-upgrade").text("create").endswith("device upgrade-node")
    assert graph.named("upgrades-ready").dependencies == ("upgrades-2-ready",)

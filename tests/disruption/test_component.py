"""The reboots as resources: groups one after the other, the hosts of one group together."""

from __future__ import annotations

from typing import cast

import pulumi
import pytest
import yaml

from components.disruption import Reboots, Upgrades, disruption_plan
from components.disruption.disruption_plan import plan_upgrades
from components.model.cluster import ClusterSpec, Disruption
from components.model.kubernetes import ExistingPlane
from components.remote.component import Remote
from components.remote.handoffs import HostsReady
from components.remote.lines import parse_lines
from components.remote.sending import split_parts
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
    assert graph.named("reboots-1").dependencies == ("before",)
    parts = split_parts(graph.named("reboots-1").text("stdin"))
    assert [part.step for part in parts] == ["gpu01-reboot", "gpu02-reboot"]
    assert graph.named("reboots-ready").dependencies == ("reboots-1",)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_group_is_split_between_two_resources(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disruption_plan, "HOSTS_A_STEP", 3)
    spec = rail_site(most)
    groups, graph = groups_of(spec), record(spec)
    steps = graph.of_type("command:")
    assert len(steps) > 1
    found: list[str] = []
    for before, step in zip(["before", *(each.name for each in steps)], steps, strict=False):
        assert step.dependencies == (before,)
        hosts = [part.step.removesuffix("-reboot") for part in split_parts(step.text("stdin"))]
        assert len(hosts) <= 3
        assert all({*group.hosts} <= {*hosts} for group in groups if {*group.hosts} & {*hosts})
        found += hosts
    assert found == [name for group in groups for name in group.hosts]
    assert graph.named("reboots-ready").dependencies == (steps[-1].name,)


def repair(graph: Graph, name: str) -> str:
    (text,) = (
        part.stdin
        for part in split_parts(graph.named("reboots-1").text("stdin"))
        if part.step == name
    )
    return cast("dict[str, str]", parse_lines(text)).get("repair", "")


def test_a_reboot_repeats_the_note_of_its_host_alone() -> None:
    graph = record(load_example("dgx-roce"))
    assert repair(graph, "gpu01-reboot") == ""
    assert repair(graph, "gpu02-reboot") == NOTES["gpu02-host"]


def test_secrets_stand_in_the_environment_alone() -> None:
    secrets = Vault()
    graph = record(load_example("dgx-roce"), secrets)
    step = graph.named("reboots-1")
    assert secrets.asked == {"ssh_private_key"}
    environment = step.plain("environment")
    assert isinstance(environment, dict)
    assert list(environment) == ["RAILYARD_SECRET_SSH_PRIVATE_KEY"]
    assert "vault" not in step.text("stdin")
    assert "delete" not in step.inputs
    assert step.text("create") == ".venv/bin/railyard device reboot-hosts"


def test_the_kubeconfig_of_an_existing_cluster_is_a_secret_of_the_environment() -> None:
    text = (EXAMPLES / "shared-rdma" / "existing.yaml").read_text()
    spec = ClusterSpec.model_validate(spread_document(yaml.safe_load(text)))
    assert isinstance(spec.kubernetes, ExistingPlane)
    secrets = Vault()
    graph = record(spec, secrets)
    assert spec.kubernetes.kubeconfig.secret in secrets.asked
    environment = graph.named("reboots-1").plain("environment")
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

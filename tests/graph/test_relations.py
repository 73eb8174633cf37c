"""What must hold between the resources of the example, whatever their texts are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from components.acceptance.handover import parse_asked
from components.core.problem import Json
from components.remote.sending import split_parts
from components.testing import SECRET_KEY, UNKNOWN, Graph, Recorded
from tests.graph.dev_site import CLIENT_KEY, SECRETS, changed_inputs, dev_run
from tests.graph.whole_program import record_main

STAGES = (
    "fabric", "hosts", "reboots", "kubernetes", "operators", "pod-network", "jobs", "acceptance",
)  # fmt: skip
OBSERVE_ONLY = ("-baseline", "-cluster-access", "reboots-1")
"""Steps that only read, where nothing waits: they are not in a device's budget."""


def commands(graph: Graph) -> list[Recorded]:
    return graph.of_type("command:")


def strings_in_clear(value: Json) -> Iterator[str]:
    """Every text that no secret envelope hides."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_in_clear(item)
    elif isinstance(value, dict) and SECRET_KEY not in value:
        for key, item in value.items():
            yield key
            yield from strings_in_clear(item)


def behind(graph: Graph, name: str) -> set[str]:
    """Names of everything that a resource waits for, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for each in graph.named(waiting.pop()).dependencies:
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


@pytest.fixture(params=["up", "preview"])
def graph(request: pytest.FixtureRequest, dev_graph: Graph, dev_preview: Graph) -> Graph:
    return dev_graph if request.param == "up" else dev_preview


def test_no_secret_stands_in_clear(graph: Graph) -> None:
    values = {*SECRETS.values(), CLIENT_KEY}
    for item in graph.resources:
        leaked = [
            secret
            for text in strings_in_clear(dict(item.inputs))
            for secret in values
            if secret in text
        ]
        assert not leaked, item.name
    assert not [text for message in graph.messages for text in values if text in message]


def test_every_secret_arrives_where_it_is_needed(dev_graph: Graph) -> None:
    """The test above would pass if no secret was ever used."""
    hidden = json.dumps([dict(item.inputs) for item in dev_graph.resources])
    for secret in (*SECRETS.values(), CLIENT_KEY):
        assert secret in hidden
    for name in ("leaf-01-apply", "leaf-01-baseline", "acceptance-evidence", "mgmt01-k3s-token"):
        environment = dev_graph.named(name).inputs["environment"]
        assert isinstance(environment, dict)
        open_values = {key for key, value in environment.items() if [*strings_in_clear(value)]}
        assert len(environment) > len(open_values)
        assert open_values <= {"RAILYARD_BASELINE"}, name
    assert dev_graph.named("kubernetes-provider").is_secret("kubeconfig")
    assert dev_graph.named("mgmt01-cluster-access").secret_outputs == ("stderr", "stdout")


def test_no_output_was_turned_into_text(graph: Graph) -> None:
    for item in graph.resources:
        for text in strings_in_clear(dict(item.inputs)):
            assert "Calling __str__ on an Output" not in text, item.name


def test_commands_never_stream_and_never_repeat_old_output(graph: Graph) -> None:
    for item in commands(graph):
        assert item.inputs["logging"] == "none", item.name
        # Only the change from the last run is sent to a switch, and only changed steps run.
        compares = item.name == "leaf-01-apply" or len(split_parts(item.text("stdin"))) > 1
        assert item.inputs["addPreviousOutputInEnv"] is compares, item.name


def test_hosts_are_pinned(graph: Graph) -> None:
    parts = [part for item in commands(graph) for part in split_parts(item.text("stdin"))]
    keys = [json.loads(part.on)["host_key"] for part in parts if part.on]
    assert len(keys) == 13
    assert all(key.startswith("ssh-ed25519 ") for key in keys)


def test_nothing_is_replaced_by_a_trigger(graph: Graph) -> None:
    for item in graph.resources:
        assert "triggers" not in item.inputs, item.name
        assert not item.options.get("deleteBeforeReplace"), item.name


def test_steps_run_the_same_text_to_create_and_to_update(graph: Graph) -> None:
    for item in commands(graph):
        assert "update" not in item.inputs, item.name
        assert item.text("create")


def test_what_changes_a_device_also_undoes_it(graph: Graph) -> None:
    without = {item.name for item in commands(graph) if "delete" not in item.inputs}
    reading = {"leaf-01-baseline", "mgmt01-cluster-access", "reboots-1"}
    assert without == reading | {"acceptance-evidence", "acceptance-gate"}


def test_each_stage_waits_for_the_gate_of_the_one_before(graph: Graph) -> None:
    for before, stage in pairwise(STAGES):
        for item in graph.resources:
            if item.parent == stage and item.custom and not item.type.startswith("pulumi:"):
                assert f"{before}-ready" in behind(graph, item.name), (stage, item.name)


def test_no_stage_waits_for_a_later_one(graph: Graph) -> None:
    place = {item.name: STAGES.index(item.parent) for item in graph.resources if item.custom}
    for item in graph.resources:
        for each in item.dependencies:
            assert place[each] <= place[item.name], (item.name, each)


def test_stages_meet_only_at_gates(graph: Graph) -> None:
    """Decisions 10: a step that installs is never an input of another stage.

    What is installed on a host waits for the host's own last step as well, which it reads nothing
    of: the order of deletions follows from such edges alone (decision 38).
    """
    by_name = {item.name: item for item in graph.resources}
    for item in graph.resources:
        crossing = {each for each in item.dependencies if by_name[each].parent != item.parent}
        allowed = {f"{stage}-ready" for stage in STAGES} | {"mgmt01-cluster-access"}
        host = item.name.partition("-")[0]
        assert crossing <= allowed | {f"{host}-host"}, item.name


def test_a_gate_has_an_input_that_never_changes(graph: Graph) -> None:
    gates = graph.of_type("pulumi:index:Stash")
    names = {f"{stage}-ready": stage for stage in STAGES[:-1]}
    names["pod-network-group-0-ready"] = "pod-network-group-0"
    assert {gate.name for gate in gates} == names.keys()
    for gate in gates:
        assert gate.inputs == {"input": names[gate.name]}


def test_the_last_group_of_a_stage_waits_for_all_the_others(graph: Graph) -> None:
    """The stage's gate names that group alone, and no object gets away from it."""
    for stage in ("pod-network", "jobs"):
        owned = {
            item.name
            for item in graph.resources
            if item.parent == stage and item.type.startswith("kubernetes:")
        }
        named = set(graph.named(f"{stage}-ready").dependencies)
        assert named < owned
        assert owned <= behind(graph, f"{stage}-ready") | named


def test_servers_come_before_agents(graph: Graph) -> None:
    for agent in ("gpu01-k3s", "gpu02-k3s"):
        assert {"mgmt01-k3s", "hosts-ready"} <= behind(graph, agent)
    assert "gpu02-k3s" not in behind(graph, "gpu01-k3s")
    assert graph.named("gpu01-k3s").dependencies == ("gpu01-host", "mgmt01-k3s")


def test_access_waits_for_servers_and_not_for_agents(graph: Graph) -> None:
    assert graph.named("mgmt01-cluster-access").dependencies == ("mgmt01-k3s",)
    assert graph.named("kubernetes-provider").dependencies == ("mgmt01-cluster-access",)


def test_kubernetes_objects_name_their_provider(graph: Graph) -> None:
    objects = graph.of_type("kubernetes:")
    assert len(objects) > 20
    assert all(item.options.get("provider") == "kubernetes-provider" for item in objects)


def test_the_provider_has_an_identity_of_its_own(graph: Graph) -> None:
    provider = graph.named("kubernetes-provider").inputs
    assert provider["clusterIdentifier"] == "dgx-roce"
    assert provider["enableServerSideApply"] == "true"
    assert provider["enableConfigMapMutable"] == "true"
    assert provider["enableSecretMutable"] == "true"


def test_cluster_scoped_custom_resources_carry_no_namespace(graph: Graph) -> None:
    for item in graph.resources:
        if item.type.endswith((":CustomResourceDefinition", ":ClusterRole", ":ClusterPolicyPatch")):
            metadata = item.inputs["metadata"]
            assert isinstance(metadata, dict)
            assert "namespace" not in metadata, item.name


def test_the_gate_judges_the_evidence(dev_graph: Graph) -> None:
    evidence, gate = dev_graph.named("acceptance-evidence"), dev_graph.named("acceptance-gate")
    assert gate.dependencies == ("acceptance-evidence",)
    told, asked_plan = gate.text("stdin").splitlines()
    assert told == '{"verdict": "what the probes saw"}'
    assert asked_plan == f'asked = "{parse_asked(evidence.text("stdin")).plan_digest}"'
    assert gate.text("create") == ".venv/bin/railyard evidence gate --fail --stack dev"
    assert evidence.text("create") == ".venv/bin/railyard evidence collect --number 1"
    asked = parse_asked(evidence.text("stdin"))
    assert (asked.provenance, asked.stack, len(asked.request)) == ("lab", "dev", 64)


def test_names_are_unique(graph: Graph) -> None:
    names = [item.name for item in graph.resources if item.custom]
    assert len(names) == len(set(names))


def test_a_host_costs_four_commands_and_a_switch_two(graph: Graph) -> None:
    """One for its tools, one converge, one token and one install a host.

    Reading is not counted, and neither is the reboot, which is one look where nothing waits. A
    worker has one more, on the first server: it is taken out of the cluster by it. A server has one
    more too: the token of the workers.
    """
    for host, most in (("mgmt01", 5), ("gpu01", 5), ("gpu02", 5)):
        own = [item.name for item in commands(graph) if item.name.startswith(f"{host}-")]
        changing = [name for name in own if not name.endswith(OBSERVE_ONLY)]
        assert len(changing) <= most, own
    switch = [item.name for item in commands(graph) if item.name.startswith("leaf-01-")]
    assert switch == ["leaf-01-apply", "leaf-01-baseline"]


def test_the_baseline_is_taken_once(graph: Graph) -> None:
    baseline = graph.named("leaf-01-baseline")
    assert baseline.options["ignoreChanges"] == ["*"]
    assert graph.named("leaf-01-apply").dependencies == ("leaf-01-baseline",)


def test_commands_say_nothing_about_this_machine(graph: Graph) -> None:
    for item in graph.of_type("command:local:"):
        assert item.text("create").startswith(".venv/bin/railyard ")
        assert item.text("delete" if "delete" in item.inputs else "create").startswith(".venv/")
        assert "dir" not in item.inputs


def test_a_preview_with_nothing_known_builds_the_same_graph(
    dev_graph: Graph, dev_preview: Graph
) -> None:
    def shape(graph: Graph) -> list[tuple[object, ...]]:
        return [(item.urn, item.dependencies, dict(item.options)) for item in graph.resources]

    assert shape(dev_preview) == shape(dev_graph)
    assert changed_inputs(dev_graph, dev_preview) == {
        "leaf-01-apply",  # the recorded baseline
        "kubernetes-provider",  # the kubeconfig
        "acceptance-gate",  # what the probes saw
    }
    environment = dev_preview.named("leaf-01-apply").inputs["environment"]
    assert isinstance(environment, dict)
    assert environment["RAILYARD_BASELINE"] == UNKNOWN
    assert dev_preview.named("leaf-01-apply").plain("stdin") == dev_graph.named(
        "leaf-01-apply"
    ).plain("stdin")
    assert dev_preview.outputs["verdict"] == UNKNOWN


def test_two_stacks_in_one_process_know_nothing_of_each_other(dev_graph: Graph) -> None:
    other = record_main(replace(dev_run(), stack="second"))
    assert {item.urn.split("::")[0] for item in other.resources} == {"urn:pulumi:second"}
    assert [item.name for item in other.resources] == [item.name for item in dev_graph.resources]
    assert "stack=second\n" in other.named("gpu01-host").text("stdin")
    again = record_main(dev_run())
    assert [item.inputs for item in again.resources] == [
        item.inputs for item in dev_graph.resources
    ]

"""A switch with a plain exec, as the engine sees it."""

from __future__ import annotations

import json

from components.fabric import Fabric
from components.fabric.device import OUTPUT_VARIABLE
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.targets import digest_of
from components.remote.component import Remote
from components.remote.lines import parse_lines
from components.testing import Graph, Run, record_program
from tests.fabric.test_exec_plan import plan_of
from tests.graph.test_components import names
from tests.graph.vault import Vault


def graph_of(
    plan: SwitchPlan, notes: dict[str, str] | None = None, *, preview: bool = False
) -> Graph:
    def program() -> None:
        Fabric("fabric", (plan,), Remote(Vault(), notes or {}))

    printed = {"leaf-01-exec": "said by the switch", "leaf-01-save": ""}
    return record_program(Run(config={}, stdout=printed, preview=preview), program)


def test_sent_judged_saved_and_judged_again() -> None:
    plan = plan_of("onyx")
    assert plan.exec is not None
    graph = graph_of(plan)
    steps = ["leaf-01-apply", "leaf-01-exec", "leaf-01-save", "leaf-01-saved"]
    assert names(graph, "command:") == steps
    for step, after in (
        ("leaf-01-apply", "leaf-01-exec"),
        ("leaf-01-save", "leaf-01-apply"),
        ("leaf-01-saved", "leaf-01-save"),
        ("fabric-ready", "leaf-01-saved"),
    ):
        assert after in graph.named(step).dependencies
    sent = graph.named("leaf-01-exec")
    assert sent.type == "command:remote:Command"
    assert (sent.text("create"), sent.text("delete")) == (plan.exec.apply, plan.exec.undo)
    assert sent.plain("addPreviousOutputInEnv") is False
    assert graph.named("leaf-01-save").plain("delete") is None
    judge = graph.named("leaf-01-apply")
    assert judge.text("create").endswith("railyard device judge")
    assert judge.plain("delete") is None
    assert judge.plain("environment") == {OUTPUT_VARIABLE: "said by the switch"}


def test_the_watched_state_is_that_of_an_apply() -> None:
    plan = plan_of("cumulus")
    request = parse_lines(graph_of(plan).named("leaf-01-apply").text("stdin"))
    assert request["desired"] == plan.desired.model_dump(mode="json")
    assert plan.exec is not None
    assert request["judges"] == {"kind": "apply", "text": digest_of(plan.exec.apply)}


def test_a_repair_changes_every_text_and_no_desired_state() -> None:
    plan = plan_of("onyx")
    notes = {"leaf-01-exec": "2", "leaf-01-apply": "2: vlan_111 of switch is absent"}
    before, after = graph_of(plan), graph_of(plan, notes)
    for step in ("leaf-01-exec", "leaf-01-save"):
        assert '"## run 2"' in after.named(step).text("create")
        assert "run 2" not in before.named(step).text("create")
    requests = [parse_lines(each.named("leaf-01-apply").text("stdin")) for each in (before, after)]
    assert requests[0]["desired"] == requests[1]["desired"]
    assert requests[1]["repair"] == "2: vlan_111 of switch is absent"


def test_the_password_is_in_the_connection_alone() -> None:
    graph = graph_of(plan_of("onyx"))
    for item in graph.of_type("command:"):
        inputs = {key: value for key, value in item.inputs.items() if key != "connection"}
        assert "vault" not in json.dumps(inputs)
    connection = graph.named("leaf-01-exec").inputs["connection"]
    assert "vault" in json.dumps(connection)
    assert plan_of("onyx").endpoint.host_key in json.dumps(connection)


def test_a_preview_of_a_new_stack_knows_every_text() -> None:
    graph = graph_of(plan_of("onyx"), preview=True)
    assert graph.named("leaf-01-exec").text("create").startswith("cli ")
    assert parse_lines(graph.named("leaf-01-apply").text("stdin"))["os"] == "onyx"

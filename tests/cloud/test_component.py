"""The cloud's steps as the engine sees them: edges, triggers, secrets, and no step too many."""

from __future__ import annotations

import json

import pulumi

from components.cloud import Instances
from components.cloud.cloud_plan import PREFLIGHT_STEP, list_calls
from components.remote.component import Remote
from components.testing import Graph, Run, record_program
from tests.cloud.small_engine import plan_of, site

PLAN = plan_of(site("https://api.cloud.crusoe.ai/v1"))
WORKER = "crusoe-k3s-worker-0"


class Secrets:
    """Secrets from anywhere."""

    def require_secret(self, key: str) -> pulumi.Output[str]:
        return pulumi.Output.secret(f"from a vault: {key}")


def printed(step: str) -> str:
    """What a step prints, as far as others take it."""
    return json.dumps(
        {"id": f"id-of-{step}", "operation": "", "image": f"image-of-{step}"}
        | {key: f"{key}-of-{step}" for key in ("public_ip", "private_ip", "host_key")}
    )


STDOUT = {call.step: printed(call.step) for call in list_calls(PLAN, {})}


def record(notes: dict[str, str]) -> Graph:
    def program() -> None:
        ready = Instances("cloud", PLAN, Remote(Secrets(), notes)).ready
        pulumi.export("facts", ready.facts[WORKER])
        pulumi.export("machine", ready.machines[WORKER].urn)

    return record_program(Run(config={}, stdout=STDOUT), program)


def test_every_call_is_one_command_with_its_edges() -> None:
    graph = record({})
    commands = {item.name: item for item in graph.of_type("command:")}
    calls = list_calls(PLAN, {})
    assert sorted(commands) == sorted(call.step for call in calls)
    for call in calls:
        command = commands[call.step]
        assert {*call.needs} <= {*command.dependencies}
        assert command.text("create") == f".venv/bin/railyard cloud {call.verb}"
        assert "@{" not in command.text("stdin")
    waits = {f"{each.name}-await" for each in PLAN.instances}
    assert {*graph.named("cloud-ready").dependencies} == waits


def test_ids_are_joined_into_stdin_and_triggers() -> None:
    command = record({}).named(f"{WORKER}-instance")
    assert '"transport_partition_id": "id-of-crusoe-k3s-partition"' in command.text("stdin")
    assert '"image": "image-of-crusoe-k3s-worker-image"' in command.text("stdin")
    triggers = command.plain("triggers")
    assert isinstance(triggers, list)
    assert "partition=id-of-crusoe-k3s-partition" in triggers
    assert command.text("delete") == ".venv/bin/railyard cloud remove"
    assert record({}).named(PREFLIGHT_STEP).text("delete") == ".venv/bin/railyard cloud sweep"


def test_keys_are_secrets_of_the_environment_and_stand_nowhere_else() -> None:
    for item in record({}).of_type("command:"):
        assert "from a vault" not in item.text("stdin")
        environment = item.inputs["environment"]
        assert isinstance(environment, dict)
        assert sorted(environment) == [
            "RAILYARD_SECRET_CRUSOE_ACCESS_KEY",
            "RAILYARD_SECRET_CRUSOE_SECRET_KEY",
        ]


def test_facts_and_machines_are_handed_on() -> None:
    graph = record({})
    facts = graph.outputs["facts"]
    assert isinstance(facts, str)
    assert json.loads(facts)["public_ip"] == f"public_ip-of-{WORKER}-await"
    assert str(graph.outputs["machine"]).endswith(f"::{WORKER}-instance")


def test_a_note_changes_its_step_alone() -> None:
    before, after = record({}), record({"crusoe-k3s-ssh-rule": "1: opened by hand"})
    changed = {
        item.name
        for item in after.of_type("command:")
        if item.plain("stdin") != before.named(item.name).plain("stdin")
    }
    assert changed == {"crusoe-k3s-ssh-rule"}

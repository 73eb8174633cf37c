"""The steps of a stack against the emulated cloud: make, keep, mend, remove."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from components.cli.cloud import run_verb
from components.cloud.cloud_plan import INSTANCE_CLAIMS, PREFLIGHT_STEP, CloudPlan
from components.cloud.crusoe_api import CloudError
from components.cloud.kinds import Item
from components.cloud.observe import cloud_drift, observe_cloud, with_generations
from components.core.errors import DeviceError, HostKeyError
from components.drift.device_drift import Unreachable
from lab.cloud.crusoe.model import VmType
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import (
    QUICK,
    SECRETS,
    Stack,
    answer_ssh,
    cloud_config,
    plan_of,
    printed,
    running_cloud,
    site,
)

TABLES = ("networks", "subnets", "rules", "partitions", "instances")
WORKER = "crusoe-k3s-worker-0"


def names(cloud: CrusoeCloud, table: str) -> Counter[str]:
    found = cloud.snapshot()[table]
    assert isinstance(found, dict)
    return Counter(str(item["name"]) for item in found.values() if isinstance(item, dict))


def item_named(cloud: CrusoeCloud, table: str, name: str) -> dict[str, object]:
    found = cloud.snapshot()[table]
    assert isinstance(found, dict)
    [item] = [each for each in found.values() if isinstance(each, dict) and each["name"] == name]
    return dict(item)


def said(stack: Stack) -> str:
    return "\n".join(map(str, stack.errors))


def test_everything_is_made_once_and_a_second_run_does_nothing(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    assert made.ran[0] == PREFLIGHT_STEP
    wanted = {each.name for each in plan.instances}
    assert names(cloud, "instances") == Counter(wanted)
    assert names(cloud, "partitions") == Counter(["crusoe-k3s"])
    before = cloud.snapshot()
    assert made.up(plan)
    assert made.ran == []
    assert all(cloud.snapshot()[table] == before[table] for table in TABLES)
    assert cloud.unmodelled == ()


def test_an_instance_is_as_its_pool_says(cloud: CrusoeCloud, made: Stack) -> None:
    facts = printed(made, f"{WORKER}-await")
    instance = item_named(cloud, "instances", WORKER)
    assert instance["type"] == "h100-80gb-sxm-ib.8x"
    assert len(facts["guids"].split(",")) == 8
    assert facts["image_id"] == "image-ubuntu22.04-nvidia-sxm-docker-2026-08-01"
    # What `latest` meant, by a tag that goes on meaning it.
    assert instance["image"] == "ubuntu22.04-nvidia-sxm-docker:2026-08-01"
    assert facts["public_ip"].startswith("127.205.0.")
    assert facts["private_ip"].startswith("127.205.1.")


def test_destroy_leaves_nothing(cloud: CrusoeCloud, made: Stack) -> None:
    assert made.destroy(), said(made)
    assert made.steps == {}
    assert all(not cloud.snapshot()[table] for table in TABLES)


def test_what_is_gone_is_made_anew_and_nothing_else(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    old = printed(made, f"{WORKER}-await")["id"]
    cloud.fault(["gone", WORKER])
    assert made.up(plan), said(made)
    assert made.ran == [f"{WORKER}-instance", f"{WORKER}-await"]
    assert f"instance {WORKER} is absent" in made.notes[f"{WORKER}-instance"]
    assert printed(made, f"{WORKER}-await")["id"] != old
    assert made.up(plan)
    assert made.ran == []


def test_a_gone_balancer_is_the_door_again(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    cloud.fault(["gone", "crusoe-k3s-lb-0"])
    assert made.up(plan), said(made)
    [end] = json.loads(json.dumps(item_named(cloud, "rules", "crusoe-k3s-api")["destinations"]))
    assert end == {"resource_id": printed(made, "crusoe-k3s-lb-0-instance")["id"]}
    assert made.ran[-2:] == ["crusoe-k3s-api-rule", "crusoe-k3s-lb-0-await"]


def test_a_stopped_instance_is_started(cloud: CrusoeCloud, plan: CloudPlan, made: Stack) -> None:
    cloud.fault(["stop", WORKER])
    assert made.up(plan), said(made)
    assert made.ran == [f"{WORKER}-await"]
    assert item_named(cloud, "instances", WORKER)["state"] == "STATE_RUNNING"


def test_a_new_address_is_read(cloud: CrusoeCloud, plan: CloudPlan, made: Stack) -> None:
    old = printed(made, f"{WORKER}-await")["public_ip"]
    cloud.fault(["readdress", WORKER])
    assert made.up(plan), said(made)
    assert made.ran == [f"{WORKER}-await"]
    assert printed(made, f"{WORKER}-await")["public_ip"] != old


def test_a_rule_that_was_opened_by_hand_is_closed(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack, tmp_path: Path
) -> None:
    cloud.stop()
    state = tmp_path / "cloud.json"
    text = state.read_text(encoding="utf-8")
    state.write_text(text.replace("203.0.113.0/24", "0.0.0.0/0"), encoding="utf-8")
    port = int(cloud_port(plan))
    with running_cloud(state, cloud_config(port)) as opened:
        assert made.up(plan), said(made)
        assert made.ran == ["crusoe-k3s-ssh-rule", "crusoe-k3s-api-rule"]
        assert "0.0.0.0/0" not in str(item_named(opened, "rules", "crusoe-k3s-ssh")["sources"])
        assert made.up(plan)
        assert made.ran == []
    cloud.start()


def cloud_port(plan: CloudPlan) -> str:
    return plan.api.endpoint.partition("//")[2].partition(":")[2].partition("/")[0]


def test_an_edited_rule_is_changed_in_place(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    del plan
    old = item_named(cloud, "rules", "crusoe-k3s-ssh")["id"]
    edited = plan_of(site(cloud.endpoint, ("ssh_allowed: [203.0.113", "ssh_allowed: [198.51.100")))
    assert made.up(edited), said(made)
    assert made.ran == ["crusoe-k3s-ssh-rule"]
    rule = item_named(cloud, "rules", "crusoe-k3s-ssh")
    assert (rule["id"], rule["sources"]) == (old, [{"cidr": "198.51.100.0/24"}])


def test_a_pool_grows_and_shrinks_without_touching_the_others(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    more = plan_of(site(cloud.endpoint, ("count: 2}", "count: 3}")))
    assert made.up(more), said(made)
    name = "crusoe-k3s-worker-2"
    claims = [PREFLIGHT_STEP, INSTANCE_CLAIMS]
    assert made.ran == [*claims, f"{name}-instance", f"{name}-await"]
    assert made.up(plan), said(made)
    assert names(cloud, "instances")[name] == 0
    assert len(names(cloud, "instances")) == 6


def test_a_newer_image_replaces_no_node(plan: CloudPlan, made: Stack, cloud: CrusoeCloud) -> None:
    cloud.stop()
    newer = replace(
        cloud_config(int(cloud_port(plan))),
        images=(("ubuntu22.04", "2026-10-01"), ("ubuntu22.04-nvidia-sxm-docker", "2026-10-01")),
    )
    with running_cloud(cloud.state_file, newer):
        assert made.up(plan), said(made)
        assert made.ran == []
    cloud.start()


def test_a_name_of_somebody_else_is_refused_before_anything_is_made(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    other = Stack()
    before = cloud.snapshot()
    assert not other.up(plan)
    assert isinstance(other.errors[0], DeviceError)
    assert "VPC network crusoe-k3s" in said(other)
    assert "this stack did not make it" in said(other)
    assert other.steps == {}
    assert other.destroy()
    assert all(cloud.snapshot()[table] == before[table] for table in TABLES)
    assert made.up(plan)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((("us-east1-a", "eu-norway1-a"),), "the location eu-norway1-a does not exist."),
        ((("c1a.8x", "c1a.16x"),), "the instance type c1a.16x does not exist. Did you mean"),
        (
            (("ubuntu22.04:latest", "ubuntu22.04:2020-01-01"),),
            "the image in us-east1-a ubuntu22.04:2020-01-01 does not exist.",
        ),
        ((("count: 2}", "count: 5}"),), "has 4 of h100-80gb-sxm-ib.8x to give, and 5 are to be"),
        ((("count: 2}", "count: 5}"),), "may take 32 more of quota QUOTA_H100, and 40 are"),
        ((("count: 2}", "count: 5}"),), "has 40 free slices, 8 for each of 5 instances; the most"),
        (
            (("h100-80gb", "h200-141gb"),),
            "the cloud offers no IB network of us-east1-a for h200-141gb-sxm-ib.8x",
        ),
    ],
)
def test_preflight_names_what_is_missing_before_anything_is_made(
    cloud: CrusoeCloud, plan: CloudPlan, edits: tuple[tuple[str, str], ...], words: str
) -> None:
    del plan
    stack = Stack()
    assert not stack.up(plan_of(site(cloud.endpoint, *edits)))
    assert words in said(stack)
    assert "Nothing was made" in said(stack)
    assert all(not cloud.snapshot()[table] for table in TABLES)


def test_preflight_does_not_ask_again_for_what_is_there(
    plan: CloudPlan, made: Stack, cloud: CrusoeCloud
) -> None:
    cloud.stop()
    sold_out = replace(
        cloud_config(int(cloud_port(plan))),
        types=(
            VmType("c1a.2x", 0, "QUOTA_C1A", 20),
            VmType("c1a.8x", 0, "QUOTA_C1A", 20),
            VmType("h100-80gb-sxm-ib.8x", 8, "QUOTA_H100", 2),
        ),
        ib_slices=16,
    )
    with running_cloud(cloud.state_file, sold_out):
        made.steps[PREFLIGHT_STEP].stdin = "the request before an edit"
        assert made.up(plan), said(made)
        assert made.ran == [PREFLIGHT_STEP]
    cloud.start()


def test_out_of_stock_says_so_and_the_next_run_ends_well(
    cloud: CrusoeCloud, plan: CloudPlan
) -> None:
    stack = Stack()
    cloud.fault(["out_of_stock"])
    assert not stack.up(plan)
    assert [type(error) for error in stack.errors] == [DeviceError]
    assert "a quota does not guarantee capacity" in said(stack)
    assert stack.up(plan), said(stack)
    assert names(cloud, "instances") == Counter(each.name for each in plan.instances)


def test_a_lost_answer_is_adopted_and_not_asked_again(cloud: CrusoeCloud, plan: CloudPlan) -> None:
    stack = Stack()
    cloud.fault(["lost", "14", "post"])
    assert stack.up(plan), said(stack)
    assert names(cloud, "instances") == Counter(each.name for each in plan.instances)
    assert printed(stack, "crusoe-k3s-network")["did"] == "adopted"


def test_two_of_one_name_are_never_guessed(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    cloud.stop()
    state = json.loads(cloud.state_file.read_text(encoding="utf-8"))
    [own] = [each for each in state["instances"].values() if each["name"] == WORKER]
    state["instances"]["another"] = own | {"id": "another"}
    cloud.state_file.write_text(json.dumps(state), encoding="utf-8")
    with running_cloud(cloud.state_file, cloud_config(int(cloud_port(plan)))):
        assert made.up(plan), said(made)  # ours is known by its id
        assert made.ran == []
        del made.steps[f"{WORKER}-instance"]
        assert not made.up(plan)
        assert f"there are 2 instances named {WORKER}" in said(made)
    cloud.start()


def test_a_changed_host_key_is_refused(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_ssh(monkeypatch, "ssh-ed25519 AAAAanother")
    cloud.fault(["readdress", WORKER])
    assert not made.up(plan)
    assert [type(error) for error in made.errors] == [HostKeyError]
    assert "presented  ssh-ed25519 AAAAanother" in said(made)


@pytest.mark.parametrize("status", ["401", "403", "500", "429"])
@pytest.mark.parametrize("verb", ["preflight", "image", "ensure", "await", "remove", "sweep"])
def test_an_api_error_is_never_absence(
    cloud: CrusoeCloud, made: Stack, status: str, verb: str
) -> None:
    """Each error times each verb: exit code 4, the status in the text, nothing made or deleted."""
    step = {
        "preflight": PREFLIGHT_STEP,
        "sweep": PREFLIGHT_STEP,
        "image": "crusoe-k3s-image",
        "await": f"{WORKER}-await",
    }.get(verb, f"{WORKER}-instance")
    before = cloud.snapshot()
    cloud.fault([status, "99"])
    with pytest.raises(CloudError, match=status) as caught:
        run_verb(verb, made.steps[step].stdin, made.environ(made.steps[step]), QUICK)
    assert caught.value.exit_code == 4
    cloud.fault(["clear"])
    assert all(cloud.snapshot()[table] == before[table] for table in TABLES)


@pytest.mark.parametrize("status", ["401", "403", "500", "429"])
def test_an_api_error_is_not_observed_and_replaces_nothing(
    cloud: CrusoeCloud, plan: CloudPlan, made: Stack, status: str
) -> None:
    cloud.fault([status, "999"])
    facts = observe_cloud(plan, made.applied, SECRETS, QUICK)
    assert {type(each) for each in facts.values()} == {Unreachable}
    drifts = cloud_drift(plan, made.applied, facts)
    assert all(each.unreachable and not each.differences for each in drifts)
    objects = with_generations(plan, made.applied, facts).objects
    assert {each.generation for each in objects} == {0}


def test_observe_sees_what_was_made_and_nothing_else(plan: CloudPlan, made: Stack) -> None:
    assert observe_cloud(plan, Stack().applied, SECRETS, QUICK) == {}
    facts = observe_cloud(plan, made.applied, SECRETS, QUICK)
    assert {type(each) for each in facts.values()} == {Item}
    assert len(facts) == len(plan.objects)
    drifts = cloud_drift(plan, made.applied, facts)
    assert all(each.observed and not each.edited for each in drifts)

"""Audit: a site file beside its devices, without a stack."""

from __future__ import annotations

import json

import pytest

from components.core.difference import ABSENT
from components.core.errors import UsageError
from components.core.key_values import HostState
from components.drift.device_drift import Unreachable
from components.fabric.state import SwitchState
from components.plan.make import ClusterPlan, make_plan
from components.update.audit import Audit, as_planned, judge_audit, run_audit
from components.update.decide import judge_drift
from components.update.seen import Facts, Seen
from tests.golden.site import load_example

NAMES = ("dgx-roce", "esxi-roce", "shared-rdma", "spine-leaf", "quantum-ib", "rail-optimised")
PLANS = {name: make_plan(load_example(name), "dev") for name in NAMES}
PLAN = PLANS["dgx-roce"]


def as_filed(plan: ClusterPlan) -> dict[str, Facts]:
    facts: dict[str, Facts] = {each.name: each.desired for each in plan.switches}
    return facts | {each.device: each.desired for each in plan.watched}


def audited(**changed: Facts) -> Audit:
    return judge_audit("dgx-roce", PLAN, as_planned(PLAN), Seen(as_filed(PLAN) | changed))


@pytest.mark.parametrize("name", NAMES)
def test_devices_as_the_file_says_have_no_deviation(name: str) -> None:
    plan = PLANS[name]
    found = judge_audit(name, plan, as_planned(plan), Seen(as_filed(plan)))
    assert found.findings == ()
    assert found.exit_code == 0
    assert {*found.read} == {*as_filed(plan)}


def test_the_planned_state_is_no_edit_of_the_plan() -> None:
    drifts = judge_drift(PLAN, as_planned(PLAN), Seen(as_filed(PLAN)))
    assert [each.device for each in drifts if each.edited or not each.applied] == []


def test_each_injected_difference_is_found_and_nothing_else() -> None:
    host = PLAN.hosts[1]
    leaf = PLAN.switches[0]
    altered = {"kernel.numa_balancing": "1", "module.nvidia_peermem": ABSENT}
    altered = {key: value for key, value in altered.items() if key in host.desired.values}
    altered |= {key: "1400" for key in host.desired.values if key.endswith(".mtu_bytes")}
    ports = {
        name: port.model_copy(update={"mtu_bytes": 1500})
        for name, port in leaf.desired.ports.items()
    }
    switch = SwitchState.model_validate(leaf.desired.model_copy(update={"ports": ports}))
    found = audited(**{leaf.name: switch, host.name: HostState({**host.desired.values, **altered})})
    wanted = {(leaf.name, port) for port in ports} | {(host.name, key) for key in altered}
    assert len(found.findings) == len(wanted)
    assert {each.device for each in found.findings} == {leaf.name, host.name}
    assert {each.rule for each in found.findings} == {"setting"}
    assert found.exit_code == 3


def test_what_only_an_update_makes_is_not_asked_of_other_tools() -> None:
    host = PLAN.hosts[1]
    theirs = {k: v for k, v in host.desired.values.items() if not k.startswith("unit.railyard-")}
    assert len(theirs) < len(host.desired.values)
    assert audited(**{host.name: HostState(theirs)}).findings == ()


def test_an_unread_device_is_worse_than_a_difference() -> None:
    host, leaf = PLAN.hosts[1], PLAN.switches[0]
    found = audited(**{leaf.name: Unreachable("no answer\nwithin 10 s"), host.name: HostState({})})
    assert found.exit_code == 4
    text = found.render()
    assert f"{leaf.name:<12} not read\n{'':<12}   unread    no answer within 10 s" in text
    assert leaf.name not in found.read
    assert text.endswith("Nothing was changed.")


def test_missing_secrets_are_named_at_once_before_any_device_is_read() -> None:
    with pytest.raises(UsageError) as refused:
        run_audit("dgx-roce", PLAN, {})
    text = str(refused.value)
    assert "RAILYARD_SECRET_SWITCH_PASSWORD, to log in to leaf-01" in text
    assert "RAILYARD_SECRET_SSH_PRIVATE_KEY, to log in to " in text


def test_json_names_its_version_and_every_deviation() -> None:
    host = PLAN.hosts[1]
    body = json.loads(audited(**{host.name: HostState({})}).render_json())
    assert (body["schema_version"], body["exit_code"], body["site"]) == (1, 3, "dgx-roce")
    assert {each["device"] for each in body["deviations"]} == {host.name}
    assert {"device", "kind", "text"} == {*body["deviations"][0]}


def test_one_reason_for_several_services_is_printed_once() -> None:
    gone = Unreachable("no route")
    text = audited(**{"gpu01": gone, "gpu01 k3s": gone}).render()
    assert "gpu01 k3s    not read, as gpu01\n" in text
    assert text.count("no route") == 1

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from components.core.difference import Difference
from components.core.key_values import HostState
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import (
    DeviceDrift,
    Unreachable,
    drift_exit_code,
    render_drift,
)
from components.model.cluster import ClusterSpec, Disruption
from components.model.worker_kinds import with_instances
from components.plan.make import ClusterPlan, make_plan
from components.remote.lines import parse_lines, render_lines
from components.remote.step import RemoteStep, render_step_command
from components.update.decide import Intentions, intend, judge_drift
from components.update.proof import Accept, repairs_of
from components.update.seen import Facts, Seen
from tests.golden.site import changed_spec, load_example
from tests.update.judged import refusals, refused_disruptions

SPEC = load_example("dgx-roce")
PLAN = make_plan(SPEC, "dev")
EVIDENCE = '{"run": "what was seen"}'


def applied_step(step: RemoteStep) -> AppliedStep:
    return AppliedStep(step.desired, render_step_command(step, step.apply))


def as_applied(
    plan: ClusterPlan = PLAN, judged: str = EVIDENCE, call: str = "evidence collect"
) -> Applied:
    """The state after good run number 4 of a plan."""
    switches = {
        item.step: AppliedStep(json.dumps({"desired": item.desired.model_dump(mode="json")}))
        for item in plan.switches
    }
    hosts = {step.name: applied_step(step) for step in plan.steps}
    request = render_lines({"plan_digest": plan.digest, "request": "digest"})
    proof = {
        "acceptance-evidence": AppliedStep(request, f"railyard {call} --number 4", EVIDENCE),
        "acceptance-gate": AppliedStep(judged, "railyard evidence gate", "acceptance passed"),
    }
    return Applied(switches | hosts | proof)


def clean(plan: ClusterPlan = PLAN) -> dict[str, Facts]:
    facts: dict[str, Facts] = {item.name: item.desired for item in plan.switches}
    facts.update({item.name: item.desired for item in plan.hosts})
    return facts


def decide(
    plan: ClusterPlan = PLAN,
    applied: Applied | None = None,
    facts: dict[str, Facts] | None = None,
    accept: Accept = "changed",
) -> Intentions:
    return intend(
        plan,
        as_applied() if applied is None else applied,
        Seen(clean() if facts is None else facts),
        accept,
    )


def test_a_new_stack_makes_its_first_proof() -> None:
    intentions = decide(applied=Applied())
    assert (intentions.run, dict(intentions.notes)) == (1, {})


def test_nothing_to_do_keeps_the_number_of_the_proof() -> None:
    assert decide().run == 4


def test_evidence_that_an_earlier_release_kept_in_the_state_is_taken_again() -> None:
    applied = as_applied()
    old = AppliedStep(json.dumps({"plan_digest": PLAN.digest, "acceptance": {}}), "run --number 4")
    steps = {**applied.steps, "acceptance-evidence": old}
    assert decide(applied=Applied(steps)).run == 5


def test_not_looking_is_no_reason_for_another_proof() -> None:
    assert decide(facts={}).run == 4


def test_another_plan_is_another_proof() -> None:
    spec = changed_spec(SPEC, jobs=SPEC.jobs.model_copy(update={"gdr_level": "3"}))
    assert decide(plan=make_plan(spec, "dev")).run == 5


def test_a_proof_can_be_asked_for() -> None:
    assert decide(accept="always").run == 5


@pytest.mark.parametrize("judged", ["", '{"run": "an older one"}'])
def test_evidence_that_no_gate_let_through_is_made_again(judged: str) -> None:
    assert decide(applied=as_applied(judged=judged)).run == 5


def test_evidence_without_a_gate_is_made_again() -> None:
    applied = as_applied()
    steps = {name: step for name, step in applied.steps.items() if name != "acceptance-gate"}
    assert decide(applied=Applied(steps)).run == 5


def test_a_repair_is_noted_for_its_step_only_and_proven() -> None:
    switch = PLAN.switches[0].desired
    facts = clean() | {"leaf-01": switch.model_copy(update={"vlans": ()})}
    intentions = decide(facts=facts)
    assert list(intentions.notes) == ["leaf-01-apply"]
    assert intentions.notes["leaf-01-apply"].startswith("1: vlan_111 of switch is absent")
    assert intentions.run == 5


def _after_repair(proven: str = "") -> tuple[Applied, str]:
    """The state after leaf-01 was repaired, and the digest of that repair."""
    switch = PLAN.switches[0].desired
    facts = clean() | {"leaf-01": switch.model_copy(update={"vlans": ()})}
    notes = decide(facts=facts).notes
    applied = as_applied()
    steps = dict(applied.steps)
    repaired = {**json.loads(steps["leaf-01-apply"].stdin), "repair": notes["leaf-01-apply"]}
    steps["leaf-01-apply"] = AppliedStep(json.dumps(repaired))
    proof = steps["acceptance-evidence"]
    lines = {**parse_lines(proof.stdin), "repairs": proven}
    steps["acceptance-evidence"] = replace(proof, stdin=render_lines(lines))
    return Applied(steps), repairs_of(notes)


def test_a_repair_that_was_killed_before_its_proof_is_proven_by_the_next_run() -> None:
    applied, _ = _after_repair()
    found = decide(applied=applied)
    assert found.run == 5
    assert found.changed is None, "nobody knows what else the killed run repaired"


def test_a_repair_that_is_proven_stays_proven() -> None:
    applied, digest = _after_repair()
    applied, _ = _after_repair(digest)
    assert digest
    assert decide(applied=applied).run == 4
    assert decide(applied=applied, facts={}).run == 4


def test_a_silent_device_without_changes_refuses_nothing() -> None:
    facts = clean() | {"gpu01": Unreachable("gpu01 (nvidia@192.168.2.11:22): no answer")}
    applied = as_applied()
    intentions = decide(applied=applied, facts=facts)
    assert refusals(PLAN, applied, intentions.drifts) == ()
    assert intentions.run == 4


def test_a_silent_device_with_changes_is_refused_with_address_and_reason() -> None:
    facts = clean() | {"gpu01": Unreachable("gpu01 (nvidia@192.168.2.11:22): no answer in 20 s")}
    applied = Applied()
    intentions = decide(applied=applied, facts=facts)
    (words,) = refusals(PLAN, applied, intentions.drifts)
    assert words.startswith("unreachable: gpu01 (nvidia@192.168.2.11:22): no answer in 20 s")
    assert "nothing was ever applied to it" in words
    assert "fix    make it reachable" in words


def test_a_device_with_another_host_key_is_refused_even_without_changes() -> None:
    key = Unreachable(
        "gpu01 (nvidia@192.168.2.11:22): the host key is not the pinned one", stranger=True
    )
    applied = as_applied()
    intentions = decide(applied=applied, facts=clean() | {"gpu01": key})
    (words,) = refusals(PLAN, applied, intentions.drifts)
    assert words.startswith("host key: gpu01")
    assert words.endswith("where  gpu01 (nvidia@192.168.2.11:22)")


GONE = Unreachable("gpu01 (nvidia@192.168.2.11:22): no answer in 20 s")


@pytest.mark.parametrize("name", ["gpu01-host", "gpu01-k3s", "gpu01-k3s-token"])
def test_any_step_that_would_run_on_a_silent_host_is_refused(name: str) -> None:
    applied = as_applied()
    older = AppliedStep(applied.steps[name].stdin, "an older script")
    applied = Applied({**applied.steps, name: older})
    facts = clean() | {"gpu01": GONE}
    (words,) = refusals(PLAN, applied, decide(applied=applied, facts=facts).drifts)
    assert "the file changed for it" in words
    reachable = decide(applied=applied, facts=clean())
    assert refusals(PLAN, applied, reachable.drifts) == ()


def test_an_edit_of_what_kubernetes_does_to_a_silent_host_is_refused() -> None:
    assert SPEC.kubernetes is not None
    kubernetes = SPEC.kubernetes.model_copy(update={"registry_mirror": "192.168.100.11:5000"})
    plan = make_plan(changed_spec(SPEC, kubernetes=kubernetes), "dev")
    applied, facts = as_applied(), clean() | {"gpu01": GONE}
    drifts = decide(plan=plan, applied=applied, facts=facts).drifts
    assert [drift.device for drift in drifts if drift.edited] == [
        f"{host.name} k3s" for host in SPEC.hosts
    ]
    assert len(refusals(plan, applied, drifts)) == 1


def test_an_earlier_repair_is_no_pending_change() -> None:
    applied = as_applied()
    noted = applied.steps["gpu01-host"].stdin + "repair=2: vfs of nic x is 0, want 8\n"
    step = AppliedStep(noted, applied.steps["gpu01-host"].create)
    applied = Applied({**applied.steps, "gpu01-host": step})
    drifts = decide(applied=applied, facts=clean() | {"gpu01": GONE}).drifts
    assert refusals(PLAN, applied, drifts) == ()


def denying(spec: ClusterSpec = SPEC) -> ClusterSpec:
    return changed_spec(spec, disruption=Disruption(ports="deny"))


def mtu_facts() -> dict[str, Facts]:
    switch = PLAN.switches[0].desired
    ports = switch.ports | {"1/2": switch.ports["1/2"].model_copy(update={"mtu_bytes": 1500})}
    return clean() | {"leaf-01": switch.model_copy(update={"ports": ports})}


def test_a_change_that_flaps_a_port_is_refused_where_the_file_says_so() -> None:
    facts = mtu_facts()
    drifts = decide(facts=facts).drifts
    assert refused_disruptions(SPEC, PLAN, drifts, facts, as_applied()) == ()
    (words,) = refused_disruptions(denying(), PLAN, drifts, facts, as_applied())
    assert words.startswith(
        "disruption: leaf-01 would interrupt traffic: port 1/2: mtu_bytes: 1500 -> 9216\n"
    )


def with_ports(**update: object) -> tuple[ClusterSpec, ClusterPlan]:
    """The site with another intent, which denies every interruption."""
    spec = denying(changed_spec(SPEC, rdma=SPEC.rdma.model_copy(update=update)))
    return spec, make_plan(spec, "dev")


def test_with_nothing_read_every_difference_from_the_last_update_counts() -> None:
    """`railyard:observe: never`: an update flapped four ports although the file denied it."""
    spec, plan = with_ports(port_mtu_bytes=9400)
    drifts = decide(plan, as_applied(), {}).drifts
    (words,) = refused_disruptions(spec, plan, drifts, {}, as_applied())
    assert words.startswith(
        "disruption: leaf-01 would interrupt traffic (against the last applied settings, since "
        "nothing was read): ports 1/1 to 1/4: mtu_bytes: 9216 -> 9400\n"
    )
    allowed = changed_spec(spec, disruption=Disruption(ports="allow", reboots="allow"))
    assert refused_disruptions(allowed, plan, drifts, {}, as_applied()) == ()
    spec, plan = with_ports(ecn_min_kib=200)
    drifts = decide(plan, as_applied(), {}).drifts
    assert [drift.device for drift in drifts if drift.edited] == ["leaf-01"]
    assert refused_disruptions(spec, plan, drifts, {}, as_applied()) == ()


def test_a_port_that_leaves_the_file_gets_its_mtu_back() -> None:
    """Which flaps it as well: what it gets is in the recorded baseline."""
    leaf = SPEC.switches[0]
    fewer = leaf.model_copy(update={"ports": {"1/1": leaf.ports["1/1"]}})
    spec = denying(changed_spec(SPEC, switches=(fewer,)))
    plan = make_plan(spec, "dev")
    switch = PLAN.switches[0]
    old = {name: port.model_copy(update={"mtu_bytes": 1500})
           for name, port in switch.desired.ports.items()}  # fmt: skip
    baseline = switch.desired.model_copy(update={"ports": old}).model_dump_json()
    applied = as_applied()
    applied = Applied(
        {**applied.steps, switch.step_named("baseline"): AppliedStep(stdout=baseline)}
    )
    for facts in ({}, clean()):
        drifts = decide(plan, applied, facts).drifts
        (words,) = refused_disruptions(spec, plan, drifts, facts, applied)
        assert "ports 1/2 to 1/4: mtu_bytes: 9216 -> 1500" in words


def test_with_nothing_read_a_new_driver_counts_as_a_reboot() -> None:
    spec = changed_spec(SPEC, disruption=Disruption(ports="allow", reboots="deny"))
    nics = tuple(nic.model_copy(update={"vfs": 16}) for nic in SPEC.hosts[2].nics)
    host = SPEC.hosts[2].model_copy(update={"nics": nics})
    spec = changed_spec(spec, hosts=(*SPEC.hosts[:2], host))
    plan = make_plan(spec, "dev")
    drifts = decide(plan, as_applied(), {}).drifts
    found = refused_disruptions(spec, plan, drifts, {}, as_applied())
    assert [words.partition(" would ")[0] for words in found] == ["disruption: gpu02"]
    assert refused_disruptions(spec, plan, drifts, {}, Applied()) == (), "the steps refuse"


def test_a_change_that_flaps_nothing_is_not_refused() -> None:
    switch = PLAN.switches[0].desired
    ports = switch.ports | {"1/2": switch.ports["1/2"].model_copy(update={"trust": "L2"})}
    facts = clean() | {"leaf-01": switch.model_copy(update={"ports": ports})}
    drifts = decide(facts=facts).drifts
    assert any(drift.differences for drift in drifts)
    assert refused_disruptions(denying(), PLAN, drifts, facts, as_applied()) == ()


def test_no_group_goes_while_a_host_of_an_earlier_one_is_away() -> None:
    """Its reboot may have been asked for by a note, which no state records when it fails."""
    spec = changed_spec(SPEC, disruption=Disruption(reboots="allow", ports="allow"))
    plan = make_plan(spec, "dev")
    applied = as_applied(plan)
    waiting = HostState({"pending.boot.update": "an update changed what only a boot loads"})
    facts = clean(plan) | {"gpu01": GONE}
    drifts = decide(plan, applied, facts).drifts
    assert refused_disruptions(spec, plan, drifts, facts, applied) == ()
    facts |= {"gpu02": waiting}
    (words,) = refused_disruptions(spec, plan, drifts, facts, applied)
    assert "bring gpu01 back" in words
    assert refused_disruptions(spec, plan, drifts, {}, applied) == ()  # railyard:observe never


def test_a_switch_that_is_as_planned_is_not_refused() -> None:
    drifts = tuple(replace(drift, edited=True) for drift in decide().drifts)
    assert refused_disruptions(denying(), PLAN, drifts, clean(), as_applied()) == ()


@pytest.mark.parametrize("kind", ["gone", "unreachable", "there"])
def test_nodes_do_not_leave_over_a_lost_first_server(kind: str) -> None:
    spec = with_instances(load_example("crusoe-k3s"))
    plan = make_plan(spec, "crusoe-k3s")
    assert plan.cloud is not None
    assert plan.kubernetes is not None
    first = plan.kubernetes.nodes[0].endpoint.device
    machine = next(each for each in plan.cloud.instances if each.name == first)
    drift = DeviceDrift(
        device=first if kind == "unreachable" else f"instance {first}",
        step=f"{first}-k3s" if kind == "unreachable" else machine.create,
        observed=kind != "unreachable",
        unreachable="no answer" if kind == "unreachable" else None,
        stranger=False,
        applied=True,
        edited=False,
        differences=(Difference("instance", "presence", "absent", "present"),)
        if kind == "gone"
        else (),
        last_note="",
    )
    applied = Applied(
        {step.name: applied_step(step) for step in plan.steps} | {"gpu99-node": AppliedStep()}
    )
    words = refusals(plan, applied, (drift,))
    if kind == "there":
        assert words == ()
        return
    assert f"{first} is lost, and gpu99 would leave the cluster over it" in words[0]
    assert "put gpu99 back into the file" in words[0]
    kept = Applied({step.name: applied_step(step) for step in plan.steps})
    assert refusals(plan, kept, (drift,)) == ()


@pytest.mark.parametrize("note", ["", "1: power of vm.vm03 is off, want on"])
def test_a_reboot_step_that_already_ran_is_not_pending(note: str) -> None:
    """Its recorded command is a call of `railyard`, and its stdin holds the note of a repair."""
    plan = make_plan(load_example("esxi-roce"), "esxi-roce")
    silent = next(each for each in plan.watched if each.device == "esx03")
    reboot = next(step for step in plan.steps if step.name == "esx03-reboot")
    request = {**parse_lines(reboot.desired), "repair": note}
    recorded = {
        step.name: AppliedStep(step.desired, render_step_command(step, step.apply))
        for step in plan.steps
    } | {reboot.name: AppliedStep(render_lines(request), ".venv/bin/railyard device reboot")}
    applied = Applied(recorded)
    facts = {silent.device: Unreachable("esx03 refused our SSH key", stranger=False)}
    drifts = judge_drift(plan, applied, Seen(facts, Seen().cloud))
    assert refusals(plan, applied, drifts) == ()
    changed = Applied(recorded | {reboot.name: AppliedStep(reboot.desired, "something else")})
    assert len(refusals(plan, changed, drifts)) == 1


def test_a_tool_that_a_host_lost_is_drift_and_is_named() -> None:
    host = next(each for each in PLAN.hosts if each.name == "gpu01")
    digest = next(tool.digest for tool in host.sending.reads if tool.name == "host")
    facts = clean()
    facts["gpu01"] = HostState({**host.desired.values, f"tool.lacks.{digest}": "yes"})
    drifts = judge_drift(PLAN, as_applied(), Seen(facts))
    assert {each.device: each.tools for each in drifts if each.tools} == {"gpu01": ("host",)}
    assert drift_exit_code(drifts) == 3
    report = render_drift(drifts)
    assert "drift: 1 tool of Railyard is missing or altered" in report
    assert "tool host: missing or altered on the host; `pulumi up` sends it again" in report
    assert "1: missing or altered" in decide(facts=facts).notes[host.sending.name]


def test_a_tool_of_a_later_version_is_no_drift() -> None:
    host = next(each for each in PLAN.hosts if each.name == "gpu01")
    facts = clean()
    facts["gpu01"] = HostState({**host.desired.values, f"tool.lacks.{'0' * 64}": "yes"})
    drifts = judge_drift(PLAN, as_applied(), Seen(facts))
    assert drift_exit_code(drifts) == 0

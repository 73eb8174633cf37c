"""Later runs, on the state of the ones before: what a preview would list, and what it would say."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from components.core.key_values import HostState
from components.core.problem import Json
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.remote.lines import parse_lines
from components.remote.sending import Part, split_parts
from components.remote.step import Endpoint
from components.testing import Graph, Run, unwrap
from components.update.seen import Facts, Seen
from stacks import guard
from tests.graph.dev_site import (
    CERTIFICATE_END,
    STDOUT,
    changed_inputs,
    clean_facts,
    dev_cluster,
    dev_plan,
    dev_run,
    kubeconfig,
    next_run,
    port_mtu,
)
from tests.graph.test_not_observed import existing_run
from tests.graph.whole_program import record_main, record_refusal

ACCEPTANCE = {"acceptance-evidence"}
"""The gate follows when the evidence prints something new, which a fake never does."""


@pytest.fixture
def see(monkeypatch: pytest.MonkeyPatch) -> SeeFacts:
    """Stand in for the one call that talks to devices."""
    return SeeFacts(monkeypatch)


class SeeFacts:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def __call__(self, facts: Mapping[str, Facts]) -> None:
        def observed(plan: object, secrets: object, applied: Applied, looks: object) -> Seen:
            del plan, secrets, applied, looks
            return Seen(dict(facts))

        self.patch.setattr(guard, "observe_site", observed)


def run_number(graph: Graph) -> int:
    found = re.search(r"--number (\d+)", graph.named("acceptance-evidence").text("create"))
    assert found is not None
    return int(found[1])


def notes(graph: Graph) -> dict[str, str]:
    """Step to repair note, of the steps that have one."""
    found: dict[str, str] = {}
    for item in graph.of_type("command:"):
        text = item.text("stdin")
        for part in split_parts(text) or (Part(item.name, stdin=text),):
            if "repair = " in part.stdin:
                note = cast("str", parse_lines(part.stdin)["repair"])
            else:
                lines = part.stdin.splitlines()
                note = next((x[7:] for x in lines if x.startswith("repair=")), "")
            found |= {part.step: note} if note else {}
    return found


def edited(**rdma: Json) -> dict[str, Json]:
    cluster = copy.deepcopy(dev_cluster())
    cast("dict[str, Json]", cluster["rdma"]).update(rdma)
    return cluster


def test_a_second_run_changes_nothing(dev_graph: Graph, see: SeeFacts) -> None:
    see(clean_facts(dev_plan()))
    again = record_main(next_run(dev_graph, observe="always"))
    assert changed_inputs(dev_graph, again) == set()
    assert run_number(again) == 1
    assert not again.messages


def test_a_second_preview_that_does_not_look_changes_nothing_and_says_so(dev_graph: Graph) -> None:
    again = record_main(next_run(dev_graph, observe="never"))
    assert changed_inputs(dev_graph, again) == set()
    assert any("not observed" in message for message in again.messages)


def test_drift_on_the_switch_touches_it_and_the_proof_only(dev_graph: Graph, see: SeeFacts) -> None:
    see(port_mtu(dev_plan(), "1/2", 1500))
    repair = record_main(next_run(dev_graph, observe="always"))
    assert changed_inputs(dev_graph, repair) == {"leaf-01-apply"} | ACCEPTANCE
    assert notes(repair) == {"leaf-01-apply": "1: mtu_bytes of port 1/2 is 1500, want 9216"}
    assert run_number(repair) == 2
    assert "leaf-01: drift: mtu_bytes of port 1/2 is 1500, want 9216" in repair.messages


def test_the_note_of_a_repair_stays_until_the_next_one(dev_graph: Graph, see: SeeFacts) -> None:
    drifted = port_mtu(dev_plan(), "1/2", 1500)
    see(drifted)
    repair = record_main(next_run(dev_graph, observe="always"))
    see(clean_facts(dev_plan()))
    quiet = record_main(next_run(repair, observe="always"))
    assert changed_inputs(repair, quiet) == set()
    see(drifted)
    again = record_main(next_run(quiet, observe="always"))
    assert notes(again) == {"leaf-01-apply": "2: mtu_bytes of port 1/2 is 1500, want 9216"}
    assert run_number(again) == 3


def test_drift_on_a_host_touches_that_host_only(dev_graph: Graph, see: SeeFacts) -> None:
    plan = dev_plan()
    facts = clean_facts(plan)
    gpu01 = next(host for host in plan.hosts if host.name == "gpu01")
    lost = {**gpu01.desired.values, "nic.0000:05:00.0.vfs": "0"}
    facts["gpu01"] = HostState(lost)
    see(facts)
    repair = record_main(next_run(dev_graph, observe="always"))
    assert changed_inputs(dev_graph, repair) == {"gpu01-host", "reboots-1"} | ACCEPTANCE
    assert notes(repair)["gpu01-host"] == "1: vfs of nic 0000:05:00.0 is 0, want 8"


def test_an_edit_is_no_drift(dev_graph: Graph, see: SeeFacts) -> None:
    """The devices are as they were left; the file asks for something else."""
    see(clean_facts(dev_plan()))
    after = record_main(next_run(dev_graph, edited(ecn_max_kib=3000), observe="always"))
    gate = {"acceptance-gate"}  # another plan is to be proven
    assert changed_inputs(dev_graph, after) == {"leaf-01-apply"} | ACCEPTANCE | gate
    assert notes(after) == {}
    assert run_number(after) == 2
    (message,) = after.messages
    *said, no_timer = message.splitlines()
    assert said == [
        "leaf-01: 4 settings will change",
        "  ports 1/1 to 1/4",
        "    tc3_ecn_kib: 150-1500 -> 150-3000",
        "  running traffic changes its class: ports 1/1 to 1/4: tc3_ecn_kib: 150-1500 -> 150-3000",
    ]
    assert no_timer.startswith("  NO TIMED RESTORE: if the session is lost, Onyx keeps")


def test_a_proof_that_did_not_pass_is_made_again(dev_graph: Graph, see: SeeFacts) -> None:
    """The gate failed: the engine kept no state of it, or that of the proof before."""
    see(clean_facts(dev_plan()))
    state = dev_graph.state()
    gone = {urn: entry for urn, entry in state.items() if not urn.endswith("::acceptance-gate")}
    assert len(gone) == len(state) - 1
    again = record_main(replace(dev_run(observe="always"), state=gone))
    assert run_number(again) == 2
    assert changed_inputs(dev_graph, again) == ACCEPTANCE
    older = record_main(replace(dev_run(), stdout={**STDOUT, "acceptance-evidence": "{}"}))
    mixed = state | {urn: entry for urn, entry in older.state().items() if "evidence" in urn}
    assert run_number(record_main(replace(dev_run(observe="always"), state=mixed))) == 2


def test_accept_always_proves_again(dev_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_ACCEPT", "always")
    again = record_main(next_run(dev_graph, observe="never"))
    assert changed_inputs(dev_graph, again) == ACCEPTANCE
    assert run_number(again) == 2


def test_access_is_read_anew_once_before_its_certificate_ends(see: SeeFacts) -> None:
    """Nothing else moves: the provider's identity does not hang on the kubeconfig."""
    see(clean_facts(dev_plan()))
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    old_access = STDOUT | {"mgmt01-cluster-access": kubeconfig(soon)}
    first = record_main(replace(dev_run(observe="always"), stdout=old_access))
    renewed = record_main(next_run(first, observe="always"))
    assert notes(renewed) == {
        "mgmt01-cluster-access": f"the client certificate ends on {soon:%Y-%m-%d}"
    }
    assert run_number(renewed) == 1
    quiet = record_main(next_run(renewed, observe="always"))
    assert changed_inputs(renewed, quiet) == set()


def test_a_renewed_kubeconfig_is_no_reason_to_prove_again(dev_graph: Graph, see: SeeFacts) -> None:
    see(clean_facts(dev_plan()))
    later = kubeconfig(CERTIFICATE_END + timedelta(days=365))
    run = replace(
        next_run(dev_graph, observe="always"), stdout=STDOUT | {"mgmt01-cluster-access": later}
    )
    after = record_main(run)
    assert changed_inputs(dev_graph, after) == {"kubernetes-provider"}
    assert run_number(after) == 1


def test_nor_is_that_of_an_existing_cluster_until_something_else_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its owner gives another one; the proof that is asked for next takes it."""
    first = record_main(existing_run("never"))
    assert "ignoreChanges" not in first.named("acceptance-evidence").options
    later = kubeconfig(CERTIFICATE_END + timedelta(days=365))
    renewed = existing_run("never")
    renewed = replace(renewed, config={**renewed.config, "kubeconfig": later}, state=first.state())
    evidence = record_main(renewed).named("acceptance-evidence")
    assert evidence.options["ignoreChanges"] == ["environment"]
    assert {**evidence.inputs, "environment": {}} == {
        **first.named("acceptance-evidence").inputs,
        "environment": {},
    }
    monkeypatch.setenv("RAILYARD_ACCEPT", "always")
    asked = record_main(renewed).named("acceptance-evidence")
    assert "ignoreChanges" not in asked.options
    environment = asked.plain("environment")
    assert isinstance(environment, dict)
    assert unwrap(environment["RAILYARD_SECRET_KUBECONFIG"]) == later


def _unreachable(endpoint: Endpoint) -> Unreachable:
    return Unreachable(f"{endpoint.where} is not reachable within 20 s: Connection refused")


def test_a_silent_device_that_nothing_asks_for_is_only_named(
    dev_graph: Graph, see: SeeFacts
) -> None:
    plan = dev_plan()
    see(clean_facts(plan) | {"gpu01": _unreachable(plan.hosts[1].endpoint)})
    again = record_main(next_run(dev_graph, observe="always"))
    assert changed_inputs(dev_graph, again) == set()
    (message,) = again.messages
    assert message.startswith("gpu01: not observed: gpu01 (nvidia@127.41.0.11:2222) is not reach")


def test_a_silent_device_with_pending_changes_stops_the_run_before_it_starts(
    see: SeeFacts,
) -> None:
    plan = dev_plan()
    see(clean_facts(plan) | {"gpu01": _unreachable(plan.hosts[1].endpoint)})
    words, graph = record_refusal(dev_run(observe="always"))
    assert "gpu01 (nvidia@127.41.0.11:2222) is not reachable within 20 s" in words
    assert "Nothing was changed on any device" in words
    assert graph.resources == []


def test_devices_that_are_silent_for_one_reason_are_one_error_with_its_own_fix(
    see: SeeFacts,
) -> None:
    plan = dev_plan()
    silent = {
        host.name: Unreachable(f"{host.endpoint.where}: no key.\n  fix        set\n it")
        for host in plan.hosts[1:]
    }
    see(clean_facts(plan) | silent)
    words, _ = record_refusal(dev_run(observe="always"))
    assert words.count("unreachable: ") == words.count("  fix    ") == 1
    assert "gpu01 (nvidia@127.41.0.11:2222): no key (and 1 more" in words
    assert re.search(r"where  \S+:\d+  gpu01 .*\n +\S+:\d+  gpu02 ", words)
    assert "  fix    set it; to preview without looking: " in words


def test_ports_that_may_not_flap_stop_a_repair(dev_graph: Graph, see: SeeFacts) -> None:
    cluster = copy.deepcopy(dev_cluster())
    cluster["disruption"] = {"ports": "deny", "reboots": "allow", "max_unavailable": 1}
    see(port_mtu(dev_plan(), "1/2", 1500))
    words, graph = record_refusal(next_run(dev_graph, cluster, observe="always"))
    assert "leaf-01 would interrupt traffic: port 1/2: mtu_bytes: 1500 -> 9216" in words
    assert graph.resources == []


def waiting_for_a_boot() -> dict[str, Facts]:
    """gpu02 has firmware that will start otherwise than it runs."""
    plan = dev_plan()
    gpu02 = next(host for host in plan.hosts if host.name == "gpu02")
    waits = {"pending.boot.nic.0000:05:00.0.fw_num_of_vfs": "16 -> 32"}
    return clean_facts(plan) | {"gpu02": HostState({**gpu02.desired.values, **waits})}


def test_a_preview_lists_the_hosts_that_will_reboot(dev_graph: Graph, see: SeeFacts) -> None:
    see(waiting_for_a_boot())
    after = record_main(next_run(dev_graph, observe="always"))
    assert after.messages == [
        "WILL REBOOT (group 2 of 2): gpu02: nic 0000:05:00.0 fw_num_of_vfs 16 -> 32"
    ]
    assert changed_inputs(dev_graph, after) == {"reboots-1"} | ACCEPTANCE
    assert notes(after) == {"gpu02-reboot": "waits 1: nic 0000:05:00.0 fw_num_of_vfs 16 -> 32"}
    see(clean_facts(dev_plan()))
    quiet = record_main(next_run(after, observe="always"))
    assert changed_inputs(after, quiet) == set()
    see(waiting_for_a_boot())
    again = record_main(next_run(quiet, observe="always"))
    assert notes(again)["gpu02-reboot"].startswith("waits 2: nic")


def test_a_host_that_may_not_reboot_stops_the_run(dev_graph: Graph, see: SeeFacts) -> None:
    cluster = copy.deepcopy(dev_cluster())
    cluster["disruption"] = {"ports": "allow", "reboots": "deny", "max_unavailable": 1}
    see(waiting_for_a_boot())
    words, graph = record_refusal(next_run(dev_graph, cluster, observe="always"))
    assert "disruption: gpu02 would be rebooted: nic 0000:05:00.0 fw_num_of_vfs 16" in words
    assert graph.resources == []


def test_a_wrong_file_registers_nothing() -> None:
    words, graph = record_refusal(dev_run(edited(mtu_bytes=9300, priority=9)))
    assert "rdma" in words
    assert "Traceback" not in words
    assert graph.resources == []


def test_all_missing_secrets_are_named_at_once() -> None:
    run: Run = dev_run()
    gone = {"k3s_token", "switch_password"}
    config = {key: value for key, value in run.config.items() if key not in gone}
    words, graph = record_refusal(replace(run, config=config))
    assert "needs secrets that are missing: k3s_token, switch_password." in words
    assert "pulumi config set --secret railyard:k3s_token" in words
    assert graph.resources == []


def test_an_edit_of_the_version_upgrades_in_order_and_the_next_run_is_quiet(
    dev_graph: Graph,
) -> None:
    newer = copy.deepcopy(dev_cluster())
    cast("dict[str, Json]", newer["kubernetes"])["version"] = "v1.36.4+k3s1"
    up = record_main(next_run(dev_graph, newer, observe="never"))
    assert up.named("gpu01-upgrade").dependencies == ("mgmt01-upgrade",)
    assert up.named("gpu02-upgrade").dependencies == ("gpu01-upgrade",)
    assert any("(group 1 of 3): mgmt01: K3s v1.36.3+k3s1 -> v1.36.4" in m for m in up.messages)
    again = record_main(next_run(up, newer, observe="never"))
    assert changed_inputs(up, again) == set()
    assert not any("WILL BE UPGRADED" in message for message in again.messages)


def test_a_way_back_is_refused_before_anything(dev_graph: Graph) -> None:
    older = copy.deepcopy(dev_cluster())
    cast("dict[str, Json]", older["kubernetes"])["version"] = "v1.36.2+k3s1"
    report, _ = record_refusal(next_run(dev_graph, older, observe="never"))
    assert "mgmt01, gpu01, gpu02 run K3s v1.36.3+k3s1" in report
    assert "neither K3s nor etcd goes back to an earlier release" in report


def test_a_verdict_from_before_deletions_says_so_and_names_accept(dev_graph: Graph) -> None:
    state = dev_graph.state()
    quiet = record_main(replace(dev_run(), state=state))
    assert quiet.outputs["verdict"] == "acceptance passed"
    urn, entry = next(each for each in state.items() if each[0].endswith("::leaf-01-apply"))
    gone = {urn.replace("leaf-01", name): entry for name in ("leaf-08", "leaf-09")}
    after = record_main(replace(dev_run(), state={**state, **gone}))
    assert after.outputs["verdict"] == (
        "acceptance passed, before 2 deletions: run `railyard accept dev` to prove the site as it"
        " is now"
    )

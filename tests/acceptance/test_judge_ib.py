"""What hosts see of InfiniBand, judged against the file."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.collect import probe_runs as collecting
from components.acceptance.collect.probe_runs import look_at_fabric
from components.acceptance.evidence import Evidence
from components.acceptance.judge.infiniband import FABRIC, judge_ib, warn_ib
from components.acceptance.judge.site import judge_evidence
from components.acceptance.judge.verdict import Finding
from components.acceptance.probes.ib_look import IbFacts, IbLimits, plan_ib_limits, plan_ib_looks
from components.core.errors import UnreachableError
from components.remote.host_session import HostAnswer
from tests.acceptance.ib_texts import (
    HOSTS,
    IBDIAGNET,
    LIMITS,
    MASTER_GUID,
    PATH,
    SAQUERY,
    SMINFO,
    SPEC,
    answers,
    look,
    port,
    record,
)
from tests.fabric.ib_lab import load_spec


def rows(
    first: IbFacts, second: IbFacts | None = None, limits: IbLimits | None = LIMITS
) -> dict[tuple[str, str], Finding]:
    facts = {"gpu01": first, "gpu02": second or look("gpu02")}
    return {(row.check, row.subject): row for row in judge_ib(facts, limits)}


def failed(found: dict[tuple[str, str], Finding]) -> dict[tuple[str, str], str]:
    return {key: row.actual for key, row in found.items() if row.verdict == "failed"}


def test_a_fabric_as_planned_passes() -> None:
    good = IBDIAGNET.replace("15\n", "0\n").replace("-E-", "-I-")
    found = rows(look(ibdiagnet=f"{good}status: 0\n"))
    assert failed(found) == {}
    assert {row.verdict for row in found.values()} == {"passed"}
    assert found["one master", FABRIC].expected == "one master of priority 14, 1 standing by"


@pytest.mark.parametrize(
    ("changes", "check", "actual", "step"),
    [
        ({"state": "2: INIT"}, "ib ports", "7 of 8 active; mlx5_0 2: INIT", "no subnet manager"),
        (
            {"state": "1: DOWN"},
            "ib ports",
            "7 of 8 active; mlx5_0 1: DOWN (cable to ib-leaf-01 1/1/1)",
            "look at its cable",
        ),
        ({"state": "3: ARMED"}, "ib ports", "7 of 8 active; mlx5_0 3: ARMED", "look at ibstat"),
        ({"rate": "200 Gb/sec (2X NDR)"}, "ib rate", "mlx5_0 200", "trained to less"),
        ({"rate": "odd"}, "ib rate", "mlx5_0 unknown", "trained to less"),
        ({"active_mtu": "2048 (4)"}, "ib mtu", "mlx5_0 2048", "the smaller end wins"),
        ({"pkeys": "0xffff 0x8201"}, "partition training", "mlx5_0 lacks it", "0x0101"),
        ({"pkeys": "0xffff 0x0101 0x8201"}, "partition training", "mlx5_0 is limited", "0x0101"),
        ({"pkeys": "0x8101 0x8201"}, "partition Default", "mlx5_0 lacks it", "0x7fff"),
    ],
)
def test_what_is_wrong_on_one_port_is_one_row(
    changes: dict[str, str], check: str, actual: str, step: str
) -> None:
    found = rows(look(**changes))
    rail = {("rail hca-0", FABRIC): "gpu01 is not set up"} if "state" in changes else {}
    assert failed(found) == {(check, "gpu01"): actual} | rail
    assert step in found[check, "gpu01"].next_step


def test_an_mtu_that_nobody_says_is_no_pass() -> None:
    assert rows(look(active_mtu=""))["ib mtu", "gpu01"].verdict == "error"


def test_a_limited_member_that_is_full_is_named() -> None:
    second = look("gpu02", pkeys="0xffff 0x8101 0x8201")
    assert failed(rows(look(), second)) == {("partition storage", "gpu02"): "mlx5_0 is full"}


def test_a_key_on_a_host_that_is_no_member_is_named() -> None:
    partitions = (SPEC.infiniband.partitions[0].model_copy(update={"members": ()}),)  # pyright: ignore[reportOptionalMemberAccess] - the example has it
    fabric = SPEC.infiniband.model_copy(update={"partitions": partitions})  # pyright: ignore[reportOptionalMemberAccess] - the same
    limits = plan_ib_limits(SPEC.model_copy(update={"infiniband": fabric}))
    row = rows(look(), limits=limits)["partition training", "gpu01"]
    assert (row.verdict, row.expected) == ("failed", "0x0101 on no port")
    assert row.actual.startswith("mlx5_0 has it, mlx5_1 has it")


def test_a_port_that_was_replaced_is_named() -> None:
    found = rows(look(gid="fe80:0000:0000:0000:ffff:ffff:ffff:0001"))
    assert failed(found)["partition training", "gpu01"] == "no port a088c20300011000 on this host"


@pytest.mark.parametrize(
    ("sminfo", "actual", "verdict"),
    [
        (
            "sminfo: iberror: failed: query\nstatus: 255\n",
            "sminfo: iberror: failed: query",
            "failed",
        ),
        ("missing: sminfo\n", "sminfo is not installed", "error"),
        (SMINFO.replace("state 3", "state 2"), "priority 14, standby", "failed"),
        ("status: 0\n", "answered in another form", "failed"),
    ],
)
def test_a_host_without_a_master(sminfo: str, actual: str, verdict: str) -> None:
    row = rows(look(sminfo=sminfo))["subnet manager", "gpu01"]
    assert actual in row.actual
    assert row.verdict == verdict
    assert row.next_step


@pytest.mark.parametrize(
    ("records", "actual"),
    [
        (record(1, 14, 3) + record(2, 13, 3), "priority 13, master"),
        (record(1, 14, 3), "priority 14, master"),
        (record(1, 15, 3) + record(2, 13, 2), "priority 15, master"),
        (record(1, 14, 2) + record(2, 13, 2), "priority 14, standby"),
        (record(1, 14, 3) + record(2, 13, 2) + record(3, 0, 2), "priority 0, standby"),
    ],
)
def test_one_master_as_planned_and_no_other(records: str, actual: str) -> None:
    seen = look(saquery=f"{records}status: 0\n")
    row = rows(seen, look("gpu02", saquery=f"{records}status: 0\n"))["one master", FABRIC]
    assert row.verdict == "failed"
    assert actual in row.actual


def test_a_manager_of_others_need_only_be_one() -> None:
    limits = (
        LIMITS.model_copy(update={"master_priority": None, "standbys": None}) if LIMITS else None
    )
    alone = f"{record(1, 3, 3)}status: 0\n"
    row = rows(look(saquery=alone), limits=limits)["one master", FABRIC]
    assert (row.verdict, row.expected) == ("passed", "one master")


@pytest.mark.parametrize(
    ("changes", "actual"),
    [
        ({"state": "2: INIT"}, "gpu01 is not set up"),
        ({"sm_lid": "0x7"}, "2 subnets or managers"),
        ({"gid": "fe80:0000:0000:0001:a088:c203:0001:1000"}, "2 subnets or managers"),
    ],
)
def test_each_rail_is_proven_by_itself(changes: dict[str, str], actual: str) -> None:
    found = rows(look(**changes))
    rails = {check: row for (check, _), row in found.items() if check.startswith("rail ")}
    assert len(rails) == 8
    assert {name: row.actual for name, row in rails.items() if row.verdict != "passed"} == {
        "rail hca-0": actual
    }


def test_a_rail_of_which_a_port_was_not_seen_is_not_proven() -> None:
    row = rows(look(gid="fe80:0000:0000:0000:ffff:ffff:ffff:0001"))["rail hca-0", FABRIC]
    assert (row.verdict, row.actual) == ("error", "gpu01 was not seen")


@pytest.mark.parametrize(
    ("said", "verdict", "actual"),
    [
        (PATH, "passed", "a path to gpu02/hca-0"),
        ("status: 0\n", "failed", "no path to gpu02/hca-0"),
        (
            "ERROR: Query result returned 0x0300, SA_ERR_NO_RECORDS\nstatus: 1\n",
            "failed",
            "no path to gpu02/hca-0",
        ),
        ("missing: saquery\n", "error", "gpu02/hca-0: saquery is not installed"),
    ],
)
def test_a_member_gets_a_path_with_its_key(said: str, verdict: str, actual: str) -> None:
    row = rows(look(paths=answers(said)))["paths in training", "gpu01"]
    assert (row.verdict, row.actual) == (verdict, actual)
    assert row.expected == "a path to gpu02/hca-0"


def test_a_path_that_was_not_asked_for_is_no_pass() -> None:
    row = rows(look(paths=""))["paths in storage", "gpu01"]
    assert (row.verdict, row.actual) == (
        "error",
        "gpu02/hca-0: not asked, since no subnet manager answered",
    )


@pytest.mark.parametrize("host", ["gpu01", "gpu02"])
def test_a_port_that_is_not_set_up_proves_no_partition(host: str) -> None:
    found = rows(look(paths="", state="2: INIT"))
    row = found["paths in training", host]
    assert (row.verdict, row.actual) == ("skipped", "not set up: gpu01 mlx5_0")


def test_two_subnets_are_named() -> None:
    other = look("gpu02", sminfo=SMINFO.replace(MASTER_GUID, "b8599f0300bbbbbb"))
    assert ("one subnet", FABRIC) in failed(rows(look(), other))


def test_without_saquery_nothing_is_believed() -> None:
    first, second = (look(host, saquery="missing: saquery\n") for host in HOSTS)
    row = rows(first, second)["one master", FABRIC]
    assert (row.verdict, row.actual) == ("error", "saquery is not installed")


def test_errors_of_ibdiagnet_fail_and_counters_warn() -> None:
    seen = look(ibdiagnet=f"{IBDIAGNET}status: 1\n")
    found = rows(seen)
    assert failed(found) == {("ibdiagnet Speed / Width checks", FABRIC): "15 errors"}
    assert "Unexpected width" in found["ibdiagnet Speed / Width checks", FABRIC].next_step
    warned = {row.check for row in warn_ib({"gpu01": seen}, LIMITS)}
    assert warned == {"ibdiagnet Discovery", "ibdiagnet Port Counters"}
    assert warn_ib({"gpu01": look()}, LIMITS) == warn_ib({"gpu01": seen}, None) == []


def test_without_ibdiagnet_its_row_is_skipped_unless_routing_depends_on_it() -> None:
    seen = look(ibdiagnet="missing: ibdiagnet\n")
    assert rows(seen)["ibdiagnet", FABRIC].verdict == "skipped"
    assert LIMITS is not None
    wanted = LIMITS.model_copy(update={"adaptive_routing": True})
    assert rows(seen, limits=wanted)["ibdiagnet", FABRIC].verdict == "error"
    half = look(ibdiagnet="Running version: x\nstatus: 0\n")
    assert rows(half)["ibdiagnet", FABRIC].verdict == "error"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("Adaptive Routing is enabled on 6 switches", "passed"),
        ("Adaptive Routing is enabled on 3 switches", "failed"),
        ("Adaptive Routing is enabled on 0 switches", "failed"),
        ("", "error"),
    ],
)
def test_adaptive_routing_is_on_everywhere(line: str, verdict: str) -> None:
    assert LIMITS is not None
    wanted = LIMITS.model_copy(update={"adaptive_routing": True})
    text = IBDIAGNET.replace("Adaptive Routing is enabled on 3 switches", line)
    seen = look(ibdiagnet=f"{text}status: 1\n")
    assert rows(seen, limits=wanted)["adaptive routing", FABRIC].verdict == verdict


def test_a_host_that_does_not_answer_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_on_host(*_: object, **__: object) -> HostAnswer:
        raise UnreachableError("gpu01 (ubuntu@192.168.2.11:22) is not reachable\n  more")

    monkeypatch.setattr(collecting, "run_on_host", run_on_host)
    seen = asyncio.run(look_at_fabric(plan_ib_looks(SPEC)[0], {}))
    found = rows(seen)
    assert [row.check for key, row in found.items() if key[1] == "gpu01"] == ["ib ports"]
    assert found["ib ports", "gpu01"].verdict == "error"
    assert "not reachable" in found["ib ports", "gpu01"].actual


def test_a_script_that_was_refused_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_on_host(*_: object, **__: object) -> HostAnswer:
        return HostAnswer("", "sudo: a password is required\n", 1)

    monkeypatch.setattr(collecting, "run_on_host", run_on_host)
    seen = asyncio.run(look_at_fabric(plan_ib_looks(SPEC)[1], {}))
    assert seen.why_nothing == "the look ended with status 1: sudo: a password is required"


def test_the_first_worker_alone_diagnoses() -> None:
    looks = plan_ib_looks(SPEC)
    assert [each.endpoint.device for each in looks] == ["gpu01", "gpu02"]
    assert [each.script.splitlines()[0] for each in looks] == ["diagnose=''", "diagnose=no"]
    assert looks[0].deadline_s > looks[1].deadline_s
    fabric = SPEC.infiniband.model_copy(update={"adaptive_routing": True})  # pyright: ignore[reportOptionalMemberAccess] - the example has it
    asked = plan_ib_looks(SPEC.model_copy(update={"infiniband": fabric}))
    assert asked[0].script.startswith("diagnose=--routing\n")


def test_rows_are_part_of_the_report() -> None:
    plan = plan_acceptance(SPEC)
    evidence = Evidence(
        cluster="quantum-ib",
        plan_digest="0",
        run=1,
        started_at="",
        finished_at="",
        provenance="lab",
        limits=plan.limits,
        probes=(),
        ib={"gpu01": look(state="2: INIT"), "gpu02": look("gpu02")},
    )
    report = judge_evidence(evidence)
    assert report.verdict == "failed"
    assert ("ib ports", "gpu01") in {(row.check, row.subject) for row in report.findings}
    again = Evidence.model_validate_json(evidence.model_dump_json())
    assert judge_evidence(again) == report
    assert {each.device for each in plan.endpoints} == {*HOSTS}


def _takeover(monkeypatch: pytest.MonkeyPatch, answers: list[str], takeover_s: float) -> IbFacts:
    """What a look finds, whose host gives one answer after the other; the last one for ever."""

    async def run_on_host(*_: object, **__: object) -> HostAnswer:
        return HostAnswer(answers.pop(0) if len(answers) > 1 else answers[0], "", 0)

    monkeypatch.setattr(collecting, "run_on_host", run_on_host)
    monkeypatch.setattr(collecting, "ASK_AGAIN_S", 0.01)
    asked = replace(plan_ib_looks(SPEC)[1], takeover_s=takeover_s)
    return asyncio.run(look_at_fabric(asked, {}))


# Of infiniband-diags 56.1 on a fabric whose master was killed.
LOST = (
    "ibwarn: [8147] mad_rpc: _do_madrpc failed; dport (Lid 1)\n"
    "sminfo: iberror: failed: query\nstatus: 255\n"
)
UNKNOWN = "Query SA failed: Connection timed out\nstatus: 110\n"


def lost_text() -> str:
    return f"{port('gpu02', 0)}=== sminfo\n{LOST}=== saquery\n{UNKNOWN}"


def test_a_standby_has_time_to_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = f"{port('gpu02', 0)}=== sminfo\n{SMINFO}=== saquery\n{SAQUERY}"
    handed = taken.replace("state 3 SMINFO_MASTER", "state 2 SMINFO_STANDBY")
    assert handed != taken
    answers = [lost_text(), handed, taken, "never asked"]
    seen = _takeover(monkeypatch, answers, 60.0)
    assert seen.manager is not None
    assert answers == ["never asked"]


def test_a_master_that_nobody_replaces_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _takeover(monkeypatch, [lost_text()], 0.1)
    assert seen.why_no_manager == "sminfo: iberror: failed: query (status: 255)"
    assert seen.why_no_managers == "Query SA failed: Connection timed out (status: 110)"


def test_a_fabric_without_a_standby_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    single = SPEC.switches[1].model_copy(update={"sm_priority": None})
    alone = SPEC.model_copy(update={"switches": (SPEC.switches[0], single)})
    assert {each.takeover_s for each in plan_ib_looks(alone)} == {0.0}
    assert {each.takeover_s for each in plan_ib_looks(SPEC)} == {90.0}
    answers = [lost_text(), "never asked"]
    assert _takeover(monkeypatch, answers, 0.0).manager is None
    assert answers == ["never asked"]


def test_a_port_that_was_never_set_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = lost_text().replace("4: ACTIVE", "2: INIT")
    answers = [fresh, "never asked"]
    assert not _takeover(monkeypatch, answers, 60.0).lacks_master
    assert answers == ["never asked"]


def test_a_partition_of_one_rail_names_the_hca_that_is_outside_or_inside_it() -> None:
    members = [{"host": host, "hcas": [0]} for host in HOSTS]
    limits = plan_ib_limits(load_spec(name="rail0", pkey=0x0201, members=members))
    assert limits is not None
    found = rows(look("gpu01"), look("gpu02"), limits)["partition rail0", "gpu01"]
    assert found.expected == "0x0201 on 1 of the ports, full"
    assert found.actual == ", ".join(
        f"mlx5_{number} has it, and is not a member" for number in range(1, 8)
    )
    inside = look("gpu01").model_copy(
        update={
            "ports": tuple(
                each.model_copy(update={"pkeys": (0xFFFF, *([0x8201] if number == 0 else []))})
                for number, each in enumerate(look("gpu01").ports)
            )
        }
    )
    assert rows(inside, None, limits)["partition rail0", "gpu01"].verdict == "passed"
    swapped = inside.model_copy(update={"ports": inside.ports[1:]})
    wrong = rows(swapped, None, limits)["partition rail0", "gpu01"]
    assert wrong.actual == "no port a088c20300011000 on this host"

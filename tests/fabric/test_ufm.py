"""UFM by its REST API: planned, read, set, repaired and given back, over real HTTPS."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.fabric.device import (
    BASELINE_VARIABLE,
    PREVIOUS_OUTPUT,
    look_at_switch,
    observe_switch,
    run_apply,
    run_baseline,
    run_observe,
    run_restore,
)
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.parts import IbState, MemberKind, PartitionState
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems import system_of
from components.fabric.systems.base import Unreadable
from components.fabric.systems.ufm.system import SM_CONF
from components.model.cluster import ClusterSpec
from components.preflight.judge import judge_ufm
from components.remote.step import Endpoint, render_request
from lab.infiniband.ufm import Partition, Ufm, UfmServer
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.ufm_lab import PASSWORD, plan_at, serve, site, spec_at
from tests.preflight.played import PLAYED

FORMS = Path(__file__).parent / "forms" / "ufm"
ENVIRON = {"RAILYARD_SECRET_UFM_PASSWORD": PASSWORD}
SECRETS = {"ufm_password": PASSWORD}
GPU01 = [f"a088c203000110{n}0" for n in range(8)]
GPU02 = [f"a088c203000210{n}0" for n in range(8)]
OTHERS = "0c42a10300b4db20"


@pytest.fixture(scope="module")
def ufm_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[UfmServer, str]]:
    with serve(tmp_path_factory.mktemp("ufm")) as served:
        yield served


@pytest.fixture
def ufm(ufm_server: tuple[UfmServer, str]) -> Ufm:
    """With one partition of others, and nothing of an earlier test."""
    found = ufm_server[0].ufm
    found.partitions.clear()
    found.requests.clear()
    found.broken.clear()
    found.release = "6.19.3 build 6"
    found.partitions[0x444] = Partition(ip_over_ib=False, guids={OTHERS: ("full", True)})
    return found


@pytest.fixture
def plan(ufm_server: tuple[UfmServer, str], ufm: Ufm) -> SwitchPlan:
    del ufm
    return plan_at(*ufm_server)


def request(plan: SwitchPlan, **parts: object) -> str:
    desired = plan.desired.model_dump(mode="json")
    return render_request(plan.endpoint, os=plan.os, desired=desired, **parts)


def test_an_untouched_ufm_gets_each_partition_and_then_its_members() -> None:
    planned = plan_fabric(ClusterSpec.model_validate(site(index0=True)))[-1]
    assert (planned.name, planned.os, planned.step) == ("ufm", "ufm", "ufm-apply")
    first, second = ({"pkey": "0x101", "ip_over_ib": False}, {"pkey": "0x201", "ip_over_ib": True})
    full = {"membership": "full", "index0": False}
    wanted = [
        ("add", first | {"index0": False}),
        ("", first | full | {"guids": [*GPU01, *GPU02]}),
        ("add", second | {"index0": False}),
        ("", second | {"guids": GPU01, "membership": "full", "index0": True}),
        ("", second | {"guids": GPU02, "membership": "limited", "index0": True}),
    ]
    sent = [line.split(" ", 2) for line in planned.commands_from_factory]
    pkeys = "/ufmRest/resources/pkeys"
    assert [(m, path, json.loads(body)) for m, path, body in sent] == [
        ("POST", f"{pkeys}/{tail}", body) for tail, body in wanted
    ]


def test_the_whole_life(plan: SwitchPlan, ufm: Ufm) -> None:
    before = str(ufm.partitions)
    recorded = run_baseline(request(plan), ENVIRON)
    assert str(ufm.partitions) == before
    environ = ENVIRON | {BASELINE_VARIABLE: json.dumps(json.loads(recorded))}
    evidence = json.loads(run_apply(request(plan), environ))
    assert "member a088c20300011000 of partition 0x0101: absent -> full" in evidence["changed"]
    assert {*ufm.partitions} == {0x101, 0x201, 0x444}
    assert ufm.partitions[0x201].ip_over_ib
    full: dict[str, tuple[str, bool]] = dict.fromkeys(GPU01, ("full", False))
    assert ufm.partitions[0x201].guids == full | dict.fromkeys(GPU02, ("limited", False))
    ufm.requests.clear()
    assert json.loads(run_apply(request(plan), environ))["changed"] == []
    assert ufm.requests == ["GET /ufmRest/resources/pkeys?guids_data=true"]
    del ufm.partitions[0x101].guids[GPU01[3]]
    seen = SwitchState.model_validate_json(run_observe(request(plan), ENVIRON))
    assert seen.ib is not None
    assert GPU01[3] not in seen.ib.partitions["0x0101"].members
    run_apply(request(plan), environ)
    assert ufm.partitions[0x101].guids[GPU01[3]] == ("full", False)
    run_restore(request(plan), environ)
    assert str(ufm.partitions) == before


def test_a_partition_that_left_the_file_goes_and_what_others_put_in_stays(
    ufm_server: tuple[UfmServer, str], plan: SwitchPlan, ufm: Ufm
) -> None:
    environ = ENVIRON | {
        BASELINE_VARIABLE: json.dumps(json.loads(run_baseline(request(plan), ENVIRON)))
    }
    first = run_apply(request(plan), environ)
    ufm.partitions[0x201].guids[OTHERS] = ("limited", False)
    smaller = spec_at(*ufm_server).model_copy(deep=True)
    assert smaller.infiniband is not None
    only = smaller.infiniband.model_copy(update={"partitions": smaller.infiniband.partitions[:1]})
    (*_, fewer) = plan_fabric(smaller.model_copy(update={"infiniband": only}))
    run_apply(request(fewer), environ | {PREVIOUS_OUTPUT: first})
    assert {*ufm.partitions} == {0x101, 0x201, 0x444}
    assert ufm.partitions[0x201].guids == {OTHERS: ("limited", False)}


def test_who_may_not_interrupt_takes_no_key_away(plan: SwitchPlan, ufm: Ufm) -> None:
    ufm.partitions[0x101] = Partition(ip_over_ib=False, guids={GPU01[0]: ("limited", False)})
    held = str(ufm.partitions)
    with pytest.raises(DeviceError, match=r"partition 0x0101: member .*: limited -> full"):
        run_apply(request(plan, ports="deny"), ENVIRON)
    assert str(ufm.partitions) == held


def test_what_ufm_refuses_is_told_and_taken_back(plan: SwitchPlan, ufm: Ufm) -> None:
    held = str(ufm.partitions)
    reached = replace(plan.endpoint, user="looker", password_secret="ufm_password")
    looked = plan.model_copy(update={"endpoint": reached})
    with pytest.raises(DeviceError, match=r"(?s)refused a line.*\[status 403\] Forbidden") as told:
        run_apply(request(looked), {"RAILYARD_SECRET_UFM_PASSWORD": "look"})
    assert "the previous values were put back" in str(told.value)
    assert str(ufm.partitions) == held


def test_a_ufm_that_takes_a_request_and_does_nothing_is_found_out(
    plan: SwitchPlan, ufm: Ufm
) -> None:
    ufm.broken["POST"] = (200, {})
    with pytest.raises(DeviceError, match="took every line and still differs"):
        run_apply(request(plan), ENVIRON)


@pytest.mark.parametrize(
    ("changes", "secret", "kind", "words"),
    [
        ({}, "wrong", DeviceError, "the password of user admin is refused; check the secret"),
        ({"host_key": "1" * 64}, PASSWORD, HostKeyError, "the certificate is not the pinned one"),
        ({"port": 1}, PASSWORD, UnreachableError, "connection refused"),
    ],
)
def test_a_ufm_that_cannot_be_used_is_named(
    plan: SwitchPlan,
    ufm: Ufm,
    changes: dict[str, object],
    secret: str,
    kind: type[DeviceError],
    words: str,
) -> None:
    endpoint: Endpoint = replace(plan.endpoint, **changes)
    with pytest.raises(kind, match=words) as told:
        observe_switch(endpoint, "ufm", plan.desired, {"ufm_password": secret})
    assert ("ufm (admin@127.0.0.1:") in str(told.value)
    assert secret not in str(told.value).replace("the secret", "") or secret == "wrong"
    assert not ufm.requests


@pytest.fixture
def adaptive(ufm_server: tuple[UfmServer, str], ufm: Ufm) -> SwitchPlan:
    """The same where the file asks for adaptive routing."""
    ufm.routing_engine = "ar_updn"
    spec = spec_at(*ufm_server)
    assert spec.infiniband is not None
    fabric = spec.infiniband.model_copy(update={"adaptive_routing": True})
    return plan_fabric(spec.model_copy(update={"infiniband": fabric}))[-1]


def test_adaptive_routing_is_read_and_never_set(adaptive: SwitchPlan, ufm: Ufm) -> None:
    environ = ENVIRON | {BASELINE_VARIABLE: run_baseline(request(adaptive), ENVIRON)}
    run_apply(request(adaptive), environ)
    assert "GET /ufmRest/app/smconf" in ufm.requests
    ufm.routing_engine = "minhop"
    seen = SwitchState.model_validate_json(run_observe(request(adaptive), ENVIRON))
    assert [str(each) for each in diff_states(seen, adaptive.desired)] == [
        "adaptive_routing of subnet manager is off, want on"
    ]
    held = str(ufm.partitions)
    with pytest.raises(DeviceError, match=r"routing_engine ar_updn` for a tree") as told:
        run_apply(request(adaptive), environ)
    assert "yourself in its opensm.conf" in str(told.value)
    assert (str(ufm.partitions), ufm.routing_engine) == (held, "minhop")
    run_restore(request(adaptive), environ)
    assert {*ufm.partitions} == {0x444}
    assert not any(line.startswith("PUT /ufmRest/app") for line in ufm.requests)


@pytest.mark.parametrize(
    ("engine", "shown"), [("ar_ftree", "on"), ("dfp2", "on"), ("updn", "off"), ("minhop", "off")]
)
def test_a_routing_engine_is_adaptive_by_its_name(
    adaptive: SwitchPlan, ufm: Ufm, engine: str, shown: str
) -> None:
    ufm.routing_engine = engine
    seen = observe_switch(adaptive.endpoint, "ufm", adaptive.desired, SECRETS)
    assert seen.ib is not None
    assert seen.settings()["subnet manager", "adaptive_routing"] == shown


def test_who_does_not_ask_for_adaptive_routing_does_not_read_it(plan: SwitchPlan, ufm: Ufm) -> None:
    seen = observe_switch(plan.endpoint, "ufm", plan.desired, SECRETS)
    assert seen.ib is not None
    assert seen.ib.adaptive_routing is None
    assert "adaptive_routing" not in plan.desired.model_dump_json()
    assert ufm.requests == ["GET /ufmRest/resources/pkeys?guids_data=true"]


def test_the_forms_are_read_and_printed(adaptive: SwitchPlan, ufm: Ufm) -> None:
    ufm.routing_engine = "ar_updn"
    commands = system_of("ufm").read_commands(adaptive.desired)
    texts = [(FORMS / name).read_text() for name in ("pkeys.json", "smconf.json")]
    state = system_of("ufm").parse(dict(zip(commands, texts, strict=True)), adaptive.desired).state
    assert state.ib is not None
    assert state.ib.adaptive_routing is True
    assert state.ib.partitions == {
        "0x0444": PartitionState(pkey=0x444, ipoib=False, members={OTHERS: "full, index 0"})
    }
    login = f"Basic {b64encode(f'admin:{PASSWORD}'.encode()).decode()}"
    for command, text in zip(commands, texts, strict=True):
        status, answer = ufm.answer("GET", command.split()[1], login, "")
        assert (status, json.dumps(answer, indent=2) + "\n") == (200, text)


def test_an_answer_of_another_form_is_shown(adaptive: SwitchPlan, ufm: Ufm) -> None:
    ufm.broken["GET"] = (200, [])
    with pytest.raises(DeviceError, match="it is not a list of partitions with their GUIDs"):
        observe_switch(adaptive.endpoint, "ufm", adaptive.desired, SECRETS)
    answers = {"GET /ufmRest/resources/pkeys?guids_data=true": "{}", SM_CONF: "{}"}
    with pytest.raises(Unreadable, match="no `routing_engine_active` in the answer"):
        system_of("ufm").parse(answers, adaptive.desired)


def test_preflight_asks_its_release_and_the_rights_of_the_login(
    ufm_server: tuple[UfmServer, str], ufm: Ufm
) -> None:
    spec = spec_at(*ufm_server)
    manager = spec.infiniband.ufm if spec.infiniband else None
    assert manager is not None
    (*_, plan) = plan_fabric(spec)

    def lacks(release: str, user: str) -> list[str]:
        ufm.release = release
        endpoint = replace(plan.endpoint, user=user)
        password = {"ufm_password": ufm.users[user][0]}
        _, identity = look_at_switch(endpoint, "ufm", plan.desired, password)
        return [each.rule for each in judge_ufm(manager, identity) if each.fix]

    assert lacks("6.19.3 build 6", "admin") == []
    assert lacks("6.15.0", "admin") == []
    assert lacks("6.12.0", "admin") == ["ufm-release"]
    assert lacks("", "admin") == ["ufm-release"]
    assert lacks("6.19.3 build 6", "looker") == ["ufm-rights"]
    assert {*lacks("6.12.0", "looker")} == PLAYED["tests/fabric/test_ufm.py"]


KINDS: st.SearchStrategy[MemberKind] = st.sampled_from(
    [kind for kind in get_args(MemberKind) if kind != "both"]
)
MEMBERS = st.dictionaries(st.sampled_from([*GPU01[:3], OTHERS]), KINDS, max_size=4)


@st.composite
def partitions(draw: st.DrawFn, keys: tuple[int, ...]) -> dict[str, PartitionState]:
    return {
        f"0x{key:04x}": PartitionState(pkey=key, ipoib=draw(st.booleans()), members=draw(MEMBERS))
        for key in draw(st.sets(st.sampled_from(keys)))
    }


def hold(found: dict[str, PartitionState]) -> dict[int, Partition]:
    return {
        each.pkey: Partition(
            ip_over_ib=bool(each.ipoib),
            guids={
                guid: (kind.removesuffix(", index 0"), kind.endswith("index 0"))
                for guid, kind in each.members.items()
            },
        )
        for each in found.values()
    }


class Direct:
    """The emulation without the network: the session's own part is shown above."""

    where = "ufm (in process)"

    def __init__(self, ufm: Ufm) -> None:
        self.ufm = ufm

    def run(self, command: str) -> str:
        method, _, rest = command.partition(" ")
        path, _, body = rest.partition(" ")
        login = "Basic YWRtaW46dWZtLWxhYg=="  # admin:ufm-lab
        status, answer = self.ufm.answer(method, path, login, body)
        text = json.dumps(answer)
        return text if status == 200 else f"[status {status}] {text}"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=partitions((0x101, 0x201, 0x444)),
    one=partitions((0x101, 0x201)),
    two=partitions((0x101, 0x201)),
)
def test_an_update_is_complete_and_its_undo_exact(
    before: dict[str, PartitionState],
    one: dict[str, PartitionState],
    two: dict[str, PartitionState],
) -> None:
    ufm = Ufm({"admin": (PASSWORD, "System_Admin")}, partitions=hold(before))
    exchange = Exchange(Direct(ufm), system_of("ufm"))
    first, second = (SwitchState(ib=IbState(node="ufm", partitions=each)) for each in (one, two))
    baseline = baseline_of(exchange, first)
    apply(exchange, first)
    assert apply(exchange, first) == ()
    edit(exchange, first, second, baseline)
    assert apply(exchange, second) == ()
    restore(exchange, second, baseline)
    assert ufm.partitions == hold(before)

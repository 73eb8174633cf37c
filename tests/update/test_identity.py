"""The same machine under another name: refused before anything is created or undone."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import pytest

from components import testing
from components.core.key_values import HostState
from components.core.problem import Json
from components.drift.applied import Applied, applied_from_outputs
from components.fabric.parts import Identity
from components.fabric.state import Neighbour
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.testing import Graph
from components.update.identity import Device, judge_identity, renames_of
from components.update.seen import Facts, Seen
from lab.keys import host_key
from stacks import guard
from tests.graph.dev_site import clean_facts, dev_cluster, dev_plan, dev_run, next_run
from tests.graph.whole_program import record_main
from tests.update.judged import texts

Cluster = dict[str, Any]
Edit = Callable[[Cluster], None]
OTHER = "127.41.0.99"
MACHINE = "0123456789abcdef0123456789abcdef"


def main() -> None:
    runpy.run_path("__main__.py", run_name="__main__")


def _other_key() -> str:
    return host_key("test/another-machine").public_openssh


def _swap(first: Cluster, second: Cluster) -> None:
    first["ssh"], second["ssh"] = second["ssh"], first["ssh"]


def rename_server(site: Cluster) -> None:
    site["hosts"][0]["name"] = "mgmt02"


def long_name(site: Cluster) -> None:
    site["hosts"][0]["name"] = "mgmt01-dc1"


def rename_and_move(site: Cluster) -> None:
    rename_server(site)
    site["hosts"][0]["ssh"]["address"] = OTHER


def rename_worker(site: Cluster) -> None:
    site["hosts"][1]["name"] = "gpu11"
    site["switches"][0]["ports"] |= {"1/1": "gpu11/rail-0", "1/2": "gpu11/rail-1"}


def rename_switch(site: Cluster) -> None:
    site["switches"][0]["name"] = "leaf-02"


def swap_hosts(site: Cluster) -> None:
    _swap(site["hosts"][1], site["hosts"][2])


def ring(site: Cluster) -> None:
    first, second, third = (host["ssh"] for host in site["hosts"])
    for host, ssh in zip(site["hosts"], (second, third, first), strict=True):
        host["ssh"] = ssh


def take_address(site: Cluster) -> None:
    worker, other = site["hosts"][1]["ssh"], site["hosts"][2]["ssh"]
    worker["address"], other["address"] = other["address"], OTHER


def other_server(site: Cluster) -> None:
    site["hosts"][0]["ssh"] |= {"address": OTHER, "host_key": _other_key()}


def move_server(site: Cluster) -> None:
    site["hosts"][0]["ssh"]["address"] = OTHER


def move_worker(site: Cluster) -> None:
    site["hosts"][1]["ssh"]["address"] = OTHER


def other_worker(site: Cluster) -> None:
    site["hosts"][1]["ssh"] |= {"address": OTHER, "host_key": _other_key()}


def new_key(site: Cluster) -> None:
    site["hosts"][1]["ssh"]["host_key"] = _other_key()


def nothing(site: Cluster) -> None:
    del site


REFUSED: list[tuple[Edit, tuple[str, ...]]] = [
    (
        rename_server,
        ("mgmt02 is the machine formerly named mgmt01", "railyard rename host mgmt01 mgmt02"),
    ),
    (long_name, ("mgmt01-dc1 is the machine formerly named mgmt01",)),
    (rename_and_move, ("mgmt02 is the machine formerly named mgmt01", "same host key")),
    (
        rename_worker,
        ("gpu11 is the machine formerly named gpu01", "railyard rename host gpu01 gpu11"),
    ),
    (
        rename_switch,
        ("leaf-02 is the switch formerly named leaf-01", "rename switch leaf-01 leaf-02"),
    ),
    (
        swap_hosts,
        ("gpu01 is the machine formerly named gpu02", "gpu02 is the machine formerly named gpu01"),
    ),
    (
        ring,
        (
            "mgmt01 is the machine formerly named gpu01",
            "gpu02 is the machine formerly named mgmt01",
        ),
    ),
    (take_address, ("gpu01 has the address that gpu02 had",)),
    (other_server, ("mgmt01 would be another machine", OTHER)),
    (move_server, ("mgmt01 would be another machine", OTHER)),
]
ACCEPTED: list[Edit] = [nothing, move_worker, other_worker, new_key]


@cache
def _first_run() -> Graph:
    return record_main(dev_run())


def _edited(edit: Edit, policy: str = "deny") -> Cluster:
    site: Cluster = dev_cluster()
    site["disruption"] = {"ports": policy, "reboots": policy}
    edit(site)
    return site


def _looked(monkeypatch: pytest.MonkeyPatch, site: Cluster) -> None:
    """Every device was looked at, and is as the first update left it."""
    facts: dict[str, Facts] = clean_facts(dev_plan(site)) | clean_facts(dev_plan())

    def observed(*_: object) -> Seen:
        return Seen(dict(facts))

    monkeypatch.setattr(guard, "observe_site", observed)


@pytest.mark.parametrize("observe", ["always", "never"])
@pytest.mark.parametrize("policy", ["allow", "deny"])
@pytest.mark.parametrize(("edit", "words"), REFUSED, ids=lambda item: getattr(item, "__name__", ""))
def test_an_update_never_creates_and_then_undoes_on_one_device(
    monkeypatch: pytest.MonkeyPatch,
    edit: Edit,
    words: tuple[str, ...],
    policy: str,
    observe: Literal["always", "never"],
) -> None:
    site = _edited(edit, policy)
    _looked(monkeypatch, site)
    text, graph = testing.record_refusal(next_run(_first_run(), site, observe=observe), main)
    for each in words:
        assert each in text
    assert text.count("identity: ") == 1, "one message for one cause"
    assert graph.resources == []


def _applied() -> Applied:
    return applied_from_outputs(_first_run().state())


def _refusals(
    site: Cluster, seen: Seen | None = None, applied: Applied | None = None
) -> tuple[str, ...]:
    spec = ClusterSpec.model_validate(site)
    plan = make_plan(spec, "dev")
    recorded = (applied or _applied()).follow(spec)
    return texts(judge_identity, plan, recorded, seen, spec=spec)


@pytest.mark.parametrize("edit", ACCEPTED, ids=lambda item: item.__name__)
def test_what_stays_the_same_or_is_replaced_is_accepted(edit: Edit) -> None:
    assert _refusals(_edited(edit)) == ()


def test_all_causes_are_reported_at_once() -> None:
    def edit(site: Cluster) -> None:
        rename_server(site)
        rename_switch(site)
        swap_hosts(site)

    assert len(_refusals(_edited(edit))) == 3


def test_a_rename_that_the_file_declares_is_accepted() -> None:
    def edit(site: Cluster) -> None:
        rename_server(site)
        rename_switch(site)
        site["renamed"] = {"hosts": {"mgmt02": "mgmt01"}, "switches": {"leaf-02": "leaf-01"}}

    assert _refusals(_edited(edit)) == ()


def test_a_declared_rename_does_not_hide_another_machine() -> None:
    def edit(site: Cluster) -> None:
        rename_worker(site)
        other_worker(site)
        site["renamed"] = {"hosts": {"gpu11": "gpu01"}}

    (text,) = _refusals(_edited(edit))
    assert "gpu11 is not the machine formerly named gpu01" in text


def test_a_declared_rename_is_over_when_the_state_has_the_new_name() -> None:
    spec = ClusterSpec.model_validate(_edited(nothing) | {"renamed": {"hosts": {"gpu01": "gpu00"}}})
    assert renames_of(spec, _applied().follow(spec)) == {}


def test_devices_that_share_a_host_key_are_told_apart_by_their_addresses() -> None:
    def share(site: Cluster) -> None:
        for host in site["hosts"]:
            host["ssh"]["host_key"] = _other_key()

    before: Cluster = dev_cluster()
    share(before)
    applied = applied_from_outputs(record_main(dev_run(before)).state())

    def edit(site: Cluster) -> None:
        share(site)
        site["hosts"][1]["ssh"]["address"] = OTHER

    assert _refusals(_edited(edit), applied=applied) == ()
    swapped = _edited(share)
    swap_hosts(swapped)
    assert len(_refusals(swapped, applied=applied)) == 1


def test_one_address_with_several_ports_is_several_machines() -> None:
    def behind(site: Cluster) -> None:
        for number, host in enumerate(site["hosts"]):
            host["ssh"] |= {"address": "127.41.0.77", "port": 2200 + number}

    before: Cluster = dev_cluster()
    behind(before)
    applied = applied_from_outputs(record_main(dev_run(before)).state())
    assert _refusals(_edited(behind), applied=applied) == ()
    swapped = _edited(behind)
    swap_hosts(swapped)
    assert len(_refusals(swapped, applied=applied)) == 1


def test_the_machine_id_proves_the_only_server_at_another_address() -> None:
    steps = dict(_applied().steps)
    steps["mgmt01-host"] = replace(steps["mgmt01-host"], stdout=f'{{"machine_id":"{MACHINE}"}}')
    applied = replace(_applied(), steps=steps)
    seen = Seen({"mgmt01": HostState({"machine.id": MACHINE})})
    assert _refusals(_edited(move_server), seen, applied) == ()

    def written(site: Cluster) -> None:
        move_server(site)
        site["hosts"][0]["machine_id"] = MACHINE

    assert _refusals(_edited(written), None, applied) == ()
    other = Seen({"mgmt01": HostState({"machine.id": "f" * 32})})
    assert _refusals(_edited(move_server), other, applied) != ()


def test_an_empty_state_refuses_nothing() -> None:
    site: dict[str, Json] = _edited(swap_hosts)
    assert _refusals(site, applied=Applied()) == ()


def _recorded(**machines: str) -> Applied:
    steps = dict(_applied().steps)
    for name, machine in machines.items():
        said = json.dumps({"machine_id": machine})
        steps[f"{name}-host"] = replace(steps[f"{name}-host"], stdout=said)
    return replace(_applied(), steps=steps)


def test_a_machine_that_says_it_is_another_one_is_refused() -> None:
    applied = _recorded(gpu01=MACHINE)
    other = Seen({"gpu01": HostState({"machine.id": "f" * 32})})
    (text,) = _refusals(_edited(nothing), other, applied)
    assert f"it says that it is {'f' * 32}, and the last update found {MACHINE}" in text
    same = Seen({"gpu01": HostState({"machine.id": MACHINE})})
    assert _refusals(_edited(nothing), same, applied) == ()
    assert _refusals(_edited(new_key), other, applied) == (), "it was installed again"


def test_the_files_machine_id_wins_over_the_recorded_one() -> None:
    def written(site: Cluster) -> None:
        site["hosts"][1]["machine_id"] = "f" * 32

    applied = _recorded(gpu01=MACHINE)
    replaced = Seen({"gpu01": HostState({"machine.id": "f" * 32})})
    assert _refusals(_edited(written), replaced, applied) == ()
    old = Seen({"gpu01": HostState({"machine.id": MACHINE})})
    (text,) = _refusals(_edited(written), old, applied)
    assert f"it says that it is {MACHINE}, and the file says {'f' * 32}" in text


def test_machines_of_one_image_with_one_machine_id_are_not_told_apart() -> None:
    applied = _recorded(gpu01=MACHINE, gpu02=MACHINE)
    facts = HostState({"machine.id": MACHINE})
    assert _refusals(_edited(move_worker), Seen({"gpu01": facts, "gpu02": facts}), applied) == ()


def test_a_machine_is_known_by_its_id_at_another_address_with_another_key() -> None:
    def edit(site: Cluster) -> None:
        rename_worker(site)
        other_worker(site)

    seen = Seen({"gpu11": HostState({"machine.id": MACHINE})})
    (text,) = _refusals(_edited(edit), seen, _recorded(gpu01=MACHINE))
    assert f"gpu11 is the machine formerly named gpu01 (same identity {MACHINE})" in text


@pytest.mark.parametrize(
    ("recorded", "written", "words"),
    [
        ("MT1", None, "it says that it is MT2, and the last update found MT1"),
        ("MT1", "MT3", "it says that it is MT2, and the file says MT3"),
        ("MT1", "MT2", ""),
        (None, None, ""),
    ],
)
def test_a_switch_is_known_by_its_serial_number(
    recorded: str | None, written: str | None, words: str
) -> None:
    steps = dict(_applied().steps)
    if recorded:
        said = json.dumps({"identity": {"serial": recorded}})
        steps["leaf-01-apply"] = replace(steps["leaf-01-apply"], stdout=said)
    site = _edited(nothing)
    if written:
        site["switches"][0]["serial"] = written
    state = dev_plan().switches[0].desired.model_copy(update={"identity": Identity(serial="MT2")})
    found = _refusals(site, Seen({"leaf-01": state}), replace(_applied(), steps=steps))
    assert len(found) == bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize("stacks", [(), ("prod",), ("prod", "dev")])
def test_a_switch_of_another_stack_is_refused_at_preview(stacks: tuple[str, ...]) -> None:
    said = Identity(serial="MT2", stacks=stacks)
    state = dev_plan().switches[0].desired.model_copy(update={"identity": said})
    found = _refusals(_edited(nothing), Seen({"leaf-01": state}))
    assert len(found) == ("prod" in stacks)
    assert all("leaf-01: the stack prod manages this switch" in text for text in found)


@pytest.mark.parametrize(("wrong", "refused"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_switch_with_mostly_wrong_neighbours_is_refused(wrong: int, *, refused: bool) -> None:
    def cabling(site: Cluster) -> None:
        site["guards"] = {"cabling": "warn"}

    switch = dev_plan().switches[0]
    told = {
        port: Neighbour(system="gpu09" if number < wrong else cable.system, port="", description="")
        for number, (port, cable) in enumerate(switch.cables.items())
    }
    state = switch.desired.model_copy(update={"neighbours": told})
    found = _refusals(_edited(nothing), Seen({"leaf-01": state}))
    assert len(found) == refused
    if refused:
        assert f"LLDP contradicts the file on {wrong} of its ports: port 1/1: gpu09" in found[0]
    assert _refusals(_edited(cabling), Seen({"leaf-01": state})) == ()


def test_the_files_serial_number_reaches_the_steps_of_its_switch() -> None:
    def written(site: Cluster) -> None:
        site["switches"][0]["serial"] = "MT2"

    steps = record_main(dev_run(_edited(written, "allow")))
    stdins = {item.name: str(item.inputs.get("stdin", "")) for item in steps.resources}
    for name in ("leaf-01-baseline", "leaf-01-apply"):
        assert 'serial = "MT2"' in stdins[name]
    assert "serial" not in _applied().steps["leaf-01-apply"].stdin


@pytest.mark.parametrize(
    ("place", "host_key", "same"),
    [("10.0.0.1:22", "b", True), ("10.0.0.2:22", "a", True), ("10.0.0.2:22", "b", False)],
)
def test_a_device_of_another_stack_is_ours_by_address_or_host_key(
    place: str, host_key: str, *, same: bool
) -> None:
    """Two sites may give one name to two machines."""
    ours = Device("leaf-01", "switch", "10.0.0.1:22", "a")
    assert ours.is_same(Device("leaf-01", "switch", place, host_key)) is same
    assert not replace(ours, host_key="").is_same(Device("leaf-01", "switch", "10.0.0.2:22", ""))

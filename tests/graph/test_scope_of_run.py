"""`RAILYARD_SCOPE`: an update that reads, judges and changes some devices, and no other."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from components.core.key_values import HostState
from components.core.problem import Json
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.plan.make import ClusterPlan
from components.remote.sending import split_parts
from components.testing import Graph, Recorded
from components.update.observe import Looks
from components.update.seen import Facts, Seen
from stacks import guard
from tests.graph.dev_site import clean_facts, dev_cluster, dev_plan, dev_run, next_run
from tests.graph.test_one_worker_more import larger
from tests.graph.whole_program import record_main, record_refusal


@pytest.fixture(autouse=True)
def scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_SCOPE", "host=gpu01")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, Facts]:
    """What devices answer; other devices were lost, so they must not be asked."""
    facts = dict(clean_facts(dev_plan()))

    def observed(
        plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied, looks: Looks
    ) -> Seen:
        del plan, secrets, applied
        assert looks.only, "the whole site is read"
        return Seen({name: each for name, each in facts.items() if looks.takes(name)})

    monkeypatch.setattr(guard, "observe_site", observed)
    return facts


def edited(**rdma: Json) -> dict[str, Json]:
    cluster = copy.deepcopy(dev_cluster())
    cast("dict[str, Json]", cluster["rdma"]).update(rdma)
    return cluster


def changes(before: Graph, after: Graph) -> set[str]:
    """Names of the resources that the engine would make or change."""
    was = {item.urn: item for item in before.resources}
    return {item.name for item in after.resources if item.custom and _differs(was, item)}


def _differs(was: Mapping[str, Recorded], item: Recorded) -> bool:
    if item.options.get("ignoreChanges") == ["*"]:
        return item.urn not in was
    old = was.get(item.urn)
    return old is None or json.dumps(old.inputs, default=str) != json.dumps(
        item.inputs, default=str
    )


def parts_of(graph: Graph, name: str) -> dict[str, str]:
    return {part.step: part.stdin for part in split_parts(graph.named(name).text("stdin"))}


def test_an_edit_of_all_devices_changes_only_those_of_the_scope(
    dev_graph: Graph, read: dict[str, Facts]
) -> None:
    assert read
    cluster = edited(mtu_bytes=4200)
    after = record_main(next_run(dev_graph, cluster, observe="always"))
    assert changes(dev_graph, after) == {"gpu01-host", "reboots-1"}
    assert {item.urn for item in after.resources} == {item.urn for item in dev_graph.resources}
    was, now = parts_of(dev_graph, "reboots-1"), parts_of(after, "reboots-1")
    assert [name for name in was if was[name] != now[name]] == ["gpu01-reboot"]
    assert not [text for text in after.messages if "gpu02" in text or "leaf-01" in text]
    said = after.outputs["verdict"]
    assert said == ("acceptance passed, before an update of host=gpu01: run `railyard accept dev`")


def test_the_next_update_of_the_site_does_the_rest_and_proves_it(
    dev_graph: Graph, read: dict[str, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read
    cluster = edited(mtu_bytes=4200)
    some = record_main(next_run(dev_graph, cluster, observe="always"))
    state = _kept(dev_graph, some)
    monkeypatch.delenv("RAILYARD_SCOPE")
    run = replace(next_run(dev_graph, cluster, observe="never"), state=state)
    rest = record_main(run)
    changed = {name for name in changes(dev_graph, rest) if name.startswith(("gpu", "acceptance"))}
    assert "gpu02-host" in changed
    assert "acceptance-evidence" in changed


def _kept(before: Graph, after: Graph) -> dict[str, Any]:
    """The state after a run, with the old record of each resource that was held."""
    held = {item.urn for item in after.resources if item.options.get("ignoreChanges") == ["*"]}
    was = before.state()
    return {urn: was[urn] if urn in held else each for urn, each in after.state().items()}


def test_drift_and_faults_of_other_devices_are_not_seen(
    dev_graph: Graph, read: dict[str, Facts]
) -> None:
    read["gpu02"] = Unreachable("it is lost")
    gpu01 = cast("HostState", read["gpu01"])
    read["gpu01"] = HostState({**gpu01.values, "nic.0000:05:00.0.vfs": "0"})
    after = record_main(next_run(dev_graph, observe="always"))
    assert changes(dev_graph, after) == {"gpu01-host", "reboots-1"}
    assert parts_of(after, "gpu01-host")["gpu01-host"].endswith(
        "repair=1: vfs of nic 0000:05:00.0 is 0, want 8\n"
    )


def test_a_device_that_was_read_and_is_lost_still_refuses_its_change(
    dev_graph: Graph, read: dict[str, Facts]
) -> None:
    read["gpu01"] = Unreachable("it is lost")
    words, graph = record_refusal(next_run(dev_graph, edited(mtu_bytes=4200), observe="always"))
    assert "it is lost" in words
    assert graph.resources == []


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("gpu01", '"gpu01" names no device of this site.\n  fix    take: host=NAME'),
        ("host=gpu01,gpu09", '"gpu09" names no device of this site.\n  fix    take: gpu01, gpu02'),
        ("rail=rail-0", '"rail=rail-0" names no device of this site.\n  fix    take: host=NAME'),
        ("leaf=spine-01", '"leaf=spine-01" names no device'),
    ],
)
def test_a_wrong_scope_is_refused_with_what_it_takes(
    dev_graph: Graph, monkeypatch: pytest.MonkeyPatch, scope: str, words: str
) -> None:
    monkeypatch.setenv("RAILYARD_SCOPE", scope)
    said, graph = record_refusal(next_run(dev_graph, observe="never"))
    assert words in said
    assert graph.resources == []


def test_a_first_update_has_no_scope() -> None:
    said, graph = record_refusal(dev_run())
    assert "RAILYARD_SCOPE: the stack was never updated" in said
    assert graph.resources == []


def test_a_new_device_must_be_in_the_scope(
    dev_graph: Graph, read: dict[str, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    said, graph = record_refusal(next_run(dev_graph, larger(), observe="never"))
    assert "gpu03 is new in the file, and not in the scope" in said
    assert graph.resources == []
    monkeypatch.setenv("RAILYARD_SCOPE", "host=gpu03,leaf=leaf-01")
    read["gpu03"] = HostState({})
    after = record_main(next_run(dev_graph, larger(), observe="never"))
    new = {"gpu03-host", "gpu03-k3s", "leaf-01-apply", "reboots-1"}
    assert changes(dev_graph, after) == new


def test_a_device_that_left_the_file_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILYARD_SCOPE")
    large = record_main(dev_run(larger()))
    monkeypatch.setenv("RAILYARD_SCOPE", "host=gpu01")
    said, graph = record_refusal(next_run(large, dev_cluster(), observe="never"))
    assert "RAILYARD_SCOPE: this update would remove or rename gpu03" in said
    assert graph.resources == []


def test_an_upgrade_outside_of_the_scope_is_refused(dev_graph: Graph) -> None:
    newer = copy.deepcopy(dev_cluster())
    cast("dict[str, Json]", newer["kubernetes"])["version"] = "v1.36.4+k3s1"
    said, _ = record_refusal(next_run(dev_graph, newer, observe="never"))
    assert "this update would make mgmt01-upgrade, which the scope does not name" in said

"""What the engine's preview adds: drift, alarms, replacements, and why it refused.

The form of the answer is that of engine 3.250.0 with `--json`, recorded from the lab's dev stack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.preview.items import News, read_engine

PROVIDER = "railyard:pod_network:PodNetwork$kubernetes"
NAMES = {"ConfigMap": "core/v1:ConfigMap::sriovdp", "Namespace": "core/v1:Namespace::mpi"}
CHANGES = (
    "leaf-01: 1 setting will change\n  port 1/2\n    mtu_bytes: 1500 -> 9216\n"
    "  INTERRUPTS (disruption.ports: allow): port 1/2: flaps\n"
)
SAID = [
    "<{%reset%}>leaf-01: drift: mtu_bytes of port 1/2 is 1500, want 9216<{%reset%}>\n",
    CHANGES,
    "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 fw_num_of_vfs 8 -> 12\n",
    "gpu02: not observed: gpu02 does not answer\n",
]


def step(op: str, kind: str, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    states = {"newState": {"inputs": new}} | ({"oldState": {"inputs": old}} if old else {})
    return {"op": op, "urn": f"urn:pulumi:dev::railyard::{PROVIDER}:{NAMES[kind]}", **states}


def config_map(mode: str) -> dict[str, Any]:
    return {"metadata": {"name": "sriovdp"}, "data": {"config.json": json.dumps({"mode": mode})}}


def news(*steps: Any, said: list[str] = SAID, edited: frozenset[str] = frozenset()) -> News:  # noqa: ANN401 - JSON
    messages = [{"message": message, "severity": "info"} for message in said]
    return read_engine(json.dumps({"steps": steps, "diagnostics": messages}), edited)


def test_what_devices_say_is_drift_and_alarms() -> None:
    found = news()
    assert found.repairs == ("leaf-01: port 1/2 mtu_bytes: 1500 -> 9216",)
    assert found.alarms == (
        "leaf-01: INTERRUPTS (disruption.ports: allow): port 1/2: flaps",
        "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 fw_num_of_vfs 8 -> 12",
    )
    assert found.notes == ("gpu02: not observed: gpu02 does not answer",)
    assert found.errors == ()


def test_servers_that_are_lost_come_first() -> None:
    lost = "cluster: lost: 1 of 3 servers are lost: mgmt02 is unreachable"
    assert news(said=[lost, *SAID]).alarms[0] == lost


def test_an_object_that_somebody_changed_is_a_repair_by_its_field() -> None:
    changed = step("update", "ConfigMap", config_map("switchdev"), config_map("legacy"))
    found = news(changed, said=[])
    assert found.repairs == ('ConfigMap sriovdp: data."config.json".mode: "switchdev" -> "legacy"',)


def test_an_object_that_the_file_changes_is_no_repair() -> None:
    changed = step("update", "ConfigMap", config_map("switchdev"), config_map("legacy"))
    assert news(changed, said=[], edited=frozenset({"sriovdp"})).repairs == ()


def test_where_the_cluster_was_read_its_lines_are_the_repairs() -> None:
    words = "ConfigMap kube-system/sriovdp is absent, want there"
    left = "cluster: not repaired: node gpu01 is cordoned: kubectl uncordon opens it"
    made = step("create", "Namespace", None, {"metadata": {"name": "mpi-operator"}})
    found = news(made, said=[f"cluster: drift: {words}\n", f"{left}\n"])
    assert found.repairs == (f"cluster: {words}",)
    assert found.notes == (left,)


def test_an_object_that_is_gone_is_made_again() -> None:
    made = step("create", "Namespace", None, {"metadata": {"name": "mpi-operator"}})
    assert news(made, said=[]).repairs == ("Namespace mpi-operator: it is gone, and made again",)


@pytest.mark.parametrize("op", ["same", "refresh", "read"])
def test_quiet_steps_say_nothing(op: str) -> None:
    assert news(step(op, "ConfigMap", config_map("a"), config_map("b")), said=[]).repairs == ()


def test_a_replacement_is_an_alarm() -> None:
    replaced = step("replace", "ConfigMap", config_map("a"), config_map("a"))
    assert news(replaced, said=[]).alarms == ("REPLACES sriovdp: it is removed and made again",)


def test_a_refusal_is_told_with_its_words() -> None:
    words = "disruption: port 1/2 of leaf-01 would flap\n  where  disruption.ports = deny"
    text = json.dumps({"diagnostics": [{"message": words, "severity": "error"}]})
    assert read_engine(text, frozenset()).errors == (words,)


def test_an_engine_that_did_not_come_so_far_is_no_answer() -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_engine("error: no stack named 'dev' found", frozenset())

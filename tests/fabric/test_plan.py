"""The plan of the example site, and what it refuses."""

from __future__ import annotations

import pytest

from components.catalogue.switches.switch_model import parse_release
from components.fabric.plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState
from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import chain_of, port_name
from tests.graph.example_sites import example_spec


def test_the_example_site(plan: SwitchPlan) -> None:
    assert plan.desired.vlans == (111, 112)
    port = plan.desired.ports["1/2"]
    assert (port.mode, port.trunk_vlans, port.mtu_bytes) == ("trunk", (112,), 9216)
    assert port.ecn == {3: EcnState(min_kib=150, max_kib=1500)}
    assert (port.trust, port.strict_classes, port.pfc) == ("L3", (6,), None)
    assert plan.desired.roce is None
    assert plan.endpoint.password_secret == "switch_password"


def test_the_commands_that_a_person_sees(plan: SwitchPlan) -> None:
    lines = plan.commands_from_factory
    assert (lines[:2], lines[-1]) == (("enable", "configure terminal"), "configuration write")
    assert "interface ethernet 1/1-1/4 qos trust L3" in lines
    assert (
        "interface ethernet 1/1-1/4 traffic-class 3 congestion-control ecn "
        "minimum-absolute 150 maximum-absolute 1500"
    ) in lines


def test_a_plan_survives_json(plan: SwitchPlan) -> None:
    """All but the cables, of which nothing is set: re-plugging proves nothing again."""
    read = SwitchPlan.model_validate_json(plan.model_dump_json())
    assert read == plan.model_copy(
        update={"cables": {}, "guarded": None, "timed_restore_s": None, "waves": ()}
    )


def test_releases_compare_as_numbers() -> None:
    assert parse_release("3.10.4006") > parse_release("3.9.2504") > parse_release("3.8")


def test_names_of_steps_are_an_api(plan: SwitchPlan) -> None:
    assert (plan.baseline_step, plan.step) == ("leaf-01-baseline", "leaf-01-apply")
    assert (plan.exec_step, plan.save_step, plan.saved_step) == (
        "leaf-01-exec",
        "leaf-01-save",
        "leaf-01-saved",
    )


UNTAGGED = {
    "onyx": (
        "interface ethernet 1/1 switchport mode hybrid",
        "interface ethernet 1/1 switchport access vlan 402",
        "interface ethernet 1/1 switchport hybrid allowed-vlan none",
        "interface ethernet 1/1 switchport hybrid allowed-vlan add 111",
    ),
    "cumulus": (
        "nv set interface swp1 bridge domain br_default untagged 402",
        "nv set interface swp1 bridge domain br_default vlan 111",
    ),
    "eos": ("switchport trunk native vlan 402", "switchport trunk allowed vlan 111,402"),
    "sonic": (
        '"Vlan111|Ethernet0":{"tagging_mode":"tagged"}',
        '"Vlan402|Ethernet0":{"tagging_mode":"untagged"}',
    ),
}


@pytest.mark.parametrize("system", UNTAGGED)
def test_a_trunk_has_a_vlan_for_frames_without_a_tag(system: str) -> None:
    site = chain_of(system, 1).model_dump(mode="json")
    site["switches"][0]["ports"][port_name(system, 1)]["untagged"] = 402
    plan = plan_fabric(ClusterSpec.model_validate(site))[0]
    assert plan.desired.vlans == (111, 112, 402)
    lines = "\n".join(plan.commands_from_factory)
    places = [lines.find(line) for line in UNTAGGED[system]]
    assert places == sorted(places)
    assert -1 not in places


def test_a_renamed_switch_is_still_the_node_of_its_subnet_manager() -> None:
    """A rename in the file is none of the switch: its subnet manager keeps its node.

    Seed 2850 of tier 1 of the campaign: `ib smnode` went to a node that there is not.
    """
    site = example_spec("quantum-ib").model_dump(mode="json")
    old = site["switches"][0]["name"]
    before = plan_fabric(ClusterSpec.model_validate(site))[0].desired
    site["switches"][0]["name"] = "ib-09"
    site["renamed"] = {"switches": {"ib-09": old}}
    site["infiniband"] = {**site["infiniband"]}
    after = plan_fabric(ClusterSpec.model_validate(site))[0].desired
    assert (after.ib and after.ib.node) == (before.ib and before.ib.node) == old

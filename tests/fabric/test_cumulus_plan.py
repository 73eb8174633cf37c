"""The plan of a site with a Cumulus switch, and what it refuses."""

from __future__ import annotations

import pytest

from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState
from tests.fabric.cumulus_lab import load_spec
from tests.fabric.whole_intents import whole_of


def test_the_example_site() -> None:
    plan = plan_fabric(load_spec())[0]
    assert (plan.os, plan.desired.vlans, plan.desired.roce) == ("cumulus", (111,), "lossless")
    port = plan.desired.ports["swp2"]
    assert (port.mode, port.access_vlan, port.mtu_bytes, port.trust) == (
        "access",
        111,
        9216,
        "both",
    )
    assert port.ecn == {3: EcnState(min_kib=146, max_kib=1464)}, "what the profile gives, in KiB"
    assert (plan.desired.pfc_priorities, port.strict_classes, port.native) == ((3,), (6,), {})
    shown: dict[str, object] = {"cables": {}, "guarded": None, "timed_restore_s": None, "waves": ()}
    bare = plan.model_copy(update=shown)
    assert SwitchPlan.model_validate_json(plan.model_dump_json()) == bare


def test_lossy_is_a_profile_too() -> None:
    plan = plan_fabric(load_spec(mode="lossy_ecn"))[0]
    assert (plan.desired.roce, plan.desired.pfc_priorities) == ("lossy", None)
    assert "nv set qos roce mode lossy" in plan.commands_from_factory


def test_the_commands_that_a_person_sees() -> None:
    lines = plan_fabric(load_spec())[0].commands_from_factory
    assert lines[0] == "nv config detach"
    assert lines[-4:] == (
        "nv config diff",
        "nv config apply --confirm 300s -y -m railyard-1",
        "nv config apply <revision> --confirm-yes",
        "nv config save",
    )
    assert not any("mtu" in line for line in lines), "9216 is the default"


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (
            "5.14.0",
            (
                "nv set router adaptive-routing enable on",
                "nv set vrf default router bgp neighbor swp29s1 bfd enable on",
            ),
        ),
        (
            "5.15.0",
            (
                "nv set router adaptive-routing state enabled",
                "nv set vrf default router bgp neighbor swp29s1 bfd profile railyard",
                "nv set router bfd state enabled",
                "nv set router bfd profile railyard detect-multiplier 3",
            ),
        ),
    ],
)
def test_a_plan_is_in_the_words_of_the_release(release: str, words: tuple[str, ...]) -> None:
    spec = whole_of("cumulus")
    leaf = spec.switches[0].model_copy(update={"release": release})
    plan = plan_fabric(spec.model_copy(update={"switches": (leaf, *spec.switches[1:])}))[0]
    found = [
        line
        for line in plan.commands_from_factory
        if ("bfd" in line or "set router adaptive" in line) and "10.254" not in line
    ]
    assert found == [*words]

"""The models and systems: what the plan and the rules hold a file against."""

from __future__ import annotations

import pytest

from components.errors import SpecError
from components.fabric.intent import INTENTS
from components.fabric.models import MODELS
from components.fabric.models.port_names import PORT_NAMINGS
from components.fabric.plan import plan_fabric
from components.fabric.systems import SYSTEMS, system_of
from components.model.cluster import ClusterSpec
from lab.switches.onyx.config import PORTS_BY_MODEL
from tests.fabric import conftest as onyx_lab
from tests.fabric import cumulus_lab
from tests.fabric.fabric_lab import chain_of


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_the_lab_and_with_itself(name: str) -> None:
    model = MODELS[name]
    count, speed = PORTS_BY_MODEL[name]
    assert model.speed_gbit_s == speed
    for system, ports in model.ports.items():
        assert len(ports) == count
        assert system in model.mtu_range_bytes
        assert system in model.sources
        assert all(model.has_port(system, port) for port in ports)
        low, high = model.mtu_range_bytes[system]
        assert f"{low}-{high}" in model.capability_line()
    assert all(parts * each <= 2 * speed for parts, each in model.breakouts.items())


@pytest.mark.parametrize(
    ("model", "system", "name", "there"),
    [
        ("SN2700", "onyx", "1/32", True),
        ("SN2700", "onyx", "1/33", False),
        ("SN2700", "onyx", "1/1/4", True),
        ("SN2700", "onyx", "1/1/5", False),
        ("SN2700", "onyx", "1/1/0", False),
        ("SN2700", "cumulus", "swp2s3", True),
        ("SN2700", "cumulus", "swp2s4", False),
        ("SN4600C", "cumulus", "swp64s1", True),
        ("SN4600C", "cumulus", "swp64s2", False),
        ("SN4600C", "onyx", "1/1", False),
        ("SN5600", "cumulus", "swp64s3", True),
        ("SN5600", "cumulus", "swp65", False),
        ("SN3700", "sonic", "Ethernet0", False),
    ],
)
def test_the_ports_of_a_model(model: str, system: str, name: str, there: bool) -> None:  # noqa: FBT001 - a table
    assert MODELS[model].has_port(system, name) is there


def test_each_system_is_described() -> None:
    assert {*SYSTEMS} == {*INTENTS} <= {*PORT_NAMINGS}


def test_a_system_that_nobody_described_can_do_nothing_optional() -> None:
    unknown = system_of("somethingelse")
    assert isinstance(unknown.routing, str)
    assert isinstance(unknown.pfc_watchdog, str)
    assert isinstance(unknown.cable_length, str)
    assert None not in {unknown.semi_lossless, unknown.port_ecn}


def _changed_port(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    switch = spec.switches[0]
    port = switch.ports[name].model_copy(update=changes)
    changed = switch.model_copy(update={"ports": {**switch.ports, name: port}})
    return spec.model_copy(update={"switches": (changed, *spec.switches[1:])})


def test_semi_lossless_is_a_one_shot_of_onyx() -> None:
    plan = plan_fabric(onyx_lab.load_spec(mode="semi_lossless"))[0]
    assert plan.desired.roce == "semi-lossless"
    assert (plan.desired.pfc_priorities, plan.desired.ports["1/1"].pfc) == (None, None)
    assert "roce semi-lossless" in plan.commands_from_factory
    with pytest.raises(SpecError, match="none of them pauses one way only"):
        plan_fabric(cumulus_lab.load_spec(mode="semi_lossless"))


def test_hosts_pause_in_both_modes_with_pfc() -> None:
    pauses = {mode: onyx_lab.load_spec(mode=mode).rdma.host_pfc
              for mode in ("lossy_ecn", "semi_lossless", "lossless")}  # fmt: skip
    assert pauses == {"lossy_ecn": False, "semi_lossless": True, "lossless": True}


def test_the_watchdog_and_its_exceptions() -> None:
    spec = _changed_port(chain_of("cumulus", 1, mode="lossless"), "swp1", pfc_watchdog=True)
    ports = plan_fabric(spec)[0].desired.ports
    assert (ports["swp1"].pfc_watchdog, ports["swp2"].pfc_watchdog) == (True, None)
    everywhere = chain_of("cumulus", 1, mode="lossless", pfc_watchdog=True)
    ports = plan_fabric(_changed_port(everywhere, "swp1", pfc_watchdog=False))[0].desired.ports
    assert (ports["swp1"].pfc_watchdog, ports["swp2"].pfc_watchdog) == (None, True)


@pytest.mark.parametrize(("length", "wanted"), [(None, None), (30, 100), (300, 300)])
def test_one_length_for_the_switch(length: int | None, wanted: int | None) -> None:
    """A port that says nothing is as long as the system assumes."""
    spec = _changed_port(chain_of("cumulus", 1, mode="lossless"), "swp1", cable_length_m=length)
    assert plan_fabric(spec)[0].desired.roce_cable_m == wanted
    both = _changed_port(spec, "swp2", cable_length_m=length)
    assert plan_fabric(both)[0].desired.roce_cable_m == length


def test_a_port_of_onyx_has_thresholds_of_its_own() -> None:
    spec = _changed_port(onyx_lab.load_spec(), "1/2", ecn_min_kib=300, ecn_max_kib=3000)
    plan = plan_fabric(spec)[0]
    line = "traffic-class 3 congestion-control ecn minimum-absolute {} maximum-absolute {}"
    assert f"interface ethernet 1/2 {line.format(300, 3000)}" in plan.commands_from_factory
    assert f"interface ethernet 1/3-1/4 {line.format(150, 1500)}" in plan.commands_from_factory


def test_a_trunk_carries_every_rail_or_those_it_names() -> None:
    spec = chain_of("onyx", 2)
    assert plan_fabric(spec)[0].desired.ports["1/32"].trunk_vlans == (111, 112)
    fewer = _changed_port(spec, "1/32", rails=("rail-1",))
    assert plan_fabric(fewer)[0].desired.ports["1/32"].trunk_vlans == (112,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "routed"}, "cannot be routed on Onyx"),
        ({"cable_length_m": 5}, "the length of a cable"),
        ({"pfc_watchdog": True}, "PFC watchdog"),
    ],
)
def test_what_onyx_lacks_is_refused_by_the_plan_too(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        plan_fabric(_changed_port(chain_of("onyx", 2, mode="lossless"), "1/32", **changes))

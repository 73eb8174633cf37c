"""The models and systems: what the plan and the rules hold a file against."""

from __future__ import annotations

import re

import pytest

from components.catalogue.switches import MODELS, find_model
from components.catalogue.switches.port_names import PortPlace
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.site import check_site
from components.fabric.plan import plan_fabric
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.cluster import ClusterSpec
from lab.switches.mlnxos import config as mlnxos
from lab.switches.sonic import config as sonic
from tests.fabric import conftest as onyx_lab
from tests.fabric import cumulus_lab
from tests.fabric.fabric_lab import chain_of, port_name

LAB = {
    **{
        name: (len(platform.first_lanes), platform.speed_gbit_s)
        for name, platform in sonic.PLATFORMS.items()
    },
    **{name: (len(ports), rate) for name, (ports, rate, _) in mlnxos.PORTS_BY_MODEL.items()},
}
"""What the lab knows by itself; of other models it reads the catalogue's files."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_the_lab_and_with_itself(name: str) -> None:
    model = MODELS[name]
    speed = model.speed_gbit_s
    for system, ports in model.ports.items():
        assert LAB.get(name, (len(ports), speed)) == (len(ports), speed)
        assert system in model.mtu_range_bytes
        assert SWITCH_SYSTEMS[system].mtu_source
        assert all(model.has_port(system, port) for port in ports)
        assert all(model.whole_port(system, port) == port for port in ports)
        low, high = model.mtu_range_bytes[system]
        assert f"{low}-{high}" in model.capability_line()
    assert all(each.parts * each.speed_gbit_s <= 2 * speed for each in model.splits)


@pytest.mark.parametrize(
    ("model", "system", "name", "there"),
    [
        ("SN2700", "onyx", "1/32", True),
        ("SN2700", "onyx", "1/33", False),
        ("SN2700", "onyx", "1/1/4", True),
        ("SN2700", "onyx", "1/1/5", False),
        ("SN2700", "onyx", "1/1/0", False),
        ("SN2700", "cumulus", "swp2s3", False),
        ("SN2700", "cumulus", "swp2s4", False),
        ("SN4600C", "cumulus", "swp64s1", True),
        ("SN4600C", "cumulus", "swp63s3", True),
        ("SN4600C", "cumulus", "swp64s2", False),
        ("SN4600C", "sonic", "Ethernet249", False),
        ("SN2700", "cumulus", "swp1s3", True),
        ("SN4600C", "onyx", "1/1", False),
        ("SN5600", "cumulus", "swp64s3", True),
        ("SN5600", "cumulus", "swp65", False),
        ("SN3700", "sonic", "Ethernet4", True),
        ("SN3700", "eos", "Ethernet1/1", False),
        ("SN2010", "cumulus", "swp18", True),
        ("SN2010", "cumulus", "swp18s0", False),
        ("SN2010", "cumulus", "swp22s3", True),
        ("SN2010", "cumulus", "swp23", False),
        ("SN2410", "onyx", "1/56/2", True),
        ("SN2410", "onyx", "1/48/1", False),
        ("SN2410", "sonic", "Ethernet220", True),
        ("SN4700", "sonic", "Ethernet248", True),
        ("SN4700", "sonic", "Ethernet256", False),
        ("SN5610", "cumulus", "swp64s1", True),
        ("SN5610", "onyx", "1/1", False),
        ("Z9664F", "sonic", "Ethernet252", True),
        ("Z9664F", "sonic", "Ethernet254", False),
        ("Z9864F", "sonic", "Ethernet504", True),
        ("AS9716-32D", "sonic", "Ethernet248", True),
        ("DCS-7060X6-64PE", "eos", "Ethernet64/5", True),
        ("DCS-7050CX3-32S", "eos", "Ethernet32/4", True),
        ("DCS-7050CX3-32S", "eos", "Ethernet32/5", False),
        ("Z9332F", "sonic", "Ethernet248", True),
        ("Z9332F", "sonic", "Ethernet255", True),
        ("Z9332F", "sonic", "Ethernet256", False),
        ("Z9332F", "eos", "Ethernet1/1", False),
        ("DCS-7060DX5-64S", "eos", "Ethernet64/1", True),
        ("DCS-7060DX5-64S", "eos", "Ethernet64/8", True),
        ("DCS-7060DX5-64S", "eos", "Ethernet64/9", False),
        ("DCS-7060DX5-64S", "eos", "Ethernet65/1", False),
        ("DCS-7060DX5-64S", "eos", "Ethernet1", False),
        ("DCS-7060DX5-64S", "onyx", "1/1", False),
        ("QM8700", "mlnxos", "1/40", True),
        ("QM8700", "mlnxos", "1/40/2", True),
        ("QM8700", "mlnxos", "1/40/3", False),
        ("QM8700", "mlnxos", "1/41", False),
        ("QM9700", "mlnxos", "1/32/2", True),
        ("QM9700", "mlnxos", "1/32", False),
        ("QM9700", "mlnxos", "1/33/1", False),
    ],
)
def test_the_ports_of_a_model(model: str, system: str, name: str, there: bool) -> None:  # noqa: FBT001 - a table
    assert MODELS[model].has_port(system, name) is there


@pytest.mark.parametrize(
    ("name", "parts"),
    [("Ethernet3/1", 1), ("Ethernet3/5", 2), ("Ethernet3/7", 4), ("Ethernet3/4", 8)],
)
def test_a_lane_tells_into_how_many_parts_its_port_is_split(name: str, parts: int) -> None:
    assert SWITCH_SYSTEMS["eos"].ports.place(name, 8) == PortPlace("Ethernet3/1", parts)
    lane = 16 + int(name[-1]) - 1
    assert SWITCH_SYSTEMS["sonic"].ports.place(f"Ethernet{lane}", 8) == PortPlace(
        "Ethernet16", parts
    )


@pytest.mark.parametrize(
    ("model", "system", "name", "whole"),
    [
        ("SN2700", "onyx", "1/3/2", "1/3"),
        ("SN2700", "cumulus", "swp3s1", "swp3"),
        ("SN2700", "cumulus", "1/3", None),
        # The first part has the name of the whole, so one lane does not rule out another.
        ("DCS-7060DX5-64S", "eos", "Ethernet3/5", "Ethernet3/5"),
        ("Z9332F", "sonic", "Ethernet12", "Ethernet12"),
        ("QM8700", "mlnxos", "1/3/2", "1/3"),
        ("QM9700", "mlnxos", "1/3/2", "1/3/2"),
    ],
)
def test_the_port_that_is_gone_as_a_whole(
    model: str, system: str, name: str, whole: str | None
) -> None:
    assert MODELS[model].whole_port(system, name) == whole


def test_ports_and_names_in_words() -> None:
    words = {name: model.describe_ports(next(iter(model.ports))) for name, model in MODELS.items()}
    assert words["SN2700"] == "1/1 to 1/32, split ones 1/1/1 and so on"
    assert words["SN5600"] == "swp1 to swp64, split ones swp1s0 and so on"
    assert words["DCS-7060DX5-64S"].endswith("split ones with their first lane, 1/1 to 1/8")
    assert words["Z9332F"].startswith("Ethernet0, Ethernet8 and so on to Ethernet248; a part")
    assert words["QM9700"] == "1/1/1 to 1/32/2"
    assert MODELS["QM9700"].capability_line() == (
        "QM9700 (Quantum-2): 64 ports of 400 Gbit/s; runs mlnxos with MTU 256-4096"
    )
    articles = [MODELS[name].described for name in ("SN2700", "DCS-7060DX5-64S", "QM8700")]
    assert articles == ["an SN2700", "a DCS-7060DX5-64S", "a QM8700"]


def test_a_system_that_says_the_least_can_do_nothing_optional() -> None:
    onyx = system_of("onyx")
    unknown = SwitchSystem(onyx.driver, onyx.intent, onyx.session, exec_form="not tried")
    assert isinstance(unknown.routing, str)
    assert isinstance(unknown.pfc_watchdog, str)
    assert isinstance(unknown.cable_length, str)
    assert None not in {unknown.semi_lossless, unknown.port_ecn}


def _changed_port(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    switch = spec.switches[0]
    port = switch.ports[name].model_copy(update=changes)
    changed = switch.model_copy(update={"ports": {**switch.ports, name: port}})
    return spec.model_copy(update={"switches": (changed, *spec.switches[1:])})


def _refusals(spec: ClusterSpec) -> str:
    """What the rules say of it."""
    return "\n".join(problem.what for problem in check_site(spec))


def test_semi_lossless_is_a_one_shot_of_onyx() -> None:
    plan = plan_fabric(onyx_lab.load_spec(mode="semi_lossless"))[0]
    assert plan.desired.roce == "semi-lossless"
    assert (plan.desired.pfc_priorities, plan.desired.ports["1/1"].pfc) == (None, None)
    assert "roce semi-lossless" in plan.commands_from_factory
    assert re.search(
        "none of them pauses one way only", _refusals(cumulus_lab.load_spec(mode="semi_lossless"))
    )


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


def test_a_port_of_eos_has_thresholds_of_its_own() -> None:
    spec = _changed_port(chain_of("eos", 1), "Ethernet2/1", ecn_min_kib=300, ecn_max_kib=3000)
    lines = "\n".join(plan_fabric(spec)[0].commands_from_factory)
    for low, high in ((150, 1500), (300, 3000)):
        assert f"minimum-threshold {low} kbytes maximum-threshold {high} kbytes" in lines


def test_a_port_of_sonic_has_the_thresholds_of_the_switch() -> None:
    spec = _changed_port(chain_of("sonic", 1), "Ethernet8", ecn_min_kib=300)
    assert re.search("one profile of thresholds for the whole switch", _refusals(spec))


def test_a_trunk_carries_every_rail_or_those_it_names() -> None:
    spec = chain_of("onyx", 2)
    assert plan_fabric(spec)[0].desired.ports["1/32"].trunk_vlans == (111, 112)
    fewer = _changed_port(spec, "1/32", rails=("rail-1",))
    assert plan_fabric(fewer)[0].desired.ports["1/32"].trunk_vlans == (112,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "routed"}, "cannot be routed on"),
        ({"cable_length_m": 5}, "the length of a cable"),
        ({"pfc_watchdog": True}, "PFC watchdog"),
    ],
)
def test_what_onyx_lacks_is_refused(changes: dict[str, object], words: str) -> None:
    assert re.search(
        words, _refusals(_changed_port(chain_of("onyx", 2, mode="lossless"), "1/32", **changes))
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cable_length_m": 2001}, "headroom for 5, 40, 300, 1000, 2000 m"),
    ],
)
def test_what_sonic_lacks_is_refused(changes: dict[str, object], words: str) -> None:
    spec = chain_of("sonic", 2, mode="lossless")
    assert re.search(words, _refusals(_changed_port(spec, port_name("sonic", 32), **changes)))


@pytest.mark.parametrize(
    ("length", "next_one"),
    [(1, 5), (5, 5), (6, 40), (40, 40), (41, 300), (301, 1000), (2000, 2000), (2001, None)],
)
def test_headroom_is_for_the_next_longer_cable(length: int, next_one: int | None) -> None:
    model = find_model("Z9332F")
    assert model is not None
    assert model.headroom_length("sonic", length) == next_one
    assert model.headroom_length("cumulus", length) == length


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cable_length_m": 5}, "how many a length needs"),
    ],
)
def test_what_eos_lacks_is_refused(changes: dict[str, object], words: str) -> None:
    assert re.search(
        words,
        _refusals(_changed_port(chain_of("eos", 2, mode="lossless"), "Ethernet32/1", **changes)),
    )


def test_a_mode_that_eos_has_not() -> None:
    assert re.search("no semi_lossless on EOS", _refusals(chain_of("eos", 1, mode="semi_lossless")))

"""The models and systems: what the plan and the rules hold a file against, and plans of sites."""

from __future__ import annotations

import pytest

from components.catalogue.switches import MODELS, find_model
from components.catalogue.switches.port_names import PortPlace
from components.catalogue.switches.switch_model import parse_release
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.fabric.plan import SwitchPlan, plan_fabric
from components.fabric.state import EcnState
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.cluster import ClusterSpec
from lab.switches.mlnxos import config as mlnxos
from lab.switches.sonic import config as sonic
from tests.fabric import conftest as onyx_lab
from tests.graph.example_sites import example_spec

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


PORTS = {
    ("SN2700", "onyx"): ("1/32 1/1/4", "1/33 1/1/5 1/1/0"),
    ("SN2700", "cumulus"): ("swp1s3", "swp2s3 swp2s4"),
    ("SN4600C", "cumulus"): ("swp64s1 swp63s3", "swp64s2"),
    ("SN4600C", "sonic"): ("", "Ethernet249"),
    ("SN4600C", "onyx"): ("", "1/1"),
    ("SN5600", "cumulus"): ("swp64s3", "swp65"),
    ("SN3700", "sonic"): ("Ethernet4", ""),
    ("SN3700", "eos"): ("", "Ethernet1/1"),
    ("SN2010", "cumulus"): ("swp18 swp22s3", "swp18s0 swp23"),
    ("SN2410", "onyx"): ("1/56/2", "1/48/1"),
    ("SN2410", "sonic"): ("Ethernet220", ""),
    ("SN4700", "sonic"): ("Ethernet248", "Ethernet256"),
    ("SN5610", "cumulus"): ("swp64s1", ""),
    ("SN5610", "onyx"): ("", "1/1"),
    ("Z9664F", "sonic"): ("Ethernet252", "Ethernet254"),
    ("Z9864F", "sonic"): ("Ethernet504", ""),
    ("AS9716-32D", "sonic"): ("Ethernet248", ""),
    ("DCS-7060X6-64PE", "eos"): ("Ethernet64/5", ""),
    ("DCS-7050CX3-32S", "eos"): ("Ethernet32/4", "Ethernet32/5"),
    ("Z9332F", "sonic"): ("Ethernet248 Ethernet255", "Ethernet256"),
    ("Z9332F", "eos"): ("", "Ethernet1/1"),
    ("DCS-7060DX5-64S", "eos"): (
        "Ethernet64/1 Ethernet64/8",
        "Ethernet64/9 Ethernet65/1 Ethernet1",
    ),
    ("DCS-7060DX5-64S", "onyx"): ("", "1/1"),
    ("QM8700", "mlnxos"): ("1/40 1/40/2", "1/40/3 1/41"),
    ("QM9700", "mlnxos"): ("1/32/2", "1/32 1/33/1"),
}
"""Names that a model has with a system, and names that it has not."""


@pytest.mark.parametrize(("model", "system"), PORTS)
def test_the_ports_of_a_model(model: str, system: str) -> None:
    for names, there in zip(PORTS[model, system], (True, False), strict=True):
        for name in names.split():
            assert MODELS[model].has_port(system, name) is there, name


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


def test_hosts_pause_in_both_modes_with_pfc() -> None:
    for mode, pauses in {"lossy_ecn": False, "semi_lossless": True, "lossless": True}.items():
        assert onyx_lab.load_spec(mode=mode).rdma.host_pfc is pauses


@pytest.mark.parametrize(
    ("length", "next_one"),
    [(1, 5), (5, 5), (6, 40), (40, 40), (41, 300), (301, 1000), (2000, 2000), (2001, None)],
)
def test_headroom_is_for_the_next_longer_cable(length: int, next_one: int | None) -> None:
    model = find_model("Z9332F")
    assert model is not None
    assert model.headroom_length("sonic", length) == next_one
    assert model.headroom_length("cumulus", length) == length


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

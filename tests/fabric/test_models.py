"""The models and systems: what the plan and the rules hold a file against, and plans of sites."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, Final, get_args

import pytest

from components.catalogue.switches import MODELS, find_model
from components.catalogue.switches.switch_model import parse_release
from components.catalogue.switches.systems import SWITCH_SYSTEMS, PortPlace
from components.fabric.fabric_plan import SwitchPlan, SwitchStep, plan_fabric
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.cluster import ClusterSpec
from lab.switches.mlnxos import config as mlnxos
from lab.switches.sonic import config as sonic
from tests.fabric import conftest as onyx_lab
from tests.fabric.in_process import load_table
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


TABLE: Final[dict[str, list[Any]]] = load_table("models.yaml")


@pytest.mark.parametrize(("model", "system", "has", "lacks"), TABLE["ports"])
def test_the_ports_of_a_model(model: str, system: str, has: str, lacks: str) -> None:
    names = (*has.split(), *lacks.split())
    assert [name for name in names if MODELS[model].has_port(system, name)] == has.split()


@pytest.mark.parametrize(("system", "name", "whole", "parts"), TABLE["lanes"])
def test_a_lane_tells_into_how_many_parts_its_port_is_split(
    system: str, name: str, whole: str, parts: int
) -> None:
    assert SWITCH_SYSTEMS[system].ports.place(name, 8) == PortPlace(whole, parts)


@pytest.mark.parametrize(("model", "system", "name", "whole"), TABLE["whole"])
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


def _is_required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def test_a_system_that_says_the_least_can_do_nothing_optional() -> None:
    onyx = system_of("onyx")
    needed = (each.name for each in fields(onyx) if _is_required(each))
    least: dict[str, Any] = {name: getattr(onyx, name) for name in needed}
    least["exec_form"] = "not tried"
    unknown = SwitchSystem(**least)
    assert isinstance(unknown.routing, str)
    assert isinstance(unknown.pfc_watchdog, str)
    assert isinstance(unknown.cable_length, str)
    assert None not in {unknown.semi_lossless, unknown.port_ecn}


def test_hosts_pause_in_both_modes_with_pfc() -> None:
    for mode, pauses in {"lossy_ecn": False, "semi_lossless": True, "lossless": True}.items():
        assert onyx_lab.load_spec(mode=mode).rdma.host_pfc is pauses


@pytest.mark.parametrize(("length", "next_one"), TABLE["headroom"])
def test_headroom_is_for_the_next_longer_cable(length: int, next_one: int | None) -> None:
    model = find_model("Z9332F")
    assert model is not None
    assert model.headroom_length("sonic", length) == next_one
    assert model.headroom_length("cumulus", length) == length


def test_a_plan_survives_json(plan: SwitchPlan) -> None:
    """All but the cables, of which nothing is set: re-plugging proves nothing again."""
    read = SwitchPlan.model_validate_json(plan.model_dump_json())
    assert read == plan.model_copy(
        update={"cables": {}, "guarded": None, "timed_restore_s": None, "waves": ()}
    )


def test_a_plan_names_the_secret_of_a_password(plan: SwitchPlan) -> None:
    assert plan.endpoint.password_secret == "switch_password"


def test_releases_compare_as_numbers() -> None:
    assert parse_release("3.10.4006") > parse_release("3.9.2504") > parse_release("3.8")


def test_names_of_steps_are_an_api(plan: SwitchPlan) -> None:
    assert [plan.step_named(part) for part in get_args(SwitchStep)] == [
        "leaf-01-baseline",
        "leaf-01-apply",
        "leaf-01-exec",
        "leaf-01-save",
        "leaf-01-saved",
    ]
    assert plan.step == "leaf-01-apply"


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

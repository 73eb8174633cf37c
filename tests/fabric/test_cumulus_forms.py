"""NVUE's answers in the forms that its releases print: forms/README.md has their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from components.fabric.parts import WHOLE, read_list
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Reading
from components.fabric.systems.cumulus import Tree, expand_names
from components.fabric.systems.cumulus.rows import NEW_WORDS, SAVES
from components.fabric.systems.cumulus.system import CONFIG, parse_profile
from lab.switches.cumulus.show import show_config, show_roce
from tests.fabric.cumulus_lab import make_switch

FORMS: Final = Path(__file__).parent / "forms" / "cumulus"


def read(name: str, *ports: str) -> Reading:
    text = (FORMS / f"nv_config_show_{name}.json").read_text()
    asked = dict.fromkeys(ports, PortState(admin_up=True, access_vlan=0))
    return system_of("cumulus").parse({CONFIG: text}, SwitchState(ports=asked))


def native_notes(reading: Reading) -> set[str]:
    return {*(read_list(reading.state.native[WHOLE]) or ())}


def test_a_public_configuration_of_5_1() -> None:
    ports = read("5.1", "swp1", *(f"swp{n}" for n in range(50, 56))).state.ports
    up = [name for name, port in ports.items() if port.admin_up]
    assert up == ["swp1", "swp51", "swp52", "swp53", "swp54"]
    found = read("5.1")
    holders = {10: ("bond1", "vlan10"), 20: ("bond2", "vlan20"), 30: ("vlan30",)}
    assert (found.state.vlans, found.vlan_holders) == ((10, 20, 30), holders)
    assert found.state.addresses == {
        "lo": ("10.10.10.1/32",),
        "vlan10": ("10.1.10.2/24",),
        "vlan20": ("10.1.20.2/24",),
        "vlan30": ("10.1.30.2/24",),
    }
    bgp = found.state.bgp
    assert bgp
    assert (bgp.asn, bgp.router_id) == (65101, "10.10.10.1")
    assert [*bgp.neighbors] == ["swp51", "peerlink.4094"]
    rest = {word for word in native_notes(found) if word.endswith("rest")}
    assert rest == {"interface lo rest", "router bgp rest"}
    assert SAVES not in native_notes(found)


def test_a_public_configuration_of_5_15() -> None:
    names = ("eth0", "swp2", "swp6", "swp3", "swp7", "vlan10")
    state = read("5.15", *names).state
    assert state.vlans == (10, 20, 30, 40)
    found = [port.access_vlan for port in state.ports.values()]
    assert found == [None, 10, 10, 20, 20, None]
    assert state.addresses == {"vlan10": ("172.17.1.1/24",)}
    assert {NEW_WORDS, SAVES, "interface vlan10 rest"} <= native_notes(read("5.15"))


@pytest.mark.parametrize("keys", ["swp1,51-54", "swp2,6", "vlan10,20", "bond1-3", "10,20,30,40"])
def test_the_emulator_prints_the_keys_of_public_configurations(keys: str) -> None:
    table = "vlan" if keys[0].isdecimal() else "interface"
    tree: Tree = {table: {name: {} for name in expand_names(keys)}}
    assert [*json.loads(show_config(tree))[-1]["set"][table]] == [keys]


def test_every_answer_is_taken_for_what_it_is(tmp_path: Path) -> None:
    answers: dict[str, str] = json.loads((FORMS / "answers.json").read_text())
    for name, text in answers.items():
        assert (system_of("cumulus").find_refusal(text) is not None) is name.startswith("refused")
    shell = make_switch(tmp_path).session()
    said = [
        shell.run("nv set interface swp1 link mtu 1500"),
        shell.run("nv config apply -y"),
        shell.run("nv config save"),
        shell.run("nv set interface lo colour 1"),
        shell.run("printf '%s\\n' '[1' > ~/a.yaml; nv config patch ~/a.yaml"),
        shell.run("printf '%s\\n' '[1]' > ~/a.yaml; nv config patch ~/a.yaml"),
        shell.run(
            "printf '%s\\n' '[{\"set\": {\"mlag\": {}}}]' > ~/a.yaml; nv config patch ~/a.yaml"
        ),
    ]
    names = ("nv set", "nv config apply, saved by itself", "nv config save", "refused: a word",
             "refused: no YAML", "refused: no operations", "refused: a word")  # fmt: skip
    for text, name in zip(said, names, strict=True):
        assert text.startswith(answers[name]), name


@pytest.mark.parametrize("mode", [None, "lossless", "lossy"])
def test_both_forms_of_the_emulator_are_read_alike(mode: str | None) -> None:
    tree: Tree = {"qos": {"roce": {"enable": "on", "mode": mode}}} if mode else {}
    old, new = (show_roce(tree, release) for release in ("5.4.0", "5.9.2"))
    assert "description" in old
    assert "description" not in new
    assert parse_profile(old) == parse_profile(new)
    assert parse_profile(old).roce == (mode or "none")

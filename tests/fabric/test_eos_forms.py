"""EOS' answers in their real form: our parsers read them, and the emulator prints the same keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from components.fabric.state import Neighbour
from components.fabric.systems import eos as show
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import PriorityCounters
from components.fabric.systems.eos.driver import NEIGHBOURS, VLANS
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import make_switch

FORMS = Path(__file__).parent / "forms" / "eos"


def form(name: str) -> str:
    return (FORMS / name).read_text()


def _sessions() -> object:
    answers = {
        show.SUMMARY: form("show_ip_bgp_summary.json"),
        show.ROUTES: form("show_ip_route.json"),
        show.BFD: form("show_bfd_peers.json"),
    }
    found = show.parse_sessions(answers)
    states = {name: (each.state, each.networks, each.bfd) for name, each in found.neighbors.items()}
    return states, found.routes


@pytest.mark.parametrize(
    ("reads", "wanted"),
    [
        (lambda: show.parse_vlans(Answer(VLANS, form("show_vlan.json"))), (1, 111)),
        (
            lambda: show.parse_neighbours(
                Answer(NEIGHBOURS, form("show_lldp_neighbors_detail.json"))
            ),
            {"Ethernet22": Neighbour(system="gpu01", port="000c.297b.d2a8", description="eth0")},
        ),
        (
            _sessions,
            (
                {"Ethernet3": ("Established", 3, "down"), "192.0.2.9": ("Idle", 0, "up")},
                {"192.0.2.1/32": ("Ethernet1",)},
            ),
        ),
        (
            lambda: show.parse_sent(
                Answer("c", form("show_interfaces_counters_queue_detail.json"), "Ethernet1")
            ),
            {
                **dict.fromkeys(range(3), PriorityCounters(None, None)),
                3: PriorityCounters(None, None, 5),
                **dict.fromkeys(range(4, 8), PriorityCounters(None, 0)),
            },
        ),
        (lambda: show.find_stale(form("show_configuration_sessions_4.31.json")), ("railyard-2",)),
        (lambda: show.find_stale(form("show_configuration_sessions_4.32.json")), ("railyard-2",)),
    ],
)
def test_a_real_answer(reads: Callable[[], object], wanted: object) -> None:
    assert reads() == wanted


@pytest.fixture
def switch(tmp_path: Path, request: pytest.FixtureRequest) -> EosSwitch:
    return make_switch(tmp_path, release=getattr(request, "param", ""))


def printed(switch: EosSwitch, command: str) -> str:
    login = switch.session()
    login.run("enable")
    return login.run(command)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("show maintenance | json", "show_maintenance_disabled.json"),
        ("show version", "show_version.txt"),
    ],
)
def test_the_emulator_prints_it_byte_for_byte(switch: EosSwitch, command: str, name: str) -> None:
    assert printed(switch, command).strip() == form(name).strip()


_NAME = re.compile(r"(Ethernet|TC|DP|railyard|fe80|\d)|$")


def keys(tree: object, path: str = "") -> Iterator[str]:
    """The paths of a JSON tree; an entry that is named by a number, an address or a port is `*`."""
    inner = cast("list[object]", tree) if isinstance(tree, list) else []
    for each in inner:
        yield from keys(each, path)
    for key, each in (cast("dict[str, object]", tree) if isinstance(tree, dict) else {}).items():
        here = f"{path}.{'*' if _NAME.match(key) else key}"
        yield here
        yield from keys(each, here)


UNPROVEN = {
    "interfaceId_v2",
    "enqueuedBytes",
    "droppedBytes",
    "enqueuedPackets",
    "user",
    "terminal",
}
"""Keys that the emulator prints and no recording has, or another release than the recorded one."""


@pytest.mark.parametrize(
    ("command", "name", "switch"),
    [
        (VLANS, "show_vlan.json", ""),
        (NEIGHBOURS, "show_lldp_neighbors_detail.json", ""),
        (show.SUMMARY, "show_ip_bgp_summary.json", ""),
        (show.BFD, "show_bfd_peers.json", ""),
        (
            show.COUNTERS["discards"].format(port="Ethernet1/1"),
            "show_interfaces_counters_discards.json",
            "",
        ),
        (
            show.COUNTERS["tx"].format(port="Ethernet1/1"),
            "show_interfaces_counters_queue_detail.json",
            "",
        ),
        (show.SESSIONS, "show_configuration_sessions_4.31.json", "4.31.2F"),
        (show.SESSIONS, "show_configuration_sessions_4.32.json", "4.32.1F"),
    ],
    indirect=["switch"],
)
def test_the_emulator_prints_no_other_keys(switch: EosSwitch, command: str, name: str) -> None:
    other = switch.session()
    for line in ("enable", "configure session railyard-7", "vlan 9", "commit timer 00:05:00"):
        other.run(line)
    ours, real = ({*keys(json.loads(text))} for text in (printed(switch, command), form(name)))
    assert {each for each in ours - real if each.rpartition(".")[2] not in UNPROVEN} == set()
    assert ours, "the emulator answers"

"""Links of ports, and traffic that is away: by forms of real answers, and by the emulators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.fabric.systems import system_of
from components.fabric.systems.base import Drain, Unreadable
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS

FORMS = Path(__file__).parent / "forms"
READ = {
    "eos": ("show_interfaces_status.json", {"Ethernet1": True, "Ethernet8": False}),
    "sonic": (
        "show_interfaces_status.txt",
        {
            "Ethernet0": False,
            **dict.fromkeys(
                (f"Ethernet{n}" for n in (16, 24, 28, 32, 36, 112, 116, 120, 124)), True
            ),
        },
    ),
    "cumulus": ("nv_show_interface.json", {"swp1": True, "swp2": False}),
    "onyx": (
        "show_interfaces_ethernet_status.txt",
        {"1/1": True, "1/2": False, "1/3": False, "1/4": False},
    ),
}


def parsed(system: str, text: str) -> dict[str, bool]:
    links = system_of(system).link_states
    return links.parse(dict.fromkeys(links.commands, text))


@pytest.mark.parametrize("system", READ)
def test_a_real_answer(system: str) -> None:
    file, wanted = READ[system]
    assert parsed(system, (FORMS / system / file).read_text()) == wanted


def test_another_form_of_cumulus_is_not_guessed_at() -> None:
    text = '{"swp1": {"link": {"state": {"up": {}}}}, "swp2": {"link": {"mtu": 1500}}}'
    assert parsed("cumulus", text) == {}


@pytest.mark.parametrize("system", ["sonic", "eos", "cumulus"])
def test_another_answer_is_no_reading(system: str) -> None:
    with pytest.raises(Unreadable):
        parsed(system, "no such thing")


@pytest.mark.parametrize("system", ["sonic", "onyx"])
def test_the_emulator_prints_the_columns_of_the_form(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    exchange = lab.talk(lab.make_switch(tmp_path, Clock()))
    exchange.enter(configure=False)
    (command,) = exchange.driver.link_states.commands
    printed = exchange.session.run(command).strip("\n").splitlines()[0]
    form = (FORMS / system / READ[system][0]).read_text().splitlines()[0]
    assert re.split(r" {2,}", printed.strip()) == re.split(r" {2,}", form.strip())


@pytest.mark.parametrize("system", READ)
def test_a_pulled_cable_is_seen(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    switch = lab.make_switch(tmp_path, Clock())
    exchange = lab.talk(switch)
    exchange.enter(configure=False)
    before = exchange.read_links()
    up = [port for port, is_up in before.items() if is_up]
    for port in up:
        switch.fault(["link-down", port, "on"])
        assert exchange.read_links() == before | {port: False}
        switch.fault(["link-down", port, "off"])
    assert exchange.read_links() == before
    assert bool(up) is (system != "cumulus"), "a port of a new Cumulus switch is shut"


SHOWN = {
    "show_maintenance_disabled.json": (False, False),
    "show_maintenance_other_unit.json": (False, False),
    "show_maintenance_entering.json": (True, False),
    "show_maintenance_away.json": (True, True),
}
"""Answer of EOS to whether it was asked to, and whether no traffic is left."""


def drain_of(system: str) -> Drain:
    found = system_of(system).drain
    assert isinstance(found, Drain)
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_what_eos_says_of_maintenance(name: str) -> None:
    drain, text = drain_of("eos"), (FORMS / "eos" / name).read_text()
    for answer in (text, text.replace("\n", "\r\n")):
        found = (re.search(each, answer, re.MULTILINE) for each in (drain.is_away, drain.is_empty))
        assert tuple(each is not None for each in found) == SHOWN[name]


@pytest.mark.parametrize("word", ["on", "enabled"])
def test_what_nvue_says_of_a_graceful_shutdown(word: str) -> None:
    """5.15 says `enabled` in place of `on`; a pending value alone does not count."""
    text = (FORMS / "cumulus" / "nv_show_router_bgp.txt").read_text()
    is_away = drain_of("cumulus").is_away
    assert re.search(is_away, text, re.MULTILINE) is None
    row = "graceful-shutdown               {:<13}{}\n"
    off = row.format("off", "off")
    assert off in text
    away, waits = (text.replace(off, row.format(*each)) for each in ((word, "off"), ("off", word)))
    assert re.search(is_away, away, re.MULTILINE)
    assert re.search(is_away, waits, re.MULTILINE) is None

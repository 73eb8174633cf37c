"""Which card gets which rail and which none: cables, addresses, order, the host's own cards."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from components.discover.run import render_report
from components.hosts.look import HostLook, parse_look
from tests.discover.played import dgx, look_at
from tests.discover.sites import BLOCK, GPU01, HEAD, RANGES, TAIL, run

UP = ("0000:0c:00.0", "0000:8b:00.0")


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> HostLook:
    return look_at(dgx(), tmp_path_factory.mktemp("dgx"))


def test_cables_and_addresses_choose_the_rail_before_the_order_does(
    tmp_path: Path, look: HostLook
) -> None:
    first, second, third, fourth = look.cards
    cards = (
        replace(first, switch="leaf-01.example.com", switch_ports=("Eth1/2",)),
        second,
        replace(third, addresses=("10.10.114.7/24",)),
        fourth,
    )
    report, _ = run(tmp_path, HEAD + GPU01 + TAIL, replace(look, cards=cards))
    assert dict(report.found[0].proposal.rails) == {
        "0000:05:00.0": "rail-1",
        "0000:0c:00.0": "rail-0",
        "0000:84:00.0": "rail-3",
        "0000:8b:00.0": "rail-2",
    }


TWO = re.sub(r"  - \{name: rail-[23].*\n", "", HEAD).replace(
    "rail-1}}", "rail-1}, 1/3: gpu02/rail-0}"
)


def heard(look: HostLook, *ports: str) -> HostLook:
    """The look with so many cards, each of which hears a port of leaf-01, or nothing."""
    cards = (
        replace(card, switch="leaf-01" if port else "", switch_ports=(port,) if port else ())
        for card, port in zip(look.cards, ports, strict=False)
    )
    return replace(look, cards=tuple(cards))


@pytest.mark.parametrize("ports", [("Eth1/2", "Eth1/2"), ("", "Eth1/1")], ids=["both", "by-hand"])
def test_a_card_whose_rail_is_taken_is_not_written(
    tmp_path: Path, look: HostLook, ports: tuple[str, ...]
) -> None:
    nics = "" if ports[0] else '    nics: [{rail: rail-0, pci: "0000:05:00.0"}]\n'
    seen = heard(look, *ports)
    report, after = run(tmp_path, TWO + GPU01 + nics, seen)
    rail = "rail-1" if ports[0] else "rail-0"
    assert dict(report.found[0].proposal.rails) == {"0000:05:00.0": rail}
    note = report.found[0].proposal.notes[0]
    assert note == (
        f"0000:0c:00.0 (enp12s0) is not written (LLDP: it is plugged into leaf-01 {ports[1]}): "
        f"that is {rail}, which 0000:05:00.0 has"
    )
    again, last = run(tmp_path, after, seen)
    assert (again.exit_code, last) == (0, after)


def test_a_card_in_the_port_of_another_host_gets_no_rail(tmp_path: Path, look: HostLook) -> None:
    seen = heard(look, "Eth1/3", "")
    report, after = run(tmp_path, TWO + GPU01, seen)
    assert dict(report.found[0].proposal.rails) == {"0000:0c:00.0": "rail-0"}
    assert (
        "note: 0000:05:00.0 (enp5s0) is not written (LLDP: it is plugged into leaf-01 Eth1/3): "
        "that is gpu02/rail-0 in the file; are cables swapped?"
    ) in render_report(report)
    assert run(tmp_path, after, seen)[0].exit_code == 0


def test_a_written_card_in_the_port_of_another_host_is_told(tmp_path: Path, look: HostLook) -> None:
    text = TWO + GPU01 + '    nics: [{rail: rail-1, pci: "0000:05:00.0"}]\n'
    report, after = run(tmp_path, text, heard(look, "Eth1/3"))
    told = "rail = rail-1, found gpu02/rail-0 (LLDP: it is plugged into leaf-01 Eth1/3)"
    assert told in render_report(report)
    assert run(tmp_path, after, heard(look, "Eth1/3"))[0].exit_code == 3


def test_where_rails_are_few_the_ports_that_are_up_get_them(tmp_path: Path, look: HostLook) -> None:
    cards = tuple(replace(card, up=card.pci in UP) for card in look.cards)
    report, _ = run(tmp_path, TWO + GPU01, replace(look, cards=cards))
    assert dict(report.found[0].proposal.rails) == dict(zip(UP, ["rail-0", "rail-1"], strict=True))
    report, _ = run(tmp_path, HEAD + GPU01, replace(look, cards=cards))
    assert [*report.found[0].proposal.rails.values()] == [f"rail-{number}" for number in range(4)]


def test_a_cable_into_a_range_of_ports_chooses_the_rail(tmp_path: Path, look: HostLook) -> None:
    cards = (replace(look.cards[0], switch="leaf-01", switch_ports=("swp2",)), *look.cards[1:])
    text = HEAD.partition("switches:")[0] + RANGES + GPU01
    report, after = run(tmp_path, text, replace(look, cards=cards))
    assert report.found[0].proposal.rails["0000:05:00.0"] == "rail-2"
    assert RANGES in after
    again, last = run(tmp_path, after, replace(look, cards=cards))
    assert (again.exit_code, last) == (0, after)


def test_a_sonic_port_is_known_by_its_description(tmp_path: Path, look: HostLook) -> None:
    lines = [
        "look.0000:05:00.0.kind=nic",
        "look.0000:05:00.0.netdev=enp5s0",
        "lldp.enp5s0.chassis.name=leaf-01",
        "lldp.enp5s0.port.local=fourhundredGigE1/2",
        "lldp.enp5s0.port.descr=Ethernet4",
    ]
    [told] = parse_look(lines).cards
    assert told.neighbour == "leaf-01 fourhundredGigE1/2"
    first = replace(look.cards[0], switch=told.switch, switch_ports=told.switch_ports)
    text = HEAD.replace('"1/1": gpu01/rail-0', "Ethernet4: gpu01/rail-3") + GPU01
    report, _ = run(tmp_path, text, replace(look, cards=(first, *look.cards[1:])))
    assert report.found[0].proposal.rails["0000:05:00.0"] == "rail-3"


def test_a_cable_that_contradicts_the_file_is_told(tmp_path: Path, look: HostLook) -> None:
    cards = (
        replace(look.cards[0], switch="leaf-01", switch_ports=("Ethernet1/1",)),
        *look.cards[1:],
    )
    report, after = run(tmp_path, HEAD + GPU01 + BLOCK + TAIL, replace(look, cards=cards))
    text = render_report(report)
    assert "rail = rail-2, found rail-0 (LLDP: it is plugged into leaf-01 Ethernet1/1)" in text
    assert "rail: rail-2      # by hand" in after


def test_a_card_without_a_rail_left_and_the_hosts_own_card_are_not_written(
    tmp_path: Path, look: HostLook
) -> None:
    text = re.sub(r"  - \{name: rail-[23].*\n", "", HEAD) + GPU01 + TAIL
    cards = (replace(look.cards[0], addresses=("192.168.2.11/24",)), *look.cards[1:])
    report, after = run(tmp_path, text, replace(look, cards=cards, uplink=("enp12s0",)))
    assert "0000:05:00.0" not in after
    assert "0000:0c:00.0" not in after
    assert list(report.found[0].proposal.rails) == ["0000:84:00.0", "0000:8b:00.0"]
    notes = " ".join(report.found[0].proposal.notes)
    assert "0000:05:00.0 (enp5s0) carries the host's own traffic" in notes
    more, _ = run(tmp_path, text, look)
    assert "0000:84:00.0 (enp132s0) is not written: no rail" in " ".join(
        more.found[0].proposal.notes
    )


def test_cards_below_the_uplinks_bond_are_the_hosts_own(tmp_path: Path, look: HostLook) -> None:
    lines = ["look.host.seen=yes", "look.host.uplink=bond0.7 bond0 enp5s0 enp12s0"]
    uplink = parse_look(lines).uplink
    report, _ = run(tmp_path, HEAD + GPU01 + TAIL, replace(look, uplink=uplink))
    assert dict(report.found[0].proposal.rails) == {
        "0000:84:00.0": "rail-0",
        "0000:8b:00.0": "rail-1",
    }

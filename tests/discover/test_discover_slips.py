"""Slips in a file that is written by hand: they are told, and shift nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.discover.run import render_report
from components.hosts.look import HostLook
from tests.discover.played import dgx, look_at
from tests.discover.sites import GPU01, HEAD, SSH, run


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> HostLook:
    return look_at(dgx(), tmp_path_factory.mktemp("dgx"))


def with_cards(*cards: str) -> str:
    return f"{HEAD}{GPU01}    nics: [{', '.join(cards)}]\n"


@pytest.mark.parametrize("pci", ["0000:31:00.0", "05:00.0"])
def test_a_wrong_address_shifts_no_rail(tmp_path: Path, look: HostLook, pci: str) -> None:
    text = with_cards(f'{{rail: rail-0, pci: "{pci}"}}')
    report, after = run(tmp_path, text, look)
    told = render_report(report)
    assert "rail-1," not in after.partition("nics")[2]
    assert f"it may be a card of the file which the host lacks ({pci})" in told
    assert report.exit_code == 3


def test_cards_that_are_written_by_their_names_keep_their_rails(
    tmp_path: Path, look: HostLook
) -> None:
    text = with_cards("{rail: rail-0, netdev: enp5s0}", "{rail: rail-2, netdev: enp132s0}")
    _, after = run(tmp_path, text, look)
    cards = after.partition("nics")[2]
    assert 'rail: rail-0, netdev: enp5s0, pci: "0000:05:00.0"' in cards
    assert 'rail: rail-2, netdev: enp132s0, pci: "0000:84:00.0"' in cards
    assert 'rail: rail-1, pci: "0000:0c:00.0"' in cards
    assert cards.count("rail: rail-") == 4


def test_a_list_in_place_of_a_number_is_told(tmp_path: Path, look: HostLook) -> None:
    text = with_cards('{rail: rail-0, pci: "0000:05:00.0", numa: [0]}')
    report, _ = run(tmp_path, text, look)
    assert "hosts[0].nics[0].numa = [0], found 0" in render_report(report)


def test_gpus_that_the_user_gave_to_a_card_are_given_to_no_other(
    tmp_path: Path, look: HostLook
) -> None:
    own = '["0000:06:00.0", "0000:86:00.0"]'
    text = with_cards(f'{{rail: rail-0, pci: "0000:05:00.0", gpu_pci: {own}}}')
    report, after = run(tmp_path, text, look)
    assert after.count("0000:86:00.0") == 1
    assert 'gpu_pci: ["0000:87:00.0"]' in after
    found = "found [0000:06:00.0, 0000:07:00.0]"
    assert f"gpu_pci = [0000:06:00.0, 0000:86:00.0], {found}" in render_report(report)


def test_another_board_is_told_by_its_serial_number(tmp_path: Path, look: HostLook) -> None:
    boards = tuple(replace(card, serial=f"MT{card.pci[5:7]}") for card in look.cards)
    text = with_cards('{rail: rail-0, pci: "0000:05:00.0", serial: MT0c}')
    report, _ = run(tmp_path, text, replace(look, cards=boards))
    told = "serial = MT0c, found MT05 (the card with serial MT0c is at 0000:0c:00.0)"
    assert told in render_report(report)


def test_one_port_of_each_card_comes_before_a_second_one(tmp_path: Path, look: HostLook) -> None:
    second = tuple(
        replace(card, pci=f"{card.pci[:-1]}1", netdev=f"{card.netdev}d1") for card in look.cards
    )
    both = replace(look, cards=tuple(sorted((*look.cards, *second), key=lambda card: card.pci)))
    _, after = run(tmp_path, HEAD + GPU01, both)
    cards = after.partition("nics")[2]
    assert [f'pci: "{card.pci}"' in cards for card in look.cards] == [True] * 4
    assert ':00.1"' not in cards


def test_the_card_of_the_nodes_own_address_is_left_alone(tmp_path: Path, look: HostLook) -> None:
    cards = (replace(look.cards[0], addresses=("192.168.7.11/24",)), *look.cards[1:])
    text = HEAD + GPU01 + "    node_ip: 192.168.7.11\n"
    report, after = run(tmp_path, text, replace(look, cards=cards))
    assert '"0000:05:00.0"' not in after.partition("nics")[2]
    assert "(enp5s0) carries the host's own traffic" in render_report(report)


def test_a_card_whose_network_device_is_elsewhere_has_a_driver(
    tmp_path: Path, look: HostLook
) -> None:
    cards = (replace(look.cards[0], netdev=""), *look.cards[1:])
    report, _ = run(tmp_path, HEAD + GPU01, replace(look, cards=cards))
    assert "it is in another network namespace" in render_report(report)


def test_hosts_that_are_no_list_are_not_nothing_to_add(tmp_path: Path, look: HostLook) -> None:
    with pytest.raises(UsageError, match="hosts is not a list, so no host was read"):
        run(tmp_path, f"{HEAD}hosts: {{gpu01: {{role: worker}}}}\n", look)


def test_a_host_without_a_name_is_told(tmp_path: Path) -> None:
    report, _ = run(tmp_path, f"{HEAD}hosts:\n  - role: worker\n")
    assert "hosts[0] lacks a name, so it was not read" in render_report(report)
    assert report.exit_code == 2


def test_a_name_that_is_a_number_is_found(tmp_path: Path, look: HostLook) -> None:
    text = f"{HEAD}hosts:\n  - name: 101\n    role: worker\n{SSH}"
    _, after = run(tmp_path, text, look, asked=("101",))
    assert "gpus: 8" in after


def test_what_was_seen_of_a_host_that_cannot_be_written_is_shown(
    tmp_path: Path, look: HostLook
) -> None:
    text = HEAD + GPU01 + "    nics: &none []\n    labels: *none\n"
    report, after = run(tmp_path, text, look)
    told = render_report(report)
    assert after == text
    assert "an anchor and aliases use it twice" in told
    assert "0000:8b:00.0" in told
    assert "nothing to add of the others" in told

"""Distances and pairs: against the emulated `nvidia-smi topo -m`, the recorded one, and by law."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hosts.look import (
    CardFact,
    Distance,
    HostLook,
    PciFunction,
    assign_gpus,
    count_nodes,
    distance,
    gpus_of,
    matrix,
    parse_look,
)
from lab.hosts.tools.call import ToolCall
from lab.hosts.tools.gpus import LEGEND, nvidia_smi
from lab.views import HostConfig
from tests.discover.played import bare, booted, dgx, instance, look_at, look_lines, nic, write_sys

RECORDED_LEGEND = """\
  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501 - four H200, driver 580: `nvidia-smi topo -m` as it was recorded


def told_matrix(config: HostConfig, folder: Path) -> dict[tuple[str, str], str]:
    """The cells between GPUs and NICs that the emulated tool prints, by PCI address."""
    model = booted(config, folder / "told")
    call = ToolCall("nvidia-smi", ("topo", "-m"), 0, 0, "/", model, folder)
    lines = re.sub(r"\x1b\[\d*m", "", nvidia_smi(call).out).splitlines()
    heads = lines[0].split("\t")[1:]
    gpus = sorted(gpu.pci for gpu in look_at(config, folder / "seen").gpus)
    cards = [each.pci for each in (*config.nics, *config.hcas)]
    places = {f"GPU{i}": pci for i, pci in enumerate(gpus)}
    places |= {f"NIC{i}": pci for i, pci in enumerate(cards)}
    return {
        (places[row[0]], places[head]): cell
        for row in (line.split("\t") for line in lines[1 : 1 + len(places)])
        for head, cell in zip(heads, row[1:], strict=False)
        if row[0].startswith("GPU") and head.startswith("NIC")
    }


@pytest.mark.parametrize(
    "config",
    [
        dgx(),
        dgx("ConnectX-7", gpus=4),
        bare(nic(0, "0000:05:00.0", 0), gpus=8),
        instance(bare_metal=True),
        instance(bare_metal=False),
    ],
    ids=["dgx", "four-gpus", "one-card", "bare-instance", "flat-instance"],
)
def test_distances_are_those_of_nvidia_smi(config: HostConfig, tmp_path: Path) -> None:
    told = told_matrix(config, tmp_path)
    look = look_at(config, tmp_path / "look")
    found = {pair: steps.name for pair, steps in matrix(look).items()}
    assert len(found) == len(look.gpus) * len(look.cards) > 0
    assert found == told


def test_the_emulated_table_has_the_recorded_legend() -> None:
    assert RECORDED_LEGEND in LEGEND
    words = set(re.findall(r"^  ([A-Z]+) +=", RECORDED_LEGEND, re.MULTILINE))
    assert {steps.name for steps in Distance} <= words


def at(pci: str, path: str, numa: int | None = 0) -> PciFunction:
    return PciFunction(pci, "1017", numa, (*path.split("/"), pci))


ROOT = "pci0000:00/0000:00:01.0"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (f"{ROOT}/0000:02:00.0/0000:03:00.0", f"{ROOT}/0000:02:00.0/0000:03:01.0", "PIX"),
        (ROOT, ROOT, "PIX"),
        (
            f"{ROOT}/0000:02:00.0/0000:03:00.0",
            f"{ROOT}/0000:02:00.0/0000:03:01.0/0000:05:00.0/0000:06:00.0",
            "PXB",
        ),
        (ROOT, "pci0000:00/0000:00:02.0", "PHB"),
        ("pci0000:00", "pci0000:00", "PHB"),
        (ROOT, "pci0000:40/0000:40:01.0", "NODE"),
    ],
)
def test_what_counts_as_a_step(one: str, other: str, expected: str) -> None:
    pair = (at("0000:0a:00.0", one), at("0000:0b:00.0", other))
    assert distance(*pair, nodes=2).name == expected
    assert distance(*reversed(pair), nodes=2).name == expected


@pytest.mark.parametrize(
    ("numas", "nodes", "expected"),
    [((0, 1), 2, "SYS"), ((0, 0), 2, "NODE"), ((None, 0), 2, "SYS"), ((None, None), 1, "NODE")],
)
def test_numa_decides_between_host_bridges(
    numas: tuple[int | None, int | None], nodes: int, expected: str
) -> None:
    one = at("0000:0a:00.0", "pci0000:00/0000:00:01.0", numas[0])
    other = at("0000:8a:00.0", "pci0000:80/0000:80:01.0", numas[1])
    assert distance(one, other, nodes).name == expected


def test_each_gpu_of_a_dgx_gets_the_card_of_its_switch(tmp_path: Path) -> None:
    look = look_at(dgx(), tmp_path)
    pairs = assign_gpus(look, [card.pci for card in look.cards])
    assert {pair.distance for pair in pairs} == {Distance.PIX}
    assert gpus_of(pairs, "0000:05:00.0") == ("0000:06:00.0", "0000:07:00.0")
    assert gpus_of(pairs, "0000:8b:00.0") == ("0000:88:00.0", "0000:89:00.0")


def test_one_card_takes_the_gpus_of_its_node_and_the_rest_cross(tmp_path: Path) -> None:
    look = look_at(bare(nic(0, "0000:05:00.0", 0), gpus=8), tmp_path)
    pairs = assign_gpus(look, ["0000:05:00.0"])
    assert len(pairs) == 8
    assert len(gpus_of(pairs, "0000:05:00.0")) == 4
    assert sorted(pair.distance.name for pair in pairs) == ["PIX"] * 4 + ["SYS"] * 4


def test_a_card_that_is_near_is_not_left_for_an_unused_one_of_another_node() -> None:
    cards = tuple(
        CardFact(f"0000:{bus}:00.0", "1017", numa, (root, f"0000:{bus}:00.0"))
        for bus, numa, root in (
            ("05", 0, "pci0000:00"),
            ("06", 0, "pci0000:00"),
            ("85", 1, "pci0000:80"),
        )
    )
    gpus = tuple(
        PciFunction(f"0000:{bus}:00.0", "2330", 1, ("pci0000:90", f"0000:{bus}:00.0"))
        for bus in ("91", "92", "93")
    )
    pairs = assign_gpus(HostLook(cards, gpus, nodes=2), [card.pci for card in cards])
    assert {pair.card for pair in pairs} == {"0000:85:00.0"}


def test_a_card_that_a_far_gpu_has_gets_one_of_its_own_node_too() -> None:
    cards = tuple(
        CardFact(f"0000:{bus}:00.0", "1021", 0, ("pci0000:00", f"0000:{bus}:00.0"))
        for bus in ("10", "11", "12")
    )
    gpus = (at("0000:50:00.0", "pci0000:00"), at("0000:51:00.0", "pci0000:40", numa=1))
    pairs = assign_gpus(HostLook(cards, gpus, nodes=2), [card.pci for card in cards])
    assert [gpus_of(pairs, card.pci) for card in cards] == [("0000:50:00.0",)] * 3


def test_a_gpu_is_not_taken_from_its_own_switch_to_even_out() -> None:
    switch = "pci0000:10/0000:10:01.0/0000:11:00.0"
    cards = tuple(
        CardFact(pci, "1017", 0, (*path.split("/"), pci))
        for pci, path in (
            ("0000:13:00.0", f"{switch}/0000:12:00.0"),
            ("0000:21:00.0", "pci0000:20/0000:20:01.0"),
        )
    )
    gpus = (
        at("0000:14:00.0", f"{switch}/0000:12:01.0"),
        at("0000:15:00.0", f"{switch}/0000:12:02.0"),
        at("0000:31:00.0", "pci0000:30/0000:30:01.0"),
        at("0000:32:00.0", "pci0000:30/0000:30:02.0"),
    )
    look = HostLook(cards, gpus, nodes=2)
    pairs = assign_gpus(look, [card.pci for card in cards])
    assert gpus_of(pairs, "0000:13:00.0") == ("0000:14:00.0", "0000:15:00.0")
    assert gpus_of(pairs, "0000:21:00.0") == ("0000:31:00.0", "0000:32:00.0")


@st.composite
def looks(draw: st.DrawFn) -> HostLook:
    """Any machine: functions below any of a few bridges, or none."""
    roots = st.sampled_from(["pci0000:00", "pci0000:40", "pci0000:80"])
    bridges = st.lists(st.sampled_from(["0000:01:00.0", "0000:02:00.0"]), max_size=4)

    def function(bus: int) -> tuple[str, int | None, tuple[str, ...]]:
        pci = f"0000:{bus:02x}:00.0"
        numa = draw(st.sampled_from([0, 1, None]))
        return pci, numa, (draw(roots), *draw(bridges), pci)

    cards = [function(0x10 + n) for n in range(draw(st.integers(0, 4)))]
    gpus = [function(0x50 + n) for n in range(draw(st.integers(0, 8)))]
    return HostLook(
        tuple(CardFact(pci, "1021", numa, path) for pci, numa, path in cards),
        tuple(PciFunction(pci, "2330", numa, path) for pci, numa, path in gpus),
        nodes=draw(st.integers(1, 2)),
    )


@given(looks())
def test_every_gpu_gets_one_card_and_sys_only_where_nothing_is_nearer(look: HostLook) -> None:
    cards = [card.pci for card in look.cards]
    pairs = assign_gpus(look, cards)
    assert pairs == assign_gpus(look, list(reversed(cards)))
    assert sorted({pair.gpu for pair in pairs}) == ([gpu.pci for gpu in look.gpus] if cards else [])
    assert len(pairs) == len(look.gpus) or len(cards) > len(look.gpus) or not cards
    table = matrix(look)
    for pair in pairs:
        assert pair.distance == table[pair.gpu, pair.card]
        if pair.distance == Distance.SYS:
            assert {table[pair.gpu, card] for card in cards} == {Distance.SYS}


@given(looks())
def test_every_gpu_gets_one_of_its_nearest_cards(look: HostLook) -> None:
    table = matrix(look)
    pairs = assign_gpus(look, [card.pci for card in look.cards])
    for gpu in look.gpus if look.cards else ():
        nearest = min(table[gpu.pci, card.pci] for card in look.cards)
        assert min(pair.distance for pair in pairs if pair.gpu == gpu.pci) == nearest


@given(looks())
def test_cards_of_equal_distance_share_the_gpus_evenly(look: HostLook) -> None:
    table = matrix(look)
    if len(set(table.values())) == 1:
        pairs = assign_gpus(look, [card.pci for card in look.cards])
        counts = [sum(pair.card == card.pci for pair in pairs) for card in look.cards]
        assert max(counts) - min(counts) <= 1


@given(looks())
def test_a_card_has_a_gpu_where_one_is_on_its_node(look: HostLook) -> None:
    table = matrix(look)
    pairs = assign_gpus(look, [card.pci for card in look.cards])
    for card in look.cards:
        near = [gpu.pci for gpu in look.gpus if table[gpu.pci, card.pci] < Distance.SYS]
        if len(look.cards) > len(look.gpus) and near:
            assert gpus_of(pairs, card.pci)


@pytest.mark.parametrize(
    ("online", "count"), [("0", 1), ("0-1", 2), ("0-1,4", 3), ("0-7", 8), ("", 1), ("x", 1)]
)
def test_numa_nodes_are_counted(online: str, count: int) -> None:
    assert count_nodes(online) == count


def test_links_that_the_kernel_does_not_know_are_unknown() -> None:
    lines = [
        "look.0000:05:00.0.kind=nic",
        "look.0000:05:00.0.path=pci0000:00/0000:05:00.0",
        "look.0000:05:00.0.link_speed=Unknown",
        "look.0000:05:00.0.link_width=255",
        "look.0000:05:00.0.max_width=0",
        "look.0000:05:00.0.numa=-1",
        "look.0000:05:00.0.mbit_s=-1",
        "hostname=gpu01",
        "# boot_id=1",
    ]
    [card] = parse_look(lines).cards
    assert (card.link.gt_s, card.link.width, card.possible.width) == (None, None, None)
    assert (card.numa, card.speed_gbit_s, card.up) == (None, None, False)


def test_a_path_below_another_domain_begins_at_its_own_bridge() -> None:
    lines = [
        "look.10000:01:00.0.kind=gpu",
        "look.10000:01:00.0.path=pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0",
    ]
    [gpu] = parse_look(lines).gpus
    assert gpu.path[0] == "pci10000:00"


@pytest.mark.parametrize(("width", "carried"), [(16, 100), (8, 63), (1, 7), (None, 100)])
def test_a_narrow_link_carries_less_in_the_lab(
    tmp_path: Path, width: int | None, carried: int
) -> None:
    card = booted(dgx(), tmp_path).nics[0]
    card.link_width = width
    view = card.view(peermem=True, memlock_unlimited=True, gdr_allowed=True)
    assert view.speed_gbit_s == carried


def test_two_recorded_gpus_are_as_far_apart_as_nvidia_smi_says() -> None:
    text = (Path(__file__).parent / "recorded" / "h200x2.txt").read_text()
    look = parse_look(text.splitlines())
    told = re.search(r"^GPU0\t X \t([A-Z]+)", text, re.MULTILINE)
    assert told is not None
    one, other = look.gpus
    assert distance(one, other, look.nodes).name == told[1] == "PHB"


def test_the_emulated_table_has_the_columns_of_the_recorded_one(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "recorded" / "h200x2.txt").read_text()
    model = booted(dgx(gpus=2), tmp_path)
    call = ToolCall("nvidia-smi", ("topo", "-m"), 0, 0, "/", model, tmp_path)
    emulated, recorded = nvidia_smi(call).out.splitlines(), text.splitlines()
    nics = "\t".join(f"NIC{i}" for i in range(4))
    assert emulated[0].replace(f"\t{nics}", "") == recorded[0]
    assert emulated[1].count("\t") - 4 == recorded[1].count("\t")


def test_a_moved_card_has_a_place_of_its_own(tmp_path: Path) -> None:
    model = booted(dgx(), tmp_path)
    card = model.nics[0]
    card.config = replace(card.config, pci="0000:1d:00.0")
    look = parse_look(look_lines(write_sys(model, tmp_path / "sys")).splitlines())
    assert look.card("0000:05:00.0") is None
    assert {steps.name for (_, pci), steps in matrix(look).items() if pci == "0000:1d:00.0"} == {
        "PHB",
        "SYS",
    }

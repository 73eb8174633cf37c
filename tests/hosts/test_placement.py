"""What a look shows against the file: each finding in words, and which of them refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.core.key_values import HostState
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, drift_exit_code, render_drift
from components.hosts.look import (
    ExpectedCard,
    HostLook,
    LinkFact,
    PciFunction,
    Placement,
    judge_placement,
    plan_placement,
)
from components.plan.make import make_plan
from components.update.decide import judge_drift
from components.update.seen import Seen
from tests.discover.played import booted, dgx, look_at, look_lines, write_sys
from tests.golden.site import load_example
from tests.update.judged import refusals

CARD = ExpectedCard("0000:05:00.0", "rail-0", "enp5s0", 100)
GOOD = Placement(8, gpu_direct=True, cards=(CARD,))


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> HostLook:
    return look_at(dgx(), tmp_path_factory.mktemp("dgx"))


def told(expected: Placement, look: HostLook) -> list[tuple[str, bool]]:
    return [(found.text, found.refused) for found in judge_placement(expected, look)]


def test_what_is_as_the_file_says_is_quiet(look: HostLook) -> None:
    whole = replace(
        CARD, numa=0, link_gt_s=8, link_width=16, lanes=4, gpu_pci=("0000:06:00.0",), gpu_path="PIX"
    )
    assert told(replace(GOOD, cards=(whole,)), look) == []
    assert told(GOOD, look) == []


def test_nobody_looked_is_no_finding() -> None:
    assert told(GOOD, HostLook()) == []
    assert len(told(GOOD, HostLook(seen=True))) == 2


@pytest.mark.parametrize(
    ("wanted", "link", "slot", "words"),
    [
        ({}, LinkFact(8, 8), LinkFact(8, 16), "with 8 PCIe lanes, want 16: reseat the card"),
        (
            {"link_width": 16},
            LinkFact(8, 8),
            LinkFact(8, 8),
            "its slot is limited to 8: move it",
        ),
        (
            {"link_width": 8},
            LinkFact(8, 16),
            LinkFact(8, 16),
            "with 16 PCIe lanes, want 8: the file",
        ),
        ({}, LinkFact(2.5, 16), LinkFact(8, 16), "at 2.5 GT/s, want 8: check the slot's speed"),
        ({"link_gt_s": 16.0}, LinkFact(8, 16), LinkFact(8, 16), "at 8 GT/s, want 16"),
    ],
)
def test_a_link_that_trained_otherwise(
    look: HostLook, wanted: dict[str, float], link: LinkFact, slot: LinkFact, words: str
) -> None:
    card = replace(look.cards[0], link=link, slot_link=slot)
    expected = replace(GOOD, cards=(replace(CARD, **wanted),))
    [(text, refused)] = told(expected, replace(look, cards=(card,)))
    assert words in text
    assert not refused


@pytest.mark.parametrize("slot", [LinkFact(5, 32), LinkFact(2.5, 1)], ids=["vmware", "qemu"])
def test_a_virtual_root_port_is_no_slot(look: HostLook, slot: LinkFact) -> None:
    best = LinkFact(16, 16)
    card = replace(look.cards[0], link=best, card_link=best, slot_link=slot)
    assert told(GOOD, replace(look, cards=(card,))) == []
    wrong = replace(GOOD, cards=(replace(CARD, link_width=8),))
    [(text, _)] = told(wrong, replace(look, cards=(card,)))
    assert "with 16 PCIe lanes, want 8: the file is out of date" in text
    slow = replace(card, link=LinkFact(8, 16))
    [(text, _)] = told(GOOD, replace(look, cards=(slow,)))
    assert "at 8 GT/s, want 16" in text


def test_a_link_that_nobody_knows_is_no_finding(look: HostLook) -> None:
    card = replace(look.cards[0], link=LinkFact(), card_link=LinkFact(), slot_link=LinkFact())
    expected = replace(GOOD, cards=(replace(CARD, link_width=16, link_gt_s=8.0),))
    assert told(expected, replace(look, cards=(card,))) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"speed_gbit_s": 200}, "runs at 100 Gbit/s, and the file says 200: look at the cable"),
        ({"lanes": 8}, "runs with 4 SerDes lanes, want 8"),
        ({"numa": 1}, "is on NUMA node 0, and the file says 1: was it moved? Write numa: 0"),
        ({"pci": "0000:0d:00.0"}, "no RDMA card at 0000:0d:00.0 (enp5s0, rail-0)"),
        ({"gpu_pci": ("0000:aa:00.0",)}, "no GPU at 0000:aa:00.0"),
        ({"gpu_pci": ("0000:08:00.0",), "gpu_path": "PIX"}, "is PHB, want PIX or nearer"),
    ],
)
def test_other_things_that_are_not_as_the_file_says(
    look: HostLook, wanted: dict[str, object], words: str
) -> None:
    expected = replace(GOOD, cards=(replace(CARD, **wanted),))
    [(text, refused)] = told(expected, look)
    assert words in text
    assert not refused


def test_an_infiniband_adapter_with_a_narrow_link_is_told(look: HostLook) -> None:
    card = replace(look.cards[0], link_layer="InfiniBand", rdma="mlx5_0", link=LinkFact(8, 4))
    seen = replace(look, cards=(card, *look.cards[1:]))
    [(text, _)] = told(Placement(8, hcas=1), seen)
    assert "the card at 0000:05:00.0 (mlx5_0, InfiniBand) runs with 4 PCIe lanes, want 16" in text
    assert "link_width:" not in text


def test_a_missing_gpu_is_told(look: HostLook) -> None:
    [(text, _)] = told(GOOD, replace(look, gpus=look.gpus[1:]))
    assert "7 GPUs are on its PCIe bus, and the file says 8" in text


@pytest.mark.parametrize("direct", [True, False])
def test_a_pair_across_the_processors_is_refused_with_gpudirect(
    look: HostLook,
    direct: bool,  # noqa: FBT001 - a case
) -> None:
    card = replace(CARD, gpu_pci=("0000:86:00.0",))
    [(text, refused)] = told(Placement(8, direct, (card,)), look)
    assert "goes from one processor to the other, want PHB or nearer" in text
    assert refused is direct


def test_a_card_without_a_gpu_on_its_node_is_told_only_with_gpudirect(look: HostLook) -> None:
    far = tuple(PciFunction(gpu.pci, gpu.device, 1, ("pci0000:80", gpu.pci)) for gpu in look.gpus)
    [(text, refused)] = told(GOOD, replace(look, gpus=far))
    assert "no GPU is on the NUMA node of the card at 0000:05:00.0" in text
    assert not refused
    assert told(replace(GOOD, gpu_direct=False), replace(look, gpus=far)) == []


@pytest.mark.parametrize("gpu_path", [None, "NODE"])
def test_a_node_that_the_system_does_not_tell_refuses_nothing(
    look: HostLook, gpu_path: str | None
) -> None:
    unknown = replace(look, cards=tuple(replace(each, numa=None) for each in look.cards))
    card = replace(CARD, gpu_pci=("0000:86:00.0",), gpu_path=gpu_path)
    [(text, refused)] = told(replace(GOOD, cards=(card,)), unknown)
    assert "may go from one processor to the other (the system tells no NUMA node of" in text
    assert "tells no NUMA node of 0000:05:00.0)" in text
    assert not refused


def test_a_card_is_not_said_to_be_on_another_node_than_all_gpus_where_nobody_knows(
    look: HostLook,
) -> None:
    far = tuple(replace(gpu, numa=None, path=("pci0000:90", gpu.pci)) for gpu in look.gpus)
    [(text, refused)] = told(GOOD, replace(look, gpus=far))
    assert "GPUDirect RDMA over rail-0 may go from one processor to the other" in text
    assert "tells no NUMA node of 0000:06:00.0" in text
    assert not refused


def test_a_default_is_no_word_of_the_user() -> None:
    spec = load_example("dgx-roce")
    host = spec.workers[0]
    bare = tuple(nic.model_copy(update={}) for nic in host.nics)
    assert plan_placement(spec, host).cards[1].numa == 1
    nic = type(bare[0])(rail="rail-0", pci="0000:05:00.0", netdev="enp5s0")
    assert plan_placement(spec, host.model_copy(update={"nics": (nic,)})).cards[0].numa is None
    assert not plan_placement(spec, spec.servers[0])


def test_drift_tells_it_and_an_update_is_refused_over_it(tmp_path: Path) -> None:
    spec = load_example("dgx-roce")
    hosts = list(spec.hosts)
    nic = hosts[1].nics[0].model_copy(update={"gpu_pci": ("0000:86:00.0",)})
    hosts[1] = hosts[1].model_copy(update={"nics": (nic, hosts[1].nics[1])})
    plan = make_plan(spec.model_copy(update={"hosts": tuple(hosts)}), "dev")
    config = dgx()
    nics = (config.nics[0], config.nics[2])
    lines = look_lines(write_sys(booted(replace(config, nics=nics), tmp_path), tmp_path / "sys"))
    looked = dict(line.split("=", 1) for line in lines.splitlines())
    gpu01 = next(host for host in plan.hosts if host.name == "gpu01")
    seen = Seen({"gpu01": HostState({**gpu01.desired.values, **looked})})
    drifts = judge_drift(plan, Applied(), seen)
    [drift] = [each for each in drifts if each.placement]
    assert drift.device == "gpu01"
    [refusal] = refusals(plan, Applied(), drifts)
    assert refusal.startswith("placement: gpu01: the way from the GPU at 0000:86:00.0")
    assert "nvidia@192.168.2.11:22" in refusal


def test_drift_with_misplaced_cards_alone_is_3() -> None:
    plan = make_plan(load_example("dgx-roce"), "dev")
    found = judge_placement(Placement(8), HostLook(seen=True))
    drift = DeviceDrift(
        device="gpu01", step=plan.hosts[1].converge.name, observed=True, unreachable=None,
        stranger=False, applied=True, edited=False, differences=(), last_note="", placement=found,
    )  # fmt: skip
    assert drift_exit_code((drift,)) == 3
    text = render_drift((drift,))
    assert "placement: 1 thing is not plugged in as the file says" in text
    assert "0 GPUs are on its PCIe bus" in text

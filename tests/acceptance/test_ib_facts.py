"""What hosts see of InfiniBand, read from public forms."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.acceptance.judge.infiniband import judge_ib
from components.acceptance.probes.ib_look import (
    Diagnosis,
    IbFacts,
    Stage,
    SubnetManager,
    parse_ib_look,
    parse_ibdiagnet,
    plan_ib_limits,
    plan_ib_looks,
)
from tests.acceptance.ib_texts import IBDIAGNET, MASTER_GUID, SPEC, look


def test_a_port_is_read() -> None:
    first = look().ports[0]
    assert (first.name, first.state, first.rate_gbit_s) == ("mlx5_0", "4: ACTIVE", 400)
    assert first.pkeys == (0x8101, 0x8201, 0xFFFF)
    assert (first.guid, first.active_mtu_bytes) == ("a088c20300011000", 4096)
    assert (first.lid, first.sm_lid) == (16, 1)


def test_a_look_that_was_cut_off_says_nothing_of_the_ports() -> None:
    """On a busy host the deadline comes while ports are listed: those behind are not missing."""
    seen = parse_ib_look("=== port mlx5_0\nstate: 4: ACTIVE\n=== port mlx5_1\nstate: 4: AC")
    assert seen.ports == ()
    assert seen.why_nothing == (
        "the look was cut off before it had seen all ports: is the host overloaded?"
    )
    rows = judge_ib({"gpu01": seen}, plan_ib_limits(SPEC))
    assert {row.verdict for row in rows if row.subject == "gpu01"} == {"error"}


def test_subnet_managers_are_read() -> None:
    seen = look()
    assert seen.manager == SubnetManager(lid=1, guid=MASTER_GUID, priority=14, state=3)
    assert [(each.lid, each.priority, each.state) for each in seen.managers] == [
        (1, 14, 3),
        (2, 13, 2),
    ]


def test_a_guid_without_its_leading_zeros_is_the_same() -> None:
    line = (
        "sminfo: sm lid 25 sm guid 0x21283a8620b0f0, activity count 25950 priority 15 state 3 X\n"
    )
    manager = look(sminfo=line).manager
    assert manager is not None
    assert manager.guid == "0021283a8620b0f0"


def test_ibdiagnet_is_read() -> None:
    found = parse_ibdiagnet(IBDIAGNET)
    assert found is not None
    assert found.stages == (
        Stage(name="Discovery", warnings=3, errors=0),
        Stage(name="Subnet Manager", warnings=0, errors=0),
        Stage(name="Port Counters", warnings=0, errors=2),
        Stage(name="Speed / Width checks", warnings=0, errors=15),
        Stage(name="Partition Keys", warnings=0, errors=0, comment="checked"),
    )
    assert len(found.errors) == 1
    assert found.errors[0].startswith("Link: leaf/U1/P24<-->S900a840300308e40")
    assert (found.switches, found.adaptive_switches) == (6, 3)


def test_a_narrow_table_is_read_too() -> None:
    text = "Summary\n-I- Stage                     Warnings   Errors     Comment\n"
    found = parse_ibdiagnet(f"{text}-I- Routing                   0          0\n")
    assert found == Diagnosis(stages=(Stage(name="Routing", warnings=0, errors=0),), errors=())


@pytest.mark.parametrize("text", ["", "Running version: x\n-I- Discovery\n", "-E- Failed\n"])
def test_a_run_without_its_table_says_nothing(text: str) -> None:
    assert parse_ibdiagnet(text) is None


@given(st.text(max_size=400))
def test_no_text_breaks_the_parsers(text: str) -> None:
    assert isinstance(parse_ib_look(text), IbFacts)
    assert isinstance(parse_ib_look(f"=== port x\n{text}\n=== sminfo\n{text}"), IbFacts)
    parse_ibdiagnet(text)


def test_the_script_reads_infiniband_ports_only(tmp_path: Path) -> None:
    for name, layer in (("mlx5_0", "InfiniBand"), ("mlx5_1", "Ethernet")):
        folder = tmp_path / name / "ports" / "1"
        for file, text in (
            ("link_layer", layer),
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("lid", "0x10"),
            ("sm_lid", "0x1"),
            ("gids/0", "fe80:0000:0000:0000:a088:c203:0001:1000"),
            ("pkeys/0", "0xffff"),
            ("pkeys/1", "0x8101"),
            ("pkeys/2", "0x0000"),
        ):
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    script = plan_ib_looks(SPEC)[0].script.replace("/sys/class/infiniband", str(tmp_path))
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={"PATH": "/usr/bin:/bin"},
    )
    seen = parse_ib_look(done.stdout)
    assert done.stderr == ""
    assert [(each.name, each.pkeys) for each in seen.ports] == [("mlx5_0", (0x8101, 0xFFFF))]
    assert seen.why_no_manager == "sminfo is not installed"
    assert seen.why_no_managers == "saquery is not installed"
    assert seen.why_no_diagnosis == "ibdiagnet is not installed"


def test_while_a_successor_goes_from_port_to_port_it_is_asked_again() -> None:
    assert not look().lacks_master
    assert look(sm_lid="0x7").lacks_master
    assert not look(sm_lid="0x7", state="1: DOWN").lacks_master

"""Traffic classes, rate limits and receive buffers of an emulated card, as mlnx_qos takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.qos import mlnx_qos
from tests.lab_hosts.conftest import make_host

USAGE = "Usage: mlnx_qos -i <interface> [options]\n\n"
ETS = "ets,ets,ets,ets,ets,ets,strict,ets"


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    host = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    host.boot("gpu01")
    host.nics[0].set_mtu("9000")
    return host


def qos(model: HostModel, *argv: str) -> ToolResult:
    call = ToolCall("mlnx_qos", ("-i", "enp5s0", *argv), 0, 0, "/", model, model.nvram_path.parent)
    return mlnx_qos(call)


def test_a_new_card_has_priority_1_lowest_and_all_in_turn(model: HostModel) -> None:
    shown = qos(model).out.partition("tc: ")[2].splitlines()
    assert shown[:5] == [
        "0 ratelimit: unlimited, tsa: vendor", "\t priority:  1",
        "tc: 1 ratelimit: unlimited, tsa: vendor", "\t priority:  0",
        "tc: 2 ratelimit: unlimited, tsa: vendor",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("-s", ETS), "Netlink error: Bad value. see dmesg.\n"),  # 100 of each before
        (("-s", ETS, "-t", "10,10,10,10,10,10,0,10"), "Netlink error: Bad value. see dmesg.\n"),
        (("-s", ETS, "-t", "0,0,0,0,0,0,0,0"), "Netlink error: Bad value. see dmesg.\n"),
        (
            ("-s", ETS, "-t", "10,10,10,10,10,10,30,10"),
            f"ETS BW for a strict/vendor TC must be 0\n{USAGE}",
        ),
        (("-s", "strict,strict"), "tsa list must have 8 items\n"),
        (("-s", "wrr,ets"), f"('Bad TSA value: ', 'wrr')\n{USAGE}"),
        (
            ("-p", "0,1,2,3,4,5,6,8"),
            f"Bad value for UP => TC mapping: 8 is not in the range 0..7\n{USAGE}",
        ),
        (("-p", "0,1,2"), "prio_tc list must have 8 items\n"),
        (("-r", "1,8,8"), "ratelimit must have 8 items\n"),
        (
            ("-r", "0.5,0,0,0,0,0,0,0"),
            f"Bad value for ratelimit: invalid literal for int() with base 10: '0.5'\n{USAGE}",
        ),
    ],
)
def test_what_the_tool_and_the_driver_refuse_changes_nothing(
    model: HostModel, argv: tuple[str, ...], text: str
) -> None:
    before = qos(model, "-a").out
    assert qos(model, *argv) == ToolResult(1, text)
    assert qos(model, "-a").out == before
    assert model.unmodelled == []


def test_a_class_of_no_priority_is_shown_to_who_asks_for_all(model: HostModel) -> None:
    shown = qos(model, "-s", ETS, "-t", "20,10,10,30,10,10,0,10", "-p", "0,0,0,3,0,0,6,0").out
    assert [line for line in shown.splitlines() if line.startswith("tc: ")] == [
        "tc: 0 ratelimit: unlimited, tsa: ets, bw: 20%",
        "tc: 3 ratelimit: unlimited, tsa: ets, bw: 30%",
        "tc: 6 ratelimit: unlimited, tsa: strict",
    ]
    assert "tc: 5 ratelimit: unlimited, tsa: ets, bw: 10%" in qos(model, "--all").out


def test_a_rate_limit_is_shown_with_one_decimal(model: HostModel) -> None:
    assert "tc: 3 ratelimit: 10.0 Gbps, tsa: vendor\n" in qos(model, "-r", "0,0,0,10,0,0,0,0").out


def test_a_buffer_that_pauses_must_hold_its_headroom(model: HostModel) -> None:
    """31,600 + 24,480 + 9,978 + 128 bytes at 100 Gbit/s, 7 m and an MTU of 9000."""
    qos(model, "--pfc", "0,0,0,1,0,0,0,0")
    before = qos(model).out
    small = ("--prio2buffer", "0,0,0,1,0,0,0,0", "--buffer_size", "190000,66185,0,0,0,0,0,0")
    assert qos(model, *small) == ToolResult(1, "Buffers commands error\n")
    # The priority's new buffer has no size yet when the driver looks.
    moved = ("--prio2buffer", "0,0,0,3,0,0,0,0", "--buffer_size", "100000,0,0,150000,0,0,0,0")
    assert qos(model, *moved) == ToolResult(1, "Buffers commands error\n")
    assert qos(model).out == before
    enough = ("--prio2buffer", "0,0,0,1,0,0,0,0", "--buffer_size", "190000,66186,0,0,0,0,0,0")
    assert qos(model, *enough).rc == 0


def test_pfc_over_a_small_buffer_is_on_although_it_failed(model: HostModel) -> None:
    qos(model, "--prio2buffer", "0,0,0,1,0,0,0,0", "--buffer_size", "200000,20000,0,0,0,0,0,0")
    failed = qos(model, "--pfc", "0,0,0,1,0,0,0,0")
    assert (failed.rc, failed.out) == (1, "")
    assert "TypeError" in failed.err
    assert "\tenabled     0   0   0   1   0   0   0   0   \n" in qos(model).out

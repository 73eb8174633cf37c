"""What MLNX-OS prints, read: docs/explanation/sources.md#mlnx-os says who published each form."""

from __future__ import annotations

import pytest

from components.fabric.parts import PartitionState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.mellanox_cli import find_refusal
from components.fabric.systems.mlnxos.driver import (
    PARTITIONS,
    parse_partitions,
    parse_priority,
    parse_routing_engine,
    parse_switch,
    show_guid,
)

CAPTURED = """Default:
  PKey : 0x7FFF
  ipoib: yes
  members:
    GUID='ALL' member='full'
"""
"""The report of an SX6036 with 3.6.8012, whole."""
MORE = f"""{CAPTURED}
storage:
  PKey : 0x0201
  ipoib: no
  mtu  : 4K
  rate : 100
  defmember : limited
  members:
    GUID='a0:88:c2:03:00:01:10:00' member='full'
    GUID='A0:88:C2:03:00:02:10:00' member='limited'
"""
"""The same with one more, members and `defmember` as Stacki reads them; the rest is a guess."""


def test_the_captured_default() -> None:
    default = PartitionState(pkey=0x7FFF, ipoib=True, members={"ALL": "full"})
    assert parse_partitions(PARTITIONS, CAPTURED) == {"Default": default}


def test_members_by_guid_and_flags() -> None:
    assert parse_partitions(PARTITIONS, MORE)["storage"] == PartitionState(
        pkey=0x201,
        ipoib=False,
        mtu_bytes=4096,
        rate_gbit_s=100,
        members={"a088c20300011000": "full", "a088c20300021000": "limited"},
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no partition"),
        ("  Default\n    PKey = 0x7FFF\n", "a line before the first partition"),
        (CAPTURED.replace("PKey", "Key"), "unknown line: Key : 0x7FFF"),
        (CAPTURED.replace("  PKey : 0x7FFF\n", ""), "PKey, ipoib, mtu or rate"),
        (CAPTURED.replace("yes", "maybe"), "PKey, ipoib, mtu or rate"),
        (CAPTURED.replace("'full'", "'half'"), "unknown line"),
    ],
)
def test_another_form_is_no_partition(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse_partitions(PARTITIONS, text)


@pytest.mark.parametrize(("text", "on"), [("enable\n", True), ("  disable \n", False)])
def test_the_switch_of_the_subnet_manager(text: str, on: bool) -> None:  # noqa: FBT001 - the expected value
    assert parse_switch("show ib sm", text) is on


@pytest.mark.parametrize("text", ["", "active\n", "enable\ndisable\n"])
def test_neither_on_nor_off_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_switch("show ib sm", text)


def test_priority_is_a_number_of_four_bits() -> None:
    assert parse_priority("show ib sm priority", "14\n") == 14
    for text in ("16\n", "", "fourteen\n"):
        with pytest.raises(Unreadable):
            parse_priority("show ib sm priority", text)


def test_the_routing_engine_is_the_line_that_set_it() -> None:
    line = "   ib sm routing-engines updn\n"
    assert parse_routing_engine("show", line) == "updn"
    assert parse_routing_engine("show", "") == "default"
    with pytest.raises(Unreadable):
        parse_routing_engine("show", line * 2)


def test_guids_are_written_as_pairs() -> None:
    assert show_guid("a088c20300011000") == "a0:88:c2:03:00:01:10:00"
    assert show_guid("ALL") == "ALL"


def test_a_refusal_is_a_line_with_a_percent_sign() -> None:
    assert find_refusal("% Invalid port GUID\n") == "% Invalid port GUID"
    assert find_refusal(CAPTURED) is None

"""Answers of MLNX-OS in their real form: readers get the values, the emulator prints them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from components.fabric.parts import PartitionState
from components.fabric.plan import plan_fabric
from components.fabric.preview import preview_switch
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import Unreadable
from components.fabric.systems.mlnxos import system as mlnxos
from tests.fabric.ib_lab import load_spec, make_switch

FOLDER: Final = Path(__file__).parent / "forms" / "mlnxos"
DEFAULT: Final = PartitionState(pkey=0x7FFF, ipoib=True, members={"ALL": "full"})
LINES: Final = (
    "ib partition storage pkey 0x0201 force",
    "ib partition storage mtu 4K force",
    "ib partition storage rate 100 force",
    "ib partition storage defmember limited force",
    "ib partition storage member a0:88:c2:03:00:01:10:00 type full force",
    "ib partition storage member A0:88:C2:03:00:02:10:00 type limited force",
    "ib sm routing-engines updn",
    "ib sm sm-priority 14",
    "ib smnode ib-leaf-01 enable",
)
STORAGE: Final = PartitionState(
    pkey=0x201,
    ipoib=False,
    mtu_bytes=4096,
    rate_gbit_s=100,
    members={"a088c20300011000": "full", "a088c20300021000": "limited"},
)
ROWS: Final = {row.name: row for row in mlnxos.manager_rows("ib-leaf-01")}


def reader(name: str) -> Callable[[Answer], object]:
    read = ROWS[name].read
    assert read is not None
    return read


Form = tuple[tuple[str, ...], str, Callable[[Answer], object], object]
FORMS: Final[dict[str, Form]] = {
    "show_ib_partition_default.txt": (
        (),
        mlnxos.PARTITIONS,
        mlnxos.read_partitions,
        {"Default": DEFAULT},
    ),
    "show_ib_partition.txt": (
        LINES,
        mlnxos.PARTITIONS,
        mlnxos.read_partitions,
        {"Default": DEFAULT, "storage": STORAGE},
    ),
    **{
        f"{name}.txt": (LINES, ROWS[name].command, reader(name), value)
        for name, value in (
            ("sm_function", False),
            ("sm_enabled", True),
            ("sm_priority", 14),
            ("routing_engine", "updn"),
        )
    },
}
"""What was typed, the command, its reader and the value; forms/README.md has the sources."""


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_and_printed(name: str, tmp_path: Path) -> None:
    lines, command, read, value = FORMS[name]
    assert read(Answer(command, text_of(name))) == value
    switch = make_switch(tmp_path, "ib-leaf-01")
    assert [switch.run_line(line) for line in lines] == [""] * len(lines)
    session = switch.session()
    session.run("enable")
    assert session.run(command) == text_of(name)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Default:", "Default", "a line before the first partition"),
        ("PKey", "Key", "unknown line: Key : 0x7FFF"),
        ("  PKey : 0x7FFF\n", "", "PKey, ipoib, mtu or rate"),
        ("yes", "maybe", "PKey, ipoib, mtu or rate"),
        ("'full'", "'half'", "unknown line"),
    ],
)
def test_another_form_is_no_partition(old: str, new: str, why: str) -> None:
    text = text_of("show_ib_partition_default.txt")
    assert old in text
    with pytest.raises(Unreadable, match=why):
        mlnxos.read_partitions(Answer(mlnxos.PARTITIONS, text.replace(old, new)))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (mlnxos.read_partitions, ""),
        (mlnxos.read_switch, ""),
        (mlnxos.read_switch, "active\n"),
        (mlnxos.read_switch, "enable\ndisable\n"),
        (mlnxos.read_priority, "16\n"),
        (mlnxos.read_priority, ""),
        (mlnxos.read_priority, "fourteen\n"),
        (mlnxos.read_routing_engine, "   ib sm routing-engines updn\n" * 2),
    ],
)
def test_another_answer_is_no_value(read: Callable[[Answer], object], text: str) -> None:
    with pytest.raises(Unreadable):
        read(Answer("show", text))


def test_no_line_is_the_default_engine() -> None:
    assert mlnxos.read_routing_engine(Answer("show", "")) == "default"


def test_guids_are_written_as_pairs() -> None:
    assert mlnxos.show_guid("a088c20300011000") == "a0:88:c2:03:00:01:10:00"
    assert mlnxos.show_guid("ALL") == "ALL"


def test_a_preview_names_what_has_no_source_of_the_vendor() -> None:
    text = preview_switch(plan_fabric(load_spec())[0], None, None, "deny") or ""
    line = next(line for line in text.splitlines() if "UNPROVEN" in line)
    assert "ipoib" in line
    assert "public driver of an SB7800" in line
    assert "mtu 4K" not in text

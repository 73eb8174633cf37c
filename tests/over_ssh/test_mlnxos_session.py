"""What only MLNX-OS does over SSH: it tells of keys, members and managers, and has no ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("mlnxos", tmp_path) as room:
        yield room


def test_the_evidence_tells_keys_members_and_manager(room: SwitchRoom) -> None:
    changed = room.apply()["changed"]
    for words in (
        "pkey of partition training: absent -> 0x0101",
        "member a088c20300021000 of partition storage: absent -> limited",
        "mtu_bytes of partition storage: absent -> 4096",
        "function of subnet manager: off -> on",
        "state of subnet manager: off -> on",
        "priority of subnet manager: 0 -> 14",
        "routing_engine of subnet manager: default -> minhop",
    ):
        assert words in changed
    assert room.baseline()["ports"] == {}, "no port is ever ours"


def test_drift_names_key_member_and_manager(room: SwitchRoom) -> None:
    room.apply()
    for line in (
        "ib partition training pkey 0x0666 force",
        "ib partition storage member a0:88:c2:03:00:02:10:00 type full force",
        "ib smnode ib-leaf-01 sm-priority 3",
    ):
        room.switch.fault(["cli", *line.split()])
    room.switch.fault(["sm", "off"])
    assert [*map(str, room.drift())] == [
        "member a088c20300021000 of partition storage is full, want limited",
        "pkey of partition training is 0x0666, want 0x0101",
        "function of subnet manager is off, want on",
        "priority of subnet manager is 3, want 14",
    ]
    evidence = room.apply()
    assert evidence["interrupted"] == [
        "partition storage: member a088c20300021000: full -> limited",
        "partition training: pkey: 0x0666 -> 0x0101",
    ]
    assert room.drift() == ()


def test_a_rejected_line_tells_what_the_subnet_had(room: SwitchRoom) -> None:
    first = room.switch.snapshot()
    room.switch.fault(["reject", "sm-priority"])
    with pytest.raises(DeviceError) as caught:
        room.apply()
    text = str(caught.value)
    for part in (
        f"ib-leaf-01 (admin@127.209.0.7:{room.endpoint.port}) refused a line",
        "ib smnode ib-leaf-01 sm-priority 14",
        "the previous values were put back; not saved",
        "    subnet manager\n",
        "      priority: was 0, should be 14, is 0\n",
        "      pkey: was absent, should be 0x0101, is absent\n",
    ):
        assert part in text
    assert room.switch.snapshot() == first

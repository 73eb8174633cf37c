"""What SONiC's table of LLDP neighbours says, and tables of another form."""

from __future__ import annotations

import pytest

from components.fabric.state import Neighbour
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic.counters import parse_neighbours

LLDP = """\
Capability codes: (R) Router, (B) Bridge, (O) Other
LocalPort    RemoteDevice    RemotePortID       Capability    RemotePortDescr
-----------  --------------  -----------------  ------------  -----------------
Ethernet0    leaf-02         etp1               BR            Ethernet8
Ethernet16   gpu01           24:8a:07:00:00:01  O             enp5s0 of gpu01
eth0         mgmt            swp9               BR            port to leaf-01
--------------------------------------------------
Total entries displayed:  3
"""
"""Laid out as the captured one: docs/explanation/sources.md#sonic."""


def test_neighbours_are_read_by_the_columns_of_the_table() -> None:
    assert parse_neighbours("show lldp table", LLDP) == {
        "Ethernet0": Neighbour(system="leaf-02", port="etp1", description="Ethernet8"),
        "Ethernet16": Neighbour(
            system="gpu01", port="24:8a:07:00:00:01", description="enp5s0 of gpu01"
        ),
    }


@pytest.mark.parametrize("gone", ["  -----------------\nEthernet0", "LocalPort"])
def test_a_table_of_other_columns_is_shown_raw(gone: str) -> None:
    text = LLDP.partition(gone)[0] + "\nEthernet0    leaf-02\n"
    with pytest.raises(Unreadable, match="no table of neighbours") as caught:
        parse_neighbours("show lldp table", text)
    assert caught.value.text == text

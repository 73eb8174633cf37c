"""PFC frames by priority and stuck queues of SONiC: what it answers, and what is read of it."""

from __future__ import annotations

import pytest

from components.fabric.systems.base import PauseCounters, PortCounters, Unreadable
from components.fabric.systems.sonic.counters import parse_pauses, parse_storms, with_pauses

PFC = """\
  Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0   1,200     201     202     203     204     205     206     207
Ethernet4   1,400     401     402     403     404     405     406     407
Ethernet8   1,800     801     802     803     804     805     806     807

  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0   1,210     211     212     213     214     215     216     217
Ethernet4   1,410     411     412     413     414     415     416     417
Ethernet8   1,810     811     812     813     814     815     816     817
"""
"""sonic-utilities, tests/pfcstat_test.py."""
STATS = """\
      QUEUE       STATUS    STORM DETECTED/RESTORED    TX OK/DROP    RX OK/DROP    \
TX LAST OK/DROP    RX LAST OK/DROP
-----------  -----------  -------------------------  ------------  ------------  \
-----------------  -----------------
Ethernet0:3      stormed                        1/0       100/300       100/300  \
            0/200              0/200
Ethernet4:3  operational                        2/2       100/100       100/100  \
              0/0                0/0
Ethernet8:4      stormed                        3/2       100/300       100/300  \
            0/200              0/200
"""
"""sonic-utilities, tests/pfcwd_input/pfcwd_test_vectors.py."""


def test_the_two_tables_of_sonic() -> None:
    assert parse_pauses(PFC, "Ethernet0") == {
        0: PauseCounters(1200, 1210),
        1: PauseCounters(201, 211),
        2: PauseCounters(202, 212),
        3: PauseCounters(203, 213),
        4: PauseCounters(204, 214),
        5: PauseCounters(205, 215),
        6: PauseCounters(206, 216),
        7: PauseCounters(207, 217),
    }
    before_the_first_poll = PFC.replace("  803", "  N/A")
    assert parse_pauses(before_the_first_poll, "Ethernet8").keys() == {0, 1, 2, 4, 5, 6, 7}


def test_the_storms_of_sonic() -> None:
    assert parse_storms(STATS, "Ethernet4") == {0: 0, 1: 0, 2: 0, 3: 2, 4: 0, 5: 0, 6: 0, 7: 0}
    assert parse_storms(STATS, "Ethernet8")[4] == 3
    assert parse_storms(STATS, "Ethernet40")[3] == 0


@pytest.mark.parametrize("text", ["", "Usage: show [OPTIONS]", PFC.partition("Port Tx")[0]])
def test_another_form_takes_no_other_counter_along(text: str) -> None:
    with pytest.raises(Unreadable, match="no row of Ethernet0 in both tables"):
        parse_pauses(text, "Ethernet0")
    counted = PortCounters({}, ecn_marked=None, rx_discards=7)
    found = with_pauses("Ethernet0", counted, text, text)
    assert (found.rx_discards, found.pauses, found.storms) == (7, {}, {})
    assert [(each.way, each.command) for each in found.unread] == [
        ("pauses", "show pfc counters"),
        ("storms", "show pfcwd stats"),
    ]

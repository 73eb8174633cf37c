"""A rail over two leaves: frames pass where a link carries its VLAN, and as large as it takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from lab.physics.path import Between
from lab.physics.probe import run
from lab.physics.request import ProbeRequest, ProbeResult
from lab.views import PortView
from tests.lab_physics.site import PFS, PORTS, Site, make_port

LINKS = {("leaf-01", "1/32"): ("leaf-02", "1/31"), ("leaf-02", "1/31"): ("leaf-01", "1/32")}
LEAF_OF = {"gpu01": "leaf-01", "gpu02": "leaf-02"}


def _link_port(switch: str, name: str) -> PortView:
    vlans = frozenset({111, 112})
    return replace(
        make_port("gpu01", 0), switch=switch, port=name, mode="trunk", allowed_vlans=vlans
    )


@dataclass
class TwoLeaves(Site):
    """Every host on a leaf of its own."""

    links: dict[tuple[str, str], PortView] = field(
        default_factory=lambda: {end: _link_port(*end) for end in LINKS}
    )

    def break_link(self, switch: str, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        end = next(end for end in LINKS if end[0] == switch)
        self.links[end] = replace(self.links[end], **changes)

    def run(self, request: ProbeRequest) -> ProbeResult:
        ports = [replace(port, switch=LEAF_OF[host]) for (host, _), port in self.ports.items()]
        cables = {
            (LEAF_OF[host], name): (host, PFS[rail][0]) for (host, rail), name in PORTS.items()
        }
        return run(
            request, self.nics.values(), [*ports, *self.links.values()], cables, (), Between(LINKS)
        )


def _gbit_s(site: TwoLeaves) -> float:
    found = parse_perftest_log(site.perftest().log)
    assert isinstance(found, PerftestLog)
    return found.rows[0].average_gbit_s or 0


def test_a_link_that_carries_the_rail_joins_it() -> None:
    assert 90 < _gbit_s(TwoLeaves()) < 94


@pytest.mark.parametrize("changes", [{"allowed_vlans": frozenset({112})}, {"oper_up": False}])
def test_a_link_that_does_not_carry_it_parts_it(changes: dict[str, object]) -> None:
    site = TwoLeaves()
    site.break_link("leaf-02", **changes)
    result = site.perftest()
    assert result.exit_code != 0


def test_a_narrow_link_drops_large_packets_and_counts_them() -> None:
    site = TwoLeaves()
    site.break_link("leaf-02", mtu_bytes=1500)
    result = site.perftest()
    assert result.exit_code != 0
    assert [(d.switch, d.port) for d in result.port_deltas if d.discards] == [("leaf-02", "1/31")]


def test_a_slow_link_is_the_pace() -> None:
    site = TwoLeaves()
    site.break_link("leaf-01", speed_gbit_s=25)
    assert 0 < _gbit_s(site) < 25

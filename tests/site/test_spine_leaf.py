"""A part of the example spine-leaf from nothing to nothing, over routes of the real FRR.

The whole example has 120 probes, which are too many for two cores: here are both spines, one leaf
of each unit with its two rails, and one host of each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from typing import Any, Final, cast

import pytest
import yaml

from lab import control
from lab.site import load_document
from tests.site.conftest import play_site
from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.story

EXAMPLE: Final = PROJECT / "examples/spine-leaf/site.yaml"
SWITCHES: Final = ("leaf-01", "leaf-05", "spine-01", "spine-02")
HOSTS: Final = ("mgmt01", "gpu01", "gpu09")
KEPT: Final = frozenset({*SWITCHES, *HOSTS})
RAILS: Final = ("rail-0", "rail-4")
CROSSING: Final = ("perftest-rail-0-gpu01-gpu09", "perftest-rail-4-gpu01-gpu09", "nccl-all-reduce")
LOST: Final = tuple(f"swp{number}" for number in (1, 2, 3, 4, 17, 18, 19, 20))
"""The ports of spine-01 to the two leaves."""
DRIFT: Final = "mtu_bytes of port swp53 is 1500, want 9216"
PROVEN_AGAIN: Final = {"acceptance-evidence": "update", "acceptance-gate": "update"}
Document = dict[str, Any]


def part_of(document: Document) -> Document:
    """The example with fewer devices, and nothing in it changed."""
    document["rails"] = [rail for rail in document["rails"] if rail["name"] in RAILS]
    document["hosts"] = [host for host in document["hosts"] if host["name"] in HOSTS]
    for host in document["hosts"]:
        host["nics"] = [nic for nic in host.get("nics", ()) if nic["rail"] in RAILS]
    document["switches"] = [each for each in document["switches"] if each["name"] in SWITCHES]
    for switch in document["switches"]:
        ports = cast("dict[str, Any]", switch["ports"])
        switch["ports"] = {name: port for name, port in ports.items() if _end(port) in KEPT}
    return document


def _end(port: str | Document) -> str:
    """The host or the switch at the other end of a port."""
    to = port if isinstance(port, str) else str(port["to"])
    return re.split("[/:]", to)[0]


@pytest.fixture(scope="module")
def site(mark: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Playground]:
    file = tmp_path_factory.mktemp("spine-leaf") / "part" / "site.yaml"
    file.parent.mkdir()
    document = part_of(cast("Document", load_document(EXAMPLE)))
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    with play_site(mark, str(file)) as site:
        yield site


def passed(report: str, *rows: str) -> None:
    for row in rows:
        assert re.search(rf"^PASSED +{re.escape(row)} ", report, re.MULTILINE), report
    assert "acceptance passed" in report


def ports_of(site: Playground, switch: str) -> Document:
    answer = control.request(site.lab / "control.sock", {"op": "routes", "switch": switch})
    return cast("Document", answer["routes"])


def until_ways(site: Playground, wanted: list[str]) -> None:
    """Until leaf-01 sends to the other leaf's part of rail-0 by these ports."""
    deadline = time.monotonic() + 60
    while (seen := ports_of(site, "leaf-01").get("10.10.111.128/25")) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


@pytest.mark.timeout(2400)  # five commands of an engine: minutes where the cores are shared
def test_a_part_of_the_example_from_nothing_to_nothing(site: Playground) -> None:
    assert "FRR" in str(control.request(site.lab / "control.sock", {"op": "status"})["routes"])
    passed(site.up().must(), *CROSSING)
    until_ways(site, [f"swp{number}" for number in range(49, 57)])

    site.fault("leaf-01", "mtu", "swp53", "1500")
    preview = site.preview()
    assert preview.changes == {"leaf-01-apply": "update", **PROVEN_AGAIN}
    assert DRIFT in preview.done.must()

    for port in LOST:
        site.fault("spine-01", "link-down", port)
    until_ways(site, [f"swp{number}" for number in range(53, 57)])
    repaired = site.up().must()
    passed(repaired, *CROSSING)
    for port in LOST:
        site.fault("spine-01", "link-down", port, "off")
    until_ways(site, [f"swp{number}" for number in range(49, 57)])
    assert site.preview().quiet

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert site.snapshot().splitlines() == site.before.splitlines()
    assert not site.resources()
    assert not site.strays()

"""Routed fabrics from nothing to nothing, over routes of the real FRR.

A part of the example spine-leaf, and two public reference designs (docs/reference/fabrics.md):
NVIDIA's of Cumulus, and Dell's of SONiC. The whole example has 120 probes, which are too many for
two cores: here are both spines, one leaf of each unit with its two rails, and one host of each.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import asyncssh
import pytest
import yaml

from lab import control
from lab.site import SWITCH_PASSWORD, load_document
from lab.up import choose_site, load_spec
from tests.fabric.sonic_lab import FRRCFGD
from tests.lab.until import until
from tests.site.conftest import play_site
from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.story

PROVEN_AGAIN: Final = {"acceptance-evidence": "update", "acceptance-gate": "update"}
Document = dict[str, Any]


@dataclass(frozen=True)
class Design:
    """A fabric of two leaves and two spines, and what happens to it."""

    name: str
    file: str
    leaf: str
    network: str
    """The part of the first rail on the other leaf."""
    ways: tuple[tuple[str, ...], tuple[str, ...]]
    """Ports of the leaf to the spine that is lost, and to the other one."""
    lost: tuple[str, tuple[str, ...]]
    """A spine, and its ports to the two leaves."""
    pair: tuple[str, str]
    rails: tuple[str, str]
    once: tuple[str, ...] = ()
    """What a person types on each switch before the first update."""
    kept: frozenset[str] = frozenset()
    """The devices of a part; nothing: all of the site."""

    @property
    def crossing(self) -> tuple[str, ...]:
        """The tests whose bytes cross the spines."""
        pair = "-".join(self.pair)
        return (*(f"perftest-{rail}-{pair}" for rail in self.rails), "nccl-all-reduce")

    @property
    def changed(self) -> str:
        """The port of the leaf that is changed by hand."""
        return self.ways[1][0]

    @property
    def whole(self) -> list[str]:
        """The ways while both spines are there."""
        return sorted((*self.ways[0], *self.ways[1]))


def _ports(*numbers: int) -> tuple[str, ...]:
    return tuple(f"swp{number}" for number in numbers)


DESIGNS: Final = (
    Design(
        name="spine-leaf-part",
        file="examples/spine-leaf/site.yaml",
        leaf="leaf-01",
        network="10.10.111.128/25",
        ways=(_ports(49, 50, 51, 52), _ports(53, 54, 55, 56)),
        lost=("spine-01", _ports(1, 2, 3, 4, 17, 18, 19, 20)),
        pair=("gpu01", "gpu09"),
        rails=("rail-0", "rail-4"),
        kept=frozenset({"leaf-01", "leaf-05", "spine-01", "spine-02", "mgmt01", "gpu01", "gpu09"}),
    ),
    Design(
        name="cumulus-clos",
        file="tests/docs/guides/cumulus-clos.site.yaml",
        leaf="leaf01",
        network="10.1.11.0/24",
        ways=(_ports(51), _ports(52)),
        lost=("spine01", _ports(1, 3)),
        pair=("server01", "server04"),
        rails=("rail-0", "rail-2"),
    ),
    Design(
        name="dell-l3-fabric",
        file="tests/docs/guides/dell-l3-fabric.site.yaml",
        leaf="leaf1",
        network="192.168.50.128/25",
        ways=(("Ethernet104",), ("Ethernet112",)),
        lost=("spine1", ("Ethernet0", "Ethernet192")),
        pair=("gpu01", "gpu25"),
        rails=("rail-0", "rail-1"),
        once=("sudo config qos reload", FRRCFGD, "sudo config save -y"),
    ),
)


def part_of(document: Document, design: Design) -> Document:
    """A site with fewer devices, and nothing else in it changed."""
    document["rails"] = [rail for rail in document["rails"] if rail["name"] in design.rails]
    document["hosts"] = [host for host in document["hosts"] if host["name"] in design.kept]
    for host in document["hosts"]:
        host["nics"] = [nic for nic in host.get("nics", ()) if nic["rail"] in design.rails]
    document["switches"] = [each for each in document["switches"] if each["name"] in design.kept]
    for switch in document["switches"]:
        ports = cast("dict[str, Any]", switch["ports"])
        switch["ports"] = {name: port for name, port in ports.items() if _end(port) in design.kept}
    return document


def _end(port: str | Document) -> str:
    """The host or the switch at the other end of a port."""
    to = port if isinstance(port, str) else str(port["to"])
    return re.split("[/:]", to)[0]


def write_site(design: Design, folder: Path) -> Path:
    """The site of a design in a folder of its own, after which its stack is called."""
    file = folder / design.name / "site.yaml"
    file.parent.mkdir()
    document = cast("Document", load_document(PROJECT / design.file))
    document = part_of(document, design) if design.kept else document
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


async def type_once(site: Playground, lines: tuple[str, ...]) -> None:
    """Type lines on each switch over SSH."""
    for switch in load_spec(choose_site([site.argument])).switches if lines else ():
        login = {"username": switch.ssh.user, "password": SWITCH_PASSWORD, "known_hosts": None}
        async with asyncssh.connect(switch.ssh.address, switch.ssh.port, **login) as line:
            for each in lines:
                done = await line.run(each)
                assert done.exit_status == 0, done.stdout


@pytest.fixture(scope="module", params=DESIGNS, ids=lambda design: design.name)
def played(
    request: pytest.FixtureRequest, mark: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Design, Playground]]:
    design: Design = request.param
    file = write_site(design, tmp_path_factory.mktemp("fabrics"))
    with play_site(mark, str(file)) as site:
        asyncio.run(type_once(site, design.once))
        yield design, site


def passed(report: str, *rows: str) -> None:
    for row in rows:
        assert re.search(rf"^PASSED +{re.escape(row)} ", report, re.MULTILINE), report
    assert "acceptance passed" in report


def until_ways(site: Playground, design: Design, wanted: list[str]) -> None:
    """Until the leaf sends to the other leaf's part of a rail by these ports."""
    request: dict[str, object] = {"op": "routes", "switch": design.leaf}

    def look() -> list[str] | None:
        answer = control.request(site.lab / "control.sock", request)
        return cast("dict[str, list[str]]", answer["routes"]).get(design.network)

    until(look, wanted)


@pytest.mark.timeout(2400)  # five commands of an engine: minutes where the cores are shared
def test_a_fabric_from_nothing_to_nothing(played: tuple[Design, Playground]) -> None:
    design, site = played
    before = site.snapshot()
    assert "FRR" in str(control.request(site.lab / "control.sock", {"op": "status"})["routes"])
    passed(site.up().must(), *design.crossing)
    until_ways(site, design, design.whole)

    site.fault(design.leaf, "mtu", design.changed, "1500")
    preview = site.preview()
    assert preview.changes == {f"{design.leaf}-apply": "update", **PROVEN_AGAIN}
    assert f"mtu_bytes of port {design.changed} is 1500, want 9216" in preview.done.must()

    spine, ports = design.lost
    for port in ports:
        site.fault(spine, "link-down", port)
    until_ways(site, design, [*design.ways[1]])
    # Bytes at spines are judged by their sum; there is one spine left that they can have crossed.
    passed(site.up().must(), *design.crossing)
    until_ways(site, design, [*design.ways[1]])
    for port in ports:
        site.fault(spine, "link-down", port, "off")
    until_ways(site, design, design.whole)
    assert site.preview().quiet

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert site.snapshot().splitlines() == before.splitlines()
    assert not site.resources()
    assert not site.strays()

"""`ib-routing-engine` warns exactly where the real opensm falls back to minhop."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from components.checks.infiniband import check_ib_one_subnet, check_ib_routing_engine
from components.model.cluster import ClusterSpec
from lab.debian import unpacked_whole
from lab.infiniband.fabric import Fabric
from lab.infiniband.manager import LOG_FILE
from lab.infiniband.ports import STATES
from tests.fabric.ib_lab import SITE
from tests.lab.ib_switches import make_subnet, type_lines

pytestmark = pytest.mark.lab
LEAVES = ("ib-leaf-01", "ib-leaf-02")
SPINES = ("ib-spine-01", "ib-spine-02")
ROUTED_S = 120.0
Site = dict[str, Any]
GAVE_UP = re.compile(r"ucast_mgr_route: \w+: cannot build")
"""What opensm logs before it takes minhop."""


def uncable(site: Site) -> None:
    for switch in site["switches"]:
        ports = switch["ports"].items()
        switch["ports"] = {name: to for name, to in ports if not to.startswith("ib-")}


def one_leaf(site: Site) -> None:
    uncable(site)
    del site["switches"][1]


def two_leaves(_: Site) -> None:
    """As the example has them."""


def with_spines(site: Site) -> None:
    uncable(site)
    first = site["switches"][0]
    for number, name in enumerate(SPINES, 1):
        ports = {f"1/{n}/1": f"{leaf}:1/{30 + number}/1" for n, leaf in enumerate(LEAVES, 1)}
        spine = {**first, "name": name, "sm_priority": None, "ports": ports}
        site["switches"].append(spine)
        for n, leaf in enumerate(site["switches"][:2], 1):
            leaf["ports"][f"1/{30 + number}/1"] = f"{name}:1/{n}/1"


def with_spines_and_a_leaf_cable(site: Site) -> None:
    with_spines(site)
    one, other = site["switches"][:2]
    one["ports"]["1/20/1"], other["ports"]["1/20/1"] = f"{LEAVES[1]}:1/20/1", f"{LEAVES[0]}:1/20/1"


def spec_of(change: Callable[[Site], None], engine: str) -> ClusterSpec:
    site = cast("Site", yaml.safe_load(SITE.read_text()))
    site["infiniband"]["routing_engine"] = engine
    change(site)
    return ClusterSpec.model_validate(site)


def engine_used(spec: ClusterSpec, engine: str, folder: Path) -> str:
    """What opensm configured the switches with, when it was asked for an engine."""
    subnet = make_subnet(spec, folder)
    lines = ("ib sm", f"ib smnode {LEAVES[0]} enable", f"ib sm routing-engines {engine}")
    type_lines(subnet.switches[0], *lines)

    async def play() -> str:
        fabric = Fabric(unpacked_whole(), folder / "fabric", subnet.look, 200)
        log = folder / "fabric" / LEAVES[0] / LOG_FILE
        deadline = time.monotonic() + ROUTED_S
        try:
            await fabric.start()
            while any(fabric.port(hca.guid).state != STATES["Active"] for hca in subnet.plugged):
                assert time.monotonic() < deadline, log.read_text() if log.exists() else "no log"
                await asyncio.sleep(0.02)
            return "minhop" if GAVE_UP.search(log.read_text()) else engine
        finally:
            fabric.stop()

    return asyncio.run(play())


@pytest.mark.parametrize("engine", ["minhop", "updn", "ftree"])
@pytest.mark.parametrize(
    "cables", [one_leaf, two_leaves, with_spines, with_spines_and_a_leaf_cable]
)
def test_a_fallback_is_warned_of(
    cables: Callable[[Site], None], engine: str, tmp_path: Path
) -> None:
    spec = spec_of(cables, engine)
    assert not [*check_ib_one_subnet(spec)]
    warned = [finding.severity for finding in check_ib_routing_engine(spec)]
    used = engine_used(spec, engine, tmp_path)
    assert used in {engine, "minhop"}
    assert warned == ([] if used == engine else ["warning"])

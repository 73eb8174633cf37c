"""The order in which switches change: what no wave may hold, on random fabrics and on examples."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.checks.site import load_checked_site
from components.fabric.links import leaves_of_hosts, plan_waves
from components.model.cluster import ClusterSpec, Disruption, SwitchWaves
from components.model.fabric import Switch
from components.model.hosts import Host
from lab.site import load_document

ROOT = Path(__file__).parents[2]
SPINE_LEAF = (
    "leaf-01 | leaf-02 leaf-05 | leaf-03 leaf-06 | leaf-04 leaf-07 | leaf-08 | spine-01 | spine-02"
)
BASE = ClusterSpec.model_validate(load_document(ROOT / "examples/mixed-fabric/site.yaml"))


def make_switch(name: str, ports: dict[str, Any], mlag_peer: str | None = None) -> Switch:
    ssh = BASE.switches[0].ssh
    own = {"name": name, "os": "cumulus", "model": "SN5600", "release": "5.11.0"}
    return Switch.model_validate({**own, "ssh": ssh, "ports": ports, "mlag_peer": mlag_peer})


def make_fabric(
    units: int, leaves: int, spines: int, limits: SwitchWaves, *, hosts: int = 2
) -> ClusterSpec:
    """Units of leaves with hosts on each of them, and spines that join all leaves."""
    names = [f"leaf-{unit}-{leaf}" for unit in range(units) for leaf in range(leaves)]
    ports: dict[str, dict[str, Any]] = {name: {} for name in names}
    for unit in range(units):
        for host in range(hosts):
            for leaf in range(leaves):
                port = f"swp{host + 1}"
                ports[f"leaf-{unit}-{leaf}"][port] = {"to": f"gpu-{unit}-{host}/rail-{leaf}"}
    tops: dict[str, dict[str, Any]] = {f"spine-{number}": {} for number in range(spines)}
    for at, leaf in enumerate(names, 1):
        for up, spine in enumerate(tops, 1):
            ports[leaf][f"swp{200 + up}"] = {"to": f"{spine}:swp{at}", "mode": "routed"}
            tops[spine][f"swp{at}"] = {"to": f"{leaf}:swp{200 + up}", "mode": "routed"}
    found = [Host(name=f"gpu-{u}-{h}", role="worker") for u in range(units) for h in range(hosts)]
    return BASE.model_copy(
        update={
            "switches": tuple(make_switch(name, has) for name, has in (ports | tops).items()),
            "hosts": tuple(found),
            "disruption": Disruption(ports="allow", switches=limits),
        }
    )


LIMITS = st.builds(
    SwitchWaves, max_unavailable=st.integers(1, 5), canary=st.integers(0, 3), settle_s=st.just(1)
)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), LIMITS)
def test_no_wave_has_two_that_stand_in_for_each_other(
    units: int, leaves: int, spines: int, limits: SwitchWaves
) -> None:
    spec = make_fabric(units, leaves, spines, limits)
    waves = plan_waves(spec)
    assert sorted(name for wave in waves for name in wave) == sorted(s.name for s in spec.switches)
    assert all(len(wave) == 1 for wave in waves[: limits.canary])
    assert all(0 < len(wave) <= limits.max_unavailable for wave in waves)
    for wave in waves:
        for one, other in combinations(wave, 2):
            kinds = {one.partition("-")[0], other.partition("-")[0]}
            assert kinds == {"leaf"}, "spines join the same leaves, and a spine joins every leaf"
            assert one.split("-")[1] != other.split("-")[1], "leaves of one unit have its hosts"
    if limits.canary:
        assert waves[0] == (spec.switches[0].name,)


def test_mlag_peers_change_in_different_waves() -> None:
    limits = SwitchWaves(max_unavailable=4, canary=0)
    switches = (make_switch("a", {}, "b"), make_switch("b", {}, "a"), make_switch("c", {}))
    update = {"switches": switches, "disruption": Disruption(switches=limits)}
    assert plan_waves(BASE.model_copy(update=update)) == (("a", "c"), ("b",))


@pytest.mark.parametrize(
    ("example", "wanted"),
    [
        ("spine-leaf", SPINE_LEAF),
        ("mixed-fabric", "leaf-01 | leaf-02 | leaf-03 | leaf-04"),
        ("rail-optimised", "leaf-01 | leaf-02"),
        ("quantum-ib", "ib-leaf-01 | ib-leaf-02"),
    ],
)
def test_the_waves_of_the_examples(example: str, wanted: str) -> None:
    spec = load_checked_site(ROOT / f"examples/{example}/site.yaml").spec_or_raise()
    assert " | ".join(" ".join(wave) for wave in plan_waves(spec)) == wanted


def test_a_thousand_hosts_on_64_leaves_are_ordered_at_once() -> None:
    spec = make_fabric(8, 8, 16, SwitchWaves(), hosts=125)
    began_s = time.monotonic()
    waves = plan_waves(spec)
    assert time.monotonic() - began_s < 1
    assert len(leaves_of_hosts(spec)) == 1000
    assert sum(map(len, waves)) == 80

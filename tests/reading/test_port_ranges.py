"""Ranges of ports: what is written short means what is written long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.problem import Json
from components.reading.load import parse_site
from components.reading.port_ranges import spread_document
from tests.checks.cases import CLEAN

SITE = CLEAN.read_text()
LONG = SITE[SITE.index('      "1/1":') : SITE.index("hosts:")]


def spread(model: str, system: str, ports: dict[str, Json]) -> Json:
    switch: Json = {"name": "leaf-01", "model": model, "os": system, "ports": ports}
    done = spread_document({"switches": [switch]})["switches"]
    assert isinstance(done, list)
    assert isinstance(done[0], dict)
    return done[0]["ports"]


@pytest.mark.parametrize(
    ("model", "system", "written", "ports"),
    [
        ("SN2700", "onyx", "1/30-1/32", ["1/30", "1/31", "1/32"]),
        ("SN2700", "onyx", "1/30 - 32", ["1/30", "1/31", "1/32"]),
        ("SN3700", "cumulus", "swp9-11", ["swp9", "swp10", "swp11"]),
        ("SN3700", "cumulus", "swp[9-11]", ["swp9", "swp10", "swp11"]),
        ("SN3700", "cumulus", "swp9-swp11", ["swp9", "swp10", "swp11"]),
        ("DCS-7060DX5-64S", "eos", "Ethernet9/1-11/1", [f"Ethernet{n}/1" for n in (9, 10, 11)]),
        ("Z9332F", "sonic", "Ethernet0-16", ["Ethernet0", "Ethernet8", "Ethernet16"]),
    ],
)
def test_a_range_holds_the_ports_of_the_model(
    model: str, system: str, written: str, ports: list[str]
) -> None:
    got = spread(model, system, {written: "gpu[09-11]/rail-0"})
    assert got == dict(zip(ports, ("gpu09/rail-0", "gpu10/rail-0", "gpu11/rail-0"), strict=True))


def test_settings_are_those_of_each_port() -> None:
    got = spread("SN2700", "onyx", {"1/1-2": {"to": "spine-[01-02]:1/[7,9]", "mode": "trunk"}})
    assert got == {
        "1/1": {"to": "spine-01:1/7", "mode": "trunk"},
        "1/2": {"to": "spine-02:1/9", "mode": "trunk"},
    }


@given(st.integers(1, 32), st.integers(1, 32))
def test_any_range_is_its_single_ports(one: int, other: int) -> None:
    first, last = sorted((one, other))
    short = {f"1/{first}-{last}": f"gpu[{first}-{last}]/rail-0"}
    assert spread("SN2700", "onyx", dict(short)) == {
        f"1/{number}": f"gpu{number}/rail-0" for number in range(first, last + 1)
    }


def test_a_site_in_short_is_the_site_in_full() -> None:
    short = '      "1/1-2": gpu01/rail-[0-1]\n      "1/3-1/4": gpu02/rail-[0-1]\n'
    in_short, in_full = parse_site(SITE.replace(LONG, short), "s"), parse_site(SITE, "s")
    assert in_short.problems == in_full.problems == ()
    assert in_short.spec == in_full.spec
    line = SITE[: SITE.index(LONG)].count("\n") + 1
    ports = ("switches", 0, "ports")
    assert (
        in_short.places.line_of((*ports, "1/2")) == in_short.places.line_of((*ports, "1/1")) == line
    )
    assert in_short.places.line_of((*ports, "1/4")) == line + 1


def test_a_range_counts_the_addresses_of_its_links() -> None:
    links: Json = {"to": "spine-[01-02]:1/1", "mode": "routed", "address": "10.254.0.[0,2]"}
    assert spread("SN2700", "onyx", {"1/31-1/32": links}) == {
        "1/31": {"to": "spine-01:1/1", "mode": "routed", "address": "10.254.0.0"},
        "1/32": {"to": "spine-02:1/1", "mode": "routed", "address": "10.254.0.2"},
    }
    few = '      "1/1-1/4": {to: "gpu0[1-4]/rail-0", address: "10.254.0.[0,2]"}\n'
    (problem,) = [
        each
        for each in parse_site(SITE.replace(LONG, few), "s").problems
        if each.rule == "port-range"
    ]
    assert "is 4 ports, and 10.254.0.[0,2] counts 2" in problem.what
    assert "10.254.0.[0,2,4,6]" in problem.fix


@pytest.mark.parametrize(
    ("line", "what", "fix"),
    [
        ('"1/1-1/3": gpu[01-04]/rail-0', "counts 4.", "for example gpu[01-03]/rail-0."),
        ('"1/1-1/3": gpu[7,9]/rail-0', "counts 2.", "for example gpu[7-9]/rail-0."),
        ('"1/1-1/3": gpu01/rail-0', "is one.", "for example gpu[01-04]/rail-0."),
        ('"swp1-1/3": gpu[01-03]/rail-0', "begins at swp1,", "write the first and the last"),
        ('"1/1-1/99": gpu[01-99]/rail-0', "ends at 1/99,", "write the first and the last"),
    ],
)
def test_the_advice_fits_the_written_range(line: str, what: str, fix: str) -> None:
    problems = parse_site(SITE.replace(LONG, f"      {line}\n"), "s").problems
    (problem,) = [each for each in problems if each.rule == "port-range"]
    assert what in problem.what
    assert fix in problem.fix


def test_of_an_unknown_model_nothing_is_guessed() -> None:
    site = SITE.replace("model: SN2700", "model: MSN2700").replace('"1/1":', '"1/1-1/2":')
    (problem,) = [each for each in parse_site(site, "s").problems if "1/1-1/2" in str(each)]
    assert problem.rule == "port-range"
    assert "nothing is known of the ports of MSN2700 with onyx" in problem.what
    assert "switch_models: {MSN2700: {ports: 32, speeds_gbit_s: [100]}}" in problem.fix
    written: dict[str, Json] = {"1/1-1/2": "gpu[1-2]/rail-0", "1/9": "gpu9/rail-0"}
    assert spread("SN1", "onyx", dict(written)) == {"1/9": "gpu9/rail-0"}
    without = parse_site(site.replace("    model: MSN2700\n", ""), "s").problems
    assert [each.rule for each in without] == ["port-range", "missing-key"]
    assert spread_document({"switches": "none"}) == {"switches": "none"}

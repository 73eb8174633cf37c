"""Switch models: the nearest known one, and models that the file describes itself."""

from __future__ import annotations

import pytest

from components.catalogue.cards import why_unplanned
from components.catalogue.switches import MODELS
from components.checks.capability import nearest_model
from components.fabric.fabric_plan import plan_fabric
from components.model.cluster import ClusterSpec
from components.model.switch_models import DescribedSwitch
from components.reading.load import parse_site
from tests.checks.cases import CLEAN


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("SN5620", "SN5610"),
        ("SN2710", "SN2700"),
        ("SN4610", "SN4600"),
        ("MSN2700", None),
        ("N9K-C9336C", None),
    ],
)
def test_the_nearest_model_is_of_the_same_series(typed: str, nearest: str | None) -> None:
    spectrum = sorted(name for name, model in MODELS.items() if "cumulus" in model.ports)
    assert nearest_model(typed, spectrum) == nearest


def test_without_the_sn5610_an_sn5600_is_nearer_than_an_sn4600c() -> None:
    assert nearest_model("SN5610", ["SN4600C", "SN5600", "SN5400"]) == "SN5600"
    arista = ["DCS-7050CX3-32S", "DCS-7060DX5-64S", "DCS-7060X6-64PE"]
    assert nearest_model("7060X6-64DE", arista) == "DCS-7060X6-64PE"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("QM9790", "runs no system for logins"),
        ("QM8790", "runs no system for logins"),
        ("Q3400-RA", "NVOS"),
        ("Q3200-RA", "NVOS"),
        ("DCS-7804R3", "tx-queue"),
        ("DCS-7280R3-32D4", "tx-queue"),
    ],
)
def test_models_that_are_not_planned_say_why(name: str, words: str) -> None:
    found = why_unplanned(name)
    assert found is not None
    assert words in found[0]
    assert name not in MODELS


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_known_model_is_refused(name: str) -> None:
    assert why_unplanned(name) is None


@pytest.mark.parametrize(
    ("system", "lanes", "first", "second", "last"),
    [
        ("onyx", None, "1/1", "1/2", "1/4"),
        ("cumulus", None, "swp1", "swp2", "swp4"),
        ("eos", None, "Ethernet1/1", "Ethernet2/1", "Ethernet4/1"),
        ("sonic", None, "Ethernet0", "Ethernet8", "Ethernet24"),
        ("sonic", 4, "Ethernet0", "Ethernet4", "Ethernet12"),
        ("mlnxos", None, "1/1", "1/2", "1/4"),
    ],
)
def test_a_described_model_has_the_ports_of_its_system(
    system: str, lanes: int | None, first: str, second: str, last: str
) -> None:
    described = DescribedSwitch(ports=4, speeds_gbit_s=(400, 100), lanes=lanes)
    ports = described.as_model("X", system).ports[system]
    assert (ports[0], ports[1], ports[-1], len(ports)) == (first, second, last, 4)


def test_a_described_model_has_the_speeds_of_its_parts() -> None:
    described = DescribedSwitch(ports=4, speeds_gbit_s=(800,), breakouts=("2x400", "4x200"))
    model = described.as_model("X", "cumulus")
    assert [model.speed_of("cumulus", "swp1", parts) for parts in (1, 2, 3, 4, 8)] == [
        800,
        400,
        200,
        200,
        0,
    ]
    assert (model.has_port("cumulus", "swp4s3"), model.has_port("cumulus", "swp4s4")) == (
        True,
        False,
    )


def spec_of(text: str) -> ClusterSpec:
    loaded = parse_site(text, "site.yaml")
    assert loaded.problems == ()
    assert loaded.spec is not None
    return loaded.spec


def test_a_range_of_ports_knows_a_described_model_and_its_plan_is_made() -> None:
    text = CLEAN.read_text(encoding="utf-8").replace("model: SN2700", "model: X9")
    text = text.replace("os: onyx", "os: cumulus").replace("3.9.2504", "5.9.2")
    old = text[text.index('      "1/1"') : text.index("hosts:")]
    text = text.replace(old, "      swp1-2: gpu01/rail-[0,1]\n      swp3-4: gpu02/rail-[0,1]\n")
    text += "switch_models: {X9: {ports: 4, speeds_gbit_s: [100], mtu_bytes: 9216}}\n"
    (plan,) = plan_fabric(spec_of(text))
    assert sorted(plan.desired.ports) == ["swp1", "swp2", "swp3", "swp4"]
    short = parse_site(text.replace("ports: 4", "ports: 3"), "site.yaml")
    assert [problem.rule for problem in short.problems] == ["port-range"]

"""The example quantum-ufm, from nothing to nothing: UFM's keys at the ports, by a real opensm."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Final

import pytest

from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import latest_evidence
from tests.site.conftest import play_example
from tests.site.playground import Playground
from tests.site.test_quantum_ib import managers

pytestmark = pytest.mark.story

EXAMPLE: Final = "quantum-ufm"
PASSED: Final = (
    ("rail hca-0", "fabric"),
    ("rail hca-7", "fabric"),
    ("partition training", "gpu01"),
    ("paths in training", "gpu01"),
    ("paths in storage", "gpu02"),
    ("adaptive routing", "fabric"),
    ("one master", "fabric"),
    ("bandwidth", "nccl-all-reduce"),
)
TAKEN: Final = "a088c20300041000"
"""The first HCA of gpu02."""


@pytest.fixture(scope="module")
def site(mark: str) -> Generator[Playground]:
    with play_example(mark, EXAMPLE) as site:
        yield site


def proven() -> dict[tuple[str, str], str]:
    """Check and subject of each row of the last report, to its verdict."""
    evidence = latest_evidence(EXAMPLE)
    assert evidence is not None
    return {(row.check, row.subject): row.verdict for row in judge_evidence(evidence).findings}


@pytest.mark.timeout(3600)  # five commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(site: Playground) -> None:
    assert managers(site) == {"ibsim", "ufm"}
    first = site.up().must()
    assert "acceptance passed" in first
    verdicts = proven()
    assert {key: verdicts.get(key) for key in PASSED} == dict.fromkeys(PASSED, "passed")
    left = site.snapshot()
    assert "nothing changed" in site.up().must()

    site.fault("ufm", "drop", "0x101", TAKEN)
    assert site.snapshot() != left
    report = site.railyard("drift", EXAMPLE).must(3)
    assert f"member {TAKEN} of partition 0x0101 is absent, want full" in report
    repaired = site.up().must()
    assert "acceptance passed" in repaired
    assert f"member {TAKEN} of partition 0x0101" in repaired
    held = json.loads(site.snapshot())["snapshot"]["ufm"]["partitions"]["0x101"]["guids"]
    assert held[TAKEN] == ["full", False]
    site.railyard("drift", EXAMPLE).must()

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert site.snapshot().splitlines() == site.before.splitlines()
    assert not site.resources()
    assert not site.strays()

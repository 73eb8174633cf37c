"""The example quantum-ib, from nothing to nothing, on ibsim with the real opensm."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, cast

import pytest

from lab import control
from tests.site.conftest import play_example
from tests.site.playground import Playground

pytestmark = pytest.mark.story

EXAMPLE: Final = "quantum-ib"
PASSED: Final = ("ib ports gpu01", "ib ports gpu02", "one master fabric", "nccl-all-reduce")


@pytest.fixture(scope="module")
def site(mark: str) -> Generator[Playground]:
    with play_example(mark, EXAMPLE) as site:
        yield site


def managers(site: Playground) -> set[str]:
    answer = control.request(site.lab / "control.sock", {"op": "fabric"})
    return {*cast("dict[str, int]", answer["pids"])}


@pytest.mark.timeout(1800)  # three commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(site: Playground) -> None:
    assert managers(site) == {"ibsim"}
    first = site.up().must()
    for row in PASSED:
        assert re.search(rf"^PASSED +{row.replace(' ', ' +')} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    assert managers(site) == {"ibsim", "ib-leaf-01", "ib-leaf-02"}
    assert "nothing changed" in site.up().must()
    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert managers(site) == {"ibsim"}
    assert site.snapshot().splitlines() == site.before.splitlines()
    assert not site.resources()
    assert not site.strays()

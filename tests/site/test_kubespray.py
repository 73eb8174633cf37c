"""The example with kubespray, from nothing to nothing: installed, quiet, a release up, deleted."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

import pytest

from tests.site.conftest import play_example
from tests.site.playground import Playground

pytestmark = pytest.mark.story

EXAMPLE: Final = "dgx-roce/kubespray.yaml"
PROBES: Final = ("perftest-rail-0-gpu01-gpu02", "nccl-all-reduce", "allocatable gpu01")


@pytest.fixture(scope="module")
def site(mark: str) -> Generator[Playground]:
    with play_example(mark, EXAMPLE) as site:
        yield site


def edited(site: Playground, old: str, new: str) -> str:
    """A copy of the stack's configuration with one value changed."""
    assert site.config is not None
    text = site.config.read_text()
    assert text.count(old) == 1
    copy = site.lab / "edited.yaml"
    copy.write_text(text.replace(old, new))
    return str(copy)


@pytest.mark.timeout(1800)  # five commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(site: Playground) -> None:
    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    assert "nothing changed" in site.up().must()

    skipped = ["--config-file", edited(site, "version: v1.34.7", "version: v1.37.0")]
    refused = site.pulumi("preview", *skipped).refused()
    assert "Kubernetes v1.37.0 is 3 minors after v1.34.7, which runs" in refused

    next_one = ["--config-file", edited(site, "version: v1.34.7", "version: v1.35.4")]
    words = "kubespray: upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4"
    assert words in site.pulumi("preview", *next_one).must()
    upgraded = site.pulumi("up", "--yes", "--skip-preview", *next_one).must()
    assert "Kubernetes from v1.34.7 to v1.35.4" in upgraded

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert site.snapshot().splitlines() == site.before.splitlines()
    assert not site.resources()
    assert not site.strays()

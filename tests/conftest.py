"""What holds for every run of tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from lab.cluster.plane import ControlPlane
from lab.cluster.testing import running_plane
from lab.suite import EXTRAS, SLOW_MARKS, files_of
from tests.docs.collected import see

MARKS: Final = (*SLOW_MARKS, *(extra.mark for extra in EXTRAS))
_OBJECTS_A_COLLECTION: Final = 1_000_000
"""New objects between two garbage collections, as in our own programs (`core/start.py`)."""


# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
gc.disable()  # what is collected stays: a third of the time was looking at it


def pytest_collection_finish() -> None:
    """What was collected stays to the end: only what tests make is looked at."""
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """A stage collects the files that name its mark, so a test must not get that from elsewhere."""
    unnamed = {
        f"{item.nodeid}: its file does not name mark.{mark}, so no stage would run it"
        for item in items
        for mark in MARKS
        if item.get_closest_marker(mark) is not None
        and item.path.is_relative_to(config.rootpath / "tests")
        and str(item.path.relative_to(config.rootpath)) not in files_of(mark)
    }
    if unnamed:
        raise pytest.UsageError("\n".join(sorted(unnamed)))


def pytest_itemcollected(item: pytest.Item) -> None:
    """The pages name tests as proofs; a test of them looks whether those are there."""
    see(item)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster of a worker's own: 4 CPU seconds, for tests that take away what they put there."""
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running

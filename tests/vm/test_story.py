"""The two stories on real kernels; `make lab-vm` prints them step by step."""

from __future__ import annotations

import pytest

from lab.pods.enter import left_of
from lab.vm import pods_story
from lab.vm.story import FOLDER, main

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2300)]


def test_the_scripts_hold_on_real_kernels() -> None:
    status = main()
    _, _, failed = (FOLDER / "story.log").read_text().partition("\nFAILED")
    assert status == 0, f"FAILED{failed}"


def test_pods_have_vfs_and_containers_have_mpi() -> None:
    status = pods_story.main()
    _, _, failed = pods_story.LOG.read_text().partition("\nFAILED")
    assert status == 0, f"FAILED{failed}"
    assert left_of(pods_story.FOLDER) == []

"""The whole story on two real kernels; `make lab-vm` prints it step by step."""

from __future__ import annotations

import pytest

from lab.vm.story import FOLDER, main

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2300)]


def test_the_scripts_hold_on_real_kernels() -> None:
    status = main()
    _, _, failed = (FOLDER / "story.log").read_text().partition("\nFAILED")
    assert status == 0, f"FAILED{failed}"

"""The whole story on real nodes; `make lab-pods` prints it step by step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from lab.cluster.process import wait_until
from lab.pods.enter import left_of
from lab.pods.story import FOLDER, LOG, PROJECT, main

pytestmark = [pytest.mark.pods, pytest.mark.timeout(2300)]
NODES_UP = "two nodes Ready"
UP_DEADLINE_S = 300.0
GONE_DEADLINE_S = 30.0


def test_the_plan_holds_on_real_nodes() -> None:
    status = main()
    _, _, failed = LOG.read_text().partition("\nFAILED")
    assert status == 0, f"FAILED{failed}"
    assert left_of(FOLDER) == []


def test_nothing_is_left_of_a_run_that_was_killed() -> None:
    LOG.unlink(missing_ok=True)
    words = [sys.executable, "-m", "lab.pods.story"]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL) as story:
        wait_until("two real nodes", lambda: NODES_UP in read_log(), UP_DEADLINE_S)
        assert any("kubelet" in each for each in left_of(FOLDER))
        os.kill(story.pid, signal.SIGKILL)
    wait_until(
        "all processes to end",
        lambda: all("/sys/fs/cgroup" in each for each in left_of(FOLDER)),
        GONE_DEADLINE_S,
    )
    # Control groups outlive their processes; the next run begins by removing them.
    words = [sys.executable, "-c", "from lab.pods.enter import clean; clean()"]
    subprocess.run(words, cwd=PROJECT, check=True, timeout=60)
    assert left_of(FOLDER) == []


def read_log() -> str:
    return LOG.read_text() if LOG.exists() else ""

"""Starting, killing and stopping a lab from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab import control
from tests.lab_hosts.conftest import SmallLab, make_host, write_lab

pytestmark = pytest.mark.lab


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLab]:
    lab = write_lab(tmp_path / "one", (make_host("gpu01", "127.202.0.11"),))
    yield lab
    control.stop(lab.root)


def processes_below(root: Path) -> list[int]:
    """Processes that have the lab's folder in their command line."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if str(root).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def wait_until_gone(root: Path) -> list[int]:
    deadline = time.monotonic() + 10
    while processes_below(root) and time.monotonic() < deadline:
        pass
    return processes_below(root)


def test_state_survives_stop_and_nothing_is_left(small: SmallLab) -> None:
    assert control.start(small.file)
    assert not control.start(small.file)
    small.out("gpu01", "echo kept > /var/lib/kept; echo lost > /run/lost")
    assert control.stop(small.root)
    assert not control.stop(small.root)
    assert processes_below(small.root) == []
    assert str(small.root) not in Path("/proc/self/mountinfo").read_text()
    control.start(small.file)
    assert small.out("gpu01", "cat /var/lib/kept; ls /run/lost 2>/dev/null || true") == "kept\n"
    control.stop(small.root)


def test_killed_daemon_leaves_nothing_that_the_next_start_cannot_clear(small: SmallLab) -> None:
    control.start(small.file)
    small.out("gpu01", "systemd-run --unit=stay sleep 5151")
    pid = small.ask(op="status")["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(small.root) == []
    with pytest.raises(UsageError, match="no lab answers"):
        small.ask(op="status")
    assert control.start(small.file)
    assert small.out("gpu01", "echo hi") == "hi\n"
    control.stop(small.root)
    assert processes_below(small.root) == []
    assert str(small.root) not in Path("/proc/self/mountinfo").read_text()


def test_recorded_pid_of_another_process_is_not_touched(tmp_path: Path) -> None:
    lab_dir = tmp_path / "other"
    lab_dir.mkdir()
    (lab_dir / control.PIDS_FILE).write_text(
        f'[{{"name": "lab daemon", "pid": {os.getpid()}, "start_ticks": 1}}]'
    )
    assert not control.stop(lab_dir)


def test_address_in_use_is_one_clear_error(small: SmallLab) -> None:
    control.start(small.file)
    second = write_lab(small.root.parent / "two", (make_host("gpu01", "127.202.0.11"),))
    with pytest.raises(
        UsageError, match=r"did not start: nothing can listen on 127\.202\.0\.11:2222"
    ):
        control.start(second.file)
    control.stop(small.root)
    assert processes_below(small.root.parent) == []


def test_daemon_log_is_quiet(small: SmallLab) -> None:
    control.start(small.file)
    for _ in range(20):
        small.out("gpu01", "cat")
    control.stop(small.root)
    assert (small.root / control.DAEMON_LOG).read_text() == "lab hosts-test is up\n"

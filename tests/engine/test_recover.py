from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from components.core.errors import RailyardError
from components.project.under_way import UnderWay, find_under_way, parse_lock
from lab.engine.recover import (
    Pulumi,
    adopt_pending,
    check_lock,
    is_alive,
    kubernetes_id,
    load_locks,
    load_pending,
    recover,
)
from standins.values import Properties
from tests.engine.runner import EngineRunner

LOCK = (
    '{"pid":4321,"username":"root","hostname":"ws1",'
    '"timestamp":"2026-11-21T12:21:34.123456789+01:00"}'
)
SLOW = """
import pulumi
from pulumi_command import local
first = local.Command("first", create="echo done", logging="none")
local.Command(
    "second",
    create="touch {flag}; sleep {sleep_s}; echo end",
    logging="none",
    opts=pulumi.ResourceOptions(depends_on=[first]),
)
"""


def test_a_lock_of_the_file_backend_is_read_with_its_nanoseconds() -> None:
    lock = parse_lock(LOCK)
    assert (lock.pid, lock.user, lock.host) == (4321, "root", "ws1")
    assert datetime.fromisoformat(lock.stamp).microsecond == 123456


def test_a_lock_of_another_machine_is_never_lifted() -> None:
    with pytest.raises(RailyardError, match="on another machine"):
        check_lock(parse_lock(LOCK), "ws2", "dev")


def test_a_living_process_keeps_its_lock_and_a_reused_number_does_not() -> None:
    now = datetime.now(UTC)
    assert is_alive(os.getpid(), now)
    assert not is_alive(os.getpid(), now - timedelta(days=400))


def test_a_process_that_ended_is_not_alive() -> None:
    child = subprocess.Popen(["/bin/true"])
    child.wait(timeout=60)
    assert not is_alive(child.pid, datetime.now(UTC))


def test_identities_of_kubernetes_objects_come_from_their_inputs() -> None:
    attachment: Properties = {
        "type": "kubernetes:k8s.cni.cncf.io/v1:NetworkAttachmentDefinition",
        "inputs": {"metadata": {"name": "sriov111", "namespace": "default"}},
    }
    namespace: Properties = {
        "type": "kubernetes:core/v1:Namespace",
        "inputs": {"metadata": {"name": "mpi"}},
    }
    release: Properties = {
        "type": "kubernetes:helm.sh/v3:Release",
        "inputs": {"name": "a", "namespace": "b"},
    }
    command: Properties = {"type": "command:local:Command", "inputs": {"create": "true"}}
    assert kubernetes_id(attachment) == "default/sriov111"
    assert kubernetes_id(namespace) == "mpi"
    assert kubernetes_id(release) == "b/a"
    assert kubernetes_id(command) is None


def test_only_named_kubernetes_creates_move_into_the_state() -> None:
    namespace: Properties = {
        "urn": "urn:pulumi:dev::r::kubernetes:core/v1:Namespace::mpi",
        "type": "kubernetes:core/v1:Namespace",
        "inputs": {"metadata": {"name": "mpi"}},
    }
    command: Properties = {
        "urn": "urn:pulumi:dev::r::command:local:Command::x",
        "type": "command:local:Command",
    }
    exported: Properties = {
        "version": 3,
        "deployment": {
            "resources": [{"urn": "urn:pulumi:dev::r::pulumi:pulumi:Stack::r-dev"}],
            "pending_operations": [
                {"type": "creating", "resource": namespace},
                {"type": "creating", "resource": command},
                {"type": "updating", "resource": namespace},
            ],
        },
    }
    edited, adopted = adopt_pending(exported)
    assert adopted == (namespace["urn"],)
    text = json.dumps(edited)
    assert '"id": "mpi"' in text
    assert text.count('"creating"') == 1
    assert edited["version"] == 3


def under_way(pulumi: Pulumi) -> UnderWay:
    """What `railyard drift` says of the stack."""
    url = pulumi.environment["PULUMI_BACKEND_URL"]
    return find_under_way(pulumi.run("stack", "export"), url, pulumi.name, pulumi.stack)


@pytest.mark.engine
def test_after_sigkill_the_stack_recovers_and_nothing_is_left_running(
    engine: EngineRunner, tmp_path: Path
) -> None:
    flag = tmp_path / "started"
    folder = engine.project("killed", SLOW.format(flag=flag, sleep_s=60))
    process = engine.start(folder, "up", "--yes", "--skip-preview", "--stack", "dev")
    _until(flag)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    pulumi = engine.pulumi(folder)
    running = under_way(pulumi)
    assert running.operations == ("second (creating)",)
    assert f"process {process.pid} of " in running.holder
    assert not running.is_dead
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _gone, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert under_way(pulumi) == replace(running, is_dead=True)
    (lock,) = load_locks(pulumi)
    assert lock.host == socket.gethostname()
    refused = engine.up(folder)
    assert refused.rc != 0
    said = recover(pulumi)
    assert f"lifted the lock of pulumi process {process.pid}" in said[0]
    assert "settled 1 interrupted operations: creating second" in said[1]
    assert load_pending(pulumi) == []
    assert not under_way(pulumi).is_any
    assert recover(pulumi) == ()
    (folder / "__main__.py").write_text(SLOW.format(flag=flag, sleep_s=0))
    done = engine.up(folder)
    assert done.rc == 0, done.errors
    assert done.warnings == ""
    assert done.changes == {"create": 1}


@pytest.mark.engine
def test_a_stack_in_use_is_refused_with_the_way_to_end_it(
    engine: EngineRunner, tmp_path: Path
) -> None:
    flag = tmp_path / "started"
    folder = engine.project("in-use", SLOW.format(flag=flag, sleep_s=60))
    process = engine.start(folder, "up", "--yes", "--skip-preview", "--stack", "dev")
    try:
        _until(flag)
        with pytest.raises(RailyardError, match=f"kill -INT {process.pid}"):
            recover(engine.pulumi(folder))
        family = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    _gone, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert recover(engine.pulumi(folder)) == ()


@pytest.mark.engine
def test_a_stack_that_was_never_used_needs_nothing(engine: EngineRunner) -> None:
    folder = engine.project("untouched", "")
    assert recover(engine.pulumi(folder)) == ()


def _until(path: Path) -> None:
    """Wait for a file with a deadline."""
    pause = threading.Event()
    for _ in range(3000):
        if path.exists():
            return
        pause.wait(0.01)
    raise AssertionError(f"{path} did not appear in 30 s")

"""Start, ask and stop a lab daemon from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from components.core.errors import UsageError
from lab.hosts.lab_file import load_lab_file
from lab.mounts import unmount

START_DEADLINE_S = 120.0
"""Enabled units run at boot, a Kubernetes control plane among them."""
STOP_DEADLINE_S = 60.0
REQUEST_DEADLINE_S = 120.0
POLL_S = 0.05
PIDS_FILE = "pids.json"
DAEMON_LOG = "daemon.log"
ANSWER = TypeAdapter(dict[str, object])


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """A process that the lab started: its pid alone could by now be another's."""

    name: str
    pid: int
    start_ticks: int


RECORDS = TypeAdapter(list[RecordedProcess])


def request(socket_path: Path, body: dict[str, object]) -> dict[str, object]:
    """Ask the lab daemon one thing.

    Raises:
        UsageError: No lab listens there, or it refuses; the text says why.
    """
    line = json.dumps(body).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(REQUEST_DEADLINE_S)
        try:
            connect_unix(connection, socket_path)
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                text = answers.readline()
        except OSError as error:
            raise UsageError(
                f"no lab answers at {socket_path} ({error}): start it with `make up`"
            ) from error
    if not text:
        raise UsageError(f"the lab at {socket_path} ended without an answer; see its {DAEMON_LOG}")
    answer = ANSWER.validate_json(text)
    if answer.pop("ok", False) is not True:
        raise UsageError(str(answer.get("error", "the lab refused without a reason")))
    return answer


def connect_unix(connection: socket.socket, path: Path) -> None:
    """Connect to a unix socket whose path may be longer than the 108 bytes of an address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def is_running(lab_dir: Path) -> bool:
    """A daemon of this lab answers."""
    try:
        request(lab_dir / "control.sock", {"op": "status"})
    except UsageError:
        return False
    return True


def start(lab_file: Path) -> bool:
    """Start the lab of a lab file, after clearing what a killed one left.

    Returns:
        False when it was running already.

    Raises:
        UsageError: It did not come up; the text holds what the daemon said.
    """
    lab = load_lab_file(lab_file)
    if is_running(lab.root):
        return False
    stop(lab.root)
    lab.root.mkdir(parents=True, exist_ok=True)
    with (lab.root / DAEMON_LOG).open("wb") as log:
        daemon = subprocess.Popen(
            [str(lab.python), "-m", "lab.daemon", str(lab_file.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=lab.project,
            start_new_session=True,
        )
    _record(lab.root, RecordedProcess("lab daemon", daemon.pid, start_ticks(daemon.pid)))
    deadline = time.monotonic() + START_DEADLINE_S
    while not is_running(lab.root):
        if daemon.poll() is not None or time.monotonic() > deadline:
            said = (lab.root / DAEMON_LOG).read_text(errors="replace").strip()
            stop(lab.root)
            raise UsageError(f"the lab did not start: {said or 'it said nothing'}")
        time.sleep(POLL_S)
    return True


def stop(lab_dir: Path) -> bool:
    """End the recorded processes of a lab, unmount, and forget them.

    Returns:
        True when something was running.
    """
    records = _load_records(lab_dir)
    alive = [record for record in records if is_alive(record)]
    for record in alive:
        _signal(record, signal.SIGTERM)
    deadline = time.monotonic() + STOP_DEADLINE_S
    while any(is_alive(record) for record in alive):
        if time.monotonic() > deadline:
            for record in alive:
                _signal(record, signal.SIGKILL)
        time.sleep(POLL_S)
    unmount(lab_dir / "sysfs")
    (lab_dir / "control.sock").unlink(missing_ok=True)
    (lab_dir / PIDS_FILE).unlink(missing_ok=True)
    return bool(alive)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot (field 22 of proc(5) stat).

    Raises:
        ProcessLookupError: It is gone, or dead and not yet waited for.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError as error:
        raise ProcessLookupError(pid) from error
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return int(fields[19])


def is_alive(record: RecordedProcess) -> bool:
    """The recorded process still runs, and is the one that was recorded."""
    with contextlib.suppress(ProcessLookupError):
        return start_ticks(record.pid) == record.start_ticks
    return False


def _signal(record: RecordedProcess, number: signal.Signals) -> None:
    if is_alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)


def _load_records(lab_dir: Path) -> list[RecordedProcess]:
    try:
        return RECORDS.validate_json((lab_dir / PIDS_FILE).read_bytes())
    except (OSError, ValidationError):
        return []


def _record(lab_dir: Path, process: RecordedProcess) -> None:
    path = lab_dir / PIDS_FILE
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([asdict(process)], indent=1) + "\n")
    fresh.replace(path)

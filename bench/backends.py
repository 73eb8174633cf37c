"""Where a stack's state can lie: a folder, a real S3 server, a real PostgreSQL; all on loopback.

Both servers can stand behind a relay that adds a round-trip time, as a server elsewhere has it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.relay import running_relay
from components.core.errors import UsageError
from components.core.record import field, record
from lab.registry.build import S3

START_DEADLINE_S: Final = 60.0
POLL_S: Final = 0.05
BUCKET: Final = "states"
KEYS: Final = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret"}
POSTGRES_FOLDERS: Final = "/usr/lib/postgresql"
POSTGRES_USER: Final = "postgres"
"""Of the operating system; the server refuses to run as root."""


@record
class Backend:
    """The address of the states, and what the engine must know to reach it."""

    url: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def file_backend(folder: Path, round_trip_s: float = 0.0) -> Generator[Backend]:
    """A folder; a round-trip time makes no difference."""
    del round_trip_s
    folder.mkdir(parents=True)
    yield Backend(f"file://{folder}")


@contextmanager
def s3_backend(folder: Path, round_trip_s: float = 0.0) -> Generator[Backend]:
    """A bucket of versitygw, an S3 server that keeps objects as files."""
    (folder / "data" / BUCKET).mkdir(parents=True)
    (folder / "attributes").mkdir()
    port = _free_port()
    command = [
        *(str(S3.program()), "--port", f"127.0.0.1:{port}", "--quiet"),
        *("posix", "--sidecar", str(folder / "attributes"), str(folder / "data")),
    ]
    keys = {"ROOT_ACCESS_KEY": "bench", "ROOT_SECRET_KEY": "bench-secret"}
    with (
        _server(command, {**os.environ, **keys}, folder / "log", lambda: _answers(port)),
        running_relay("127.0.0.1", port, round_trip_s) as way,
    ):
        query = f"endpoint=http://127.0.0.1:{way}&s3ForcePathStyle=true&region=us-east-1"
        yield Backend(f"s3://{BUCKET}?{query}", KEYS)


@contextmanager
def postgres_backend(folder: Path, round_trip_s: float = 0.0) -> Generator[Backend]:
    """A database with the defaults of its package: each commit reaches the disk."""
    programs = _postgres_programs()
    folder.mkdir(parents=True)
    user = pwd.getpwnam(POSTGRES_USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    data, port = folder / "data", _free_port()
    demote = [shutil.which("setpriv") or "setpriv", "--reuid", POSTGRES_USER, "--clear-groups"]
    as_user: Sequence[str] = demote if os.getuid() == 0 else ()
    made = [*as_user, str(programs / "initdb"), "-D", str(data), "-U", "bench", "--auth=trust"]
    subprocess.run(made, check=True, capture_output=True, cwd="/")
    command = [
        *as_user,
        *(str(programs / "postgres"), "-D", str(data), "-k", str(folder), "-p", str(port)),
        *("-c", "listen_addresses=127.0.0.1"),
    ]
    log = folder.with_name(f"{folder.name}.log")

    def ready() -> bool:
        asked = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-q"]
        return subprocess.run(asked, check=False).returncode == 0

    with (
        _server(command, os.environ, log, ready),
        running_relay("127.0.0.1", port, round_trip_s) as way,
    ):
        yield Backend(f"postgres://bench@127.0.0.1:{way}/postgres?sslmode=disable")


BACKENDS: Final = {"file": file_backend, "S3": s3_backend, "PostgreSQL": postgres_backend}


def _postgres_programs() -> Path:
    found = sorted(Path(POSTGRES_FOLDERS).glob("*/bin/initdb"))
    if not found:
        raise UsageError(
            f"PostgreSQL is not installed: {POSTGRES_FOLDERS}/*/bin/initdb does not exist.\n"
            "  fix    apt-get install postgresql, or leave it out: --backends file S3"
        )
    return found[-1].parent


@contextmanager
def _server(
    command: Sequence[str], environment: Mapping[str, str], log: Path, ready: Callable[[], bool]
) -> Generator[None]:
    """Run a server from the moment when it answers until the end of the block."""
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd="/") as server,
    ):
        try:
            until = time.monotonic() + START_DEADLINE_S
            while not ready():
                if server.poll() is not None or time.monotonic() > until:
                    raise UsageError(f"`{command[0]}` does not answer:\n{log.read_text()[-2000:]}")
                time.sleep(POLL_S)  # noqa: TID251 - until the deadline of the loop
            yield
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])

"""Bytes of state that a first `pulumi up` writes, by backend; what a kill costs, and its repair.

    make bench-state   (or .venv/bin/python -m bench.state_cost [--backends file S3 PostgreSQL]
                        [--resources 100 200 400] [--killed 200] [--round-trip-ms 20])

A program that only registers commands, on the engine and a backend of its own, with checkpoints,
with compressed ones and without. With checkpoints the engine writes the whole state twice for each
resource, so the bytes grow with the square; without them it writes the state once, at the end. The
kill comes when half of the commands have run. Then the same update runs again until it succeeds:
the table names what it took, and how many commands ran a second time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from bench.backends import BACKENDS, Backend
from bench.runner import written_by
from components.core.record import record
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine

WAYS: Final[Mapping[str, dict[str, str]]] = {
    "yes": {},
    "compressed": {"PULUMI_DIY_BACKEND_ZSTD": "true"},
    "no": {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"},
}
INPUT_BYTES: Final = 1_300
"""Of a resource's inputs: the mean of a site of 1,000 hosts (`bench.engine_cost`)."""
POLL_S: Final = 0.02
DEADLINE_S: Final = 1_800.0
MIB: Final = 2**20
PROGRAM: Final = """\
import hashlib
import os
import pulumi_command as command

done = os.environ["DONE"]
for number in range(int(os.environ["RESOURCES"])):
    # Half of it cannot be compressed; scripts and settings of a site compress better.
    text = hashlib.shake_128(str(number).encode()).hexdigest(SIZE)
    command.local.Command(
        f"step-{number:05d}",
        create=f"echo {number} >> $DONE",
        stdin=text,
        environment={"DONE": done},
    )
"""


@record
class Ran:
    """What one update did."""

    written: int
    """Bytes that the engine passed to write(2): to files and to connections."""
    seconds: float
    cpu_seconds: float
    status: int
    text: str
    """What the engine said."""


class Room:
    """An engine with one backend, and a project with a stack for each run."""

    def __init__(self, home: Path, backend: Backend) -> None:
        settings = EnvSettings(home, "lab", Path(sys.executable), ensure_engine())
        write_env(settings)
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        own = {"PULUMI_BACKEND_URL": backend.url, **backend.environment}
        self._environment = plan_environment(settings, base) | own
        self._pulumi = str(settings.bin / "pulumi")
        self._done = home / "done"
        self._log = home / "log"
        self._folder = home / "program"
        self._folder.mkdir()
        (self._folder / "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
        (self._folder / "__main__.py").write_text(PROGRAM.replace("SIZE", str(INPUT_BYTES // 2)))

    def begin(self, stack: str) -> None:
        """Make a stack; no command of it has run."""
        self._done.write_text("")
        self.call("stack", "init", stack)

    def up(self, stack: str, resources: int, way: str, *, kill: bool = False) -> Ran:
        """Run one update; with `kill`, until half of the commands have run."""
        environment = {**self._environment, **WAYS[way], "RESOURCES": str(resources)}
        environment["DONE"] = str(self._done)
        command = [self._pulumi, "up", "--yes", "--skip-preview", "--non-interactive"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun, written = time.monotonic(), 0
        with (
            self._log.open("w") as log,
            subprocess.Popen(
                [*command, "--stack", stack],
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ) as running,
        ):
            while running.poll() is None and time.monotonic() < begun + DEADLINE_S:
                written = max(written, written_by(running.pid))
                if kill and len(self.done()) >= resources // 2:
                    os.killpg(running.pid, signal.SIGKILL)
                    break
                time.sleep(POLL_S)  # noqa: TID251 - until the deadline of the loop
            seconds = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        text = self._log.read_text()
        return Ran(written, seconds, cpu, cast("int", running.returncode), text)

    def done(self) -> list[str]:
        """The numbers of the commands that have run, in order, repeated ones too."""
        return self._done.read_text().split()

    def known(self, stack: str) -> int:
        """How many commands the state has.

        Raises:
            subprocess.CalledProcessError: The state cannot be read.
        """
        urns = exported_urns(self.call("stack", "export", "--stack", stack))
        return sum("command:local" in urn for urn in urns)

    def call(self, *words: str) -> str:
        """Run a command of the engine."""
        return subprocess.run(
            [self._pulumi, *words, "--non-interactive"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def exported_urns(text: str) -> tuple[str, ...]:
    """The URNs of all resources in what `pulumi stack export` printed."""
    state = cast("dict[str, dict[str, list[dict[str, str]]] | None]", json.loads(text))
    return tuple(each["urn"] for each in (state["deployment"] or {}).get("resources", []))


def whole_run(room: Room, way: str, resources: int) -> str:
    """A first update to its end, as the end of a row."""
    stack = f"whole-{way}-{resources}"
    room.begin(stack)
    ran = room.up(stack, resources, way)
    if ran.status:
        raise SystemExit(ran.text[-2_000:])
    return f"{ran.written / MIB:.1f} | {ran.seconds:.1f} | {ran.cpu_seconds:.1f}"


def killed_run(room: Room, way: str, resources: int) -> str:
    """A first update that is killed, and the way back, as the end of a row."""
    stack = f"killed-{way}-{resources}"
    room.begin(stack)
    room.up(stack, resources, way, kill=True)
    ran = len(room.done())
    try:
        known = str(room.known(stack))
    except subprocess.CalledProcessError as error:
        known = f"unreadable: {error.stderr.strip()}"
    needed: list[str] = []
    again = room.up(stack, resources, way)
    if again.status and "locked" in again.text:
        room.call("cancel", "--yes", "--stack", stack)
        needed.append("`pulumi cancel`")
        again = room.up(stack, resources, way)
    needed.append("the same update")
    repeated = len(room.done()) - len(set(room.done()))
    end = "yes" if not again.status and room.known(stack) == resources else again.text[-500:]
    return f"{ran} | {known} | {', '.join(needed)} | {repeated} | {end}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each backend: whole updates of each size, then killed ones; print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backends", nargs="+", choices=tuple(BACKENDS), default=tuple(BACKENDS))
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=tuple(WAYS))
    parser.add_argument("--resources", type=int, nargs="*", default=[100, 200, 400])
    parser.add_argument("--killed", type=int, nargs="*", default=[200])
    parser.add_argument("--round-trip-ms", type=float, default=0.0)
    chosen = parser.parse_args(arguments)
    _say("| Backend | Checkpoints | Resources | MiB written | Seconds | CPU s |")
    _say("| Backend | Checkpoints | Killed | Ran | In the state | Needed | Ran twice | Recovered |")
    for name in chosen.backends:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            root.chmod(0o711)  # PostgreSQL runs as a user of its own
            (root / "home").mkdir()
            with BACKENDS[name](root / "states", chosen.round_trip_ms / 1000) as backend:
                room = Room(root / "home", backend)
                for way in chosen.ways:
                    for size in chosen.resources:
                        _say(f"| {name} | {way} | {size} | {whole_run(room, way, size)} |")
                    for size in chosen.killed:
                        _say(f"| {name} | {way} | {size} | {killed_run(room, way, size)} |")


if __name__ == "__main__":
    main()

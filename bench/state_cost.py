"""Bytes of state that a first `pulumi up` writes, by number of resources; what a kill loses.

    .venv/bin/python -m bench.state_cost [--resources 100 200 400]

A program that only registers commands, on the engine and a file backend of its own, with and
without checkpoints. With checkpoints the engine writes the whole state twice for each resource, so
the bytes grow with the square; without them it writes the state at the end of the update. The kill
comes when half of the commands have run: the table names how many the state knows afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine

SKIP: Final = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
INPUT_BYTES: Final = 1_300
"""Of a resource's inputs: the mean of a site of 1,000 hosts (`bench.engine_cost`)."""
POLL_S: Final = 0.02
DEADLINE_S: Final = 1_800.0
PROGRAM: Final = """\
import os
import pulumi_command as command

done = os.environ["DONE"]
for number in range(int(os.environ["RESOURCES"])):
    command.local.Command(
        f"step-{number:05d}", create="echo >> $DONE", stdin="x" * SIZE, environment={"DONE": done}
    )
"""


class Room:
    """An engine with a file backend of its own, and a project with a stack for each run."""

    def __init__(self, home: Path) -> None:
        settings = EnvSettings(home, "lab", Path(sys.executable), ensure_engine())
        write_env(settings)
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        self._environment = plan_environment(settings, base)
        self._pulumi = str(settings.bin / "pulumi")
        self._done = home / "done"
        self._log = home / "log"
        self._folder = home / "program"
        self._folder.mkdir()
        (self._folder / "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
        (self._folder / "__main__.py").write_text(PROGRAM.replace("SIZE", str(INPUT_BYTES)))

    def up(self, stack: str, resources: int, extra: Mapping[str, str], *, kill: bool) -> str:
        """Run one update on a new stack, and return a row of the table."""
        self._done.write_text("")
        environment = {**self._environment, **extra, "RESOURCES": str(resources)}
        environment["DONE"] = str(self._done)
        self._call("stack", "init", stack)
        command = [self._pulumi, "up", "--yes", "--skip-preview", "--non-interactive"]
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
                written = max(written, _written(running.pid))
                if kill and self._ran() >= resources // 2:
                    os.killpg(running.pid, signal.SIGKILL)
                    break
                time.sleep(POLL_S)  # noqa: TID251 - until the deadline of the loop
            seconds = time.monotonic() - begun
        ran = self._ran()
        if not kill and running.returncode:
            raise SystemExit(self._log.read_text()[-2_000:])
        known = self._known(stack)
        return f"| {resources} | {written / 2**20:.0f} | {seconds:.1f} | {ran} | {known} |"

    def _ran(self) -> int:
        return len(self._done.read_text().splitlines())

    def _known(self, stack: str) -> int | str:
        try:
            text = self._call("stack", "export", "--stack", stack)
        except subprocess.CalledProcessError as error:
            return f"unreadable: {error.stderr}"
        state = json.loads(text)
        found = state.get("deployment", {}).get("resources", [])
        return sum("command:local" in each["type"] for each in found)

    def _call(self, *words: str) -> str:
        return subprocess.run(
            [self._pulumi, *words, "--non-interactive"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def _written(pid: int) -> int:
    """The bytes that a process has passed to write(2); 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each size, with and without checkpoints, whole and killed; print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--resources", type=int, nargs="+", default=[100, 200, 400])
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder))
        for way, extra in (("checkpoints", {}), ("skip", SKIP)):
            sys.stdout.write(f"{way}\n| Resources | MiB written | Seconds | Ran | In the state |\n")
            for kill in (False, True):
                for size in chosen.resources:
                    row = room.up(f"{way}-{size}-{kill}".lower(), size, extra, kill=kill)
                    sys.stdout.write(f"{row}{' killed' * kill}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The lab's child processes: started with a log file, ended by their own handle, never orphaned."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from components.core.errors import DeviceError

POLL_S = 0.1


def wait_until(what: str, ready: Callable[[], bool], deadline_s: float) -> None:
    """Wait until `ready()` is true.

    Raises:
        DeviceError: it was not within `deadline_s` seconds; the text says `what` was waited for.
    """
    end = time.monotonic() + deadline_s
    while not ready():
        if time.monotonic() > end:
            raise DeviceError(f"waited {deadline_s:g} s in vain for {what}")
        time.sleep(POLL_S)


class Child:
    """One long-running process with its own log file."""

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        """Describe the process; nothing runs before `start`."""
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Start the process; it is killed by the kernel when this process dies."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # setpriv arms PR_SET_PDEATHSIG before the exec: a SIGKILL of the parent leaves no orphan.
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*prefix, *self._argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **(env or {})},
            )

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; 0 where it was not started."""
        return self._process.pid if self._process else 0

    def check_running(self) -> None:
        """Raise `DeviceError` with the end of the log where the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-1500:]
            raise DeviceError(
                f"{self.name} ended with code {self._process.returncode}; the end of {self.log}:\n"
                f"{tail}"
            )

    def stop(self, grace_s: float = 3.0) -> None:
        """End the process with SIGTERM, and with SIGKILL after `grace_s` seconds."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)

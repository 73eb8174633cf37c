"""Runs one command and says what it cost: seconds, processor time, memory of all its processes."""

from __future__ import annotations

import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from bench.host_room import ROOT
from components.core.errors import UsageError
from components.core.record import record

SAMPLE_S: Final = 0.5
"""How often memory is looked at: more often would cost the tool the core it runs on."""
SAMPLES_OF_BYTES: Final = 10
"""How often the written bytes are read in that time: what the last moment wrote is not counted."""
DEADLINE_S: Final = 3600.0


@record
class Spent:
    """What a command took on the machine that it ran on; the hosts' own work is not in it."""

    seconds: float
    cpu_seconds: float
    memory_mib: float
    """The highest sum over its processes of memory, pages that several share counted in parts."""
    written_mib: float = 0.0
    """What the command itself, without its children, passed to write(2)."""


class _Memory(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.highest = 0
        self.written = 0

    def run(self) -> None:
        """Look until told to stop."""
        looks = 0
        while not self._ended.wait(SAMPLE_S / SAMPLES_OF_BYTES):
            self.written = max(self.written, written_by(self._pid))
            looks += 1
            if looks % SAMPLES_OF_BYTES == 0:
                self.highest = max(self.highest, _pss_kib(self._pid))

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def _pss_kib(pid: int) -> int:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return sum(_own_pss_kib(each.pid) for each in (root, *root.children(recursive=True)))
    return 0


def _own_pss_kib(pid: int) -> int:
    with suppress(OSError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def written_by(pid: int) -> int:
    """The bytes that a process has passed to write(2); 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def run_measured(
    command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT
) -> Spent:
    """Run it to its end, in this folder.

    Raises:
        UsageError: It failed; the text ends with its last lines.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        memory = _Memory(child.pid)
        memory.start()
        output, _ = child.communicate(timeout=DEADLINE_S)
    seconds = time.perf_counter() - begun
    memory.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode != 0:
        last = "\n".join(output.splitlines()[-40:])
        raise UsageError(f"`{command[0]}` ended with {child.returncode}:\n{last}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(seconds, cpu, memory.highest / 1024, memory.written / 2**20)

"""One subnet manager: the real opensm, with what an emulated switch has configured."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from lab.infiniband.programs import Programs
from lab.views import ManagerView, PartitionView

END_DEADLINE_S: Final = 10.0
POLLING_MS: Final = 10_000
"""How often a standby asks its master, in milliseconds: opensm's own default."""
POLLING_RETRIES: Final = 4
"""So many answers that do not come make a master lost: opensm's own default."""
ADAPTIVE: Final = "ar_"
"""How the names of NVIDIA's routing engines with adaptive routing begin."""
OPTIONS_FILE: Final = "opensm.conf"
PARTITIONS_FILE: Final = "partitions.conf"
LOG_FILE: Final = "opensm.log"
_EVENT: Final = re.compile(r"Entering (\w+) state|(SUBNET UP)")
_TAKES_OVER: Final = {"DISCOVERING", "MASTER"}
_CAUGHT: Final = re.compile(r"^SigCgt:\s*(\w+)$", re.MULTILINE)
"""Signals that a process has a handler for, as a mask: proc_pid_status(5)."""


def render_options(polling_ms: int, routing_engine: str, priority: int) -> str:
    """Opensm's options file (opensm --create-config lists the keys).

    Debian's opensm has the routing engines without adaptive routing: `ar_updn` runs as `updn`.
    """
    return (
        f"sm_priority {priority}\n"
        f"routing_engine {routing_engine.removeprefix(ADAPTIVE)}\n"
        f"sminfo_polling_timeout {polling_ms}\n"
        f"polling_retry_number {POLLING_RETRIES}\n"
    )


def render_partitions(partitions: tuple[PartitionView, ...]) -> str:
    """Opensm's partitions file (opensm(8), PARTITION CONFIGURATION).

    MTU and rate of an IPoIB group stay out: ibsim's ports have an MTU of 2048.
    """
    return "".join(f"{_head(each)} : {_members(each)};\n" for each in partitions)


def _head(partition: PartitionView) -> str:
    return f"{partition.name}=0x{partition.pkey:04x}{', ipoib' if partition.ipoib else ''}"


def _members(partition: PartitionView) -> str:
    words = [
        f"{guid if guid == 'ALL' else f'0x{guid}'}={kind}"
        for guid, kind in partition.members.items()
    ]
    return ", ".join(words)


class Manager:
    """A running opensm."""

    def __init__(
        self, programs: Programs, view: ManagerView, folder: Path, polling_ms: int
    ) -> None:
        """Start it at its node; what it says lies in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._work = programs.work
        self._options = (view.priority, view.routing_engine)
        self._partitions = view.partitions
        (folder / LOG_FILE).unlink(missing_ok=True)
        options = render_options(polling_ms, view.routing_engine, view.priority)
        (folder / OPTIONS_FILE).write_text(options)
        self._write_partitions()
        words = ["-F", OPTIONS_FILE, "-P", PARTITIONS_FILE, "-f", LOG_FILE]
        files = [word if word.startswith("-") else str(folder / word) for word in words]
        places = {"OSM_CACHE_DIR": f"{folder}/", "OSM_TMP_DIR": f"{folder}/"}
        self._process = programs.start(
            programs.argv("usr/sbin/opensm", files),
            folder / "opensm.out",
            programs.environment(view.node, places),
            subprocess.DEVNULL,
        )

    def _write_partitions(self) -> None:
        path = self._folder / PARTITIONS_FILE
        scratch = path.with_suffix(".part")
        scratch.write_text(render_partitions(self._partitions))
        scratch.replace(path)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def take(self, view: ManagerView) -> bool:
        """Take on changed partitions; False where it must be started again, or is gone."""
        if not self.runs:
            return False
        if self._options != (view.priority, view.routing_engine):
            return False
        if self._partitions != view.partitions:
            self._partitions = view.partitions
            self._write_partitions()
            self.sweep()
        return True

    @property
    def runs(self) -> bool:
        """Its process is there."""
        return self._process.poll() is None

    @property
    def is_standby(self) -> bool:
        """It waits for another one that is the master."""
        return self._events()[-1:] == ["STANDBY"]

    @property
    def is_between(self) -> bool:
        """It was a standby, takes over the subnet, and has not set it up yet."""
        events = self._events()
        return "STANDBY" in events and events[-1] in _TAKES_OVER

    def _events(self) -> list[str]:
        log = self._folder / LOG_FILE
        found = _EVENT.findall(log.read_text(errors="replace")) if log.exists() else []
        return [state or up for state, up in found]

    def sweep(self) -> None:
        """Have it read its partitions and look at the whole subnet: opensm(8), SIGHUP.

        One that has just started dies of the signal, and reads them in its first sweep: opensm sets
        its handlers before that (opensm/main.c).
        """
        status = Path(f"/proc/{self.pid}/status").read_text()
        caught = _CAUGHT.search(status)
        if caught is not None and int(caught[1], 16) >> (signal.SIGHUP - 1) & 1:
            self._process.send_signal(signal.SIGHUP)

    def end(self) -> None:
        """Kill it: on SIGTERM it sometimes hangs under libumad2sim."""
        self._process.kill()
        self._process.wait(timeout=END_DEADLINE_S)
        shutil.rmtree(self._work / f"sys-{self.pid}", ignore_errors=True)

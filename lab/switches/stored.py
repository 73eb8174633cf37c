"""The state that every emulated switch keeps on disk in the lab."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

from components.core.record import record


@record
class Chassis:
    """Serial number and MAC address, which identify a switch under any name and address."""

    serial: str = "MT2245X00000"
    base_mac: str = "0c42a1000000"
    """Twelve digits in lower case; each system writes it in its own way."""


def chassis_of(seed: str) -> Chassis:
    """The chassis of an emulated switch, by the seed of its host key."""
    digest = hashlib.sha256(f"chassis/{seed}".encode()).hexdigest()
    return Chassis(f"MT2245X{int(digest[:8], 16) % 100_000:05}", f"0c42a1{digest[:6]}")


class Part(BaseModel):
    """A piece of the state; a wrong name or type in it is an error at once."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class PortCounters(Part):
    """The counters of one port, since factory state."""

    rx_bytes: dict[int, int] = {}
    """By switch priority."""
    tx_bytes: dict[int, int] = {}
    """By traffic class."""
    ecn_marked: dict[int, int] = {}
    rx_discards: int = 0
    fcs_errors: int = 0
    rx_pauses: dict[int, int] = {}
    """PFC frames by priority."""
    tx_pauses: dict[int, int] = {}
    tx_drops: dict[int, int] = {}
    """Packets that the full queue of a traffic class dropped."""
    storms: dict[int, int] = {}
    """By traffic class: how often the PFC watchdog found the queue stuck; it always recovered."""
    flaps: int = 0


class Stored(Part):
    """The stored state outside any configuration."""

    counters: dict[str, PortCounters] = {}
    link_down: list[str] = []
    """Ports whose cable is pulled (a fault)."""
    unmodelled: list[str] = []
    """Sent commands that this emulator does not know."""
    folders: list[str] = []
    """Folders that users made, on switches that run Linux."""

    def flap(self, port: str) -> None:
        """Count that a link went down and came back."""
        self.counters.setdefault(port, PortCounters()).flaps += 1

    def run_folders(self, words: Sequence[str], *, root: bool) -> tuple[str, int]:
        """`ls -1`, `mkdir -p` and `rmdir` of coreutils 9.1 (Debian 12): output and exit status."""
        tool, *paths = (word for word in words if word not in {"-1", "-p"})
        if tool == "ls":
            (path,) = paths
            inside = sorted(PurePosixPath(each).name for each in self._inside(path))
            if path in self.folders:
                return "".join(f"{name}\n" for name in inside), 0
            return f"ls: cannot access '{path}': No such file or directory\n", 2
        if not root:
            return f"{tool}: cannot create directory '{paths[0]}': Permission denied\n", 1
        printed = ""
        for path in paths:
            if tool == "mkdir":
                parts = (path, *map(str, PurePosixPath(path).parents))
                self.folders = sorted({*self.folders, *parts[:-3]})  # /var/lib always exists
            elif path not in self.folders:
                printed += f"rmdir: failed to remove '{path}': No such file or directory\n"
            elif self._inside(path):
                printed += f"rmdir: failed to remove '{path}': Directory not empty\n"
            else:
                self.folders = [each for each in self.folders if each != path]
        return printed, int(bool(printed))

    def _inside(self, folder: str) -> list[str]:
        return [each for each in self.folders if str(PurePosixPath(each).parent) == folder]

"""The real programs of an InfiniBand fabric: how they are run, unpacked and not installed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from components.core.record import record

TOOL_DEADLINE_S: Final = 60.0
"""A tool that gets no answer gives up by itself within seconds."""
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_UMAD: Final = f"{_LIBRARIES}/umad2sim/libumad2sim.so"
"""What stands in for /dev/infiniband/umad and talks to ibsim."""


@record
class Programs:
    """The unpacked packages, and the fabric that they speak to."""

    folder: Path
    socket: str
    """Name of ibsim's socket, in the abstract namespace of this machine's network."""
    work: Path
    """Where they run, a folder in memory: libumad2sim makes one `sys-PID` of many files in it, and
    on a disk that took two thirds of a fabric's processor time. What a killed program left there
    fails a later one of the same number."""

    def argv(self, program: str, words: Sequence[str], *, preload: bool = True) -> list[str]:
        """The command line of a program, with the C library that it came with."""
        loader = [
            "/usr/bin/env",
            f"--chdir={self.work}",
            str(self.folder / "usr/lib64/ld-linux-x86-64.so.2"),
            "--library-path",
            str(self.folder / _LIBRARIES),
            "--argv0",
            Path(program).name,
        ]
        umad = ["--preload", str(self.folder / _UMAD)] if preload else []
        return [*loader, *umad, str(self.folder / program), *words]

    def environment(self, node: str = "", more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a program must know; `node` is where it is plugged in, by ibsim's name."""
        place = {"SIM_HOST": node} if node else {}
        return {"LC_ALL": "C.UTF-8", "IBSIM_SOCKNAME": self.socket, **place, **(more or {})}

    def run(self, node: str, tool: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run one of infiniband-diags' tools at a node."""
        return subprocess.run(
            self.argv(f"usr/sbin/{tool}", words),
            env=self.environment(node),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_DEADLINE_S,
            check=False,
        )

    def start(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str], stdin: int
    ) -> subprocess.Popen[bytes]:
        """Start a program that stays; it ends with the process that called this."""
        with log.open("ab") as output:
            return subprocess.Popen(
                # A lab that is killed leaves nothing behind.
                ["setpriv", "--pdeathsig", "KILL", "--", *words],
                env={"PATH": "/usr/bin:/bin", **environment},
                cwd="/",
                stdin=stdin,
                stdout=output,
                stderr=output,
            )

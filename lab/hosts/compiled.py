"""The lab's own programs in C, compiled once on this machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from lab.cache import cache_root

CLIENT: Final = Path(__file__).with_name("tool_client.c")
"""What every emulated tool is: it asks the lab daemon."""
ENTER: Final = Path(__file__).with_name("enter.c")
"""Runs a command inside of a host."""
_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s")
"""Static: what stands in for ESXi has other libraries than this machine, or none."""
DEADLINE_S: Final = 120.0


def compiled(source: Path, cache: Path | None = None) -> Path:
    """A compiled program, made first where it is missing.

    Args:
        source: CLIENT or ENTER.
        cache: The folder of cached builds.

    Raises:
        UsageError: This machine has no C compiler, or it cannot compile the program.
    """
    digest = hashlib.sha256(" ".join(_FLAGS).encode() + source.read_bytes()).hexdigest()[:16]
    program = (cache or cache_root()) / "tools" / digest / source.stem
    if program.exists():
        return program
    if shutil.which("gcc") is None:
        raise UsageError("the lab needs a C compiler: run `apt-get install -y gcc libc6-dev`")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        made = Path(scratch, program.name)
        command = ["gcc", *_FLAGS, "-o", str(made), str(source)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        if done.returncode != 0:
            raise UsageError(
                f"gcc cannot compile {source.name} of the lab: {done.stderr.strip()[-2000:]}"
            )
        made.replace(program)
    return program

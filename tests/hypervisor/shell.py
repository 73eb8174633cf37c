"""Run parts of the hypervisor's scripts here, in a plain shell with a folder as their world."""

from __future__ import annotations

import subprocess
from pathlib import Path

from components.hypervisor.hypervisor_plan import hypervisor_tool


def library(deadline_s: float) -> str:
    """All functions of the scripts, without what a script does with them."""
    library = hypervisor_tool().text.partition("case $verb in\nobserve)\n")[0]
    return f"set -- none deadline_s={deadline_s:g}\n{library}"


def shell(
    folder: Path, body: str, stdin: str = "", deadline_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `body` after the functions; `$world` is the folder."""
    return subprocess.run(
        ["/bin/sh", "-c", f"world='{folder}'\n{library(deadline_s)}{body}"],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=folder,
        check=False,
    )


def answer(folder: Path, body: str) -> str:
    """What `body` prints; it must not fail."""
    done = shell(folder, body)
    assert done.returncode == 0, done.stderr
    return done.stdout

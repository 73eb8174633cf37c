"""Build the registry from its pinned Go module: `python -m lab.registry.build`.

It goes into the cache folder under a key of the module files and our own source, as the lab's
Kubernetes does, so that a second clone reuses it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.cache import cache_root
from lab.engine.go import COMPILER_ENVIRONMENT, COMPILER_FLAGS, find_go
from lab.engine.progress import locked, run_shown

_MODULE: Final = Path(__file__).parent / "module"
_ENV: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
_PACKAGES: Final = 521
"""`go list -deps`: what is compiled if Go's cache is empty."""
_DEADLINE_S: Final = 900.0
"""20 s cold on two idle cores; a shared machine needs more."""


def registry_program(cache: Path | None = None) -> Path:
    """The registry's program, built where it is not there yet.

    Raises:
        DeviceError: It did not build; the text holds Go's own words.
    """
    root = cache or cache_root()
    key = hashlib.sha256(b"".join(f.read_bytes() for f in sorted(_MODULE.iterdir()))).hexdigest()
    program = root / "registry" / key[:16] / "registry"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with locked(root / "registry" / "build.lock"):
        if not program.exists():
            _build(find_go(root), program)
    return program


def _build(go: Path, program: Path) -> None:
    draft = program.with_name(".registry.new")
    status, output = run_shown(
        [str(go), "build", "-v", *COMPILER_FLAGS, "-ldflags=-s -w", "-o", str(draft), "."],
        "building registry (distribution, serves images)",
        _DEADLINE_S,
        directory=_MODULE,
        environment={
            **os.environ,
            **_ENV,
            **COMPILER_ENVIRONMENT,
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        },
        lines=_PACKAGES,
    )
    if status:
        raise DeviceError(
            f"the registry did not build (go build in {_MODULE}):\n{output[-3000:]}\n"
            "Check that the Go module proxy can be reached, then run the same command again."
        )
    draft.replace(program)


if __name__ == "__main__":
    sys.stdout.write(f"{registry_program()}\n")

"""Pulumi's language host for YAML programs: built from its Go module, for tests alone.

Its release needs older modules than the CLI, so it is a program of its own
(sources.md#pulumi): 58 CPU seconds once, and then it is in the cache.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from components.core.errors import RailyardError
from lab.cache import cache_root
from lab.engine.go import find_go
from lab.engine.install import BUILD_ENVIRONMENT, BUILD_TIMEOUT_S, KEY_DIGITS
from lab.engine.progress import locked, run_shown

VERSION: Final = "1.30.0"
PROGRAM: Final = "pulumi-language-yaml"
MODULE: Final = Path(__file__).with_name("yaml")
MAIN: Final = f"github.com/pulumi/pulumi-yaml/cmd/{PROGRAM}"
FLAGS: Final = (
    "-trimpath",
    "-buildvcs=false",
    "-mod=readonly",
    "-ldflags",
    f"-s -w -X github.com/pulumi/pulumi-yaml/pkg/version.Version={VERSION}",
)


def ensure_yaml_host(cache: Path | None = None) -> Path:
    """Return the program, building it where need be. Two callers build once.

    Raises:
        RailyardError: It cannot be built.
    """
    root = (cache or cache_root()) / "engine-yaml"
    text = (MODULE / "go.sum").read_bytes() + repr((FLAGS, MAIN)).encode()
    target = root / hashlib.sha256(text).hexdigest()[:KEY_DIGITS] / PROGRAM
    with locked(root / "build.lock"):
        if not target.exists():
            _build(find_go(root.parent), target)
    return target


def add_yaml_host(home: Path, program: Path) -> None:
    """Put it into the engine's plugin cache, if it is not there yet."""
    file = home / "plugins" / f"language-yaml-v{VERSION}" / PROGRAM
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_symlink():
        file.symlink_to(program)


def _build(go: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{PROGRAM}.new")
    status, output = run_shown(
        [str(go), "build", *FLAGS, "-o", str(draft), MAIN],
        f"building {PROGRAM} {VERSION} from its Go module (once; it is kept in {target.parent})",
        BUILD_TIMEOUT_S,
        directory=MODULE,
        environment={**os.environ, **BUILD_ENVIRONMENT},
    )
    if status:
        raise RailyardError(
            f"{PROGRAM} cannot be built from {MAIN}:\n{output[-2000:]}\n"
            "Give Go a module proxy (GOPROXY), and run the same command again."
        )
    draft.replace(target)


if __name__ == "__main__":
    print(ensure_yaml_host())

"""Build the registry and the S3 server from pinned Go modules: `python -m lab.registry.build`.

They go into the cache folder under a key of the module files and our own source, as the lab's
Kubernetes does, so that a second clone reuses it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from components.core.record import record
from lab.cache import cache_root
from lab.engine.go import COMPILER_ENVIRONMENT, COMPILER_FLAGS, find_go
from lab.engine.progress import locked, run_shown

_ENV: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
_DEADLINE_S: Final = 900.0
"""20 s cold on two idle cores; a shared machine needs more."""


@record
class Built:
    """A program that is built from a pinned module."""

    name: str
    what: str
    module: Path
    package: str
    packages: int
    """`go list -deps`: what is compiled if Go's cache is empty."""

    def program(self, cache: Path | None = None) -> Path:
        """The program, built if it is not there yet.

        Raises:
            DeviceError: It did not build; the text holds Go's own words.
        """
        root = cache or cache_root()
        files = sorted(self.module.iterdir())
        key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        program = root / self.name / key[:16] / self.name
        if program.exists():
            return program
        program.parent.mkdir(parents=True, exist_ok=True)
        with locked(root / self.name / "build.lock"):
            if not program.exists():
                self._build(find_go(root), program)
        return program

    def _build(self, go: Path, program: Path) -> None:
        draft = program.with_name(f".{self.name}.new")
        command = ["build", "-v", *COMPILER_FLAGS, "-ldflags=-s -w", "-o", str(draft), self.package]
        status, output = run_shown(
            [str(go), *command],
            f"building {self.name} ({self.what})",
            _DEADLINE_S,
            directory=self.module,
            environment={
                **os.environ,
                **_ENV,
                **COMPILER_ENVIRONMENT,
                "GOTOOLCHAIN": "local",
                "GOWORK": "off",
            },
            lines=self.packages,
        )
        if status:
            raise DeviceError(
                f"{self.name} did not build (go build in {self.module}):\n{output[-3000:]}\n"
                "Check that the Go module proxy can be reached, then run the same command again."
            )
        draft.replace(program)


_HERE: Final = Path(__file__).parent
REGISTRY: Final = Built("registry", "distribution, serves images", _HERE / "module", ".", 521)
S3: Final = Built(
    "versitygw",
    "serves buckets of S3",
    _HERE / "s3_module",
    "github.com/versity/versitygw/cmd/versitygw",
    589,
)


def registry_program(cache: Path | None = None) -> Path:
    """The registry's program, built if it is not there yet."""
    return REGISTRY.program(cache)


if __name__ == "__main__":
    sys.stdout.write(f"{REGISTRY.program()}\n{S3.program()}\n")

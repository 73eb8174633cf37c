"""Find the pulumi CLI, or install it, or build it: `python -m lab.engine.install`.

In this order: `pulumi` on PATH, of the release that the SDK is pinned to; one built or installed
earlier, in the cache; the SDK's own installer; the CLI's Go module (sources.md#pulumi).
The last line printed is the path of the program.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final, Literal

from components.core.errors import RailyardError
from components.core.record import record
from components.project.engine import version_of
from lab.cache import cache_root
from lab.engine.go import COMPILER_ENVIRONMENT, COMPILER_FLAGS, find_go, go_version
from lab.engine.progress import locked, run_shown

VERSION: Final = "3.250.0"
"""The release of the pinned SDK; the lab was tried with it."""
SERIES: Final = VERSION.rsplit(".", 1)[0]
MODULE: Final = Path(__file__).with_name("cli")
MAIN: Final = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
STAMP: Final = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
PACKAGES: Final = 1648
"""`go list -deps` of MAIN: what is compiled if Go's cache is empty."""
FLAGS: Final = (
    "-trimpath",
    "-buildvcs=false",
    "-mod=readonly",
    "-ldflags",
    f"-s -w -X {STAMP}={VERSION}",
)
BUILD_ENVIRONMENT: Final = {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
BUILD_TIMEOUT_S: Final = 2400
"""2.5 to 3 minutes on two idle cores; much more where Kubernetes is built at the same time."""
INSTALLER_TIMEOUT_S: Final = 90
KEY_DIGITS: Final = 16


@record
class Engine:
    """The CLI to use, and where it came from."""

    pulumi: Path
    origin: Literal["path", "installer", "built"]
    version: str

    def notice(self) -> str:
        """Return one line for the user."""
        origins = {
            "path": "found on PATH",
            "installer": "installed by the SDK's own installer",
            "built": "built from its Go module",
        }
        return f"engine: pulumi {self.version}, {origins[self.origin]}: {self.pulumi}"


def ensure_engine(cache: Path | None = None) -> Engine:
    """Return the engine, building it where need be. Two callers build once.

    Raises:
        RailyardError: No way led to an engine; the text names each that was tried.

    """
    root = cache or cache_root()
    found = find_on_path(root)
    if found is not None:
        return found
    cached = find_cached(root)
    if cached is not None:
        return cached
    with locked(root / "engine" / "build.lock"):
        return find_cached(root) or _run_installer(root) or _build(root)


def find_on_path(cache: Path) -> Engine | None:
    """Return the `pulumi` of PATH if its release is the pinned one; else say why it is not used.

    In a shell that sourced the lab's environment file, PATH holds a link into the cache: that is
    the cached engine, and not one of the user's.
    """
    on_path = shutil.which("pulumi")
    if on_path is None or Path(on_path).resolve().is_relative_to(cache.resolve()):
        return None
    version = cli_version(Path(on_path))
    if version and version.rsplit(".", 1)[0] == SERIES:
        return Engine(Path(on_path), "path", version)
    print(
        f"notice: {on_path} is pulumi {version or 'of unknown version'}, and this project is"
        f" pinned to {SERIES}.x: it is left alone, and one of our own is used",
        flush=True,
    )
    return None


def find_cached(cache: Path) -> Engine | None:
    """Return an engine that was installed or built before."""
    installed = _installed(cache) / "bin" / "pulumi"
    if installed.exists():
        return Engine(installed, "installer", VERSION)
    for built in sorted((cache / "engine").glob(f"{module_key()}-*/pulumi")):
        return Engine(built, "built", VERSION)
    return None


def cli_version(pulumi: Path) -> str | None:
    """Return what `pulumi version` says, without the leading v; None when it says nothing."""
    match = re.fullmatch(r"\d+\.\d+\.\d+\S*", version_of(pulumi, os.environ))
    return match[0] if match else None


def module_key() -> str:
    """Return the hash of all that decides the built program except the compiler."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update(repr((FLAGS, sorted(BUILD_ENVIRONMENT.items()))).encode())
    return digest.hexdigest()[:KEY_DIGITS]


def _installed(cache: Path) -> Path:
    return cache / "engine" / f"installed-{VERSION}"


def _run_installer(cache: Path) -> Engine | None:
    """Let the SDK download the CLI, under a deadline; without a way out it fails quietly."""
    root = _installed(cache)
    code = (
        "import sys; from semver import VersionInfo; from pulumi.automation import PulumiCommand;"
        "PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]))"
    )
    status, _output = run_shown(
        [sys.executable, "-c", code, str(root), VERSION],
        f"trying the SDK's own installer for pulumi {VERSION}",
        INSTALLER_TIMEOUT_S,
    )
    pulumi = root / "bin" / "pulumi"
    if status == 0 and cli_version(pulumi) == VERSION:
        return Engine(pulumi, "installer", VERSION)
    shutil.rmtree(root, ignore_errors=True)
    print("notice: the download server cannot be reached: the CLI is built from source", flush=True)
    return None


def _build(cache: Path) -> Engine:
    go = find_go(cache)
    version = go_version(go) or (0, 0)
    target = cache / "engine" / f"{module_key()}-go{version[0]}.{version[1]}" / "pulumi"
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(".pulumi.new")
    status, output = run_shown(
        [str(go), "build", "-v", *COMPILER_FLAGS, *FLAGS, "-o", str(draft), MAIN],
        f"building pulumi {VERSION} from its Go module (once; it is kept in {cache})",
        BUILD_TIMEOUT_S,
        directory=MODULE,
        environment={**os.environ, **BUILD_ENVIRONMENT, **COMPILER_ENVIRONMENT},
        lines=PACKAGES,
    )
    if status or cli_version(draft) != VERSION:
        raise RailyardError(
            f"no pulumi {VERSION} could be had: none on PATH, the SDK's installer cannot reach its"
            f" server, and the build from {MAIN} failed:\n{output[-2000:]}\n"
            f"Put pulumi {SERIES}.x on PATH, or give Go a module proxy (GOPROXY), and run the same"
            " command again; what Go has downloaded and compiled is kept."
        )
    draft.replace(target)
    return Engine(target, "built", VERSION)


def main() -> int:
    """Print the notice, and the path of the CLI on the last line."""
    try:
        engine = ensure_engine()
    except RailyardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(engine.notice())
    print(engine.pulumi)
    return 0


if __name__ == "__main__":
    sys.exit(main())

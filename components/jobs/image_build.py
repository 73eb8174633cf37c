"""Build the image of the jobs with the user's builder, and explain its failures.

Pure except `BuildRoom`, which runs a builder and passes on its output.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.core.record import record
from components.core.templates import read_table
from components.model.jobs import registry_of
from components.model.units import is_floating

Builder = Literal["docker", "podman", "buildah", "nerdctl"]
BUILDERS: Final[tuple[Builder, ...]] = ("docker", "podman", "buildah", "nerdctl")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_KEPT_LINES: Final = 40
"""Lines at the end of a builder's output that are searched for the reason of a failure."""
_REASONS: Final[Sequence[Mapping[str, str]]] = read_table(__file__, "build_failures")


def choose_builder(wanted: str | None, path: str | None = None) -> Builder:
    """The named builder, or the first one on the path (None: PATH); UsageError if none is there."""
    names: list[Builder] = [each for each in BUILDERS if wanted is None or wanted == each]
    found: Builder | None = next((each for each in names if shutil.which(each, path=path)), None)
    if found is None:
        missing = wanted or ", ".join(BUILDERS)
        raise UsageError(
            f"image: no builder: {missing} {'is' if wanted else 'are'} not on PATH.\n"
            "  fix    install docker, podman, buildah or nerdctl, or build"
            f" components/jobs/images/probe on another machine: {wanted or 'docker'} build "
            "--build-arg BASE=<name>@sha256:<digest> -t <registry>/<name>:<tag> <that folder>"
        )
    return found


@contextmanager
def context_folder() -> Generator[Path]:
    """Give the folder of the recipe, also if the package is zipped."""
    with resources.as_file(resources.files("components.jobs").joinpath("images", "probe")) as here:
        yield here


def check_name(name: str, what: str) -> str:
    """Check that a name has a fixed tag; UsageError if its tag is missing or `latest`."""
    if is_floating(name):
        raise UsageError(
            f"image: {what} {name} is not pinned: another image may have its name tomorrow.\n"
            f"  fix    write a tag other than latest{', or a digest' if what == '--base' else ''}."
        )
    return name


@record
class BuildRoom:
    """Runs a builder and passes on its output."""

    builder: Builder
    tell: Callable[[str], None]

    def pin(self, base: str) -> str:
        """Pin the base by its digest; pull it to learn the digest if the name lacks one.

        Raises: UsageError: the base floats. DeviceError: the builder has no digest of it.
        """
        if "@sha256:" in check_name(base, "--base"):
            return base
        self._call(["pull", base], f"get {base}", base)
        form = "{{.FromImageDigest}}" if self.builder == "buildah" else "{{json .RepoDigests}}"
        look = ["inspect", "--type", "image"] if self.builder == "buildah" else ["image", "inspect"]
        shown = self._call([*look, "--format", form, base], f"look at {base}", base, quiet=True)
        digest = _DIGEST.search(shown)
        if digest is None:
            raise DeviceError(
                f"image: {self.builder} shows no digest of {base}: {shown.strip() or 'nothing'}\n"
                "  fix    give the base by its digest: --base <name>@sha256:<digest>"
            )
        head, slash, last = base.rpartition("/")
        pinned = f"{head}{slash}{last.partition(':')[0]}@{digest[0]}"
        self.tell(f"railyard: the base {base} is {pinned}")
        return pinned

    def build(self, tag: str, base: str) -> None:
        """Build the image under that tag, on a pinned base."""
        with context_folder() as folder:
            words = ["build", "--build-arg", f"BASE={base}", "-t", tag, str(folder)]
            self._call(words, f"build {tag}", base)

    def push(self, tag: str) -> None:
        """Push it."""
        self._call(["push", tag], f"push {tag}", tag)

    def _call(self, words: Sequence[str], aim: str, image: str, *, quiet: bool = False) -> str:
        """Run the builder, and pass on each line as it comes; DeviceError if it fails."""
        lines: list[str] = []
        with subprocess.Popen(
            [self.builder, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                del lines[:-_KEPT_LINES]
                if not quiet:
                    self.tell(line.rstrip())
        if process.returncode != 0:
            raise explain(self.builder, aim, image, lines)
        return "\n".join(lines)


def explain(builder: Builder, aim: str, image: str, lines: Sequence[str]) -> DeviceError:
    """Explain from its last output why a builder failed at an `aim` such as `push <tag>`."""
    registry = registry_of(image)
    words = {"registry": registry, "login": f"{builder} login {registry}"}
    # Errors of the recipe's steps about other hosts are not the registry's.
    for reason in _REASONS[: 1 if aim.startswith("build ") else None]:
        found = re.compile(reason["lines"], re.IGNORECASE).search
        if (said := next(filter(found, reversed(lines)), None)) is not None:
            error = UnreachableError if reason["side"] == "unreachable" else DeviceError
            return error(
                f"image: {builder} could not {aim}: {reason['means'].format_map(words)}.\n"
                f"  said   {said}\n  fix    {reason['fix'].format_map(words)}"
            )
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
    return DeviceError(
        f"image: {builder} could not {aim}.\n  said   {last}\n  fix    read its output above"
    )

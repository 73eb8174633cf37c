"""`docker build`: what of a Dockerfile the lab checks. Steps of `RUN` are listed, not run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from components.core.record import record
from lab.hosts.docker_state import Image, digest_of
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import Options, pairs, split_options

VALUED: Final = ("-t", "--tag", "-f", "--file", "--build-arg", "--label", "--network", "--target",
                 "--progress", "--platform")  # fmt: skip
FLAGS: Final = ("--pull", "-q", "--quiet", "--no-cache", "--rm", "--force-rm")
INSTRUCTIONS: Final = frozenset({
    "FROM", "ARG", "ENV", "RUN", "COPY", "ADD", "WORKDIR", "LABEL", "USER", "EXPOSE", "CMD",
    "ENTRYPOINT", "SHELL", "VOLUME", "HEALTHCHECK", "STOPSIGNAL", "ONBUILD",
})  # fmt: skip
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)")


@record
class Build:
    """A build that would go through."""

    image: Image
    tags: tuple[str, ...]
    bases: tuple[str, ...]
    pull: bool
    log: str


def read_build(call: ToolCall, inner_path: Callable[[str], Path]) -> Build | ToolResult:
    """Read command line, Dockerfile and context; a ToolResult is the client's refusal."""
    options = split_options(call.argv, VALUED, FLAGS, mixed=True)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
    if len(options.words) != 1:
        return ToolResult(1, err='"docker build" requires exactly 1 argument.\n')
    context = _absolute(call.cwd, options.words[0])
    file = _absolute(call.cwd, options.last("-f", "--file", default=f"{context}/Dockerfile"))
    path = inner_path(file)
    if not path.exists():
        name = file.rpartition("/")[2]
        text = f"ERROR: failed to read dockerfile: open {name}: no such file or directory\n"
        return ToolResult(1, err=text)
    return _check(options, path.read_text(), inner_path(context))


def _absolute(cwd: str, path: str) -> str:
    return path if path.startswith("/") else f"{cwd}/{path}"


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments; continued lines are joined."""
    found: list[tuple[str, str]] = []
    pending = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#") or (not stripped and not pending):
            continue
        pending += stripped.removesuffix("\\").strip() + " "
        if stripped.endswith("\\"):
            continue
        word, _, rest = pending.strip().partition(" ")
        found.append((word.upper(), rest.strip()))
        pending = ""
    return found


class _Reader:
    """Goes over the instructions, keeps what they set, and names the first that fails."""

    def __init__(self, arguments: dict[str, str], context: Path) -> None:
        """Read with these build arguments in this context."""
        self._arguments = arguments
        self._context = context
        self._stages: set[str] = set()
        self._known: dict[str, str] = {}
        self.env: dict[str, str] = {}
        self.bases: list[str] = []

    def read(self, word: str, rest: str) -> str | None:
        """Take one instruction; the text is BuildKit's refusal."""
        if word not in INSTRUCTIONS:
            return f"dockerfile parse error: unknown instruction: {word}"
        if not self.bases and word not in ("FROM", "ARG"):
            return "no build stage in current context"
        name, _, value = rest.partition("=")
        match word:
            case "ARG":
                self._known[name] = self._arguments.get(name, value.strip('"'))
            case "FROM":
                self._start_stage(expand(rest, self._known).split(" "))
            case "ENV":
                self.env[name] = expand(value.strip('"'), self._known)
            case "COPY" | "ADD":
                missing = _missing(rest, self._context)
                return missing and f'failed to compute cache key: "/{missing}": not found'
            case _:
                pass
        return None

    def _start_stage(self, words: list[str]) -> None:
        if words[0] not in self._stages:
            self.bases.append(words[0])
        self._stages.update(words[1:])


def _check(options: Options, text: str, context: Path) -> Build | ToolResult:
    values = pairs(options.all("--build-arg"))
    labels = pairs(options.all("--label"))
    reader = _Reader(values, context)
    steps = instructions(text)
    for word, rest in steps:
        refusal = reader.read(word, rest)
        if refusal:
            return ToolResult(1, f"{word} {rest}\n", f"ERROR: {refusal}\n")
    if not reader.bases:
        return ToolResult(1, err="ERROR: file with no instructions\n")
    content = "\0".join(f"{word} {rest}" for word, rest in steps)
    parts = (content, *(f"{k}={v}" for k, v in sorted({**values, **labels}.items())))
    image = Image(digest_of(*parts), env=reader.env, labels=labels)
    total = len(steps)
    log = "".join(f"#{n} [{n}/{total}] {w} {r}"[:200] + "\n" for n, (w, r) in enumerate(steps, 1))
    tags = options.all("-t", "--tag")
    return Build(image, tags, tuple(reader.bases), options.has("--pull"), log)


def expand(text: str, values: dict[str, str]) -> str:
    """Fill `$NAME`, `${NAME}` and `${NAME:-default}` from the ARGs so far."""
    return _VARIABLE.sub(lambda m: values.get(m[1] or m[3], "") or m[2] or "", text)


def _missing(rest: str, context: Path) -> str | None:
    """The first source of a COPY that is not in the context."""
    words = [word for word in rest.split() if not word.startswith("--")]
    if "--from=" in rest or rest.startswith("[") or "://" in rest:
        return None
    for word in words[:-1]:
        if not any(context.glob(word.lstrip("/"))) and word not in (".", "./"):
            return word
    return None

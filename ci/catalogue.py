"""`make catalogue`: propose an update of the catalogue from the lists of its makers.

It asks each source of `ci/catalogue_sources.py`, prints what is behind with its file and line, and
then the change as a diff, which `git apply` takes. It changes nothing itself: a release comes in
with its definitions, its Kubernetes and its status, and a person reads those.

Exit codes: 0 nothing is behind; 1 something is; 2 a release is not where the data says; 4 a source
gave no answer, and of the others none is behind.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, cast

import yaml

from ci.catalogue_sources import LISTED, OPERATORS, RELEASE, Listed
from components.artefacts.web import Access, FetchError, fetch
from components.core.limits import run_within
from components.core.plain_text import one_line

ROOT: Final = Path(__file__).parents[1]
GIT_S: Final = 120.0
"""K3s has more than 2,000 tags; GitHub lists them in seconds."""
TAGS_BYTES: Final = 16 << 20
AT_ONCE: Final = 6
"""Sources that are asked at a time: most are of one server."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml: NVIDIA's index is megabytes of YAML."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_Index = Mapping[str, Mapping[str, list[Mapping[str, object]]]]
_DATE: Final = re.compile(r"^AS_OF: Final = date\((?P<release>\d+, \d+, \d+)\)", re.MULTILINE)


class SourceError(Exception):
    """A source gave no list of releases."""


@dataclass(frozen=True, slots=True)
class Behind:
    """One release that has a newer one."""

    listed: Listed
    line: int
    """Its line in the file, from 1 on."""
    ours: str
    newest: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source says."""

    newest: str = ""
    commit: str = ""
    """Of a tag; empty for a chart."""
    why: str = ""
    """Why there is none; empty if there is one."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What was found."""

    behind: tuple[Behind, ...]
    silent: Mapping[str, str]
    """Name of a release to why its source gave no answer."""
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """File to its text as it is, and as it would be."""

    @property
    def exit_code(self) -> int:
        """As the module's docstring says."""
        return 1 if self.behind else 4 if self.silent else 0


def numbers_of(release: str) -> tuple[int, ...]:
    """The numbers of a release, to compare: `v1.36.5+k3s1` is (1, 36, 5, 1)."""
    return tuple(int(each) for each in re.findall(r"\d+", release.replace("k3s", "")))


def newest_of(releases: Iterable[str], ours: str) -> str:
    """Find the newest release that is written as ours is; drafts do not count.

    Raises:
        SourceError: None has that form.
    """
    form = "+k3s" in ours
    found = [each for each in releases if re.fullmatch(RELEASE, each) and ("+k3s" in each) == form]
    if not found:
        raise SourceError(f"it lists no release like {ours}")
    newest = max(found, key=numbers_of).removeprefix("v")
    return f"v{newest}" if ours.startswith("v") else newest


def list_releases(listed: Listed) -> dict[str, str]:
    """Release to commit, or to nothing for a chart.

    Raises:
        SourceError: The source gave no list.
    """
    return _charts(listed) if listed.chart else _tags(listed.address)


def _charts(listed: Listed) -> dict[str, str]:
    try:
        plain = listed.address.startswith("http://")
        text = fetch(f"{listed.address}/index.yaml", Access(insecure=plain))
        index = cast("_Index", yaml.load(text, _LOADER))  # noqa: S506 - a safe loader
        return {str(each["version"]): "" for each in index["entries"][listed.chart]}
    except FetchError as error:
        raise SourceError(str(error).partition("\n")[0]) from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise SourceError(f"it is no index with a chart {listed.chart}") from error


def _tags(address: str) -> dict[str, str]:
    asks = (
        "env",
        "GIT_TERMINAL_PROMPT=0",
        "git",
        "-c",
        "credential.helper=",
        "ls-remote",
        "--tags",
    )
    try:
        status, out, err = run_within((*asks, "--", address), GIT_S, TAGS_BYTES)
    except OSError as error:
        raise SourceError(str(error)) from error
    if status:
        said = err.decode(errors="replace").strip().splitlines()
        raise SourceError(said[-1] if said else f"git ended with {status}")
    found: dict[str, str] = {}
    for row in out.decode(errors="replace").splitlines():
        commit, _, ref = row.partition("\t")
        if not _COMMIT.fullmatch(commit):
            continue
        # `^{}` comes after its tag, and names the commit of an annotated one.
        found[ref.removeprefix("refs/tags/").removesuffix("^{}")] = commit
    return found


def ask(listed: Listed, ours: str) -> Answer:
    """Ask a source for the newest release of the form of ours."""
    try:
        releases = list_releases(listed)
        newest = newest_of(releases, ours)
    except SourceError as error:
        return Answer(why=one_line(str(error)))
    return Answer(newest, releases.get(newest) or releases.get(newest.removeprefix("v"), ""))


def propose(sources: Sequence[Listed], root: Path, today: date) -> Proposal:
    """Ask all sources, and work out the change.

    Args:
        sources: What to ask for.
        root: The tree with the catalogue.
        today: The catalogue's date, if all sources answered.

    Raises:
        LookupError: A release is not where its row says.
    """
    files = {OPERATORS, *(each.file for each in sources)}
    texts = {file: (root / file).read_text("utf-8") for file in files}
    places = [_place(each, texts[each.file]) for each in sources]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(ask, sources, [place["release"] for place in places]))
    behind: list[Behind] = []
    edits: dict[str, list[tuple[int, int, str]]] = {}
    for listed, place, answer in zip(sources, places, answers, strict=True):
        if numbers_of(answer.newest) > numbers_of(place["release"]):
            line = place.string.count("\n", 0, place.start("release")) + 1
            behind.append(Behind(listed, line, place["release"], answer.newest))
            edits.setdefault(listed.file, []).append((*place.span("release"), answer.newest))
            if listed.built:
                edits[listed.file].append((*place.span("commit"), answer.commit))
    silent = {s.name: a.why for s, a in zip(sources, answers, strict=True) if a.why}
    if not silent:
        edits.setdefault(OPERATORS, []).append(_dated(texts[OPERATORS], today))
    changes = {file: (texts[file], _edited(texts[file], each)) for file, each in edits.items()}
    return Proposal(tuple(behind), silent, changes)


def _dated(text: str, today: date) -> tuple[int, int, str]:
    found = _DATE.search(text)
    if found is None:
        raise LookupError(f"{OPERATORS} has no line `AS_OF: Final = date(…)`")
    return (*found.span("release"), f"{today.year}, {today.month}, {today.day}")


def _place(listed: Listed, text: str) -> re.Match[str]:
    found = re.search(listed.pattern, text, re.MULTILINE)
    if found is None:
        raise LookupError(
            f"{listed.file} has no release of {listed.name}: correct its row in "
            "ci/catalogue_sources.py"
        )
    return found


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for begin, end, words in sorted(edits, reverse=True):
        text = text[:begin] + words + text[end:]
    return text


def render(proposal: Proposal) -> str:
    """What is behind, each with its place, and the diff."""
    lines = [
        f"{each.listed.file}:{each.line}: {each.listed.name} {each.ours} -> {each.newest}"
        f" ({' '.join(filter(None, (each.listed.address, each.listed.chart)))})"
        for each in proposal.behind
    ]
    diffs = [
        line
        for file, (before, after) in sorted(proposal.changes.items())
        for line in difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{file}",
            f"b/{file}",
        )
    ]
    return "".join([*(f"{line}\n" for line in lines), "\n" if lines and diffs else "", *diffs])


def main(sources: Sequence[Listed] = LISTED, root: Path = ROOT) -> int:
    """Print the proposal; returns the exit code."""
    try:
        found = propose(sources, root, datetime.now(UTC).date())
    except LookupError as error:
        sys.stderr.write(f"{error.args[0]}\n")
        return 2
    sys.stdout.write(render(found))
    for name, why in found.silent.items():
        sys.stderr.write(f"no answer for {name}: {why}\n")
    sys.stderr.write(
        f"{len(found.behind)} behind, of {len(sources) - len(found.silent)} whose source answered "
        f"({len(found.silent)} did not). Before you take one: CONTRIBUTING.md.\n"
    )
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())

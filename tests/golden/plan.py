"""A rendered plan as a golden file holds it: the decisions, each of them once.

Four things are shorter than `railyard plan` prints them, and none of them hides a value:

- a script is the name of its file, which is its golden, and the lines that are in no file;
- a digest of such texts is left out, so that a golden changes with a decision only;
- a section of a kind that came before (`gpu02-host` after `gpu01-host`) is its difference from the
  first of that kind, with the words of its own heading in place of the first one's;
- an object of the cluster is its difference from the same one of another example.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from components.plan.make import ClusterPlan
from components.plan.text import render_plan

_ROOT: Final = Path(__file__).parents[2]
_WORD: Final = re.compile(r"[\w.-]*\w")
_DIGEST: Final = re.compile(r'(\bdigest |\btool \w+ |/tools/|\.files"?[=:] ?"?)[0-9a-f]{12,64}\b')
_POD_SCRIPT: Final = re.compile(
    r'^(?P<indent> *)- (?P<text>"(?:[^"\\]|\\.)*")$', re.MULTILINE | re.DOTALL
)
_HOLES: Final = 1
"""Lines of a file that the plan may write otherwise: the call that a pod's script makes."""


class Section(NamedTuple):
    """A device, a step or an object of a plan, from one heading to the next."""

    heading: str
    body: str


def golden_plan(plan: ClusterPlan, known: Mapping[str, Section] | None = None) -> str:
    """The decisions of a plan; `known` are sections of another golden, from `objects_of`."""
    head, sections = _parsed(_plain(plan))
    parts = [head]
    parts += ["\n".join(filter(None, part)) for part in _compared(sections, known or {})]
    return "\n\n## ".join(parts) + "\n"


def objects_of(name: str, plan: ClusterPlan) -> dict[str, Section]:
    """The objects of the cluster in a plan by their headings; `name` is what refers to them."""
    objects = [section for section in _parsed(_plain(plan))[1] if "(group " in section.heading]
    return {each.heading: Section(f"in {name}", each.body) for each in objects}


def _plain(plan: ClusterPlan) -> str:
    text = render_plan(plan)
    texts = {call for step in plan.steps for call in (step.apply, step.undo)}
    text = without_scripts(text, (each for each in texts if isinstance(each, str)))
    return _DIGEST.sub(r"\1…", _POD_SCRIPT.sub(_named_in_pod, text))


def without_scripts(text: str, scripts: Iterable[str]) -> str:
    """The text with the names of scripts in place of them."""
    for script in sorted(scripts, key=len, reverse=True):
        text = text.replace(f":\n{script.rstrip(chr(10))}\n", f": {named(script)}\n")
    return text


def _named_in_pod(found: re.Match[str]) -> str:
    script = str(yaml.safe_load(found["text"]))
    return f"{found['indent']}- {named(script)}" if "\n" in script else found[0]


@cache
def named(script: str) -> str:
    """A script by the file that it ends with, and the lines that are in no file of the product."""
    lines = _code(script)
    last = {line: number for number, line in enumerate(lines)}
    ends = [
        (last.get(code[-1], -1), len(code), name)
        for name, code in _files().items()
        if len([line for line in code if line not in last]) <= _HOLES < len(code)
    ]
    files = {line for code in _files().values() for line in code}
    own = [line for line in lines if line not in files]
    return "; ".join([*([max(ends)[2]] if ends else ()), *own])


@cache
def _files() -> Mapping[str, list[str]]:
    folder = _ROOT / "components"
    files = sorted([*folder.rglob("*.sh"), *folder.rglob("*.service")])
    return {str(path.relative_to(_ROOT)): _code(path.read_text("utf-8")) for path in files}


def _code(text: str) -> list[str]:
    """The lines that are run; quotes as they are where the text is no value of another one."""
    lines = (line.strip() for line in text.replace("'\"'\"'", "'").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _parsed(text: str) -> tuple[str, list[Section]]:
    head, *sections = text.split("\n## ")
    parted = (section.partition("\n") for section in sections)
    return head.rstrip("\n"), [Section(heading, body.rstrip("\n")) for heading, _, body in parted]


def _compared(
    sections: Iterable[Section], known: Mapping[str, Section]
) -> Iterator[tuple[str, str]]:
    first: dict[str, Section] = {}
    for section in sections:
        kind = re.sub(r"\d+", "0", section.heading)
        if kind in first:
            title = " ".join(first[kind].heading.split()[:2])
            yield section.heading, difference(title, _renamed(first[kind], section), section)
        elif section.heading in known:
            title, body = known[section.heading]
            yield section.heading, difference(title, body, section)
        else:
            yield section
        first.setdefault(kind, section)


def _renamed(first: Section, other: Section) -> str:
    """The body of the first section, with the words of the other one's heading."""
    pairs = zip(_WORD.findall(first.heading), _WORD.findall(other.heading), strict=True)
    names = {old: new for old, new in pairs if old != new}
    return _WORD.sub(lambda word: names.get(word[0], word[0]), first.body)


def difference(title: str, expected: str, section: Section) -> str:
    """What a section has other than another one; the whole section where that is not shorter."""
    lines = section.body.split("\n")
    changes = [*_changes(expected.split("\n"), lines)]
    if not changes:
        return f"# as {title}"
    short = [f"# as {title}, but for", *changes]
    return "\n".join(short) if len(short) < len(lines) else section.body


def _changes(old: list[str], new: list[str]) -> Iterator[str]:
    """The lines that go and come; the same change below several keys is shown once."""
    keys: dict[tuple[str, ...], list[str]] = {}
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            gone = (f"-{line}" for line in old[start:end])
            come = (f"+{line}" for line in new[new_start:new_end])
            place = _above(old, start) if kind != "insert" else _above(new, new_start)
            keys.setdefault((*gone, *come), []).append(place)
    for lines, above in keys.items():
        yield from [f"@@ {' '.join(above)}"] if any(above) else []
        yield from lines


def _above(lines: list[str], at: int) -> str:
    """The line that a line belongs to: the nearest one before it that is indented less."""
    indent = _indent(lines[at])
    return next((line.strip() for line in reversed(lines[:at]) if _indent(line) < indent), "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

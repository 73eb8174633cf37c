"""Vendors' guides held line by line against our plans, and the page that shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from components.core.record import record
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.systems.ranges import collapse_vlans
from components.model.cluster import ClusterSpec
from components.model.units import Frozen
from components.plan.make import make_plan
from components.reading.load import load_site
from tests.docs.markdown import ROOT
from tests.docs.plan_lines import lines_of

FOLDER: Final = Path(__file__).parent / "guides"
PAGE: Final = ROOT / "docs" / "reference" / "fabrics.md"
_SESSIONS: Final = FOLDER / "sessions.yaml"
_ROWS = re.compile(r"sudo sonic-cfggen -j [^']*'(?P<tables>\{.*\})'", re.DOTALL)
_HEAD: Final = """\
# Reference designs

Public guides of vendors and clouds, compared line by line with the plans of small sites that use
the guides' numbers. *Same*: the plan has that line. *Other words*: another line has the same
effect. *Not set*: the plan has no such line, and the lists below say why. `tests/docs/guides` has
every line; a test fails if a line has neither a match nor a reason. Nothing here was tried on real
hardware. *Ran in the lab*: with real FRR from `up` to `destroy`, with a lost spine and acceptance
across the spines.

Lines without a text of their own are written as `host KEY=VALUE`, `helm CHART KEY=VALUE`,
`env NAME=VALUE` or `TABLE|KEY field=value` (SONiC).

## The seven designs

"""

Design = Literal["a", "b", "c", "d", "e", "e2", "f"]
DESIGNS: Final[dict[Design, str]] = {
    "a": "DGX BasePOD with DGX H100 and QM9700, InfiniBand",
    "b": "HGX H100 on RoCE, leaves and spines of Spectrum, Cumulus, BGP",
    "c": "Leaves of Arista, as under Dell XE9680, by AMD's guide: the switches alone",
    "d": "Dell Z9664F, SONiC: the switches alone",
    "e": "Azure AKS, ND H100 v5, InfiniBand",
    "e2": "Oracle OKE, BM.GPU.H100.8, RoCE",
    "f": "kubespray and shared RDMA, without GPUs",
}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _line(value: object) -> object:
    return {"guide": value} if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""Lines; the file may have one without a list."""


class Line(Frozen):
    """One line of a guide, or some that have one answer."""

    guide: Texts
    ours: Texts = ()
    """Lines of the plan that do it in other words."""
    unset: Texts = ()
    """Words of these lines, in any case, that no line of the plan has."""
    why: str | None = None
    """Why ours is not the same; None where it is."""


class More(Frozen):
    """Lines of ours that the guide has not; `*` stands for anything."""

    ours: Texts
    why: str


class Guide(Frozen):
    """A guide for one switch, or for hosts and the cluster, and the site that follows it."""

    title: str
    document: str
    section: str
    address: str = ""
    """Of the page, or of the repository that holds `file`; empty if it was not recorded."""
    file: str = ""
    version: str
    """The release or the commit that was read."""
    read: date
    design: Design | None = None
    """The design of which it is a part."""
    site: str
    switch: str | None = None
    """The switch of the site that it is about, or None."""
    about: Texts = ()
    """Else the lines of hosts, cluster and jobs that it is about: those of ours need a match or a
    reason. `*` stands for anything."""
    differs: str
    """What the site has otherwise than the guide."""
    alike: dict[str, str] = Field(default_factory=dict[str, str])
    """Port, card or rail to one that has the same lines; `*` stands for letters and digits."""
    rest: tuple[str, ...] = ()
    """Guides of the same switch that account for its other lines."""
    played: bool = False
    """The whole site is a story of `tests/site/test_spine_leaf.py`."""
    lines: tuple[Annotated[Line, BeforeValidator(_line)], ...]
    more: tuple[More, ...] = ()

    @model_validator(mode="after")
    def _about_one_thing(self) -> Guide:
        if (self.switch is None) == (not self.about):
            raise ValueError(f"{self.title}: a guide has either `switch` or `about`")
        return self


@record
class Ours:
    """What the plan has."""

    commands: tuple[str, ...]
    """Lines that need a match in the guide, or a reason."""
    wanted: tuple[str, ...] = ()
    """Others that a line of the guide may be held against."""

    @property
    def every(self) -> tuple[str, ...]:
        return (*self.commands, *self.wanted)


@cache
def load_guides() -> dict[str, Guide]:
    """Read all guides, by the name of their file."""
    files = sorted(FOLDER.glob("*.guide.yaml"))
    return {
        path.name.removesuffix(".guide.yaml"): Guide.model_validate(
            yaml.safe_load(path.read_text("utf-8"))
        )
        for path in files
    }


@cache
def load_sessions() -> dict[str, tuple[More, ...]]:
    """Read what each system has around every change."""
    kind = TypeAdapter(dict[str, tuple[More, ...]])
    return kind.validate_python(yaml.safe_load(_SESSIONS.read_text("utf-8")))


def plan_of(guide: Guide) -> SwitchPlan:
    """The plan of the guide's switch."""
    return next(plan for plan in _plans_of(guide.site) if plan.name == guide.switch)


@cache
def spec_of(site: str) -> ClusterSpec:
    """The site of a guide."""
    spec = load_site(ROOT / site).spec
    assert spec is not None, site
    return spec


@cache
def _plans_of(site: str) -> tuple[SwitchPlan, ...]:
    return plan_fabric(spec_of(site))


@cache
def _cluster_lines(site: str) -> tuple[str, ...]:
    return lines_of(make_plan(spec_of(site), "site"))


def ours_of(guide: Guide) -> Ours:
    """What the plan has for the guide's switch, hosts or cluster; equal ports and cards once."""
    if guide.switch is None:
        lines = dict.fromkeys(_as_first(each, guide.alike) for each in _cluster_lines(guide.site))
        own = [line for line in lines if any(fnmatchcase(line, each) for each in guide.about)]
        return Ours(tuple(own), tuple(line for line in lines if line not in own))
    plan = plan_of(guide)
    lines = (row for line in plan.commands_from_factory for row in _rows(line))
    wanted = (f"{where} {key}={value}" for (where, key), value in plan.desired.settings().items())
    return Ours(
        commands=tuple(dict.fromkeys(_as_first(line, guide.alike) for line in lines)),
        wanted=tuple(wanted),
    )


def _as_first(line: str, alike: dict[str, str]) -> str:
    for name, first in alike.items():
        pattern = re.escape(name).replace(r"\*", r"\w+")
        line = re.sub(rf"(?<![\w/-]){pattern}(?![\w/-])", first, line)
    return line


def _rows(line: str) -> Iterator[str]:
    """A line as it is; one that writes tables of SONiC by its rows."""
    found = _ROWS.fullmatch(line)
    if found is None:
        yield line
        return
    tables: dict[str, dict[str, dict[str, str | list[str]]]] = json.loads(found["tables"])
    for table, keys in tables.items():
        for key, fields in keys.items():
            for text in _fields(fields):
                yield f"{table}|{key} {text}".rstrip()


def _fields(fields: dict[str, str | list[str]]) -> Iterator[str]:
    """Fields one by one; a map of numbers at once, neighbours with one value as a range."""
    texts = {n: held if isinstance(held, str) else ",".join(held) for n, held in fields.items()}
    if not all(name.isdigit() for name in texts):
        yield from (f"{name}={value}" for name, value in texts.items())
        return
    by_value: dict[str, list[int]] = {}
    for name, value in texts.items():
        by_value.setdefault(value, []).append(int(name))
    yield " ".join(f"{collapse_vlans(names)}={value}" for value, names in by_value.items())


def find_faults(lines: Iterable[Line], more: Iterable[More], ours: Ours) -> tuple[str, ...]:
    """What is not accounted for, and what no longer needs a reason; empty where all is well."""
    lines, more = tuple(lines), tuple(more)
    found = [fault for line in lines for fault in _line_faults(line, ours)]
    known = {text for line in lines for text in (*line.guide, *line.ours)}
    patterns = [text for each in more for text in each.ours]
    found += [
        f"`{text}` is ours alone, and has no reason"
        for text in ours.commands
        if text not in known and not any(fnmatchcase(text, each) for each in patterns)
    ]
    found += [
        f"`{text}` has a reason, and is not in our plan"
        for text in patterns
        if not any(fnmatchcase(each, text) for each in ours.every)
    ]
    return tuple(found)


def _line_faults(line: Line, ours: Ours) -> Iterator[str]:
    if line.why is None:
        yield from (f"`{text}` has no match" for text in line.guide if text not in ours.every)
        return
    if bool(line.ours) == bool(line.unset):
        yield f"`{line.guide[0]}` needs either lines of ours or words that we do not set"
    for text in line.guide:
        if text in ours.every:
            yield f"`{text}` is in our plan, and needs no reason"
        elif line.unset and not any(_has(text, word) for word in line.unset):
            yield f"`{text}` has no word of those that we do not set"
    yield from (f"`{text}` is not in our plan" for text in line.ours if text not in ours.every)
    yield from (
        f"`{word}` is said not to be set, and our plan has `{text}`"
        for word in line.unset
        for text in ours.every
        if _has(text, word)
    )


def _has(text: str, word: str) -> bool:
    return word.lower() in text.lower()


def faults_of(name: str) -> tuple[str, ...]:
    """The faults of one guide, with what the other guides of its switch account for."""
    guides = load_guides()
    guide, beside = guides[name], [guides[other] for other in guides[name].rest]
    ours = ours_of(guide)
    sessions = load_sessions()[plan_of(guide).os] if guide.switch else ()
    more = (*guide.more, *sessions)
    elsewhere = tuple(
        text
        for other in beside
        for text in (
            *(text for line in other.lines for text in (line.ours or line.guide)),
            *(text for each in other.more for text in each.ours),
        )
    )
    left = [text for text in ours.commands if text not in elsewhere]
    needed = {text for line in guide.lines for text in (*line.guide, *line.ours)}
    kept = [text for text in ours.commands if text in left or text in needed]
    return find_faults(guide.lines, more, Ours(commands=tuple(kept), wanted=ours.wanted))


def counts_of(guide: Guide) -> tuple[int, int, int]:
    """Lines of the guide that are the same, in other words, and not set."""
    same = sum(len(line.guide) for line in guide.lines if line.why is None)
    unset = sum(len(line.guide) for line in guide.lines if line.unset)
    return same, sum(len(line.guide) for line in guide.lines) - same - unset, unset


def render_page() -> str:
    """Write the page."""
    guides = load_guides()
    parts = [_HEAD, _summary(guides.values())]
    parts += [_section(guide) for guide in guides.values()]
    return "".join(parts)


def _summary(guides: Iterable[Guide]) -> str:
    guides = tuple(guides)
    designs = "".join(_row(name, words, guides) for name, words in DESIGNS.items())
    others = (guide for guide in guides if guide.design not in DESIGNS)
    rows = "".join(f"| {_link(guide)} | {_numbers([guide])} |\n" for guide in others)
    counted = "Lines | Same | Other words | Not set |\n"
    return (
        f"| Design | Cluster | Guides | {counted}|---|---|---|---|---|---|---|\n{designs}"
        f"\n## Other guides\n\n| Guide | {counted}|---|---|---|---|---|\n{rows}"
    )


def _row(name: Design, words: str, guides: Iterable[Guide]) -> str:
    own = [guide for guide in guides if guide.design == name]
    return f"| {name} | {words} | {'<br>'.join(map(_link, own))} | {_numbers(own)} |\n"


def _link(guide: Guide) -> str:
    return f"[{guide.title}](#{_slug(guide.title)})"


def _numbers(guides: Iterable[Guide]) -> str:
    sums = [sum(each) for each in zip(*map(counts_of, guides), strict=True)]
    return " | ".join(str(each) for each in (sum(sums), *sums))


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _section(guide: Guide) -> str:
    unset = "".join(
        f"- {_code(line.guide)}: {line.why or ''}\n" for line in guide.lines if line.unset
    )
    switch = f", switch {guide.switch}" if guide.switch else ""
    played = " Ran in the lab." if guide.played else ""
    return (
        f"\n## {guide.title}\n\n"
        f"{_document(guide)}, {guide.section}; {guide.version}, read {guide.read}."
        f" Site: `{guide.site}`{switch}. {guide.differs}{played}\n"
        + (f"\nNot set:\n\n{unset}" if unset else "")
    )


def _document(guide: Guide) -> str:
    if not guide.address:
        return f"{guide.document} (address not recorded)"
    file = f", `{guide.file}`" if guide.file else ""
    return f"[{guide.document}]({guide.address}){file}"


def _code(texts: Iterable[str]) -> str:
    return ",<br>".join(f"`{text}`" for text in texts)

"""Templates and ranges of hosts in the file, to one entry for each host: pure.

`{name: "gpu[01-16]", template: gpu, ssh: {address: "10.0.0.[11-26]"}}` is sixteen hosts. An entry
wins over its template, and what `each` has for a host wins over both. Mappings are joined key by
key, and cards by their rail. In the entry of a range, all brackets count together with the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from components.core.problem import Finding, Json, Lines, Place, Severity, SpecPath, Spot
from components.model.texts import count_up, in_words
from components.reading.wording import did_you_mean, show_value, wrong_type
from components.reading.yaml_text import YamlText

RANGE_RULE: Final = "host-range"
TEMPLATE_RULE: Final = "host-template"
MOST_HOSTS: Final = 4096
"""Limit for the hosts of a file with ranges: four times the largest site whose plan is measured."""
_TEMPLATES: Final = "host_templates"
_NAMED: Final[Mapping[str, str]] = {"nics": "rail", "hca_sriov": "pci"}
"""Lists that are joined entry by entry, to the key that names an entry."""
_SHORT: Final = frozenset({"template", "each"})
"""Keys of a host in the file that the model's hosts lack."""
_RUN: Final = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
RANGE: Final = rf"\[({_RUN}(?:,{_RUN})*)\]"
_RANGE: Final = re.compile(RANGE)
_SLIP: Final = re.compile(r"\[([0-9]+)(?::|\.\.)([0-9]+)\]")
"""A range as Ansible (`[01:16]`) and shells (`[01..16]`) write it."""


class _Read(NamedTuple):
    value: Json
    spot: Spot


_NOTHING: Final = _Read({}, Spot(0))


def expand_hosts(text: YamlText) -> YamlText:
    """Write each host by itself, on the lines of its entry and its templates.

    Returns:
        The same text if it has neither a template nor a range of hosts. Entries that cannot be
        read are left out, each with its problem.
    """
    value = text.value
    hosts = value.get("hosts") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not (_TEMPLATES in value or _is_short(hosts)):
        return text
    root = text.lines.root or Spot(0)
    expansion = _Expansion(text.lines.file)
    expansion.read_templates(_placed(value.get(_TEMPLATES, {}), root, (_TEMPLATES,)))
    whole = {key: item for key, item in value.items() if key != _TEMPLATES}
    spot = root.find("hosts") or root
    if isinstance(hosts, list):
        for number, host in enumerate(hosts):
            expansion.add(_placed(host, spot, ("hosts", number)))
        whole["hosts"] = [each.value for each in expansion.hosts]
    expansion.warn_of_unused()
    lines = text.lines
    if lines.root and isinstance(lines.root.inner, Mapping) and isinstance(hosts, list):
        inner = Spot(spot.line, [each.spot for each in expansion.hosts])
        lines = Lines(lines.file, Spot(root.line, {**lines.root.inner, "hosts": inner}))
    return YamlText(whole, lines, (*text.problems, *expansion.problems))


def _is_short(hosts: Json) -> bool:
    rows = [each for each in hosts if isinstance(each, dict)] if isinstance(hosts, list) else []
    return any("[" in str(row.get("name")) or not _SHORT.isdisjoint(row) for row in rows)


def _placed(value: Json, above: Spot, path: SpecPath) -> _Read:
    """Give each spot below a value its path in the file."""
    spot = above.find(path[-1]) or Spot(above.line)
    inner: Mapping[str, Spot] | list[Spot] | None = None
    if isinstance(value, dict):
        inner = {key: _placed(item, spot, (*path, key)).spot for key, item in value.items()}
    elif isinstance(value, list):
        inner = [_placed(item, spot, (*path, n)).spot for n, item in enumerate(value)]
    return _Read(value, Spot(spot.line, inner, path))


def _inside(read: _Read, key: str | int) -> _Read:
    value, item = read.value, None
    if isinstance(value, dict):
        item = value.get(str(key))
    elif isinstance(value, list) and isinstance(key, int):
        item = value[key]
    return _Read(item, read.spot.find(key) or read.spot)


def _keys(read: _Read) -> dict[str, Json]:
    return read.value if isinstance(read.value, dict) else {}


def _join(below: _Read, own: _Read, key: str = "") -> _Read:
    """Join two values; the own one wins."""
    if isinstance(own.value, dict) and isinstance(below.value, dict):
        parts = {key: _inside(below, key) for key in below.value}
        for each in own.value:
            item = _inside(own, each)
            parts[each] = _join(parts[each], item, each) if each in parts else item
        value: Json = {name: part.value for name, part in parts.items()}
        inner = {name: part.spot for name, part in parts.items()}
        return _Read(value, Spot(own.spot.line, inner, own.spot.path))
    if isinstance(own.value, list) and isinstance(below.value, list) and key in _NAMED:
        return _join_lists(below, own, _NAMED[key])
    return own


def _join_lists(below: _Read, own: _Read, key: str) -> _Read:
    """Join two lists of mappings with a name; entries of other names are added."""

    def rows(read: _Read) -> list[_Read]:
        return [_inside(read, n) for n in range(len(read.value))]  # pyright: ignore[reportArgumentType] - both are lists

    def name_of(row: _Read) -> Json:
        return row.value.get(key) if isinstance(row.value, dict) else None

    joined = rows(below)
    names = [name_of(row) for row in joined]
    for row in rows(own):
        if name_of(row) is not None and name_of(row) in names:
            place = names.index(name_of(row))
            joined[place] = _join(joined[place], row)
        else:
            joined.append(row)
    spots = [row.spot for row in joined]
    return _Read([row.value for row in joined], Spot(own.spot.line, spots, own.spot.path))


def _texts(read: _Read) -> Iterator[_Read]:
    if isinstance(read.value, str) and "[" in read.value:
        yield read
    keys = read.value if isinstance(read.value, dict) else ()
    for key in range(len(read.value)) if isinstance(read.value, list) else keys:
        yield from _texts(_inside(read, key))


def _numbered(value: Json, place: int) -> Json:
    """Copy a value with the number of one host in each bracket."""
    if isinstance(value, dict):
        return {key: _numbered(item, place) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item, place) for item in value]
    if isinstance(value, str) and "[" in value:
        return _RANGE.sub(lambda found: next(islice(count_up(found[1]), place, None)), value)
    return value


def _runs(bracket: str) -> Iterator[tuple[str, str]]:
    for run in bracket.split(","):
        first, _, last = run.partition("-")
        yield first, last or first


def _count(bracket: str) -> int:
    return sum(int(last) - int(first) + 1 for first, last in _runs(bracket))


def _slip(text: str) -> tuple[str, str] | None:
    """Return the fault of the ranges in a text, and a better text; None if they are good."""
    if slip := _SLIP.search(text):
        better = f"{text[: slip.start()]}[{slip[1]}-{slip[2]}]{text[slip.end() :]}"
        return f"{text} is not a range", better
    for found in _RANGE.finditer(text):
        head, tail = text[: found.start()], text[found.end() :]
        for first, last in _runs(found[1]):
            if int(first) > int(last):
                return f"{text} runs backwards", f"{head}[{last}-{first}]{tail}"
            if len(first) != len(last) and "0" in {first[:-1][:1], last[0]}:
                width = max(len(first), len(last))
                better = f"{head}[{first.zfill(width)}-{last.zfill(width)}]{tail}"
                return f"the numbers of {text} differ in their width", better
    return None


@dataclass(slots=True)
class _Expansion:
    """The hosts so far, and their problems."""

    file: str | None
    templates: dict[str, _Read] = field(default_factory=dict[str, _Read])
    broken: set[str] = field(default_factory=set[str])
    """Templates that cannot be read, or whose own template cannot."""
    used: set[str] = field(default_factory=set[str])
    hosts: list[_Read] = field(default_factory=list[_Read])
    names: dict[str, _Read] = field(default_factory=dict[str, _Read])
    """Each name to the entry that has it."""
    problems: list[Finding] = field(default_factory=list[Finding])

    def refuse(
        self, rule: str, reads: tuple[_Read, ...], what: str, fix: str, severity: Severity = "error"
    ) -> None:
        places = (
            # With its line: a left-out host has none.
            Place(each.spot.path or (), show_value(each.value), self.file, each.spot.line or None)
            for each in reads
        )
        self.problems.append(Finding(what, tuple(places), fix, severity, rule))

    def _is_mapping(self, read: _Read) -> bool:
        """Whether a value is a mapping; another one is reported."""
        if not isinstance(read.value, dict):
            problem = wrong_type(read.spot.path or (), read.value, "a mapping of keys to values")
            self.refuse(TEMPLATE_RULE, (read,), problem.what, problem.fix)
        return isinstance(read.value, dict)

    def _keeps(self, read: _Read, owner: str, *others: str) -> None:
        """Report keys of a host that a part of a host cannot have."""
        for key in ("name", "each", *others):
            if key in _keys(read):
                what = f"{owner} cannot have `{key}`, which belongs to the entry of a host."
                self.refuse(TEMPLATE_RULE, (_inside(read, key),), what, f"remove `{key}`.")

    def read_templates(self, read: _Read) -> None:
        for name in _keys(read) if self._is_mapping(read) else ():
            self.templates[name] = _inside(read, name)
            self._keeps(self.templates[name], f"the template {name}")
            if not self._is_mapping(self.templates[name]):
                self.broken.add(name)
        for name in self.templates:
            if name not in self.broken:
                self._follow(name)

    def _follow(self, name: str) -> None:
        """Follow a template to its last one, and report an unknown one or a cycle."""
        chain = [name]
        while (above := self._template_of(self.templates[chain[-1]])) is not None:
            if above in chain:
                cycle = [*chain[chain.index(above) :], above]
                self._refuse_cycle(cycle)
            if above in chain or above not in self.templates or above in self.broken:
                self.broken |= {*chain}
                return
            chain.append(above)

    def _refuse_cycle(self, cycle: list[str]) -> None:
        what = f"the templates {' -> '.join(cycle)} extend each other in a circle."
        if cycle[0] == cycle[1]:
            what = f"the template {cycle[0]} extends itself."
        places = tuple(_inside(self.templates[each], "template") for each in cycle[:-1])
        self.refuse(TEMPLATE_RULE, places, what, "remove `template` from one of them.")

    def _template_of(self, read: _Read) -> str | None:
        """Return the template that an entry takes, or report that there is no such template."""
        if "template" not in _keys(read):
            return None
        taken = _inside(read, "template")
        if not isinstance(taken.value, str):
            problem = wrong_type(taken.spot.path or (), taken.value, "the name of a template")
            self.refuse(TEMPLATE_RULE, (taken,), problem.what, problem.fix)
            return ""
        if taken.value not in self.templates:
            known = [*self.templates]
            what = f"there is no template {taken.value}.{did_you_mean(taken.value, known)}"
            fix = f"choose one of: {', '.join(known)}." if known else "write it: `host_templates:`."
            self.refuse(TEMPLATE_RULE, (taken,), what, fix)
        return taken.value

    def add(self, entry: _Read) -> None:
        """Add the hosts of one entry, or report why it cannot be read."""
        if not isinstance(entry.value, dict):
            self.hosts.append(entry)
            return
        names = self._names_of(entry)
        layers = [entry]
        while (name := self._template_of(layers[-1])) is not None:
            self.used.add(name)
            if name not in self.templates or name in self.broken:
                return
            layers.append(self.templates[name])
        if len(layers) == 1 and self._lacks_template(entry):
            return
        whole = reduce(_join, reversed(layers))
        if names is None or not self._is_counted(entry, whole, len(names)):
            return
        parts = self._parts(entry, names)
        taken = self._taken(entry, names)
        shared = {k: v for k, v in _keys(whole).items() if k not in _SHORT}  # no range of `each`
        for place, name in enumerate(names):
            if name in taken:
                continue
            one = _Read(_numbered(shared, place), whole.spot)
            made = _join(one, parts[name]) if name in parts else one
            kept = {k: v for k, v in _keys(made).items() if k not in _SHORT}
            self.hosts.append(_Read(kept, made.spot))

    def _lacks_template(self, entry: _Read) -> bool:
        """Report an entry without a role and a template, if a template has a role."""
        found = [name for name, each in self.templates.items() if "role" in _keys(each)]
        own = _keys(entry)
        if not found or "role" in own or any(did_you_mean(key, ["template"]) for key in own):
            return False
        what = f"{show_value(own.get('name'))} lacks a role, and takes no template."
        choices = " or ".join(f"`template: {name}`" for name in found[:3])
        self.refuse(TEMPLATE_RULE, (entry,), what, f"add {choices}, or `role:`.")
        return True

    def _names_of(self, entry: _Read) -> list[str] | None:
        """Return the names of an entry's hosts, or report why its range cannot be read."""
        read = _inside(entry, "name") if "name" in _keys(entry) else _NOTHING
        name = read.value if isinstance(read.value, str) else ""
        found = _RANGE.findall(name)
        rest = _RANGE.sub("", name)
        fault = _slip(name)
        if not fault and "[" in rest:
            fault = f"{name} is not a range", f"{rest.partition('[')[0]}[01-16]"
        if not fault and len(found) > 1:
            fault = f"{name} has {len(found)} ranges", "an entry for each value of the first one"
        if fault:
            self.refuse(RANGE_RULE, (read,), f"{fault[0]}.", f"write {fault[1]}.")
            return None
        count = _count(found[0]) if found else 1
        if found and len(self.hosts) + count > MOST_HOSTS:
            what = f"{name} makes {len(self.hosts) + count} hosts, more than {MOST_HOSTS}."
            self.refuse(RANGE_RULE, (read,), what, "write a smaller range, or split the site.")
            return None
        return [str(_numbered(name, place)) for place in range(count)]

    def _is_counted(self, entry: _Read, whole: _Read, count: int) -> bool:
        """Whether each range below an entry has one value for each host; others are reported."""
        known, name = len(self.problems), _inside(entry, "name")
        hosts = f"{show_value(name.value)} is {'one host' if count == 1 else f'{count} hosts'}"
        for read in _texts(whole):
            text = str(read.value)
            if read.spot.path == name.spot.path or "each" in (read.spot.path or ())[2:3]:
                continue
            if fault := _slip(text):
                self.refuse(RANGE_RULE, (read,), f"{fault[0]}.", f"write {fault[1]}.")
                continue
            for bracket in _RANGE.findall(text):
                if _count(bracket) != count:
                    what = f"{hosts}, and {text} counts {_count(bracket)}."
                    self.refuse(RANGE_RULE, (read, name), what, _fitting(text, bracket, count))
        return len(self.problems) == known

    def _parts(self, entry: _Read, names: list[str]) -> dict[str, _Read]:
        """Return what `each` has for some hosts of an entry."""
        parts = _inside(entry, "each") if "each" in _keys(entry) else _NOTHING
        if not self._is_mapping(parts):
            return {}
        whole = show_value(_inside(entry, "name").value)
        found: dict[str, _Read] = {}
        for name in _keys(parts):
            part = _inside(parts, name)
            self._keeps(part, f"`each` of {name}", "template")
            if name not in names:
                what = f"`each` of {whole} has {name}, which is none of its hosts."
                fix = f"write one of {in_words(names)}.{did_you_mean(name, names)}"
                self.refuse(RANGE_RULE, (part,), what, fix)
            elif self._is_mapping(part):
                found[name] = part
        return found

    def _taken(self, entry: _Read, names: list[str]) -> set[str]:
        """Return names that another range has, and report them; a rule compares single hosts."""
        own = _inside(entry, "name")
        others = {each: self.names[each] for each in names if each and each in self.names}
        taken = {name for name, other in others.items() if "[" in f"{own.value}{other.value}"}
        first = next((name for name in names if name in taken), None)
        if first is not None:
            both = f"{show_value(own.value)} and {show_value(others[first].value)}"
            what = f"{both} overlap in {in_words([each for each in names if each in taken])}."
            self.refuse(RANGE_RULE, (own, others[first]), what, "let each host be in one entry.")
        self.names |= dict.fromkeys((each for each in names if each not in self.names), own)
        return taken

    def warn_of_unused(self) -> None:
        """Warn of templates that no host takes, unless a wrong name may be the reason."""
        if any(each.rule == TEMPLATE_RULE for each in self.problems):
            return
        for name in self.templates.keys() - self.used:
            what, fix = f"no host takes the template {name}.", "remove it, or let a host take it."
            self.refuse(TEMPLATE_RULE, (self.templates[name],), what, fix, "warning")


def _fitting(text: str, bracket: str, count: int) -> str:
    """Advise a range of the right length that begins as the written one."""
    first = bracket.partition("-")[0].partition(",")[0]
    if count == 1:
        return f"write one value, for example {text.replace(f'[{bracket}]', first)}."
    last = f"{int(first) + count - 1:0{len(first)}}"
    return f"write one number for each host: {text.replace(bracket, f'{first}-{last}')}."

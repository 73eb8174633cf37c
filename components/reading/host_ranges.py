"""Templates and ranges of hosts in the file, to one entry for each host: pure.

`{name: "gpu[01-16]", template: gpu, ssh: {address: "10.0.0.[11-26]"}}` is sixteen hosts. An entry
wins over its template, and what `each` has for a host wins over both. Mappings are joined key by
key, and cards by their rail. In the entry of a range, all brackets count together with the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from components.core.plain_text import shortened
from components.core.problem import Finding, Json, Lines, Place, Severity, SpecPath, Spot
from components.model.texts import in_words
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
BRACKETS: Final = re.compile(RANGE)
_SLIP: Final = re.compile(r"\[([0-9]+)(?::|\.\.)([0-9]+)\]")
"""A range as Ansible (`[01:16]`) and shells (`[01..16]`) write it."""
_LONG: Final = re.compile(r"\[(?=[0-9,]*[-,])[0-9,-]*[0-9]{10}[0-9,-]*\]")
_IPV4: Final = re.compile(r"(?:[0-9]+\.){3}[0-9]+(?:/[0-9]+)?")
_EACH_NETWORK: Final = "an entry of hosts for each network"
_SHOWN: Final = 12
"""Most names of templates in one sentence."""
_SMALLER: Final = "write a smaller range, or split the site"


class _Read(NamedTuple):
    value: Json
    spot: Spot

    @property
    def keys(self) -> dict[str, Json]:
        return self.value if isinstance(self.value, dict) else {}

    def at(self, key: str | int) -> _Read:
        value, item = self.value, None
        if isinstance(value, dict):
            item = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int):
            item = value[key]
        return _Read(item, self.spot.find(key) or self.spot)

    @property
    def parts(self) -> list[_Read]:
        rows = range(len(self.value)) if isinstance(self.value, list) else self.keys
        return [self.at(key) for key in rows]

    def named(self, key: str) -> dict[object, _Read] | None:
        """Return the parts to join, by key or by the name of an entry; None joins as a whole."""
        if isinstance(self.value, dict):
            return dict(zip(self.value, self.parts, strict=True))
        if not isinstance(self.value, list) or key not in _NAMED:
            return None
        found: dict[object, _Read] = {}
        for part in self.parts:
            name = part.keys.get(_NAMED[key])
            # An entry without a name of its own equals no other one.
            found[object() if name is None or repr(name) in found else repr(name)] = part
        return found


_NOTHING: Final = _Read({}, Spot(0))


def expand_hosts(text: YamlText) -> YamlText:
    """Write each host by itself, on the lines of its entry and its templates.

    Without a template or a range of hosts the text stays the same. Entries that cannot be read are
    left out, each with its problem.
    """
    value = text.value
    hosts = value.get("hosts") if isinstance(value, dict) else None
    rows = [each for each in hosts if isinstance(each, dict)] if isinstance(hosts, list) else []
    is_short = any("[" in str(row.get("name")) or not _SHORT.isdisjoint(row) for row in rows)
    if not isinstance(value, dict) or not (_TEMPLATES in value or is_short):
        return text
    root = text.lines.root or Spot(0)
    expansion = _Expansion(text.lines.file)
    expansion.read_templates(_placed(value.get(_TEMPLATES, {}), root, (_TEMPLATES,)))
    whole = {key: item for key, item in value.items() if key != _TEMPLATES}
    spot, lines = root.find("hosts") or root, text.lines
    if isinstance(hosts, list):
        for number, host in enumerate(hosts):
            expansion.add(_placed(host, spot, ("hosts", number)))
        whole["hosts"] = [each.value for each in expansion.hosts]
        inner = Spot(spot.line, [each.spot for each in expansion.hosts])
        lines = Lines(lines.file, root.put(("hosts",), inner) if lines.root else None)
    expansion.warn_of_unused()
    return YamlText(whole, lines, (*text.problems, *expansion.problems))


def _placed(value: Json, above: Spot, path: SpecPath) -> _Read:
    """Give each spot below a value its path in the file."""
    spot = above.find(path[-1]) or Spot(above.line)
    inner: Mapping[str, Spot] | list[Spot] | None = None
    if isinstance(value, dict):
        inner = {key: _placed(item, spot, (*path, key)).spot for key, item in value.items()}
    elif isinstance(value, list):
        inner = [_placed(item, spot, (*path, n)).spot for n, item in enumerate(value)]
    return _Read(value, Spot(spot.line, inner, path))


def _join(below: _Read, own: _Read, key: object = "") -> _Read:
    """Join two values; the own one wins, and entries of other names are added."""
    was, new = below.named(str(key)), own.named(str(key))
    if was is None or new is None or type(below.value) is not type(own.value):
        return own
    joined = was | {k: _join(was[k], each, k) if k in was else each for k, each in new.items()}
    parts = joined.values()
    if isinstance(own.value, list):
        spots = [part.spot for part in parts]
        return _Read([part.value for part in parts], Spot(own.spot.line, spots, own.spot.path))
    inner = {str(k): part.spot for k, part in joined.items()}
    value: Json = {str(k): part.value for k, part in joined.items()}
    return _Read(value, Spot(own.spot.line, inner, own.spot.path))


def _texts(read: _Read) -> Iterator[_Read]:
    if isinstance(read.value, str) and "[" in read.value:
        yield read
    for part in read.parts:
        yield from _texts(part)


def _numbered(value: Json, place: int) -> Json:
    """Copy a value with the number of one host in each bracket."""
    if isinstance(value, dict):
        return {key: _numbered(item, place) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item, place) for item in value]
    return number_text(value, place) if isinstance(value, str) else value


def number_text(text: str, place: int) -> str:
    """Write one number of each bracket in its place; `place` counts from 0."""
    return BRACKETS.sub(lambda found: _number_at(found[1], place), text)


def _number_at(bracket: str, place: int) -> str:
    """Write one number of a bracket without counting up to it; digits keep their width."""
    for first, last in _runs(bracket):
        count = max(0, int(last) - int(first) + 1)
        if place < count:
            return f"{int(first) + place:0{len(first)}}"
        place -= count
    raise IndexError(bracket)


def _runs(bracket: str) -> Iterator[tuple[str, str]]:
    for run in bracket.split(","):
        first, _, last = run.partition("-")
        yield first, last or first


def count_of(bracket: str) -> int:
    """Count the numbers of a bracket, without its backward runs."""
    return sum(max(0, int(last) - int(first) + 1) for first, last in _runs(bracket))


def fit_bracket(text: str, bracket: str, count: int) -> str:
    """Write a range of this many numbers, which begins as the bracket in the text does."""
    first = next(_runs(bracket))[0]
    return text.replace(bracket, f"{first}-{int(first) + count - 1:0{len(first)}}")


def _fix_of_count(text: str, bracket: str, count: int) -> str:
    if count == 1:
        return (
            f"one value, for example {text.replace(f'[{bracket}]', re.split('[-,]', bracket)[0])}"
        )
    better = fit_bracket(text, bracket, count)
    return _EACH_NETWORK if _past_ipv4(better) else f"one number for each host: {better}"


def _slip(text: str) -> tuple[str, str] | None:
    """Return the fault of the ranges in a text, and the fix; None without one."""
    if slip := _SLIP.search(text):
        better = f"{text[: slip.start()]}[{slip[1]}-{slip[2]}]{text[slip.end() :]}"
        return f"{text} is not a range", f"write {better}"
    shown = show_value(text)
    if _LONG.search(text):
        return f"{shown} has a number of more than nine digits", _SMALLER
    for found in BRACKETS.finditer(text):
        head, tail = text[: found.start()], text[found.end() :]
        for first, last in _runs(found[1]):
            if int(first) > int(last):
                return f"{shown} runs backwards", f"write {head}[{last}-{first}]{tail}"
            if len(first) != len(last) and "0" in {first[:-1][:1], last[0]}:
                width = max(len(first), len(last))
                better = f"write {head}[{first.zfill(width)}-{last.zfill(width)}]{tail}"
                return f"the numbers of {shown} differ in their width", better
    return None


def _past_ipv4(text: str) -> str:
    """Return the number of an IPv4 address with ranges that no such address has; empty if none."""
    if not _IPV4.fullmatch(BRACKETS.sub("0", text)):
        return ""
    # The highest number of each range; only a range can be too long, a wrong number is reported.
    ends = (
        BRACKETS.sub(lambda found: max((last for _, last in _runs(found[1])), key=int), part)
        for part in text.partition("/")[0].split(".")
        if "[" in part
    )
    return next((last for last in ends if int(last) > 255), "")  # noqa: PLR2004 - one byte


@dataclass(slots=True)
class _Expansion:
    """The hosts so far, and their problems."""

    file: str | None
    templates: dict[str, _Read] = field(default_factory=dict[str, _Read])
    whole: dict[str, _Read | None] = field(default_factory=dict[str, "_Read | None"])
    """Each template with what its own template has; None if one of them cannot be read."""
    readable: bool = True
    """Whether `host_templates` is a mapping, if the file has it."""
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

    def _refuse_type(self, read: _Read, wanted: str) -> None:
        problem = wrong_type(read.spot.path or (), read.value, wanted)
        self.refuse(TEMPLATE_RULE, (read,), problem.what, problem.fix)

    def _is_mapping(self, read: _Read) -> bool:
        """Whether a value is a mapping; another one is reported."""
        if not isinstance(read.value, dict):
            self._refuse_type(read, "a mapping of keys to values")
        return isinstance(read.value, dict)

    def _keeps(self, read: _Read, owner: str, *others: str) -> None:
        """Report keys of a host that a part of a host cannot have."""
        for key in ("name", "each", *others):
            if key in read.keys:
                what = f"{owner} cannot have `{key}`, which belongs to the entry of a host."
                self.refuse(TEMPLATE_RULE, (read.at(key),), what, f"remove `{key}`.")

    def read_templates(self, read: _Read) -> None:
        self.readable = self._is_mapping(read)
        for name in read.keys:
            self.templates[name] = read.at(name)
            self._keeps(self.templates[name], f"the template {name}")
            if not self._is_mapping(self.templates[name]):
                self.whole[name] = None
        for name in self.templates:
            self._whole(name)

    def _whole(self, name: str) -> _Read | None:
        """Join a template with its own template; report an unknown one or a circle."""
        chain: list[str] = []
        above: str | None = name
        while above in self.templates and above not in self.whole and above not in chain:
            chain.append(above)
            above = self._template_of(self.templates[above])
        if above in chain:
            self._refuse_circle([*chain[chain.index(above) :], above])
        whole = self.whole.get(above or "")
        for each in reversed(chain):
            own = self.templates[each]
            if above is not None:
                own = _join(whole, own) if whole is not None else None
            self.whole[each], above = own, each
            whole = own
        return self.whole.get(name)

    def _refuse_circle(self, names: list[str]) -> None:
        """Report templates that extend each other; the last name is the first one again."""
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]]
        what = f"the templates {' -> '.join(shown)} extend each other in a circle."
        what = what if len(names) > 2 else f"the template {names[0]} extends itself."  # noqa: PLR2004 - itself, again
        places = tuple(self.templates[each].at("template") for each in names[:-1])
        fix = "remove `template` from one of them." if len(places) > 1 else "remove it."
        self.refuse(TEMPLATE_RULE, places, what, fix)

    def _template_of(self, read: _Read) -> str | None:
        """Return the template that an entry takes, or report that there is no such template."""
        if "template" not in read.keys:
            return None
        taken = read.at("template")
        if not isinstance(taken.value, str):
            self._refuse_type(taken, "the name of a template")
            return ""
        if taken.value not in self.templates and self.readable:
            known = [*self.templates]
            what = f"the file lacks the template {taken.value}.{did_you_mean(taken.value, known)}"
            choices = shortened(known, _SHOWN)
            fix = f"choose one of: {choices}." if known else "write it: `host_templates:`."
            self.refuse(TEMPLATE_RULE, (taken,), what, fix)
        return taken.value

    def add(self, entry: _Read) -> None:
        """Add the hosts of one entry, or report why it cannot be read."""
        if not isinstance(entry.value, dict):
            self.hosts.append(entry)
            return
        names, whole = self._names_of(entry), entry
        if (name := self._template_of(entry)) is not None:
            if (below := self._whole(name)) is None:
                return
            whole = _join(below, entry)
            self.used.add(name)
        elif self._lacks_template(entry):
            return
        if names is None or not self._is_counted(entry, whole, len(names)):
            return
        parts, taken = self._parts(entry, names), self._taken(entry, names)
        shared = {k: v for k, v in whole.keys.items() if k not in _SHORT}  # no range of `each`
        for place, name in enumerate(names):
            if name not in taken:
                one = _Read(_numbered(shared, place), whole.spot)
                made = _join(one, parts[name]) if name in parts else one
                kept = {k: v for k, v in made.keys.items() if k not in _SHORT}
                self.hosts.append(_Read(kept, made.spot))

    def _lacks_template(self, entry: _Read) -> bool:
        """Report an entry without a role and a template, if a template has a role."""
        found = [name for name, each in self.templates.items() if "role" in each.keys]
        own = entry.keys
        if not found or "role" in own or any(did_you_mean(key, ["template"]) for key in own):
            return False
        what = f"{show_value(own.get('name'))} lacks a role, and takes no template."
        choices = " or ".join(f"`template: {name}`" for name in found[:3])
        self.refuse(TEMPLATE_RULE, (entry,), what, f"add {choices}, or `role:`.")
        return True

    def _names_of(self, entry: _Read) -> list[str] | None:
        """Return the names of an entry's hosts, or report why its range cannot be read."""
        read = entry.at("name") if "name" in entry.keys else _NOTHING
        name = read.value if isinstance(read.value, str) else ""
        found, rest = BRACKETS.findall(name), BRACKETS.sub("", name)
        fault, count = _slip(name), count_of(found[0]) if found else 1
        shown = show_value(name)
        if not fault and "[" in rest:
            fault = f"{shown} is not a range", f"write {rest.partition('[')[0]}[01-16]"
        elif not fault and len(found) > 1:
            better = "write an entry for each value of the first one"
            fault = f"{shown} has {len(found)} ranges", better
        elif not fault and found and (hosts := len(self.hosts) + count) > MOST_HOSTS:
            fault = f"{shown} makes {hosts} hosts, more than {MOST_HOSTS}", _SMALLER
        if fault:
            self.refuse(RANGE_RULE, (read,), f"{fault[0]}.", f"{fault[1]}.")
            return None
        return [number_text(name, place) for place in range(count)]

    def _is_counted(self, entry: _Read, whole: _Read, count: int) -> bool:
        """Whether each range below an entry has one value for each host; others are reported."""
        known, name = len(self.problems), entry.at("name")
        hosts = f"{show_value(name.value)} is {'one host' if count == 1 else f'{count} hosts'}"
        for read in _texts(whole):
            text, path = str(read.value), read.spot.path or ()
            if path == name.spot.path or "each" in path[2:3]:
                continue
            if fault := _slip(text):
                self.refuse(RANGE_RULE, (read,), f"{fault[0]}.", f"{fault[1]}.")
                continue
            for bracket in BRACKETS.findall(text):
                if (own := count_of(bracket)) != count:
                    what = f"{hosts}, and {text} counts {own}."
                    fix = _fix_of_count(text, bracket, count)
                    self.refuse(RANGE_RULE, (read, name), what, f"write {fix}.")
                elif last := _past_ipv4(text):
                    what = f"{text} counts to {last}, and no IPv4 address has a number above 255."
                    self.refuse(RANGE_RULE, (read,), what, f"write {_EACH_NETWORK}.")
                    break
        return len(self.problems) == known

    def _parts(self, entry: _Read, names: list[str]) -> dict[str, _Read]:
        """Return what `each` has for some hosts of an entry."""
        parts = entry.at("each") if "each" in entry.keys else _NOTHING
        if not self._is_mapping(parts):
            return {}
        whole = show_value(entry.at("name").value)
        found: dict[str, _Read] = {}
        for name in parts.keys:
            part = parts.at(name)
            self._keeps(part, f"`each` of {name}", "template")
            if name not in names:
                what = f"`each` of {whole} has {name}, and the range lacks it."
                fix = f"write one of {in_words(names)}.{did_you_mean(name, names)}"
                self.refuse(RANGE_RULE, (part,), what, fix)
            elif self._is_mapping(part):
                found[name] = part
        return found

    def _taken(self, entry: _Read, names: list[str]) -> set[str]:
        """Return names that another range has, and report them; a rule compares single hosts."""
        own = entry.at("name")
        others = {each: self.names[each] for each in names if each and each in self.names}
        taken = [name for name, other in others.items() if "[" in f"{own.value}{other.value}"]
        if taken:
            other = others[taken[0]]
            what = f"{show_value(own.value)} and {show_value(other.value)} overlap in "
            what += f"{in_words(taken)}."
            self.refuse(RANGE_RULE, (own, other), what, "let each host be in one entry.")
        self.names |= dict.fromkeys((each for each in names if each not in self.names), own)
        return {*taken}

    def warn_of_unused(self) -> None:
        """Warn of templates that no host takes, unless a wrong name may be the reason."""
        if any(each.rule == TEMPLATE_RULE for each in self.problems):
            return
        for name in [*self.used]:
            above: str | None = name
            while above := self._template_of(self.templates[above]):
                self.used.add(above)
        for name in self.templates.keys() - self.used:
            what, fix = f"no host takes the template {name}.", "remove it, or let a host take it."
            self.refuse(TEMPLATE_RULE, (self.templates[name],), what, fix, "warning")

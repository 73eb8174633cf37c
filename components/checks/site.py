"""Check a site and report all mistakes at once, with their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Final

from components.artefacts.lock import Lock, read_lock
from components.checks import site_files
from components.checks.registry import RULES, Waived, check_waiver, waive
from components.checks.render import render_text
from components.checks.rule import named
from components.core.errors import SpecError
from components.core.problem import Finding, Json, Lines, Place, SpecPath, render_path
from components.core.record import field, record, replace
from components.fabric.ports import splits_of
from components.model.cluster import ClusterSpec
from components.model.once import without_collector
from components.model.places import list_secrets
from components.model.worker_kinds import written_at
from components.reading import host_ranges, port_ranges
from components.reading.load import Loaded, load_config_value, load_site
from components.reading.site_path import find_project

_INDEX: Final = re.compile(r'\[(?:\d+|"[^"]*")\]')
"""A position in a path: `hosts[3]`, `ports["1/1"]`."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/\[\],-]*[A-Za-z0-9\]]|[A-Za-z0-9]")
_ADDRESS: Final = re.compile(
    r"\b\d{1,3}(?:\.\d{1,3}){3,4}(?:/\d{1,2})?\b|(?<!\w)[\da-fA-F:]*::[\da-fA-F:]*(?:/\d{1,3})?(?!\w)"
)
"""An IP address or network in the text of a fault, also an IPv4 address with a part too many;
addresses in fixes keep problems apart."""
_PART: Final = re.compile(r"[/:]")
_NOUNS: Final = {
    "ports": ("port", "ports"), "breakouts": ("port", "ports"), "nics": ("NIC", "NICs"),
    "hca_sriov": ("adapter", "adapters"), "hca_guids": ("GUID", "GUIDs"),
    "hosts": ("host", "hosts"), "switches": ("switch", "switches"), "rails": ("rail", "rails"),
}  # fmt: skip
"""Key of the file to the words for one entry and for several."""
CAUSES: Final = frozenset(
    {"duplicate-key", "duplicate-name", "nic-rail", "payload-choice", "switch-model"}
    | {"switch-release", "switch-system", "switch-transport"}
)
"""Rules whose fix changes the results of other rules: they are reported first."""
_FREE: Final = frozenset({"sysctls", "switch_models", "nic_models"})
"""Mappings whose names the user chooses."""
_SECTIONS: Final = tuple(
    dict.fromkeys(
        part for rule in RULES for part in sorted(rule.needs) if part not in {"names", "roles"}
    )
)
"""The sections of the file that some rule needs. A rule may also need the `names` of all devices, a
range of ports included, or their `roles`."""
_SHAPE: Final = frozenset({"name", "rail", "to", "mode", "ports", "nics", "routing", "hca_guids"})
"""Keys that identify devices; for other wrong values, such as a VLAN or MTU, only their own rules
are silenced."""


def group_problems(problems: Iterable[Finding], spec: ClusterSpec | None) -> tuple[Finding, ...]:
    """Join problems of one rule that differ only in names and places.

    The problems have their lines. `spec` is the readable part of the file, for the names in it.
    Causes come first, then it goes by line. A joined problem has the words of its first one, the
    places of all, and their number in `more`.
    """
    names = frozenset(_names(spec)) if spec else frozenset[str]()

    def order(problem: Finding) -> tuple[int, str, str]:
        # Positions have equal widths, so that `hosts[2]` is before `hosts[10]`.
        what = re.sub(r"\[([0-9]+)\]", lambda found: f"[{found[1]:0>6}]", problem.what)
        return problem.line, problem.rule, what

    groups: dict[tuple[str, ...], list[Finding]] = {}
    for problem in sorted(problems, key=order):
        what, fix = _shape(_ADDRESS.sub("@", problem.what), names), _shape(problem.fix, names)
        groups.setdefault((problem.rule, problem.severity, what, fix), []).append(problem)
    joined: list[Finding] = []
    for first, *others in groups.values():
        more, path = len(others), first.where[0].path if first.where else ()
        where = dict.fromkeys(place for each in (first, *others) for place in each.where)
        # Count in the innermost list or mapping; if all share one place, there is no count.
        kinds = [key for key in map(str, path[:-1]) if key in _NOUNS]
        counted = "more like it"
        if kinds and len({each.where[:1] for each in (first, *others)}) > more:
            counted = f"more {_NOUNS[kinds[-1]][more > 1]}"
        text = f"{first.what.removesuffix('.')} (and {more} {counted})."
        whole = replace(first, what=text, where=tuple(where), more=more)
        joined.append(whole if others else first)
    return tuple(sorted(joined, key=lambda p: (p.rule not in CAUSES, p.line, p.rule)))


def _names(spec: ClusterSpec) -> Iterator[str]:
    yield from (rail.name for rail in spec.rails)
    for switch in spec.switches:
        yield switch.name
        yield from (*switch.ports, *switch.breakouts)
        for split in splits_of(switch).values():
            yield from (split.whole, *split.parts)
    for host in spec.hosts:
        yield from (host.name, host.ssh.address if host.ssh else host.name)
        for nic in host.nics:
            yield from (nic.netdev, nic.pci)
        yield from (each.pci for each in host.hca_sriov)


def _shape(text: str, names: frozenset[str]) -> str:
    """A text without the names of devices and ports, and without positions in paths."""

    def shaped(word: re.Match[str]) -> str:
        found = word[0]
        # A link's end such as `leaf-01:1/31` has a port that contains a slash.
        parts = (found.partition(":")[::2], _PART.split(found))
        named = found in names or any(names.issuperset(each) for each in parts)
        return "@" if named else found

    return _WORD.sub(shaped, _INDEX.sub("[]", text))


@record
class CheckedSite:
    """A site file after all rules ran."""

    file: str
    spec: ClusterSpec | None
    """None if there is an error; warnings keep it."""
    problems: tuple[Finding, ...]
    """Errors and warnings, causes first and then by line; alike ones are joined."""
    waived: tuple[Waived, ...] = ()
    """The waivers of the file, with the number of problems that they hide."""
    lock: Lock = field(default_factory=Lock)
    """Its lock, for making the plan."""
    lines: Lines = field(default_factory=Lines)
    """The lines of its values; an update names them if it refuses an edit."""
    unpinned: site_files.Unpinned = field(default_factory=lambda: site_files.Unpinned((), ""))
    """Sources without a checksum: a note here, and refused by an update outside of the lab."""

    def spec_or_raise(self) -> ClusterSpec:
        """Give the spec; the text of a SpecError is the whole report."""
        if self.spec is None:
            raise SpecError(render_text(self.problems, self.waived))
        return self.spec


def check_site(spec: ClusterSpec) -> tuple[Finding, ...]:
    """Run every rule on a spec, and leave out waived problems; paths only, no lines."""
    found = [problem for rule in RULES for problem in rule.problems(spec)]
    return tuple(waive(spec, found)[0])


def load_checked_site(path: Path, *, reads_only: bool = False) -> CheckedSite:
    """Load a site file or a stack file and run every rule; UsageError if it cannot be read.

    A command that `reads_only` installs nothing: charts and the bundle may be elsewhere.
    """
    return check_loaded(load_site(path), str(path), reads_only=reads_only)


def check_config_value(
    value: Json,
    source_file: Path | None,
    site: Json = None,
    given: Callable[[str], bool] = lambda _: False,
) -> CheckedSite:
    """Check the site of a stack's configuration, with the lines of its file.

    `value` and `site` are `railyard:cluster` and `railyard:site` as Pulumi gave them; `given` says
    whether Pulumi gave a secret, also one that is not in the file (in a user's test).
    """
    name = source_file.name if source_file else "the stack's configuration"
    loaded = load_config_value(value, source_file, site)
    if (spec := loaded.spec or loaded.partial) and (own := loaded.secrets):
        names = {ref.secret for ref, _ in list_secrets(spec) if ref.secret}
        known = own.encrypted | {each for each in names - own.in_clear if given(each)}
        loaded = replace(loaded, secrets=replace(own, encrypted=known))
    return check_loaded(loaded, name)


@without_collector()
def check_loaded(
    loaded: Loaded, file: str, lock: Lock | None = None, *, reads_only: bool = False
) -> CheckedSite:
    """Run every rule on the readable part of a loaded file.

    The default of `lock` is the one next to the file.
    """
    spec = loaded.spec or loaded.partial
    found = [*loaded.marks, *(each for each in loaded.problems if not _follows(each, loaded))]
    waived: tuple[Waived, ...] = ()
    pins, unread = (lock, ()) if lock else read_lock(loaded.path)
    found += unread
    if spec is not None:
        wrong = _wrong_parts(loaded)
        # While two devices have one name, no rule searches for names or follows cables.
        (twins,) = (rule for rule in RULES if rule.name == "duplicate-name")
        wrong |= {"names", "switches"} if any(twins.problems(spec)) else set[str]()
        sound = [rule for rule in RULES if wrong.isdisjoint(rule.needs)]
        ruled = [problem for rule in sound for problem in rule.problems(spec)]
        own: dict[Finding, None] = {}
        for problem in (*ruled, *_check_beside(spec, loaded, pins, reads_only=reads_only)):
            # The file lacks a cloud's host, so the place is its pool.
            paths = [(place, written_at(spec, place.path)) for place in problem.where]
            where = (place if path == place.path else Place(path) for place, path in paths)
            written = replace(problem, where=tuple(dict.fromkeys(where)))
            # Some rules only find a value that replaced a wrong one.
            pairs = product(written.where, loaded.left_out)
            if not any(_touches(place.path, left_out, loaded) for place, left_out in pairs):
                own[written] = None
        kept, waived = waive(spec, [*own])
        found += [*kept, *named("waiver", check_waiver(spec, waived if loaded.spec else None))]
    located = (loaded.places.locate_all(problem) for problem in found)
    problems = tuple(map(_at_its_entry, group_problems(located, spec)))
    refused = any(problem.severity == "error" for problem in problems)
    unpinned = site_files.find_unpinned(spec, pins) if spec else site_files.Unpinned((), "")
    read = None if refused else loaded.spec
    return CheckedSite(file, read, problems, waived, pins, loaded.places, unpinned)


def _at_its_entry(problem: Finding) -> Finding:
    """Name an expanded host by its entry or template in the file."""
    what = problem.what
    for place in problem.where:
        old, new = place.path, place.written or ()
        while len(old) > 1 and len(new) > 1 and render_path(old) not in what:
            old, new = old[:-1], new[:-1]
        what = what.replace(render_path(old), render_path(new)) if len(old) > 1 < len(new) else what
    where = (replace(each, path=each.written or each.path) for each in problem.where)
    return replace(problem, what=what, where=tuple(dict.fromkeys(where)))


def _check_beside(
    spec: ClusterSpec, loaded: Loaded, lock: Lock, *, reads_only: bool
) -> Iterator[Finding]:
    """Run the rules on files next to the site; a text without a file has none."""
    if loaded.secrets is not None:
        for rule, check in (
            ("secret-value", site_files.check_secret_value),
            ("stack-key", site_files.check_stack_key),
        ):
            yield from named(rule, dict.fromkeys(check(spec, loaded.secrets)))
    if lock.path is not None:
        project = find_project(lock.path.parent.resolve()) or Path.cwd()
        if not reads_only:
            yield from named("project-path", site_files.check_project_path(spec, project))
        yield from named("lock-entry", site_files.check_lock_entry(spec, lock))
        if not reads_only:
            yield from named("bundle", site_files.check_bundle(spec, lock, project))


def _follows(problem: Finding, loaded: Loaded) -> bool:
    """Whether a problem only follows from another mistake in the file.

    The system of a switch decides the names of its ports, and a misspelt key also counts as
    missing.
    """
    path = problem.where[0].path if problem.where else ()
    if path[:1] == ("switches",) and path[2:3] == ("ports",):
        return (*path[:2], "os") in loaded.left_out
    return problem.rule == "missing-key" and any(
        each.rule == "unknown-key"
        and each.where[0].path[:-1] == path[:-1]
        and each.wanted in {*path[-1:], "template"}
        for each in loaded.problems
    )


def _wrong_parts(loaded: Loaded) -> set[str]:
    """Return the parts of the file that are wrong or missing, as rules name them in `needs`."""
    lost = (*loaded.left_out, *(each.where[0].path for each in loaded.problems))
    tops: list[str] = []
    for path in filter(None, lost):
        # Whether a whole entry is missing, rather than one of its settings.
        is_shape = len(path) <= len(("rails", 0)) or not _SHAPE.isdisjoint(map(str, path[-2:]))
        if is_shape and (path not in loaded.replaced or path[-1] in _SHAPE):
            tops.append(str(path[0]))
    # A section with a misspelt name is the one that the user meant.
    found = {part for top in tops for part in get_close_matches(top, _SECTIONS, n=1)}
    keys = {path[-1] for path in loaded.left_out if path}
    # Some problems leave out hosts, or take the template from them.
    wrong = {each.rule for each in loaded.problems if each.severity == "error"}
    short = not wrong.isdisjoint({host_ranges.RANGE_RULE, host_ranges.TEMPLATE_RULE})
    short = short or any(each.what.endswith("`template`?") for each in loaded.problems)
    if short or "name" in keys or any(each.rule == port_ranges.RULE for each in loaded.problems):
        found.add("names")
    return found | ({"roles"} if short or "role" in keys else set())


def _touches(path: SpecPath, left_out: SpecPath, loaded: Loaded) -> bool:
    parent = left_out[:-1]
    if not parent:
        return path[:1] == left_out or loaded.places.spot(path[:1]) is None
    if path[: len(left_out)] == left_out or path == parent:
        return True
    # Its neighbours are related settings, except in a mapping of free names.
    beside = path[:-1] == parent and parent[-1] not in _FREE
    return beside and left_out not in loaded.replaced

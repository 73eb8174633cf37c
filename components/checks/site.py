"""Check a site: everything that is wrong with it at once, with lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from components.checks.access import check_secret_value
from components.checks.problem import Place, Problem, SpecPath
from components.checks.registry import RULES
from components.checks.render import render_text
from components.checks.stack_keys import check_stack_key
from components.errors import SpecError
from components.model import port_ranges
from components.model.cluster import ClusterSpec
from components.model.instances import written_at
from components.model.load import Loaded, load_config_value, load_site
from components.model.problem import Json


@dataclass(frozen=True, slots=True)
class CheckedSite:
    """A site file after all rules."""

    file: str
    spec: ClusterSpec | None
    """None when there is an error; warnings leave it."""
    problems: tuple[Problem, ...]
    """Errors and warnings, by line."""

    def spec_or_raise(self) -> ClusterSpec:
        """Give the spec.

        Raises:
            SpecError: There is an error; its text is the whole report.
        """
        if self.spec is None:
            raise SpecError(render_text(self.problems))
        return self.spec


_RULES_BY_NAME: Final = frozenset({"port-target", "nic-rail", "nic-cabling", "unused-rail"})
"""Rules that look for a name; they say nothing true while a name, or a range of ports, is wrong or
missing."""


def check_site(spec: ClusterSpec) -> tuple[Problem, ...]:
    """Run every rule on a spec; paths only, no lines."""
    return tuple(problem for rule in RULES for problem in rule.problems(spec))


def load_checked_site(path: Path) -> CheckedSite:
    """Load a site file or a stack file and run every rule.

    Raises:
        UsageError: There is no such file, or it cannot be read.
    """
    return check_loaded(load_site(path), str(path))


def check_config_value(value: Json, source_file: Path | None) -> CheckedSite:
    """Check the value of `railyard:cluster` that Pulumi gave, with the lines of its stack file."""
    name = source_file.name if source_file else "the stack's configuration"
    return check_loaded(load_config_value(value, source_file), name)


def check_loaded(loaded: Loaded, file: str) -> CheckedSite:
    """Run every rule on what was loaded, as far as it could be read."""
    spec = loaded.spec or loaded.partial
    found: list[Problem] = list(loaded.problems)
    if spec is not None:
        ruled = [*check_site(spec), *_check_secrets(spec, loaded)]
        written = (_as_written(problem, spec) for problem in ruled)
        found += [p for p in dict.fromkeys(written) if not _is_consequence(p, loaded)]
    located = (loaded.places.locate_all(problem) for problem in found)
    problems = tuple(sorted(located, key=lambda p: (p.line, p.rule, p.what)))
    wrong = any(problem.severity == "error" for problem in problems)
    return CheckedSite(file, None if wrong else loaded.spec, problems)


def _as_written(problem: Problem, spec: ClusterSpec) -> Problem:
    """With the places that are in the file: a cloud's hosts are not, their pools are."""
    paths = ((place, written_at(spec, place.path)) for place in problem.where)
    places = (place if path == place.path else Place(path) for place, path in paths)
    return replace(problem, where=tuple(dict.fromkeys(places)))


def _check_secrets(spec: ClusterSpec, loaded: Loaded) -> tuple[Problem, ...]:
    if loaded.secrets is None:
        return ()
    return tuple(
        Problem(rule, found.what, found.where, found.fix, found.severity)
        for rule, check in (("secret-value", check_secret_value), ("stack-key", check_stack_key))
        for found in dict.fromkeys(check(spec, loaded.secrets))
    )


def _is_consequence(problem: Problem, loaded: Loaded) -> bool:
    """Whether a rule only met a value that stands in for one which was left out."""
    nameless = any(path[-1:] == ("name",) for path in loaded.left_out)
    nameless = nameless or any(each.rule == port_ranges.RULE for each in loaded.problems)
    if nameless and problem.rule in _RULES_BY_NAME:
        return True
    return any(
        _touches(place.path, left_out, loaded)
        for place in problem.where
        for left_out in loaded.left_out
    )


def _touches(path: SpecPath, left_out: SpecPath, loaded: Loaded) -> bool:
    parent = left_out[:-1]
    if not parent:
        return path[:1] not in loaded.places.lines
    return path[: len(parent)] == parent

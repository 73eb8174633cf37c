"""Load the user's file: text to `ClusterSpec`, or all its problems with their lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from components.core.errors import SpecError, UsageError
from components.core.limits import read_text
from components.core.problem import Finding, Json, Lines, Place, SpecPath
from components.core.record import record, replace
from components.model.cluster import ClusterSpec, SiteFile
from components.model.once import without_collector
from components.model.places import with_jump_hosts
from components.model.worker_kinds import with_instances
from components.reading.host_ranges import expand_hosts
from components.reading.loose import find_loose_types, find_stand_in, replace_wrong
from components.reading.members import settle_unions
from components.reading.port_ranges import spread_ports
from components.reading.site_path import SITE_KEY, SitePathError, read_site
from components.reading.wording import did_you_mean, is_refinement, show_value, word_error
from components.reading.yaml_text import YamlText, parse_yaml

CONFIG_KEY = "railyard:cluster"
"""The key of the stack's configuration for a small site; `SITE_KEY` names a file instead."""
_SITES: Final = (SITE_KEY, CONFIG_KEY)
FREE: Final = "x-"
"""Begins a top-level key that the reader ignores, as in a Compose file."""
MARK: Final = "# CHANGE: "
"""Begins the comment on a line whose value the user must change; the user then deletes it."""
_EXAMPLE_RULE: Final = "example-value"
_LINE: Final = re.compile(rf"^(?P<value>.*\S)\s+{re.escape(MARK)}(?P<words>.*\S)\s*$")
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "observe": ("always", "never"),
    "accept": ("changed", "always", "never", "canary"),
    "lab": ("false", "true"),
}
"""Name to allowed values; the first is the default. docs/reference/cli.md explains each."""


@record
class StackSecrets:
    """The `railyard:` keys of a stack file, without their values."""

    encrypted: frozenset[str]
    in_clear: frozenset[str]
    complete: bool
    """False when the stack imports an environment, which may hold more keys."""
    switches: Mapping[str, str]
    """The values of the keys other than secrets, such as `observe`."""
    file: str | None
    lines: Mapping[str, int]
    """The line of each key, with its prefix."""


@record
class Loaded:
    """The result of reading a file: a spec, or problems; never both a spec and an error."""

    spec: ClusterSpec | None
    problems: tuple[Finding, ...]
    places: Lines
    partial: ClusterSpec | None = None
    """The spec without its wrong parts, so the rules can still run on the rest."""
    left_out: tuple[SpecPath, ...] = ()
    """The parts of the file that `partial` lacks."""
    replaced: frozenset[SpecPath] = frozenset()
    """The paths among these whose value was refused, though of the right kind; another one replaced
    it."""
    secrets: StackSecrets | None = None
    """The secrets of the stack file; None for a plain site file."""
    marks: tuple[Finding, ...] = ()
    """Lines with example values that `railyard init` wrote and the user has not changed."""
    path: Path | None = None
    """The file with the site, next to which its lock is; None if the site is in no file."""


def load_site(path: Path) -> Loaded:
    """Read a plain site file, or a `Pulumi.<stack>.yaml` with a site or the path of one.

    Problems show the path as the user named it. UsageError: the file cannot be read.
    """
    return _at(path, parse_site(_read_text(path), str(path)))


@without_collector()
def load_config_value(value: Json, source_file: Path | None, site: Json = None) -> Loaded:
    """Check a stack's configuration as Pulumi passes it: `railyard:cluster` or `railyard:site`.

    The stack's file gives the lines; if it is None or absent, problems show paths only.
    """
    whole = YamlText(None, Lines(), ())
    if source_file is not None and source_file.is_file():
        whole = parse_yaml(_read_text(source_file), source_file.name)
    stack = _Stack(whole, source_file or Path("Pulumi.yaml"))
    if site is not None:
        return _follow(stack, site, both=value is not None)
    part = whole.below("config", CONFIG_KEY)
    lines, found = part.lines, part.problems
    if value is None:
        return Loaded(None, (*found, _no_cluster(lines.file or "the stack", None)), lines)
    return _at(source_file, _validate(YamlText(value, lines, found), stack.secrets))


def _at(path: Path | None, loaded: Loaded) -> Loaded:
    """Add the path of the site's file, unless the stack named another one."""
    return loaded if loaded.path is not None else replace(loaded, path=path)


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: file not found.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file in UTF-8 (byte {error.start}).") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error


@without_collector()
def parse_site(text: str, file: str) -> Loaded:
    """Read the text of a site file or a stack file; `file` is its name in the problems."""
    parsed = parse_yaml(text, file)
    keys, refused = _settings_in(parsed, file)
    if refused:
        return refused
    if "config" not in keys and CONFIG_KEY not in keys:
        return replace(_validate(parsed, None), marks=find_marks(text, file))
    prefix = ("config", CONFIG_KEY) if "config" in keys else (CONFIG_KEY,)
    stack, part = _Stack(parsed, Path(file)), parsed.below(*prefix)
    site = parsed.below("config", SITE_KEY).value
    if site is not None:
        return _follow(stack, site, both=part.value is not None)
    if part.value is None:
        return Loaded(None, (*part.problems, _no_cluster(file, parsed.value)), part.lines)
    return _validate(part, stack.secrets)


@record
class _Stack:
    text: YamlText
    file: Path

    @property
    def secrets(self) -> StackSecrets | None:
        value = self.text.value
        config = value.get("config") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(config, dict):
            return None
        start, lines = "railyard:", self.text.lines
        ours = {k.removeprefix(start): v for k, v in config.items() if k.startswith(start)}
        encrypted = {k for k, v in ours.items() if isinstance(v, dict) and "secure" in v}
        return StackSecrets(
            encrypted=frozenset(encrypted),
            in_clear=frozenset(ours.keys() - encrypted),
            complete="environment" not in value,
            switches={
                k: show_value(v)
                for k, v in ours.items()
                if k in {*SETTINGS, "piece"} and not isinstance(v, dict | list)
            },
            file=lines.file,
            lines={key: line for key in config if (line := lines.line_of(("config", key)))},
        )

    def refuse(self, what: str, fix: str, value: Json) -> Loaded:
        """Report one problem of the key that names the site."""
        shown = value if isinstance(value, str) else None
        place = self.text.lines.locate(Place(("config", SITE_KEY), shown), defaults=False)
        problem = Finding(what, (place,), fix, rule="site-file")
        return Loaded(None, (*self.text.problems, problem), self.text.lines)


def _follow(stack: _Stack, site: Json, *, both: bool) -> Loaded:
    """Read the file that a stack names; problems show that file's name and lines."""
    if both:
        what = f"the stack has both `{SITE_KEY}` and `{CONFIG_KEY}`, and a site is described once."
        fix = f"remove one of them; `{SITE_KEY}` also takes sites of more than 128 KiB."
        return stack.refuse(what, fix, site)
    try:
        path, text = read_site(site, stack.file)
    except SitePathError as error:
        return stack.refuse(error.what, error.fix, site)
    name = str(path)
    parsed = parse_yaml(text, name)
    keys, refused = _settings_in(parsed, name)
    if refused:
        return replace(refused, secrets=stack.secrets)
    if not keys.isdisjoint({"config", CONFIG_KEY, SITE_KEY}):
        what = f"`{SITE_KEY}` is {site}, and {name} is the file of a stack itself."
        return stack.refuse(what, "name the site itself: a file that begins with `name:`.", site)
    problems = (*stack.text.problems, *parsed.problems)
    loaded = _validate(replace(parsed, problems=problems), stack.secrets)
    return replace(loaded, path=path, marks=find_marks(text, name))


def _settings_in(parsed: YamlText, file: str) -> tuple[frozenset[str], Loaded | None]:
    """Return the keys of a file, or refuse a file without settings."""
    value, problems = parsed.value, parsed.problems
    if not any(problem.rule == "yaml-syntax" for problem in problems):
        if isinstance(value, dict) and value:
            return frozenset(value), None
        what = "is empty" if value is None or value == {} else "holds no settings"
        what = f"the file {what}; a site is a mapping that begins with `name:`."
        fix, where = "start from examples/dgx-roce/site.yaml.", (Place((), None, file, 1),)
        problems = (*problems, Finding(what, where, fix, rule="wrong-type"))
    return frozenset(), Loaded(None, problems, parsed.lines)


def _no_cluster(file: str, value: Json) -> Finding:
    config = value.get("config") if isinstance(value, dict) else None
    written = list(config) if isinstance(config, dict) else []
    near = next((key for key in written if did_you_mean(key, _SITES)), None)
    end = f"; did you mean it by `{near}`?" if near and near not in _SITES else "."
    what = f"the stack's configuration has neither `{SITE_KEY}` nor `{CONFIG_KEY}`{end}"
    fix = f"name the site's file under `config:`, for example `{SITE_KEY}: site.yaml`."
    return Finding(what, (Place((), None, file, 1),), fix, rule="missing-key")


def _validate(written: YamlText, secrets: StackSecrets | None) -> Loaded:
    if isinstance(written.value, dict):  # YAML anchors repeat what free keys hold
        kept = {key: each for key, each in written.value.items() if not key.startswith(FREE)}
        written = replace(written, value=kept)
    text = spread_ports(expand_hosts(written))
    loose = tuple(find_loose_types(ClusterSpec, text.value))
    problems = [*text.problems, *loose]
    wrong: list[SpecPath] = [problem.where[0].path for problem in loose]
    spec: ClusterSpec | None = None
    stand_ins: dict[SpecPath, Json] = {}
    replaced: dict[SpecPath, Json] = {}
    try:
        spec = ClusterSpec.model_validate(text.value)
    except ValidationError as error:
        for detail in settle_unions(error.errors(include_url=False)):
            path, problem = word_error(detail, SiteFile)
            least = cast("int", detail.get("ctx", {}).get("min_length", 0))
            is_short = detail["type"] == "too_short" and isinstance(detail["input"], list)
            # A list may be too short only because its wrong entries were left out.
            consequence = is_short and len(cast("list[object]", detail["input"])) >= least
            if path not in wrong and not consequence:
                # A default that follows from a wrong value is not another mistake.
                if detail["type"] != "default_factory_not_called":
                    problems.append(problem)
                wrong.append(path)
                stand_ins[path] = find_stand_in(path, detail, ClusterSpec)
                if is_refinement(detail) and stand_ins[path] is not None:
                    replaced[path] = stand_ins[path]
    located = tuple(text.lines.locate_all(problem, defaults=False) for problem in problems)
    if spec is not None and all(problem.severity == "warning" for problem in located):
        return Loaded(with_jump_hosts(with_instances(spec)), located, text.lines, secrets=secrets)
    rest = spec or _validate_rest(text.value, frozenset(wrong), (replaced, stand_ins))
    partial = with_jump_hosts(with_instances(rest)) if rest else None
    return Loaded(
        None, located, text.lines, partial, tuple(wrong), frozenset(replaced), secrets=secrets
    )


def _validate_rest(
    value: Json, wrong: frozenset[SpecPath], stand_ins: tuple[dict[SpecPath, Json], ...]
) -> ClusterSpec | None:
    """Read the rest of the file without its wrong parts, if that makes a site.

    A stand-in replaces each refused value for which there is one; defaults replace the other wrong
    parts. If a set of stand-ins does not make a site, the next set is tried.
    """
    for substitutes in stand_ins:
        known = {path: item for path, item in substitutes.items() if item is not None}
        with suppress(ValidationError):
            return ClusterSpec.model_validate(replace_wrong(value, wrong, known))
    return None


def choose_setting(name: str, from_environment: str, from_stack: str) -> str:
    """Decide the value of one switch; the environment wins. SpecError: it is no choice."""
    choices = SETTINGS[name]
    value = from_environment or from_stack or choices[0]
    if value not in choices:
        source = f"RAILYARD_{name.upper()}" if from_environment else f"railyard:{name}"
        fix = f"choose one of: {', '.join(choices)}."
        raise SpecError(f"{source} cannot be {value!r}. Nothing was touched.\n  fix    {fix}")
    return value


def find_marks(text: str, file: str) -> tuple[Finding, ...]:
    """Report one problem for each kind of marked value, with all of its lines."""
    places: dict[str, list[Place]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if MARK in line and (found := _LINE.match(line)) and not line.lstrip().startswith("#"):
            place = Place((), found["value"].strip().removeprefix("- "), file, number)
            places.setdefault(found["words"], []).append(place)
    return tuple(
        Finding(
            f"{len(where)} line{' is' if len(where) == 1 else 's are'} marked as the example's.",
            tuple(where),
            f"write {words}; then delete the comment `{MARK.strip()} …`.",
            rule=_EXAMPLE_RULE,
        )
        for words, where in places.items()
    )

"""`railyard versions [SITE]`: the catalogue of versions, and the entries that a site uses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from components.catalogue import operator_versions as releases
from components.catalogue import version_pairs as pairs
from components.checks.registry import RULES
from components.checks.render import render_problem
from components.checks.site import check_loaded
from components.cli.app import TextOrJson, say
from components.core.errors import SpecError
from components.core.plain_text import counted
from components.core.problem import Finding, Lines, finding_json
from components.model.cluster import ClusterSpec
from components.model.operators import VERSION_PATHS, versions_of
from components.reading.load import load_site

_Table = list[list[str]]
_LINES: Final[Mapping[pairs.Component, tuple[releases.KubernetesRange, ...]]] = {
    "gpu-operator": releases.GPU_OPERATOR,
    "network-operator": releases.NETWORK_OPERATOR,
    "nvidia-device-plugin": releases.GPU_DEVICE_PLUGIN,
}
_RULES: Final = frozenset(
    {"version-pair", "plugin-version", "version-conflict", "driver-tag", "runtime-nri"}
)


def versions(
    file: Annotated[
        Path | None, typer.Argument(help="A site.yaml, or a Pulumi.<stack>.yaml.")
    ] = None,
    output: TextOrJson = "text",
) -> None:
    """Print which versions work together, with source and date, and the versions of a site.

    With a site, it also prints the findings of the rules on versions. Exit codes: 0 printed, 1 the
    site's versions are refused or it cannot be read, 2 unknown file.
    """
    tables = list_catalogue()
    problems: tuple[Finding, ...] = ()
    if file is not None:
        loaded = load_site(file)
        if loaded.spec is None:
            check_loaded(loaded, str(file)).spec_or_raise()
            raise SpecError(f"{file}: the site cannot be read.")
        problems = version_problems(loaded.spec, loaded.places)
        used: _Table = [["component", "version", "from"]]
        default = f"set {loaded.spec.versions}" if loaded.spec.versions else "default"
        for name, version in versions_of(loaded.spec).items():
            line = loaded.places.line_of(VERSION_PATHS[name])
            used.append([pairs.TITLES[name], version, default if line is None else f"line {line}"])
        tables[f"Used by {file}"] = used
    if output == "json":
        found = {
            title: [dict(zip(t[0], row, strict=True)) for row in t[1:]]
            for title, t in tables.items()
        }
        said = {"as_of": str(releases.AS_OF), "tables": found}
        said |= {"problems": [*map(finding_json, problems)]}
        say(json.dumps(said, indent=1))
    else:
        texts: list[str] = []
        for title, table in tables.items():  # in columns; the last one is not padded
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            rows = (zip(row, widths, strict=True) for row in table)
            padded = ("  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in rows)
            texts.append("\n".join([f"# {title}", *padded]))
        age = describe_age(datetime.now(UTC).date())
        say("\n\n".join([age, *texts, *map(render_problem, problems)]))
    raise typer.Exit(int(any(each.severity == "error" for each in problems)))


def describe_age(today: date) -> str:
    """State the date and age of the catalogue, and the next command if it is too old."""
    days = max((today - releases.AS_OF).days, 0)  # a clock may be behind
    late = " Newer lines are probably out: run `make catalogue`, or take a newer Railyard."
    said = f"The catalogue is of {releases.AS_OF:%-d %B %Y}, {counted(days, 'day')} old."
    return said + late * (days > releases.STALE_DAYS)


def list_catalogue() -> dict[str, _Table]:
    """The tables that apply to any site."""
    show, chosen = releases.show_version, pairs.VERSION_SETS
    lines = (
        [pairs.TITLES[name], show(line.line), line.describe(), line.status, line.source]
        for name, catalogue in _LINES.items()
        for line in catalogue
    )
    sets = ([name, *map(str, asdict(each).values())] for name, each in chosen.items())
    tags = (
        [release, tag.tag, "yes" if tag.confirmed else "no", tag.source]
        for release, tag in pairs.DRIVER_TAGS.items()
    )
    newer = ([name, *each] for name, each in releases.NEWER.items())
    conflicts: _Table = []
    for each in pairs.CONFLICTS:
        one = f"{pairs.TITLES[each.one.component]} {each.one.describe()}"
        other = "its driver container" if each.with_container else "anything"
        if each.other:
            other = f"{pairs.TITLES[each.other.component]} {each.other.describe()}"
        conflicts.append([one, other, each.severity, each.reason, each.source])
    columns = ["set", "K3s", "GPU operator", "network operator", "GPU device plugin", "source"]
    heads = ["component", "line", "Kubernetes", "its maker says", "source"]
    containers = ["release", "tag", "confirmed", "source"]
    return {
        "Kubernetes of each release line": [heads, *lines],
        "Known to fail together": [["one", "other", "severity", "reason", "source"], *conflicts],
        "Sets (`versions:` of a site)": [columns, *sets],
        "Newer releases that no set has": [["component", "release", "why"], *newer],
        "Driver container of the network operator": [containers, *tags],
    }


def version_problems(spec: ClusterSpec, lines: Lines) -> tuple[Finding, ...]:
    """The findings of the rules on versions; only `railyard check` applies waivers."""
    found = (each for rule in RULES if rule.name in _RULES for each in rule.problems(spec))
    return tuple(map(lines.locate_all, found))


def list_outdated(spec: ClusterSpec) -> Iterator[str]:
    """Yield each version of a site that is older than the set `conservative`."""
    conservative = asdict(pairs.VERSION_SETS["conservative"]).values()
    oldest = dict(zip(pairs.TITLES, conservative, strict=False))
    for name, version in versions_of(spec).items():
        numbers = releases.parse_numbers(version)
        line = releases.find_line(version, _LINES.get(name, ()))
        if numbers < releases.parse_numbers(oldest[name])[: len(numbers)]:
            says = f"; its maker calls the line {line.status}" if line else ""
            yield f"{pairs.TITLES[name]} {version}: the set `conservative` has {oldest[name]}{says}"

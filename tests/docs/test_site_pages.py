"""The pages of the four reference systems name what exists, and what their example really has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.catalogue.operator_versions import MPI_OPERATOR
from components.model.cluster import ClusterSpec
from components.model.environments import CloudIb, CrusoeProvision
from components.project.engine import wanted_versions
from components.project.write import example_text, mark_example
from components.reading.load import find_marks
from tests.cli.conftest import Call, railyard
from tests.docs.markdown import ROOT, blocks
from tests.docs.site_pages import SITES, consoles, has_key, options_of, page_text
from tests.golden.site import EXAMPLES, load_example

__all__ = ["railyard"]

PAGES: Final = tuple(SITES)
"""The first one has the installation, and the others lead to it."""
ORDER: Final = (
    "railyard init rack7",
    "railyard init --check",
    "railyard check",
    "railyard plan --summary",
    "railyard pin",
    "railyard preflight",
    "pulumi preview",
    "railyard preview",
    "pulumi up",
    "railyard accept",
    "railyard drift",
    "pulumi destroy",
)
HEADINGS: Final = ("Have ready", "How long it takes", "What Railyard does not do")
# What a person leaves out, and Railyard takes from upstream: the step `pin` is about it.
_FROM_UPSTREAM: Final = re.compile("your mirror's path|the chart: ")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_DOTTED: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
_SECTION: Final = re.compile(r"`([a-z_.]+)`: ((?:`[a-z_]+`(?:, )?)+)")


def _inline(page: str) -> list[str]:
    text = page_text(page)
    for block in blocks(ROOT / "docs" / "howto" / f"{page}.md"):
        text = text.replace(block.text, "")
    return re.findall(r"`([^`\n]+)`", text)


def _typed(page: str) -> list[str]:
    """The lines of shell blocks without their comments, in order."""
    return [
        re.split(r"\s+#", line)[0]
        for block in blocks(ROOT / "docs" / "howto" / f"{page}.md")
        if block.language == "sh"
        for line in block.text.splitlines()
    ]


def _calls(page: str) -> Iterator[list[str]]:
    for line in (*_typed(page), *_inline(page)):
        words = line.split()
        if len(words) > 1 and Path(words[0]).name == "railyard" and not words[0].startswith("../"):
            yield words[1:]


@pytest.mark.parametrize("page", PAGES)
def test_each_command_has_the_options_that_are_typed(page: str) -> None:
    calls = list(_calls(page))
    assert len(calls) > 10
    for words in calls:
        name, options = options_of(words)
        assert name, f"railyard {' '.join(words)}"
        assert {each for each in words if each.startswith("--")} <= options, words


@pytest.mark.parametrize("page", PAGES)
def test_the_way_is_whole_and_in_order(page: str) -> None:
    typed = "\n".join(_typed(page))
    places = [typed.find(each) for each in ORDER]
    assert -1 not in places, [each for each in ORDER if each not in typed]
    assert places == sorted(places)
    assert all(f"\n## {each}\n" in page_text(page) for each in HEADINGS)
    assert re.search(r"^## What differs from the \w+, and why$", page_text(page), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_secret_that_the_stack_lacks_is_set(
    page: str, railyard: Call, tmp_path: Path
) -> None:
    railyard("init", str(tmp_path / "rack7"), "--example", SITES[page])
    said = railyard("check", str(tmp_path / "rack7" / "Pulumi.site.yaml")).out
    wanted = set(re.findall(r"pulumi config set --secret railyard:(\w+)", said))
    form = re.compile(r"pulumi config set --secret -s site railyard:(\w+)")
    assert wanted
    assert {name for line in _typed(page) for name in form.findall(line)} == wanted


@pytest.mark.parametrize("page", PAGES)
def test_every_line_to_change_is_explained(page: str) -> None:
    both = page_text(page) + page_text(PAGES[0])  # the other pages lead to the first one's table
    plain = _LINK.sub(r"\1", both).replace("`", "")
    example: Any = SITES[page]
    marks = find_marks(mark_example(example_text(example)), "site.yaml")
    assert len(marks) > 10
    for mark in marks:
        words = mark.fix.removeprefix("write ").partition("; then delete")[0].replace("`", "")
        for each in words.split("; "):
            assert _FROM_UPSTREAM.match(each) or each in plain, each


def _is_a_key(code: str) -> bool:
    return bool(_DOTTED.fullmatch(code)) and code.partition(".")[0] in ClusterSpec.model_fields


@pytest.mark.parametrize("page", PAGES)
def test_every_key_exists(page: str) -> None:
    dotted = {each for each in _inline(page) if _is_a_key(each)}
    sections = _SECTION.findall(page_text(page))
    below = {
        f"{section}.{key}"
        for section, keys in sections
        if section.partition(".")[0] in ClusterSpec.model_fields
        for key in re.findall(r"`(\w+)`", keys)
    }
    assert len(dotted | below) > 6
    assert [each for each in sorted(dotted | below) if not has_key(each)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_short_piece_of_a_site_has_known_keys(page: str) -> None:
    pieces = [each for each in _inline(page) if re.match(r"[a-z_]+: \{", each)]
    assert pieces
    for piece in pieces:
        ((name, values),) = yaml.safe_load(piece).items()
        homes = ("", "host_defaults.", "environment.")
        assert any(
            all(has_key(f"{home}{name}.{key}") for key in values)
            for home in homes
            if has_key(home + name)
        ), piece


@pytest.mark.parametrize("page", PAGES)
def test_releases_and_floors_are_those_of_the_example(page: str) -> None:
    spec, text = load_example(SITES[page]), page_text(page)
    if spec.k3s is not None:
        assert spec.k3s.version in text
        assert MPI_OPERATOR in text
    if isinstance(spec.environment, CloudIb):
        assert isinstance(spec.environment.instances, CrusoeProvision)
        assert all(pool.type in text for pool in spec.environment.instances.pools)
    fractions = (spec.acceptance.perftest_min_fraction, spec.acceptance.nccl_min_fraction)
    if page == "site-000":
        assert all(f"{each}" in text for each in fractions)
    if spec.acceptance.nccl_floor is not None:
        assert f"floor {spec.acceptance.nccl_floor.min_gbyte_s:g}" in text


def _shown(page: str, command: str) -> list[str]:
    """The lines that a console block shows below a command."""
    (found,) = (block.text.splitlines() for block in consoles(page, f"$ {command}"))
    return [line for line in found[1:] if line != "…"]


@pytest.mark.parametrize("page", PAGES[:1])
def test_what_init_prints_is_shown(page: str, railyard: Call, tmp_path: Path) -> None:
    folder = tmp_path / "rack7"
    ended = railyard("init", str(folder), "--example", SITES[page], "--stack", "site")
    said = [line.replace(str(folder), "rack7") for line in ended.out.splitlines()]
    shown = _shown(page, "tools/bin/railyard init")
    assert ended.code == 0
    assert shown == said[: len(shown)]


@pytest.mark.parametrize("page", PAGES[:1])
def test_the_engine_is_the_one_that_a_project_gets(page: str) -> None:
    typed = "\n".join(_typed(page))
    form = r"pulumi plugin install resource (\w+) v([\d.]+)"
    found = dict(re.findall(form, typed)) | {
        "pulumi": re.findall(r"the Pulumi CLI ([\d.]+):", typed)[0]
    }
    assert found == dict(wanted_versions())


@pytest.mark.parametrize("page", PAGES)
def test_the_summary_of_the_plan_is_shown(page: str, railyard: Call) -> None:
    ended = railyard("plan", "--summary", str(EXAMPLES / SITES[page] / "site.yaml"))
    counts = ended.out.rstrip().rpartition("\n\n")[2]
    assert ended.code == 0
    assert _shown(page, "railyard plan --summary") == counts.splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_the_verdicts_of_the_lab_are_those_of_the_planned_probes(page: str, railyard: Call) -> None:
    site = str(EXAMPLES / SITES[page] / "site.yaml")
    planned = railyard("plan", "--stage", "acceptance", site).out
    shown = [
        name
        for name in re.findall(r"^PASSED +(\S+)", page_text(page), re.MULTILINE)
        if name not in {"memlock", "allocatable"}
    ]
    assert len(shown) > 2
    assert [name for name in shown if not re.search(rf"\b{name}\b", planned)] == []
    (counted,) = re.findall(r"^acceptance +(\d+) probes$", page_text(page), re.MULTILINE)
    images = re.findall(r"^## Probe (image-\S+)", planned, re.MULTILINE)  # the page leaves them out
    assert int(counted) == len({*shown, *images})

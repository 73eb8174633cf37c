"""What the pages tell a reader to type exists, and the references are complete."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from components.cli.group import list_commands, load_command
from lab.hosts import faults as host_faults
from lab.switches.onyx.server import OnyxSwitch
from tests.cli.conftest import Call, railyard
from tests.docs.markdown import ROOT, blocks, outputs, tracked

__all__ = ["railyard"]

PAGES = tracked("*.md")
CLI_PAGE = ROOT / "docs" / "reference" / "cli.md"
FAULTS_PAGE = ROOT / "docs" / "reference" / "faults.md"

README = ROOT / "README.md"
SED = re.compile(r"""sed 's\|(.+)\|(.+)\|' (\S+) > (\S+)""")
"""The one form in which the README changes a file."""

_INLINE = re.compile(r"`([^`\n]+)`")


@cache
def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _command_lines(page: Path) -> list[str]:
    """What a reader could type: inline code, and the lines of shell blocks."""
    text = page.read_text()
    lines: list[str] = []
    for block in blocks(page):
        text = text.replace(block.text, "")
        if block.language in {"sh", "console"}:
            typed = block.text.splitlines()
            if block.language == "console":
                typed = [line[2:] for line in typed if line.startswith("$ ")]
            lines += [line.split(" #")[0] for line in typed]
    return lines + _INLINE.findall(text)


def _calls(page: Path, program: str) -> list[list[str]]:
    """The words after `program` wherever it is called with something."""
    found: list[list[str]] = []
    for line in _command_lines(page):
        for part in re.split(r"[;|&]+", line):
            words = part.split()
            if len(words) > 1 and words[0].removeprefix(".venv/bin/") == program:
                found.append(words[1:])
    return found


@cache
def _subcommands() -> dict[str, set[str]]:
    return {
        entry.name: set(getattr(load_command(entry), "commands", {})) for entry in list_commands()
    }


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands_of_a_page_exist(page: Path) -> None:
    known = _subcommands()
    unknown = [
        " ".join(words)
        for words in _calls(page, "railyard")
        if words[0] in known
        and known[words[0]]
        and len(words) > 1
        and words[1] not in {*known[words[0]], "…"}
    ]
    unknown += [
        " ".join(words)
        for words in _calls(page, "railyard")
        if words[0] not in known and not re.match(r"[-A-Z…<]", words[0])
    ]
    unknown += [
        f"make {words[0]}" for words in _calls(page, "make") if words[0] not in _make_targets()
    ]
    assert unknown == []


def test_quick_start_is_make_up() -> None:
    assert ["up"] in _calls(README, "make")
    assert ["down"] in _calls(README, "make")


def test_reference_has_every_command() -> None:
    written = {tuple(words) for words in _calls(CLI_PAGE, "railyard")}
    known = _subcommands()
    for name, nested in known.items():
        for inner in nested or {""}:
            wanted = (name, inner) if inner else (name,)
            assert any(words[: len(wanted)] == wanted for words in written), wanted


def test_reference_has_every_make_target() -> None:
    written = {words[0] for words in _calls(CLI_PAGE, "make")}
    assert _make_targets() <= written


def test_reference_has_every_fault() -> None:
    shown = {
        tuple(shlex.split(line)[:2])
        for line in _INLINE.findall(FAULTS_PAGE.read_text())
        if line.startswith(("leaf-01 ", "gpu01 "))
    }
    switch = {form.split()[0] for form in OnyxSwitch.faults_by_form()}
    host = {line.split()[0] for line in host_faults.FORMS.splitlines()}
    assert {verb for device, verb in shown if device == "leaf-01"} == switch
    assert {verb for device, verb in shown if device == "gpu01"} == host


def test_each_check_that_the_readme_shows_prints_that(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    checked = 0
    for shown in outputs(README):
        if found := SED.fullmatch(shown.command):
            old, new, source, copy = found.groups()
            text = (ROOT / source).read_text()
            assert text.count(old) == 1, shown.command
            (tmp_path / Path(copy).name).write_text(text.replace(old, new))
        elif shown.command.startswith(".venv/bin/railyard check "):
            file = shown.command.split()[-1]
            own = file if file.startswith("examples/") else str(tmp_path / Path(file).name)
            printed = railyard("check", own).out.replace(own, file)
            assert shown.matches(printed), printed
            checked += 1
    assert checked == 2


def test_the_probes_that_the_readme_shows_are_planned(railyard: Call) -> None:
    planned = railyard("plan", "--stage", "acceptance", "examples/dgx-roce/site.yaml").out
    (shown,) = (each for each in outputs(README) if each.command == "make up")
    probes = [line.split()[1] for line in shown.lines if line.startswith("PASSED ")]
    assert len(probes) == 3
    assert [name for name in probes if f"\n## Probe {name} on " not in planned] == []

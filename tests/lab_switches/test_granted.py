"""What a real switch lacks is absent in the lab: held against a table with sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import UsageError
from components.core.record import record
from lab.switches.emulators import make_switch
from lab.views import SwitchConfig
from tests.granted import Row, rows_of


@record
class Which:
    """A switch of a row."""

    os: str
    model: str
    release: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Row):
    """One row; the head of the table says what each field is."""

    ask: str
    lacks: tuple[Which, ...]
    has: tuple[Which, ...]
    first: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    like: str = ""
    says: str = ""
    shows: str = ""


ROWS = rows_of(Path(__file__).with_name("granted.yaml"), Granted)


def answer(which: Which, folder: Path, before: tuple[str, ...], ask: str) -> str:
    """What a switch that has done these lines answers."""
    where = ("127.0.0.1", 0, "admin", "no login here", "granted/leaf-01")
    config = SwitchConfig("leaf-01", which.os, which.model, *where, release=which.release)
    try:
        switch: Any = make_switch(config, folder / "state.json")
    except UsageError as error:
        return str(error)
    for line in before:
        if line == "boot":
            switch.reboot()
        else:
            switch.run_line(line)
    return switch.run_line(ask)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.thing)
def test_a_thing_is_there_only_with_what_brings_it(tmp_path: Path, row: Granted) -> None:
    for number, which in enumerate(row.lacks):
        (tmp_path / f"lacks-{number}").mkdir()
        text = answer(which, tmp_path / f"lacks-{number}", (*row.first, *row.then), row.ask)
        assert row.says in text, f"{which} is kinder than a real switch"
        assert not row.shows or row.shows not in text
    for number, which in enumerate(row.has):
        (tmp_path / f"has-{number}").mkdir()
        before = (*row.first, *row.given, *row.then)
        text = answer(which, tmp_path / f"has-{number}", before, row.like or row.ask)
        assert not row.says or row.says not in text
        assert row.shows in text

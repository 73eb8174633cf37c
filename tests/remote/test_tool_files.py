"""The texts of tools beside the program: which stay, and which are taken away."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from components.remote.tools import (
    FOLDER,
    UNUSED_DAYS,
    digest_of,
    keep_text,
    keep_tools,
    load_text,
    make_tool,
)

TOOL = make_tool("host", "echo this version\n")
OLD = "echo an old version\n"


@pytest.fixture(autouse=True)
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def age(digest: str, days: int) -> Path:
    """Let a text be as old as that."""
    path = FOLDER / digest
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_text_that_no_run_named_for_long_is_taken_away() -> None:
    keep_text(OLD)
    old = digest_of(OLD)
    path = age(old, UNUSED_DAYS + 1)

    keep_tools([TOOL])

    assert not path.exists()
    assert (FOLDER / TOOL.digest).read_text() == TOOL.text


def test_text_of_a_stack_that_was_updated_since_stays() -> None:
    keep_text(OLD)
    old = digest_of(OLD)
    age(old, UNUSED_DAYS - 1)

    keep_tools([TOOL])

    assert load_text("settings", old) == OLD


def test_run_that_names_an_old_text_keeps_it() -> None:
    keep_text(OLD)
    old = digest_of(OLD)
    age(old, UNUSED_DAYS + 1)
    keep_text(OLD)

    keep_tools([TOOL])

    assert load_text("settings", old) == OLD

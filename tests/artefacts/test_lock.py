"""The text of a lock: what is written is read back."""

from __future__ import annotations

from pathlib import Path

import yaml

from components.artefacts.lock import parse_lock, read_lock, render_lock, write_lock
from tests.golden.site import load_example
from tests.graph.locked import lock_of

PATH = Path("site.lock.yaml")


def test_an_empty_lock_says_that_it_is_empty(tmp_path: Path) -> None:
    assert yaml.safe_load(render_lock({})) == {"version": 1, "artefacts": []}
    assert render_lock({}).endswith("\nversion: 1\nartefacts: []\n")
    write_lock(tmp_path / "site.lock.yaml", {})
    read, problems = read_lock(tmp_path / "site.yaml")
    assert (dict(read.entries), read.exists, problems) == ({}, True, ())
    again, _ = parse_lock("version: 1\n", PATH)
    assert (dict(again.entries), again.exists) == ({}, True), "as it was written before"


def test_a_lock_is_read_back_as_it_was_written() -> None:
    entries = lock_of(load_example("crusoe-k3s")).entries
    read, problems = parse_lock(render_lock(entries), PATH)
    assert (dict(read.entries), problems) == (dict(entries), ())
    assert render_lock(read.entries) == render_lock(entries)

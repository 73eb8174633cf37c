"""Long scripts are packed, the same way everywhere, and do what they do unpacked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.plan.make import make_plan
from components.remote.packing import (
    PACK_FROM_CHARACTERS,
    file_name,
    needs_packing,
    pack,
    packed_script,
    unpack,
)
from components.remote.script import render_remote_command
from tests.golden.site import load_example

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "components" / "remote" / "packed"
SITES = ("dgx-roce", "esxi-roce", "shared-rdma", "quantum-ib", "rail-optimised")
LONG = "x=" + "y" * PACK_FROM_CHARACTERS + "\n"


def long_scripts() -> set[str]:
    """Every script of a step that is kept in the state, and too long for one argument."""
    steps = [step for name in SITES for step in make_plan(load_example(name), "dev").steps]
    scripts = {text for step in steps if step.dialect == "sh" for text in (step.apply, step.undo)}
    return {text for text in scripts if text and needs_packing(text)}


def test_the_packed_texts_are_those_of_the_steps() -> None:
    scripts = {file_name(script): script for script in long_scripts()}
    assert scripts, "nothing is packed any more: delete the module"
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        for old in FOLDER.glob("*.txt"):
            if old.name not in scripts:
                old.unlink()
        for name, script in scripts.items():
            if not (FOLDER / name).exists():
                (FOLDER / name).write_text(pack(script))
    kept = {file.name: unpack(file.read_text()) for file in FOLDER.glob("*.txt")}
    assert kept == scripts, "RAILYARD_GOLDENS=1 pytest writes them"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=400))
def test_packing_loses_nothing(script: str) -> None:
    assert unpack(pack(script)) == script


def run(
    script: str, *, stdin: str = "", path: str | None = None
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": path} if path is not None else None
    return subprocess.run(
        ["/bin/sh", "-c", packed_script(script)],
        input=stdin, capture_output=True, text=True, timeout=30, check=False, env=env,
    )  # fmt: skip


def test_a_packed_script_reads_its_own_stdin_and_ends_with_its_own_status() -> None:
    done = run(LONG + 'cat; printf "%s\\n" "$0 ${#x}"; exit 7\n', stdin="mtu_bytes=9000\n")
    assert (done.stdout, done.returncode) == (f"mtu_bytes=9000\n/bin/sh {len(LONG) - 3}\n", 7)


def test_a_host_without_gzip_is_told_so_and_nothing_runs(tmp_path: Path) -> None:
    done = run("echo ran\n", path=str(tmp_path))
    assert done.returncode == 127
    assert done.stdout == ""
    assert "base64 (coreutils) or gzip is missing on this host" in done.stderr


@pytest.mark.parametrize("script", ["true\n", LONG])
def test_a_command_fits_into_one_argument(script: str) -> None:
    command = render_remote_command(script, 5)
    assert len(command) < PACK_FROM_CHARACTERS
    assert ("base64 -d" in command) == (script is LONG)

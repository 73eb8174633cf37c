"""A process of ours imports what it uses: most of a short one's time is its imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_HEAVY: Final = ("asyncssh", "netmiko", "kubernetes", "urllib3", "pulumi.automation")
_STAND_IN: Final = """
from standins.bare import without_init
with without_init("pulumi", "pulumi.runtime"):
    import {}
"""


@pytest.mark.parametrize(
    ("code", "brings"),
    [
        ("import components.cli.evidence", ()),
        ("import components.cli.check", ()),
        ("import components.remote.switch_session", ("asyncssh",)),
        (_STAND_IN.format("standins.command.provider"), ()),
        (_STAND_IN.format("lab.engine.language.host"), ()),
    ],
    ids=["evidence", "check", "session", "command", "language-host"],
)
def test_a_start_brings_no_library_that_it_does_not_use(code: str, brings: tuple[str, ...]) -> None:
    shown = f"import sys\n{code}\nprint(*[n for n in {_HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=False
    )
    assert (done.stderr, tuple(done.stdout.split())) == ("", brings)


def test_the_ssh_library_looks_for_no_other_one_with_a_compiler(tmp_path: Path) -> None:
    for name in ("gcc", "cc", "ld"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    code = (
        "import os; from components.remote.ssh_library import asyncssh; print(os.environ['PATH'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", f"{tmp_path}\n")
    assert not (tmp_path / "started").exists()


def test_a_closed_standard_output_is_no_traceback() -> None:
    code = "from components.cli.say import guard, say; guard(lambda: say('a report', paint=True))"
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code],
        stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_standard_output_is_no_traceback() -> None:
    code = "from components.cli.say import guard, say; guard(lambda: say('a report'))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "the output cannot be written: No space left on device\n"

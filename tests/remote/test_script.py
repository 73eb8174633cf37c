"""The text of one remote exec, run by real shells behind a stand-in for sudo."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.core.errors import Bug
from components.remote.step import render_remote_command

SHELLS = ("bash", "dash")
SUDO = """#!/bin/sh
# Runs what follows -n and keeps the arguments, so that a test can see what was asked for.
[ "$1" = -n ] || { echo 'sudo: a password is required' >&2; exit 1; }
shift
printf '%s\\n' "$1" "$2" "$3" "$4" "$5" "$6" > "$SUDO_LOG"
exec "$@"
"""


@pytest.fixture(scope="session")
def sudo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the front of PATH."""
    folder = tmp_path_factory.mktemp("sudo")
    program = folder / "sudo"
    program.write_text(SUDO)
    program.chmod(0o755)
    return folder


def run(
    shell: str, sudo: Path, command: str, *, stdin: str = ""
) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which(shell)
    assert program is not None, f"{shell} is not installed"
    return subprocess.run(
        [program, "-c", command],
        input=stdin.encode(),
        env={"PATH": f"{sudo}:{os.environ['PATH']}", "SUDO_LOG": str(sudo / "log")},
        capture_output=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_runs_with_its_own_stdin(shell: str, sudo: Path) -> None:
    done = run(shell, sudo, render_remote_command("cat; echo end", 5), stdin="mtu_bytes=9000\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"mtu_bytes=9000\nend\n", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_root_under_a_deadline_that_ends_it(shell: str, sudo: Path) -> None:
    run(shell, sudo, render_remote_command("true", 300))
    assert (sudo / "log").read_text().splitlines() == ["timeout", "-k", "10", "300", "sh", "-c"]
    late = run(shell, sudo, render_remote_command("exec sleep 20", 0.2))
    assert late.returncode == 124


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_scripts_status_is_the_commands_status(shell: str, sudo: Path, code: int) -> None:
    assert run(shell, sudo, render_remote_command(f"exit {code}", 5)).returncode == code


def test_a_full_disk_is_no_success(sudo: Path) -> None:
    """Before 5.1 bash keeps each here-document in a file; without it there would be no script."""
    full = "trap '' XFSZ\nulimit -f 0\nBASH_COMPAT=50\n"
    command = render_remote_command("true", 5).replace("sudo -n timeout -k 10 5 ", "")
    done = run("bash", sudo, full + command)
    assert done.returncode == 1
    assert b"cannot create temp file for here-document" in done.stderr


HARD = [
    "$HOME `id` $(id) \\$x \\\\ \\n",
    '\'single\' "double" "it\'s"',
    "trailing blank \t",
    "*.sh ? [a-z] {1..3} ~ ! !! #",
    "%s %d\ttab",
    "Größe µs → 日本",
    "EOF",
    ')"',
    "a\n\n\nb",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", HARD)
def test_hard_texts_arrive_byte_for_byte(shell: str, sudo: Path, text: str) -> None:
    assert arrived(shell, sudo, text) == text.encode()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(
        # Control characters: bash takes \x01 out of a here-document; no script holds one. Beyond
        # ASCII: dash takes \xc2 before \xa0 out of it; our scripts are ASCII, see below.
        alphabet=st.characters(
            max_codepoint=126, include_characters="\n\t", exclude_categories=("Cs", "Cc")
        ),
        max_size=60,
    )
)
def test_any_text_arrives_byte_for_byte(sudo: Path, text: str) -> None:
    """Trailing newlines are the one thing that a command substitution takes."""
    text = text.rstrip("\n")
    for shell in SHELLS:
        assert arrived(shell, sudo, text) == text.encode()


def arrived(shell: str, sudo: Path, text: str) -> bytes:
    """What `sh -c` got as its script, seen through a sudo that prints instead of running."""
    printing = sudo / "printing"
    printing.mkdir(exist_ok=True)
    program = printing / "sudo"
    program.write_text("#!/bin/sh\nshift 7\nprintf '%s' \"$1\"\n")
    program.chmod(0o755)
    done = run(shell, printing, render_remote_command(text, 5))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_script_of_ours_goes_beyond_ascii() -> None:
    rooms = Path(__file__).parents[2] / "components"
    scripts = sorted(rooms.glob("*/scripts/*"))
    assert len(scripts) > 20
    assert [
        path.name for path in scripts if path.is_file() and not path.read_text().isascii()
    ] == []


def test_a_refused_sudo_is_told(sudo: Path) -> None:
    command = render_remote_command("true", 5).replace("sudo -n", "sudo", 1)
    done = run("dash", sudo, command)
    assert done.returncode == 1
    assert b"password is required" in done.stderr


def test_a_script_that_would_end_its_own_fence_is_a_bug() -> None:
    with pytest.raises(Bug, match="RAILYARD_SCRIPT"):
        render_remote_command("echo\nRAILYARD_SCRIPT\nrm -rf /", 5)

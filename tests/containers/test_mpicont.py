"""The forced command: Open MPI's launch gets through, byte for byte, and nothing else does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.containers.container_plan import mpicont_text

PREFIX = (
    "PATH=/usr/local/mpi/bin:$PATH ; export PATH ; "
    "LD_LIBRARY_PATH=/usr/local/mpi/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; "
    "DYLD_LIBRARY_PATH=/usr/local/mpi/lib:${DYLD_LIBRARY_PATH:-} ; export DYLD_LIBRARY_PATH ;   "
)
ORTED = (
    '/usr/local/mpi/bin/orted -mca ess "env" -mca ess_base_jobid "3303735296" '
    '-mca ess_base_vpid 1 -mca orte_node_regex "vm[2:01-4]@0(4)" '
    '-mca orte_hnp_uri "3303735296.0;tcp://192.168.4.11,172.17.0.1:40241" '
    '-mca plm "rsh" --tree-spawn -mca pmix "^s1,s2,cray,isolated"'
)
"""As Open MPI 4's rsh launcher composes it (orte/mca/plm/rsh/plm_rsh_module.c)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mpicont")
    (path / "mpicont.sh").write_text(mpicont_text("mpicont"))
    (path / "sudo").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (path / "sudo").chmod(0o755)
    return path


def call(folder: Path, asked: str | None) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{folder}:{os.environ['PATH']}"}
    if asked is not None:
        environ["SSH_ORIGINAL_COMMAND"] = asked
    return subprocess.run(
        ["/bin/sh", str(folder / "mpicont.sh")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "asked", [ORTED, PREFIX + ORTED, "orted --daemonize", "prted --prtemca ess 'env'"]
)
def test_a_launch_reaches_the_container_unchanged(folder: Path, asked: str) -> None:
    done = call(folder, asked)
    assert done.returncode == 0, done.stderr
    words = ["-n", "docker", "exec", "mpicont", "/bin/bash", "-c", asked]
    assert done.stdout == "\n".join(words) + "\n"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (None, "no command was asked for"),
        ("", "no command was asked for"),
        ("bash -i", "'bash' is something else"),
        ("scp -t /root", "'scp' is something else"),
        ("orted; reboot", "something follows the daemon"),
        ("reboot; orted", "'reboot' is something else"),
        ("orted && reboot", "a sign that only a shell needs"),
        ("orted | sh", "a sign that only a shell needs"),
        ("orted > /etc/passwd", "a sign that only a shell needs"),
        ("orted\nreboot", "several lines"),
        ("orted $(reboot)", "an expansion"),
        ('orted "$(reboot)"', "an expansion"),
        ("orted `reboot`", "an expansion"),
        ('orted "$PATHS"', "an expansion"),
        ("orted \\; reboot", "an expansion"),
        ("PATH=/x reboot; orted", "'PATH' is set for one command"),
        ("LD_PRELOAD=/x.so ; orted", "'LD_PRELOAD=/x.so' is something else"),
        ("export LD_PRELOAD; orted", "'export LD_PRELOAD' is no part of a launch"),
        ("PATH=/x ; export PATH", "there is none of them"),
        ('orted "unfinished', "a sign that only a shell needs"),
        ("/bin/xorted", "'/bin/xorted' is something else"),
    ],
)
def test_everything_else_is_refused_with_the_reason(
    folder: Path, asked: str | None, reason: str
) -> None:
    done = call(folder, asked)
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stdout == ""


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    tail=st.text(alphabet=st.sampled_from(sorted(" ab/;|&<>(){}*?$`\\\"'\n#!~^[]=:-")), max_size=12)
)
def test_no_second_command_ever_runs(folder: Path, tail: str) -> None:
    """What gets through is run by a real bash here: nothing but the daemon may start."""
    done = call(folder, f"orted {tail}")
    if done.returncode:
        assert done.stdout == ""
        return
    asked = done.stdout.split("\n", 6)[6].removesuffix("\n")
    script = (
        f"orted() {{ echo daemon; }}\ncommand_not_found_handle() {{ echo STRANGER; }}\n{asked}\n"
    )
    ran = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == "daemon\n"
    assert ran.stderr == ""


def test_the_name_of_the_container_is_the_files(folder: Path) -> None:
    assert "container=train #" in mpicont_text("train")
    assert "container=mpicont #" in (folder / "mpicont.sh").read_text()

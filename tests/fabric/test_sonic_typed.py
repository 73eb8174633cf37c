"""A document of 64 ports, typed into a real bash on a terminal: it arrives whole."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import flatten
from components.fabric.systems.linux import SESSION
from components.fabric.targets import target_of_apply
from tests.fabric.sonic_lab import rows_of
from tests.fabric.test_sonic_watchdog import WATCHED

COLUMNS = 511
"""Of the terminal that the session asks for."""
TOOL = """#!/bin/sh
[ "$1 $2 $3" = "-j /dev/stdin --write-to-db" ] && cat "$2" >>"$0.got"
"""


def large() -> SwitchState:
    one = WATCHED.ports["Ethernet0"]
    ports = {f"Ethernet{4 * n}": one.model_copy(update={"cable_m": 40}) for n in range(64)}
    return WATCHED.model_copy(update={"ports": ports})


def read_to(terminal: int, pattern: str, typed: bytes = b"") -> str:
    """What the shell prints while something is typed, up to a pattern; it has 20 seconds."""
    text, ends_at_s = "", time.monotonic() + 20
    while not re.search(pattern, text):
        left_s = max(ends_at_s - time.monotonic(), 0)
        ready, free, _ = select.select([terminal], [terminal] if typed else [], [], left_s)
        assert ready or free, text[-500:]
        if ready:
            text += os.read(terminal, 65536).decode()
        elif free:
            typed = typed[os.write(terminal, typed[:64]) :]
    return text


def test_a_document_is_typed_into_bash(tmp_path: Path) -> None:
    tool = tmp_path / "sonic-cfggen"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "ready$ "}
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        read_to(ours, r"ready\$ $")
        desired, driver = large(), system_of("sonic")
        factory = driver.factory_state(tuple(desired.ports))
        lines = flatten(driver.plan_changes(factory, target_of_apply(factory, desired)))
        for line in lines:
            tool.with_suffix(".got").unlink(missing_ok=True)
            typed = f"{SESSION.line_of(line)}\n".encode()
            answer = read_to(ours, r"\[status \d+\]\r?\n", typed)
            assert driver.find_refusal(answer.replace("\r", "")) is None
            got = (tmp_path / "sonic-cfggen.got").read_text()
            assert json.loads(got) == rows_of(line)
        os.write(ours, b"exit\n")
        shell.wait(timeout=10)
    os.close(ours)
    assert len(lines) == 3

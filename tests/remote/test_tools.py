"""The line that runs a tool: it runs what it has hashed, and nothing else. By real shells."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from components.core.errors import Bug
from components.remote.step import (
    TOOL_MISSING,
    Endpoint,
    RemoteStep,
    render_call,
    render_remote_command,
    render_sent_call,
    render_step_command,
)
from components.remote.tools import TOOLS_FOLDER, Tool, ToolCall, assemble, make_tool

SHELLS = ("bash", "dash")
SUDO = '#!/bin/sh\nshift\nexec "$@"\n'
ENDPOINT = Endpoint("gpu01", "host", "127.41.0.11", 2222, "nvidia", "ssh-ed25519 AAAA")
TOOL = assemble(
    "host",
    ("greet() { printf '%s\\n' \"$1 $(cat)\"; }\n",),
    {"say": 'greet "$who"\n', "end": "exit 3\n", "undo": "exit 0\n", "broken": "exit 1\n"},
)


class Folder:
    """A host that is a folder."""

    def __init__(self, root: Path, shell: str) -> None:
        self.root, self.shell = root, shell
        self.tools = root / "tools"
        (root / "sudo").write_text(SUDO)
        (root / "sudo").chmod(0o755)

    def put(self, tool: Tool, text: str | None = None) -> Path:
        folder = self.tools / tool.digest
        folder.mkdir(parents=True)
        (folder / "tool").write_text(tool.text if text is None else text)
        return folder

    def run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        program = shutil.which(self.shell)
        assert program is not None, f"{self.shell} is not installed"
        return subprocess.run(
            [program, "-c", command.replace(TOOLS_FOLDER, str(self.tools))],
            input=stdin,
            env={"PATH": f"{self.root}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(tmp_path, request.param)


def make_step(tool: Tool = TOOL) -> RemoteStep:
    return RemoteStep(
        name="gpu01-host",
        endpoint=ENDPOINT,
        dialect="sh",
        desired="mtu_bytes=9000\n",
        apply=ToolCall(tool, "say", ("who=it's me",)),
        undo=ToolCall(tool, "undo"),
        deadline_s=5,
    )


def test_a_digest_is_of_the_file(host: Folder) -> None:
    folder = host.put(TOOL)
    assert hashlib.sha256((folder / "tool").read_bytes()).hexdigest() == TOOL.digest
    assert make_tool("host", "a\n\n").text == "a\n"


def test_a_step_is_one_line_without_the_script() -> None:
    line = render_step_command(make_step(), make_step().apply)
    assert "\n" not in line
    assert len(line) < 480
    assert "greet" not in line
    assert line.split()[-1] == "keep=gpu01-host"
    assert TOOL.digest in shlex.split(line)


def test_stdin_arguments_and_status_are_the_tools_own(host: Folder) -> None:
    host.put(TOOL)
    call = ToolCall(TOOL, "say", ("who=it's $HOME me",))
    done = host.run(render_call(call, 5), "wanted")
    assert (done.returncode, done.stdout, done.stderr) == (0, "it's $HOME me wanted\n", "")
    assert host.run(render_call(ToolCall(TOOL, "end"), 5)).returncode == 3
    assert host.run(render_call(ToolCall(TOOL, "nothing"), 5)).returncode == 64
    sent = host.run(render_sent_call(call, 5), "wanted")
    assert (sent.returncode, sent.stdout) == (0, "it's $HOME me wanted\n")


def test_a_tool_that_is_sent_for_one_run_leaves_nothing(host: Folder) -> None:
    host.run(render_sent_call(make_call(), 5), "wanted")
    assert not host.tools.exists()


def make_call() -> ToolCall:
    return ToolCall(TOOL, "say", ("who=me",))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (None, "missing"),
        ("", "altered"),
        (TOOL.text[:-40], "altered"),
        (f"{TOOL.text}touch ran\n", "altered"),
        (f"touch ran\n{TOOL.text}", "altered"),
        (f"{TOOL.text}\n \n", "altered"),
    ],
)
def test_another_text_is_never_run(host: Folder, text: str | None, word: str) -> None:
    if text is not None:
        host.put(TOOL, text)
    done = host.run(f"cd {host.root}; " + render_call(make_call(), 5))
    assert done.returncode == TOOL_MISSING
    assert done.stdout == ""
    path = host.tools / TOOL.digest / "tool"
    where = f"railyard: {path} is {word}"
    assert f"{where}, nothing was run: pulumi up sends it" in done.stderr
    assert not (host.root / "ran").exists()


def test_a_step_keeps_its_tool_until_its_undo_ran(host: Folder) -> None:
    folder, step = host.put(TOOL), make_step()
    assert host.run(render_step_command(step, step.apply)).returncode == 0
    assert (folder / "needed-by.gpu01-host").exists()
    assert host.run(render_step_command(step, step.undo or "")).returncode == 0
    assert not folder.exists()


def test_a_new_version_replaces_the_old_one_when_the_last_step_moved(host: Folder) -> None:
    old, step = host.put(TOOL), make_step()
    other = RemoteStep(
        "gpu01-other", ENDPOINT, "sh", "", ToolCall(TOOL, "say", ("who=me",)), 5,
        undo=ToolCall(TOOL, "undo"),
    )  # fmt: skip
    for each in (step, other):
        assert host.run(render_step_command(each, each.apply)).returncode == 0
    newer = assemble("host", (), {"say": "exit 0\n", "undo": "exit 0\n"})
    new, moved = host.put(newer), make_step(newer)
    assert host.run(render_step_command(moved, moved.apply)).returncode == 0
    assert old.exists(), "the other step's undo needs it"
    assert host.run(render_step_command(other, other.undo or "")).returncode == 0
    assert not old.exists()
    assert new.exists()


def test_a_failed_step_keeps_both_versions(host: Folder) -> None:
    old, step = host.put(TOOL), make_step()
    assert host.run(render_step_command(step, step.apply)).returncode == 0
    newer = assemble("host", (), {"say": "exit 1\n", "undo": "exit 0\n"})
    new, moved = host.put(newer), make_step(newer)
    assert host.run(render_step_command(moved, moved.apply)).returncode == 1
    assert old.exists()
    assert list(new.iterdir()) == [new / "tool"], "no state holds a step that failed"
    assert host.run(render_step_command(step, step.undo or "")).returncode == 0, "by the old state"


def test_a_host_gets_no_text(host: Folder) -> None:
    del host
    with pytest.raises(Bug, match="never a text"):
        render_step_command(make_step(), "rm -rf /")
    assert "cat <<" in render_remote_command("true", 5)

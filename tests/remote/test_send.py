"""Putting tools on a host: what is there already, what goes wrong, and what is left behind.

The shell text is the real one, by a real shell; the host is a folder of this machine.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from components.core.errors import DeviceError, UsageError
from components.remote.host_session import HostAnswer, HostSession
from components.remote.lines import read_request
from components.remote.send import Sender
from components.remote.sending import SendRequest, missing_note, plan_sending, with_repair
from components.remote.step import Endpoint
from components.remote.tools import Tool, keep_tools, load_tool, make_tool

ENDPOINT = Endpoint("gpu01", "host", "127.41.0.11", 2222, "nvidia", "ssh-ed25519 AAAA")
TOOL = make_tool("host", "echo first\n" * 4000)
NAMES = make_tool("names", "192.0.2.1 gpu01\n")
SUDO = '#!/bin/sh\nshift\nexec "$@"\n'
SUDO_PASSWORD = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"


@dataclass
class LocalSession:
    """A session whose host is a folder; `before` may stand before the shell."""

    root: Path
    before: tuple[str, ...] = ()
    cut: int | None = None
    """How much of stdin arrives."""
    ran: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Give it a sudo that lets everything pass."""
        self.sudo(SUDO)

    def sudo(self, text: str) -> None:
        (self.root / "bin").mkdir(exist_ok=True)
        (self.root / "bin/sudo").write_text(text)
        (self.root / "bin/sudo").chmod(0o755)

    @property
    def tools(self) -> Path:
        return self.root / "railyard/tools"

    def place(self, tool: Tool) -> Path:
        return self.tools / tool.digest / "tool"

    async def run(self, command: str, *, stdin: str = "", deadline_s: float) -> HostAnswer:
        self.ran.append(command.rpartition("railyard ")[2])
        done = await asyncio.to_thread(
            subprocess.run,
            [*self.before, "/bin/sh", "-c", command],
            input=stdin[: self.cut],
            env={"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
        return HostAnswer(done.stdout, done.stderr, done.returncode)

    def sender(self, *tools: Tool) -> Sender:
        desired = plan_sending(ENDPOINT, tools).desired
        request = read_request(SendRequest, desired, "request to send tools")
        texts = {tool.digest: tool.text for tool in tools}
        session = cast("HostSession", self)
        return Sender(request, session, lambda _name, it: texts[it], str(self.tools))

    def send(self, *tools: Tool) -> dict[str, object]:
        return asyncio.run(self.sender(*tools).send())

    def refusal(self, *tools: Tool) -> str:
        with pytest.raises(DeviceError) as refused:
            self.send(*tools)
        return str(refused.value)


@pytest.fixture
def host(tmp_path: Path) -> LocalSession:
    return LocalSession(tmp_path)


def test_what_lacks_is_sent_once_and_for_root_alone(host: LocalSession) -> None:
    assert host.send(TOOL, NAMES) == {"sent": ["host", "names"], "there": []}
    assert len(host.ran) == 4
    for tool in (TOOL, NAMES):
        assert host.place(tool).read_text() == tool.text
        assert stat.S_IMODE(host.place(tool).stat().st_mode) == 0o600, "nothing is executed there"
        assert stat.S_IMODE(host.place(tool).parent.stat().st_mode) == 0o700
        assert not host.place(tool).with_name("tool.new").exists()
    host.ran.clear()
    assert host.send(TOOL, NAMES) == {"sent": [], "there": ["host", "names"]}
    assert len(host.ran) == 1


@pytest.mark.parametrize("text", ["", TOOL.text[:-5], f"{TOOL.text}reboot\n"])
def test_what_is_altered_or_cut_short_is_sent_again(host: LocalSession, text: str) -> None:
    host.send(TOOL)
    host.place(TOOL).write_text(text)
    assert host.send(TOOL) == {"sent": ["host"], "there": []}
    assert host.place(TOOL).read_text() == TOOL.text


def test_other_versions_go_when_no_step_needs_them(host: LocalSession) -> None:
    other, kept = make_tool("host", "old\n"), make_tool("host", "older\n")
    host.send(other)
    host.send(kept)
    assert not host.place(other).exists(), "the sending step alone needed it"
    (host.place(kept).parent / "needed-by.gpu01-k3s").touch()
    host.send(TOOL)
    assert host.place(kept).exists()
    asyncio.run(host.sender(TOOL).remove())
    assert not host.place(TOOL).exists()
    assert host.place(kept).exists()
    (host.place(kept).parent / "needed-by.gpu01-k3s").unlink()
    asyncio.run(host.sender(TOOL).remove())
    assert not host.tools.parent.exists()


def test_the_marks_of_a_renamed_host_follow(host: LocalSession) -> None:
    host.send(TOOL)
    folder = host.place(TOOL).parent
    for mark in ("gpu01-tools", "gpu01-k3s", "gpu07-node"):
        (folder / f"needed-by.{mark}").touch()
    (folder / "needed-by.gpu01-tools").rename(folder / "needed-by.old-tools")
    (folder / "needed-by.gpu01-k3s").rename(folder / "needed-by.old-k3s")
    host.send(TOOL)
    marks = {path.name for path in folder.glob("needed-by.*")}
    assert marks == {f"needed-by.{name}" for name in ("gpu01-tools", "gpu01-k3s", "gpu07-node")}


def test_removing_twice_and_from_a_host_that_has_none(host: LocalSession) -> None:
    for _ in range(2):
        assert asyncio.run(host.sender(TOOL).remove()) == {"removed": True}


def file_for_folder(host: LocalSession) -> None:
    host.tools.parent.mkdir(parents=True)
    host.tools.write_text("")


def folder_for_tool(host: LocalSession) -> None:
    host.place(TOOL).mkdir(parents=True)


def full_disk(host: LocalSession) -> None:
    host.place(TOOL).parent.mkdir(parents=True)
    host.place(TOOL).with_name("tool.new").symlink_to("/dev/full")


def read_only(host: LocalSession) -> None:
    host.tools.parent.mkdir(parents=True)
    folder = str(host.tools.parent)
    host.before = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", folder, folder)


def cut_on_the_way(host: LocalSession) -> None:
    host.cut = 1000


@pytest.mark.parametrize(
    ("harm", "words", "fix"),
    [
        (file_for_folder, "File exists|Not a directory", "move it away"),
        (folder_for_tool, "is a folder", "a folder occupies the tool's place"),
        (full_disk, "No space left on device", "free space on the file system"),
        (read_only, "Read-only file system", "mount -o remount,rw"),
        (cut_on_the_way, "is not the tool", "cut or changed on the way: run again"),
    ],
    ids=["file", "folder", "full", "read-only", "cut"],
)
def test_what_cannot_be_written_is_told_with_host_place_and_fix(
    host: LocalSession, harm: Callable[[LocalSession], None], words: str, fix: str
) -> None:
    harm(host)
    refusal = host.refusal(TOOL)
    assert any(each in refusal for each in words.split("|")), refusal
    assert refusal.startswith("gpu01 (nvidia@127.41.0.11:2222): the tools cannot be put into")
    assert str(host.tools) in refusal
    assert fix in refusal
    assert "Nothing was run or changed" in refusal
    assert not host.place(TOOL).is_file()
    assert not host.place(TOOL).with_name("tool.new").exists()


@pytest.mark.lab  # gives a folder to another user, which only root can
def test_a_folder_of_another_user_is_refused(host: LocalSession) -> None:
    host.tools.mkdir(parents=True)
    os.chown(host.tools, 4712, 4712)
    refusal = host.refusal(TOOL)
    assert f"{host.tools} is not root's" in refusal
    assert "chown -R root:root" in refusal
    assert not host.place(TOOL).exists()


def test_a_login_that_may_not_become_root_is_told_the_sudoers_line(host: LocalSession) -> None:
    host.sudo(SUDO_PASSWORD)
    assert "nvidia ALL=(root) NOPASSWD: ALL" in host.refusal(TOOL)
    assert not host.tools.exists()


def test_the_text_lies_beside_the_program_under_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keep_tools((TOOL, NAMES))
    assert load_tool("host", TOOL.digest) == TOOL.text
    (tmp_path / ".railyard/tools" / TOOL.digest).write_text("altered")
    with pytest.raises(UsageError) as unknown:
        load_tool("host", TOOL.digest)
    words = str(unknown.value)
    assert f"the state names the tool host {TOOL.digest}" in words
    assert "Nothing was changed" in words
    assert "pulumi up" in words
    keep_tools((TOOL,))
    assert load_tool("host", TOOL.digest) == TOOL.text


def test_a_lost_tool_is_a_repair_and_a_new_version_is_none() -> None:
    stdin = plan_sending(ENDPOINT, (TOOL, NAMES)).desired
    assert missing_note(stdin, ()) == ""
    assert missing_note(stdin, ["0" * 64]) == ""
    note = missing_note(stdin, [TOOL.digest])
    assert note == "1: missing or altered on the host: host"
    noted = with_repair(stdin, note)
    assert missing_note(noted, ()) == note
    assert missing_note(noted, [NAMES.digest]) == "2: missing or altered on the host: names"

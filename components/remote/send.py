"""Send tools (`railyard device tools`) and files by digest, streamed, from this machine to hosts.

Complete copies on the host stay, so a second run asks once and writes nothing. The text of a tool
goes over SSH into a file that only root can write, and gets its name after its digest is verified.

Files are K3s, its images, or a driver. The state of their step has names and digests. The bytes are
in the project (`.railyard/files`), written by `components/artefacts/store.py`, and on the host in a
folder named by digest.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from typing import Final

from components.artefacts.naming import HOST_FILES, LOCAL_FILES
from components.core.errors import DeviceError, UsageError
from components.remote.host_session import HostAnswer, HostSession, connect_to_host
from components.remote.lines import read_request
from components.remote.sending import (
    FILES_DEADLINE_S,
    FILES_REQUEST,
    REQUEST,
    SEND_DEADLINE_S,
    FilesRequest,
    SendRequest,
)
from components.remote.step import Endpoint, render_sent_call, secrets_for
from components.remote.tools import (
    ESXI_TOOLS,
    TOOLS_FOLDER,
    ToolCall,
    load_tool,
    make_tool,
    sending_script,
    strip_comments,
)

_LACKS: Final = "lacks "
Evidence = dict[str, object]
Work = Callable[[HostSession], Coroutine[None, None, Evidence]]
_FIXES: Final[Mapping[str, str]] = {
    "No space left": "free space on the file system of that folder (1 MB is enough)",
    "Disk quota": "free space on the file system of that folder (1 MB is enough)",
    "Read-only": "make its file system writable (mount -o remount,rw), and see in the kernel's log"
    " why it became read-only",
    "File exists": "a file occupies the folder's place: move it away",
    "Not a directory": "a file occupies the folder's place: move it away",
    "is a folder": "a folder occupies the tool's place: move it away",
    "is not root's": "give the folder to root (chown -R root:root), and see who changed it",
    "not permitted": "an attribute or a security module forbids it: see `lsattr -d` of the folder",
    "Permission denied": "a security module or an export without root's rights forbids it",
    "what arrived": "the text was cut or changed on the way: run again",
}
"""Part of the host's message to its fix."""


@dataclass(slots=True)
class Sender:
    """One host: its wanted tools, and the open session."""

    request: SendRequest
    session: HostSession
    load: Callable[[str, str], bytes] = load_tool
    folder: str = TOOLS_FOLDER
    sent: list[str] = field(default_factory=list[str])

    async def send(self) -> Evidence:
        """Send the missing tools.

        Returns:
            The evidence: names of the tools sent.

        Raises:
            DeviceError: A tool cannot be stored there; the text has host, path and fix.
            UsageError: This machine lacks a tool too.
        """
        await self._find_folder()
        digests = tuple(self.request.tools.values())
        lacking = await self._settle(digests)
        for name, digest in self.request.tools.items():
            if digest in lacking:
                answer = await self._run("put", (digest,), self.load(name, digest).decode())
                self._demand(answer)
                self.sent.append(name)
        if lacking and (left := await self._settle(digests)):
            raise DeviceError(f"{self._where}: sent, and not there: {', '.join(sorted(left))}")
        return {"sent": self.sent, "there": sorted(set(self.request.tools) - set(self.sent))}

    async def remove(self) -> Evidence:
        """Remove this step's mark, and every tool without a mark.

        This needs no tool text, so any machine can destroy a state of another Railyard version.
        """
        if self.request.place is not None:
            self.folder = ESXI_TOOLS
        self._demand(await self._run("remove", ()))
        return {"removed": True}

    async def _settle(self, digests: tuple[str, ...]) -> set[str]:
        answer = await self._run("settle", digests)
        self._demand(answer)
        return _lacking(answer)

    async def _find_folder(self) -> None:
        place = self.request.place
        if place is None:
            return
        tool = make_tool("hypervisor", self.load("hypervisor", place.digest).decode())
        command = render_sent_call(ToolCall(tool, "place"), SEND_DEADLINE_S, ash=True)
        answer = await self.session.run(command, stdin=place.stdin, deadline_s=SEND_DEADLINE_S)
        self._demand(answer)
        self.folder = answer.stdout.strip()

    async def _run(self, action: str, digests: tuple[str, ...], stdin: str = "") -> HostAnswer:
        head = {"tools": self.folder, "step": self.request.step, "action": action}
        variables = "".join(f"{key}={shlex.quote(value)}\n" for key, value in head.items())
        command = f"sh -c {shlex.quote(variables + sending_script())} railyard {' '.join(digests)}"
        if self.request.place is None:
            command = f"sudo -n timeout -k 10 {SEND_DEADLINE_S:g} {command}"
        return await self.session.run(command, stdin=stdin, deadline_s=SEND_DEADLINE_S)

    @property
    def _where(self) -> str:
        return self.request.endpoint.where

    def _demand(self, answer: HostAnswer) -> None:
        if answer.exit_status == 0:
            return
        words = _last_words(answer)
        if "sudo" in words and "password" in words:
            user = self.request.endpoint.user
            raise DeviceError(
                f"{self._where} wants a password for sudo. Add as root, with visudo:\n"
                f"          {user} ALL=(root) NOPASSWD: ALL"
            )
        fix = next((fix for part, fix in _FIXES.items() if part in words), "see the words above")
        raise DeviceError(
            f"{self._where}: the tools cannot be put into {self.folder}: {words}.\n"
            f"  fix    {fix}. Nothing was run or changed; then run again"
        )


def _last_words(answer: HostAnswer) -> str:
    return (answer.stderr.strip().splitlines() or ["no words"])[-1]


def _lacking(answer: HostAnswer) -> set[str]:
    lines = answer.stdout.splitlines()
    return {line.removeprefix(_LACKS) for line in lines if line.startswith(_LACKS)}


def run_tools(text: str, environ: Mapping[str, str]) -> str:
    """Send the tools in the request on stdin; the evidence is JSON.

    Raises:
        UsageError: The text is not a request, or the environment lacks a key.
        DeviceError: See `Sender.send`.
    """
    request = read_request(REQUEST, text, "request to send tools")
    return _on_host(request.endpoint, environ, lambda session: Sender(request, session).send())


def run_remove_tools(text: str, environ: Mapping[str, str]) -> str:
    """Undo `run_tools`, after the undo of every other step on the host; raise as it does."""
    request = read_request(REQUEST, text, "request to send tools")
    return _on_host(request.endpoint, environ, lambda session: Sender(request, session).remove())


def _on_host(endpoint: Endpoint, environ: Mapping[str, str], work: Work) -> str:
    async def connected() -> Evidence:
        async with connect_to_host(endpoint, secrets_for(endpoint, environ)) as session:
            return await work(session)

    return json.dumps(asyncio.run(connected()), sort_keys=True) + "\n"


LOOK_DEADLINE_S: Final = 120.0
"""Seconds to hash existing files: half a gigabyte on a slow disk."""


@cache
def _script() -> str:
    folder = resources.files("components.remote")
    return strip_comments(folder.joinpath("scripts", "files.sh").read_text("utf-8"))


async def send(request: FilesRequest, session: HostSession) -> Evidence:
    """Send the missing files; complete copies on the host stay.

    Raises:
        DeviceError: A file cannot be stored there; the text has host, path and fix.
        UsageError: The project lacks a file.
    """
    names = [f"{digest}/{name}" for digest, name in request.files.items()]
    lacking = await _settle(request, session, names)
    sent: list[str] = []
    for digest in sorted(lacking):
        name = request.files[digest]
        source = LOCAL_FILES / digest
        if not source.is_file():
            raise UsageError(
                f"{source}: {name} is not here, so it cannot be sent to "
                f"{request.endpoint.where}. Nothing was changed there.\n"
                "  fix    run `pulumi up` again: it fetches the files of the site's lock first"
            )
        command = _command("put", [f"{digest}/{name}"], FILES_DEADLINE_S)
        answer = await session.run_with_file(command, source, deadline_s=FILES_DEADLINE_S)
        _demand_files(request, answer)
        sent.append(name)
    if lacking and (left := await _settle(request, session, names)):
        raise DeviceError(f"{request.endpoint.where}: sent, and not there: {', '.join(left)}")
    return {"sent": sent, "there": sorted({*request.files.values()} - {*sent})}


async def remove(request: FilesRequest, session: HostSession) -> Evidence:
    """Remove all files."""
    command = _command("remove", [], LOOK_DEADLINE_S)
    _demand_files(request, await session.run(command, deadline_s=LOOK_DEADLINE_S))
    return {"removed": True}


async def _settle(request: FilesRequest, session: HostSession, names: list[str]) -> set[str]:
    command = _command("settle", names, LOOK_DEADLINE_S)
    answer = await session.run(command, deadline_s=LOOK_DEADLINE_S)
    _demand_files(request, answer)
    return _lacking(answer)


def _command(action: str, words: list[str], deadline_s: float) -> str:
    head = f"files={shlex.quote(HOST_FILES)}\naction={action}\n"
    arguments = " ".join(map(shlex.quote, words))
    script = shlex.quote(head + _script())
    return f"sudo -n timeout -k 10 {deadline_s:g} sh -c {script} railyard {arguments}"


def _demand_files(request: FilesRequest, answer: HostAnswer) -> None:
    if answer.exit_status == 0:
        return
    words = _last_words(answer)
    fix = "read the error above, and run again: Railyard keeps the files that arrived"
    if "No space left" in words:
        fix = f"free space on the file system of {HOST_FILES}"
    raise DeviceError(
        f"{request.endpoint.where}: the files cannot be put in {HOST_FILES}: {words}\n"
        f"  fix    {fix}"
    )


def run_files(text: str, environ: Mapping[str, str]) -> str:
    """Send the files in the request on stdin; the evidence lists the files sent.

    Raises:
        DeviceError: They cannot be stored there.
        UsageError: The text is not a request, or the environment lacks its key.
    """
    request = read_request(FILES_REQUEST, text, "request to send files")
    return _on_host(request.endpoint, environ, partial(send, request))


def run_remove_files(text: str, environ: Mapping[str, str]) -> str:
    """Remove the files in the request on stdin; raise as `run_files` does."""
    request = read_request(FILES_REQUEST, text, "request to send files")
    return _on_host(request.endpoint, environ, partial(remove, request))

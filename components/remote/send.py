"""Run the steps of hosts (`railyard device steps`), and send tools and files by digest to them.

Complete copies on the host stay, so a second run asks once and writes nothing. The text of a tool
goes over SSH into a file that only root can write, and gets its name after its digest is verified.

Files are K3s, its images, or a driver. The state of their step has names and digests. The bytes are
in the project (`.railyard/files`), written by `components/artefacts/gather.py`, and on the host in
a folder named by digest.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter

from components.artefacts.naming import HOST_FILES, LOCAL_FILES
from components.core.errors import DeviceError, UsageError
from components.core.templates import fault_text, read_table
from components.remote import sending, step, tools
from components.remote.host_session import HostAnswer, HostSession, connect_patiently
from components.remote.lines import parse_lines, read_request

_LACKS: Final = "lacks "
Evidence = dict[str, object]
LOOK_DEADLINE_S: Final = 120.0
"""Seconds to hash existing files: half a gigabyte on a slow disk."""
_Work = Callable[[step.Endpoint, str, HostSession], Coroutine[None, None, Evidence]]
_ENDPOINT: Final = TypeAdapter(step.Endpoint)


@dataclass(slots=True)
class Sender:
    """One host: its wanted tools, and the open session."""

    request: sending.SendRequest
    session: HostSession
    load: Callable[[str, str], str] = tools.load_tool
    folder: str = tools.TOOLS_FOLDER

    async def send(self) -> Evidence:
        """Send what is missing; DeviceError: not stored there; UsageError: not here."""
        if (place := self.request.place) is not None:
            tool = tools.make_tool("hypervisor", self.load("hypervisor", place.digest))
            call, deadline_s = tools.ToolCall(tool, "place"), sending.SEND_DEADLINE_S
            command = step.render_sent_call(call, deadline_s, ash=True)
            answer = await self.session.run(command, stdin=place.stdin, deadline_s=deadline_s)
            self._demand(answer)
            self.folder = answer.stdout.strip()
        digests, sent = tuple(self.request.tools.values()), list[str]()
        lacking = await self._run("settle", digests)
        for name, digest in self.request.tools.items():
            if digest in lacking:
                await self._run("put", (digest,), self.load(name, digest))
                sent.append(name)
        if lacking and (left := await self._run("settle", digests)):
            where = self.request.endpoint.where
            raise DeviceError(f"{where}: sent, and not there: {', '.join(sorted(left))}")
        return {"sent": sent, "there": sorted({*self.request.tools} - {*sent})}

    async def remove(self) -> Evidence:
        """Remove this step's mark, and every tool without one; this needs no tool's text."""
        if self.request.place is not None:
            self.folder = tools.ESXI_TOOLS
        await self._run("remove", ())
        return {"removed": True}

    async def _run(self, action: str, digests: tuple[str, ...], stdin: str = "") -> set[str]:
        """Let the script act, and return the digests that the host lacks."""
        head = {"tools": self.folder, "step": self.request.step, "action": action}
        as_root = self.request.place is None
        command = _call("send", head, digests, sending.SEND_DEADLINE_S if as_root else 0)
        answer = await self.session.run(command, stdin=stdin, deadline_s=sending.SEND_DEADLINE_S)
        self._demand(answer)
        return _lacking(answer)

    def _demand(self, answer: HostAnswer) -> None:
        if answer.exit_status == 0:
            return
        words, where = _last_words(answer), self.request.endpoint.where
        if "sudo" in words and "password" in words:
            user = self.request.endpoint.user
            raise DeviceError(fault_text(__file__, "no-sudo", where=where, user=user))
        fixes: Mapping[str, str] = read_table(__file__, "fixes")
        fix = next((fix for part, fix in fixes.items() if part in words), "see the words above")
        said = {"where": where, "folder": self.folder, "words": words, "fix": fix}
        raise DeviceError(fault_text(__file__, "tools-unplaced", **said))


def _call(
    script: Literal["send", "files"], head: Mapping[str, str], words: Iterable[str], root_s: float
) -> str:
    """The line that runs a script with these variables; as root, if it has a deadline."""
    variables = "".join(f"{key}={shlex.quote(value)}\n" for key, value in head.items())
    text = shlex.quote(variables + tools.sending_script(script))
    line = f"sh -c {text} railyard {' '.join(map(shlex.quote, words))}"
    return f"sudo -n timeout -k 10 {root_s:g} {line}" if root_s else line


def _last_words(answer: HostAnswer) -> str:
    return (answer.stderr.strip().splitlines() or ["no words"])[-1]


def _lacking(answer: HostAnswer) -> set[str]:
    lines = answer.stdout.splitlines()
    return {line.removeprefix(_LACKS) for line in lines if line.startswith(_LACKS)}


async def send(request: sending.FilesRequest, session: HostSession) -> Evidence:
    """Send what is missing; DeviceError: not stored there; UsageError: not here."""
    names = [f"{digest}/{name}" for digest, name in request.files.items()]
    lacking = _lacking(await _of_files(request, session, "settle", names))
    sent: list[str] = []
    for digest in sorted(lacking):
        name = request.files[digest]
        source = LOCAL_FILES / digest
        if not source.is_file():
            words = {"source": source, "name": name, "where": request.endpoint.where}
            raise UsageError(fault_text(__file__, "file-not-here", **words))
        await _of_files(request, session, "put", [f"{digest}/{name}"], source)
        sent.append(name)
    if lacking and (left := _lacking(await _of_files(request, session, "settle", names))):
        raise DeviceError(f"{request.endpoint.where}: sent, and not there: {', '.join(left)}")
    return {"sent": sent, "there": sorted({*request.files.values()} - {*sent})}


async def remove(request: sending.FilesRequest, session: HostSession) -> Evidence:
    """Remove all files."""
    await _of_files(request, session, "remove")
    return {"removed": True}


async def _of_files(
    request: sending.FilesRequest,
    session: HostSession,
    action: str,
    names: Sequence[str] = (),
    source: Path | None = None,
) -> HostAnswer:
    """Let the script act on the files of a host, and send it a file of this machine."""
    deadline_s = sending.FILES_DEADLINE_S if source else LOOK_DEADLINE_S
    command = _call("files", {"files": HOST_FILES, "action": action}, names, deadline_s)
    answer = await session.run(command, stdin=source or "", deadline_s=deadline_s)
    if answer.exit_status == 0:
        return answer
    words = _last_words(answer)
    fix = "read the error above, and run again: Railyard keeps the files that arrived"
    if "No space left" in words:
        fix = f"free space on the file system of {HOST_FILES}"
    where = request.endpoint.where
    raise DeviceError(f"{where}: the files cannot be put in {HOST_FILES}: {words}\n  fix    {fix}")


def _sender(stdin: str, session: HostSession) -> Sender:
    return Sender(read_request(sending.SendRequest, stdin, "request to send tools"), session)


_WORK: Final[Mapping[str, _Work]] = {
    "tools": lambda _, stdin, session: _sender(stdin, session).send(),
    "remove-tools": lambda _, stdin, session: _sender(stdin, session).remove(),
    "files": lambda _, stdin, session: send(
        read_request(sending.FilesRequest, stdin, "request to send files"), session
    ),
    "remove-files": lambda on, _, session: remove(sending.FilesRequest(on, {}), session),
}
"""End of a step's line, after ` device `, to what this process does on the host."""


@dataclass(slots=True)
class StepsRun:
    """The steps of one resource: those that must run, on one connection to each host.

    The output has a record of each of several steps. The next run repeats a step only if its text
    changed or if it reads a secret, and undoes a step that is gone.
    """

    parts: Sequence[sending.Part]
    environ: Mapping[str, str]
    stack: AsyncExitStack
    _open: dict[step.Endpoint, HostSession] = field(
        default_factory=dict[step.Endpoint, HostSession]
    )

    async def apply(self, main: str) -> HostAnswer:
        """Run the steps in order, until one fails.

        The state does not have a resource whose first run failed, so no `destroy` would undo its
        work. Therefore the steps before `main` are then undone.
        """
        printed = self.environ.get(sending.PREVIOUS_OUTPUT, "")
        was, before, said = sending.read_records(printed), list[sending.Part](), ""
        names = {part.step for part in self.parts}
        on = next((part.on for part in self.parts if part.step == main), "")
        left = {name: record for name, (record, _) in was.items() if name not in names}
        gone = [
            sending.Part(name, on, "", record.get("delete", ""), record.get("seconds", "0"))
            for name, record in left.items()
        ]
        answer = await self.undo(gone)
        for part in self.parts:
            record = sending.record_of(part)
            last, output = was.get(part.step, ({}, ""))
            if part.secret or last != record:
                answer = await self._try(part, [] if was else before)
                output = answer.stdout
            if answer.exit_status:
                return answer
            before = [] if part.step == main else [*before, part]
            output = f"{output.rstrip()}\n" if output else ""
            said += sending.render_record(record, output) if len(self.parts) > 1 else output
        return HostAnswer(said, "", 0)

    async def undo(self, parts: Sequence[sending.Part]) -> HostAnswer:
        """Undo steps in reverse order, until an undo fails."""
        said = ""
        for part in (each for each in reversed(parts) if each.delete):
            answer = await self._run(part, part.delete)
            if answer.exit_status:
                return answer
            said += answer.stdout
        return HostAnswer(said, "", 0)

    async def _try(self, part: sending.Part, before: Sequence[sending.Part]) -> HostAnswer:
        try:
            answer = await self._run(part, part.create)
        except DeviceError:
            with suppress(DeviceError):
                await self.undo(before)
            raise
        if answer.exit_status:
            await self.undo(before)
        return answer

    async def _run(self, part: sending.Part, line: str) -> HostAnswer:
        """Run one line of a step on its host, or the work of this process there."""
        on = part.on or json.dumps(parse_lines(part.stdin)["endpoint"])
        endpoint = _ENDPOINT.validate_json(on)
        session = self._open.get(endpoint)
        if session is None:
            secrets = step.secrets_for(endpoint, self.environ)
            session = await connect_patiently(self.stack, endpoint, secrets)
            self._open[endpoint] = session
        if work := _WORK.get(line.rpartition(" device ")[2]):
            evidence = await work(endpoint, part.stdin, session)
            return HostAnswer(json.dumps(evidence, sort_keys=True) + "\n", "", 0)
        stdin = step.secrets_from(self.environ)[part.secret] if part.secret else part.stdin
        deadline_s = float(part.seconds) + 2 * step.KILL_AFTER_S
        return await session.run(line, stdin=stdin, deadline_s=deadline_s)


def run_steps(text: str, main: str, environ: Mapping[str, str]) -> HostAnswer:
    """Run the steps on stdin; an empty `main` undoes them. UsageError: no step, or no secret."""
    parts = sending.split_parts(text)
    if not parts:
        raise UsageError("the text on stdin has no step of a host")

    async def connected() -> HostAnswer:
        async with AsyncExitStack() as stack:
            run = StepsRun(parts, environ, stack)
            return await (run.apply(main) if main else run.undo(parts))

    return asyncio.run(connected())

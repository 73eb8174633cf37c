"""Plan the steps that send tools and files to a host, and write several steps as one text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, cast

from components.core.plain_text import one_line
from components.core.record import field, record
from components.core.to_json import OMIT_EMPTY, to_json
from components.remote.lines import parse_lines, render_lines
from components.remote.step import (
    REPAIR_LINE,
    Endpoint,
    RemoteStep,
    render_endpoint,
    render_request,
    render_step_command,
)
from components.remote.tools import Tool, ToolCall, digest_of, distinct

TOOLS_SUFFIX: Final = "-tools"
"""End of the step's name; this becomes the resource name, so it is an API."""
TOOL_LACKS: Final = "tool.lacks."
"""Prefix of an observed fact: the digest of a tool that is missing or altered on the host."""
SEND_DEADLINE_S: Final = 120.0
"""Seconds for one host: all its tools have some 300 KB."""
FILES_SUFFIX: Final = "-files"
"""End of the step's name; this becomes the resource name, so it is an API."""
FILES_DEADLINE_S: Final = 1800.0
"""Seconds for one file: 300 MB of images over a link of 2 Mbit/s."""
_HEAD: Final = "# "
"""Start of a line about a step; no line of a step's own stdin starts so."""
_FIRST: Final = f"{_HEAD}step "
_DIGITS: Final = 16
"""Digits of a digest in a record."""
Record: TypeAlias = dict[str, str]
PREVIOUS_OUTPUT: Final = "PULUMI_COMMAND_STDOUT"
"""Variable with the output of the last run of the same resource; it is missing in the first one."""


@record
class Place:
    """The verb that prints the tools' folder on an ESXi host."""

    digest: str
    """The tool's digest; its text is sent for this one run."""
    stdin: str


@record
class SendRequest:
    """The input of `railyard device tools`."""

    endpoint: Endpoint
    tools: Mapping[str, str]
    """Name to digest; the project has the texts (`tools.FOLDER`)."""
    place: Place | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def step(self) -> str:
        """Name of the step, whose mark keeps the tools of this version."""
        return f"{self.endpoint.device}{TOOLS_SUFFIX}"


def plan_sending(
    endpoint: Endpoint, tools: Iterable[Tool], place: tuple[ToolCall, str] | None = None
) -> RemoteStep:
    """Plan the step that sends tools to one host; on ESXi, `place` prints their folder."""
    all_tools = distinct(tools)
    digests = {tool.name: tool.digest for tool in all_tools}
    sent = SendRequest(endpoint, digests, place=place and Place(place[0].tool.digest, place[1]))
    return RemoteStep(
        sent.step, endpoint, "device", render_lines(to_json(sent)), "device tools",
        SEND_DEADLINE_S, "device remove-tools", reads=all_tools,
    )  # fmt: skip


def with_repair(desired: str, note: str) -> str:
    """Return the request with the repair note of this run, if there is one."""
    return render_lines({**parse_lines(desired), "repair": note}) if note else desired


def lacking_tools(stdin: str, lacking: Iterable[str]) -> tuple[str, ...]:
    """Return the names of sent tools whose digests are missing on the host."""
    sent, gone = cast("Mapping[str, str]", parse_lines(stdin).get("tools", {})), set(lacking)
    return tuple(sorted(name for name, digest in sent.items() if digest in gone))


def missing_note(stdin: str, lacking: Iterable[str]) -> str:
    """Return the repair note of a sending step; without a lacking tool, the last one stays."""
    last = str(parse_lines(stdin).get("repair", ""))
    names = lacking_tools(stdin, lacking)
    if not names:
        return last
    number = int(last.partition(":")[0] or 0) + 1
    return f"{number}: missing or altered on the host: {', '.join(names)}"


@record
class FilesRequest:
    """The input of `railyard device files`."""

    endpoint: Endpoint
    files: Mapping[str, str]
    """SHA-256 to the file's name on the host."""


def plan_files(endpoint: Endpoint, files: Mapping[str, str]) -> RemoteStep | None:
    """Plan the step that sends files to a host; None without files."""
    if not files:
        return None
    request = render_request(endpoint, files=dict(sorted(files.items())))
    name, undo = f"{endpoint.device}{FILES_SUFFIX}", "device remove-files"
    deadline_s = FILES_DEADLINE_S * len(files)
    return RemoteStep(name, endpoint, "device", request, "device files", deadline_s, undo)


@record
class Part:
    """One step as the stdin of a resource records it, all as text."""

    step: str
    on: str = ""
    """The endpoint as JSON; empty for a step whose stdin is a request with its endpoint."""
    create: str = ""
    delete: str = ""
    """Empty for a step without an undo."""
    seconds: str = "0"
    secret: str = ""
    """Name of the secret that the step reads instead of `stdin`."""
    stdin: str = ""


def render_parts(steps: Iterable[tuple[RemoteStep, str]]) -> str:
    """Render steps with their repair notes: lines about each, then its stdin as it is."""
    text = ""
    for step, note in steps:
        is_request = step.dialect == "device"
        about = {
            "step": step.name,
            "on": "" if is_request else render_endpoint(step.endpoint),
            "create": render_step_command(step, step.apply),
            "delete": step.undo and render_step_command(step, step.undo),
            "seconds": f"{step.deadline_s:g}",
            "secret": step.secret_stdin,
        }
        text += "".join(f"{_HEAD}{key} {value}\n" for key, value in about.items() if value)
        if step.secret_stdin is None:
            repair = f"{REPAIR_LINE}{one_line(note)}\n" if note else ""
            text += with_repair(step.desired, note) if is_request else step.desired + repair
    return text


def split_parts(text: str) -> tuple[Part, ...]:
    """Return the steps of a stdin that `render_parts` wrote; none of another text."""
    if not text.startswith(_FIRST):
        return ()
    found: list[dict[str, str]] = []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith(_HEAD):
            key, _, value = line.removeprefix(_HEAD).partition(" ")
            found += [{"stdin": ""}] if key == "step" else []
            found[-1][key] = value
        else:
            found[-1]["stdin"] += f"{line}\n"
    return tuple(Part(**each) for each in found)


def record_of(part: Part) -> Record:
    """Return what the output of a run says of a step: what it was, and how it is undone."""
    digest = digest_of(f"{part.on}\n{part.create}\n{part.stdin}")[:_DIGITS]
    undo = {"delete": part.delete, "seconds": part.seconds} if part.delete else {}
    return {"step": part.step, "digest": digest} | undo


def render_record(record: Record, printed: str = "") -> str:
    """Render a step's record and its output, for the output of a run."""
    return f"{_HEAD}{json.dumps(record)}\n{printed}"


def read_records(printed: str) -> dict[str, tuple[Record, str]]:
    """Return each step's record and output, from the output of a run of several steps."""
    found: dict[str, tuple[Record, str]] = {}
    step = ""
    for line in printed.splitlines(keepends=True):
        if line.startswith(f"{_HEAD}{{"):
            record = cast("Record", json.loads(line.removeprefix(_HEAD)))
            step = record["step"]
            found[step] = record, ""
        elif step:
            record, before = found[step]
            found[step] = record, f"{before}{line}"
    return found

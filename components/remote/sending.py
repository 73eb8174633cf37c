"""Plan the steps that send tools and files to a host before every other step there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import TypeAdapter

from components.core.to_json import OMIT_EMPTY
from components.remote.lines import parse_lines, render_lines
from components.remote.step import Endpoint, RemoteStep, render_request
from components.remote.tools import Tool, ToolCall, distinct

TOOLS_SUFFIX: Final = "-tools"
"""End of the step's name; this becomes the resource name, so it is an API."""
TOOL_LACKS: Final = "tool.lacks."
"""Prefix of an observed fact: the digest of a tool that is missing or altered on the host."""
SEND_DEADLINE_S: Final = 120.0
"""Seconds for one host: all its tools have some 300 KB."""


@dataclass(frozen=True, slots=True)
class Place:
    """The verb that prints the tools' folder on an ESXi host."""

    digest: str
    """The tool's digest; its text is sent for this one run."""
    stdin: str


@dataclass(frozen=True, slots=True)
class SendRequest:
    """The input of `railyard device tools`."""

    endpoint: Endpoint
    tools: Mapping[str, str]
    """Name to digest; the project has the texts (`tools.FOLDER`)."""
    repair: str = ""
    place: Place | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def step(self) -> str:
        """Name of the step, whose mark keeps the tools of this version."""
        return f"{self.endpoint.device}{TOOLS_SUFFIX}"


REQUEST: Final = TypeAdapter(SendRequest)


def plan_sending(
    endpoint: Endpoint, tools: Iterable[Tool], place: tuple[ToolCall, str] | None = None
) -> RemoteStep:
    """Plan the step that sends tools to one host; on ESXi, `place` prints their folder."""
    all_tools = distinct(tools)
    more = {"place": Place(place[0].tool.digest, place[1])} if place else {}
    parts = {name: {"digest": each.digest, "stdin": each.stdin} for name, each in more.items()}
    digests = {tool.name: tool.digest for tool in all_tools}
    return RemoteStep(
        name=f"{endpoint.device}{TOOLS_SUFFIX}",
        endpoint=endpoint,
        dialect="device",
        desired=render_request(endpoint, tools=digests, repair="", **parts),
        apply="device tools",
        undo="device remove-tools",
        deadline_s=SEND_DEADLINE_S,
        reads=all_tools,
    )


def with_repair(desired: str, note: str) -> str:
    """Return the request with the repair note of this run."""
    if not note:
        return desired
    return render_lines({**parse_lines(desired), "repair": note})


def lacking_tools(stdin: str, lacking: Iterable[str]) -> tuple[str, ...]:
    """Return the names of sent tools whose digests are missing on the host."""
    sent, gone = cast("Mapping[str, str]", parse_lines(stdin).get("tools", {})), set(lacking)
    return tuple(sorted(name for name, digest in sent.items() if digest in gone))


def missing_note(stdin: str, lacking: Iterable[str]) -> str:
    """Return the repair note of a sending step; a new version of a tool is an edit, not a repair.

    Without a lacking tool, the note of the last stdin stays, to avoid another change.
    """
    last = str(parse_lines(stdin).get("repair", ""))
    names = lacking_tools(stdin, lacking)
    if not names:
        return last
    number = int(last.partition(":")[0] or 0) + 1
    return f"{number}: missing or altered on the host: {', '.join(names)}"


FILES_SUFFIX: Final = "-files"
"""End of the step's name; this becomes the resource name, so it is an API."""
FILES_DEADLINE_S: Final = 1800.0
"""Seconds for one file: 300 MB of images over a link of 2 Mbit/s."""


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """The input of `railyard device files`."""

    endpoint: Endpoint
    files: Mapping[str, str]
    """SHA-256 to the file's name on the host."""
    repair: str = ""


FILES_REQUEST: Final = TypeAdapter(FilesRequest)


def plan_files(endpoint: Endpoint, files: Mapping[str, str]) -> RemoteStep | None:
    """Plan the step that sends files to a host; None without files."""
    if not files:
        return None
    return RemoteStep(
        name=f"{endpoint.device}{FILES_SUFFIX}",
        endpoint=endpoint,
        dialect="device",
        desired=render_request(endpoint, files=dict(sorted(files.items())), repair=""),
        apply="device files",
        undo="device remove-files",
        deadline_s=FILES_DEADLINE_S * len(files),
    )

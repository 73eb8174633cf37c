"""The step that puts files on a host that it does not fetch itself, as a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from components.remote.step import Endpoint, RemoteStep, render_request

FILES_SUFFIX: Final = "-files"
"""How the name of the step ends: it becomes the resource name, so it is an API."""
SEND_DEADLINE_S: Final = 1800.0
"""Seconds for one file: 300 MB of images over a link of 2 Mbit/s."""


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """What `railyard device files` reads on stdin."""

    endpoint: Endpoint
    files: Mapping[str, str]
    """SHA-256 to the file's name on the host."""
    repair: str = ""


REQUEST: Final = TypeAdapter(FilesRequest)


def plan_files(endpoint: Endpoint, files: Mapping[str, str]) -> RemoteStep | None:
    """Plan to put files on a host; None without any."""
    if not files:
        return None
    return RemoteStep(
        name=f"{endpoint.device}{FILES_SUFFIX}",
        endpoint=endpoint,
        dialect="device",
        desired=render_request(endpoint, files=dict(sorted(files.items())), repair=""),
        apply="device files",
        undo="device remove-files",
        deadline_s=SEND_DEADLINE_S * len(files),
    )

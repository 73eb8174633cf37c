"""Files that this machine sends to hosts: K3s, its images, a driver. By digest, and streamed.

The step's state has names and digests. The bytes lie beside the program (`.railyard/files`), where
`components/artefacts/gather.py` puts them, and on the host in a folder of their digest.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from components.artefacts.naming import HOST_FILES, LOCAL_FILES
from components.core.errors import DeviceError, UsageError
from components.remote.file_plan import REQUEST, SEND_DEADLINE_S, FilesRequest
from components.remote.host_runs import secrets_for
from components.remote.host_session import HostAnswer, HostSession, connect_to_host
from components.remote.request import read_request
from components.remote.tools import strip_comments

LOOK_DEADLINE_S: Final = 120.0
"""Seconds to hash what is there: half a gigabyte on a slow disk."""
_LACKS: Final = "lacks "
_NO_SPACE: Final = "No space left"


@cache
def _script() -> str:
    folder = resources.files("components.remote")
    return strip_comments(folder.joinpath("scripts", "files.sh").read_text("utf-8"))


async def send(request: FilesRequest, session: HostSession) -> dict[str, object]:
    """Send what the host lacks; what lies there whole is left alone.

    Raises:
        DeviceError: A file cannot be put there; the text says host, path and fix.
        UsageError: A file is not beside the program.
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
        command = _command("put", [f"{digest}/{name}"], SEND_DEADLINE_S)
        answer = await session.run_with_file(command, source, deadline_s=SEND_DEADLINE_S)
        _demand(request, answer)
        sent.append(name)
    if lacking and (left := await _settle(request, session, names)):
        raise DeviceError(f"{request.endpoint.where}: sent, and not there: {', '.join(left)}")
    return {"sent": sent, "there": sorted({*request.files.values()} - {*sent})}


async def remove(request: FilesRequest, session: HostSession) -> dict[str, object]:
    """Take all files away."""
    command = _command("remove", [], LOOK_DEADLINE_S)
    _demand(request, await session.run(command, deadline_s=LOOK_DEADLINE_S))
    return {"removed": True}


async def _settle(request: FilesRequest, session: HostSession, names: list[str]) -> set[str]:
    command = _command("settle", names, LOOK_DEADLINE_S)
    answer = await session.run(command, deadline_s=LOOK_DEADLINE_S)
    _demand(request, answer)
    lines = answer.stdout.splitlines()
    return {line.removeprefix(_LACKS) for line in lines if line.startswith(_LACKS)}


def _command(action: str, words: list[str], deadline_s: float) -> str:
    head = f"files={shlex.quote(HOST_FILES)}\naction={action}\n"
    arguments = " ".join(map(shlex.quote, words))
    script = shlex.quote(head + _script())
    return f"sudo -n timeout -k 10 {deadline_s:g} sh -c {script} railyard {arguments}"


def _demand(request: FilesRequest, answer: HostAnswer) -> None:
    if answer.exit_status == 0:
        return
    words = (answer.stderr.strip().splitlines() or ["no words"])[-1]
    fix = "see the words above, and run again: what has arrived is kept"
    if _NO_SPACE in words:
        fix = f"free space on the file system of {HOST_FILES}"
    raise DeviceError(
        f"{request.endpoint.where}: the files cannot be put in {HOST_FILES}: {words}\n"
        f"  fix    {fix}"
    )


def run_files(text: str, environ: Mapping[str, str]) -> str:
    """Send the files of a request on stdin; the evidence names those that were sent.

    Raises:
        DeviceError: They cannot be put there.
        UsageError: It is no request, or its key is not in the environment.
    """
    return asyncio.run(_with_host(text, environ, removes=False))


def run_remove_files(text: str, environ: Mapping[str, str]) -> str:
    """Take the files of a request on stdin away.

    Raises:
        DeviceError: They cannot be removed.
        UsageError: It is no request, or its key is not in the environment.
    """
    return asyncio.run(_with_host(text, environ, removes=True))


async def _with_host(text: str, environ: Mapping[str, str], *, removes: bool) -> str:
    request = read_request(REQUEST, text, "request to send files")
    async with connect_to_host(request.endpoint, secrets_for(request.endpoint, environ)) as session:
        evidence = await (remove if removes else send)(request, session)
    return json.dumps(evidence, sort_keys=True) + "\n"

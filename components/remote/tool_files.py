"""Where the texts of tools lie on the machine that runs Pulumi: for the process that sends them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from components.remote.tools import Tool

FOLDER: Final = Path(".railyard") / "tools"
"""Relative to the program's directory, as all that inner commands read."""


def keep_tools(tools: Iterable[Tool]) -> None:
    """Write each text under its digest, unless it is there.

    Raises:
        UsageError: The folder cannot be written.
    """
    for tool in tools:
        path = FOLDER / tool.digest
        if path.is_file() and _digest(path.read_bytes()) == tool.digest:
            continue
        draft = path.with_name(f"{tool.digest}.{os.getpid()}")
        try:
            FOLDER.mkdir(parents=True, exist_ok=True)
            draft.write_text(tool.text, "utf-8")
            draft.replace(path)
        except OSError as error:
            raise UsageError(
                f"{path}: the tools for the hosts cannot be written: {error.strerror}.\n"
                "  fix    make the folder .railyard beside Pulumi.yaml writable"
            ) from error


def load_tool(name: str, digest: str) -> bytes:
    """The text of a tool.

    Raises:
        UsageError: No tool of that digest is here: another version of Railyard made the state.
    """
    path = FOLDER / digest
    try:
        text = path.read_bytes()
    except OSError:
        text = b""
    if _digest(text) != digest:
        raise UsageError(
            f"the state names the tool {name} {digest}, and neither the host nor this version of"
            " Railyard has it. Nothing was changed.\n"
            "  fix    run `pulumi up`, which moves the host to the tools of this version; then"
            " `pulumi destroy` works. Or run it with the version that made the state"
        )
    return text


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()

"""The logins that Docker keeps for this machine, so that a user logs in once."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from components.artefacts.web import Login

_HUB: Final = "index.docker.io"


def docker_logins(environ: Mapping[str, str] = os.environ) -> dict[str, Login]:
    """Registry to login, from `config.json` of Docker; none where it cannot be read.

    Only logins that are in the file: a credential helper is a program, and is not started.
    """
    folder = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        read = json.loads((folder / "config.json").read_text("utf-8"))
        logins = cast("Mapping[str, Mapping[str, str]]", read.get("auths") or {})
        return {_host(name): _login(entry["auth"]) for name, entry in logins.items() if entry}
    except (OSError, ValueError, KeyError, AttributeError, TypeError, binascii.Error):
        return {}


def _host(name: str) -> str:
    """Docker Hub's entry is the address of an older API: `https://index.docker.io/v1/`."""
    host = name.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return _HUB if host.endswith("docker.io") else host


def _login(auth: str) -> Login:
    user, _, password = base64.b64decode(auth).decode().partition(":")
    return Login(user, password)

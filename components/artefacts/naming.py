"""Names and addresses on the site's own ground: where a mirror, a registry or a host has a thing.

Nothing else in Railyard makes such a name. Whoever has one of them does not rewrite it again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from components.artefacts.reference import parse_image
from components.model.sources import Mirror, Registry, Sources

HOST_FILES: Final = "/var/lib/railyard/files"
"""Where a host has the files that this machine sends, each in a folder of its SHA-256."""
LOCAL_FILES: Final = Path(".railyard") / "files"
"""Beside the program, each file under its SHA-256: from there it is sent."""
_PORT: Final = ":"
_IN_A_PATH: Final = "_"
"""A path of a registry may hold no colon: `10.0.0.1:5000` becomes `10.0.0.1_5000`."""


def mirrored(address: str, mirror: Mirror | None) -> str:
    """An https address as the mirror has it: its url, then upstream's host and path."""
    if mirror is None or not address.startswith("https://"):
        return address
    base = mirror.url.rstrip("/")
    if address == base or address.startswith(f"{base}/"):
        return address
    return f"{base}/{address.removeprefix('https://')}"


def in_registry(image: str, registry: Registry | None) -> str:
    """The name of an image as it is in the site's registry; one that is there already stays."""
    found = parse_image(image)
    if registry is None or found.registry == registry_host(registry):
        return image
    # Only a registry's port is replaced: a tag and a digest have colons too.
    below = found.registry.replace(_PORT, _IN_A_PATH)
    return f"{registry.address}/{below}{str(found).removeprefix(found.registry)}"


def registry_host(registry: Registry) -> str:
    """The registry itself, without the path below which images are."""
    return registry.address.partition("/")[0]


def registry_path(registry: Registry) -> str:
    """The path below which images are, with its slash; empty without one."""
    path = registry.address.partition("/")[2]
    return f"{path}/" if path else ""


def host_file(sha256: str, address: str) -> str:
    """The path on a host of a file that is sent to it; its own name says what kind it is."""
    return f"{HOST_FILES}/{sha256}/{address.rpartition('/')[2].replace('%2B', '+')}"


def sent_digest(path: str) -> str | None:
    """The digest of a file that is sent to hosts, by its path there; None of any other path."""
    match = re.fullmatch(rf"{HOST_FILES}/([0-9a-f]{{64}})/[^/]+", path)
    return match[1] if match else None


def sends_files(sources: Sources) -> bool:
    """Whether hosts get files over SSH in place of downloading them.

    From a bundle there is no other way. A mirror with a CA or a login of its own would put both
    onto every host, so this machine fetches from it.
    """
    mirror = sources.mirror
    return sources.bundle is not None or (
        mirror is not None and (mirror.ca is not None or mirror.login is not None)
    )


def file_in_mirror(address: str) -> str:
    """The path of an address in a mirror's folder: host and path, as a bundle lays files out."""
    parts = urlsplit(address)
    return f"{parts.netloc}{parts.path}"

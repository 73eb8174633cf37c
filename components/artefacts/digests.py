"""Checksums of files, and the words for one that is wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wrong_checksum(found: str, wanted: str) -> tuple[str, str]:
    """What is wrong, and what helps."""
    return (
        f"its checksum is {found}, want {wanted}; it was not used",
        "if upstream replaced it for a good reason, take it with `railyard pin SITE --update NAME`",
    )

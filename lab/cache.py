"""Where this machine keeps what the lab builds and unpacks, outside every clone."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder: RAILYARD_CACHE, or `railyard` in the user's folder of caches."""
    explicit = os.environ.get("RAILYARD_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(explicit) if explicit else Path(base) / "railyard"

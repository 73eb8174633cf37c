"""Where the installed Railyard came from, for the requirements of a new project (PEP 610)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import cast


@dataclass(frozen=True, slots=True)
class Source:
    """The installed package."""

    version: str
    origin: str = ""
    """Address that pip installed it from, where that was no package index."""
    commit: str = ""
    """Commit of a repository, where it came from one."""

    @property
    def requirement(self) -> str:
        """Its line in requirements.txt. A folder or a file is no address for another machine."""
        if self.commit:
            return f"railyard @ git+{self.origin}@{self.commit}"
        return f"railyard=={self.version}"

    @property
    def by_hand(self) -> str:
        """What pip has to be given beside requirements.txt; empty where the index has it."""
        return "" if self.commit else self.origin


def find_source() -> Source:
    """Where the Railyard that runs now came from."""
    package = distribution("railyard")
    text = package.read_text("direct_url.json")
    if text is None:
        return Source(package.version)
    read = cast("dict[str, object]", json.loads(text))
    vcs = cast("dict[str, str]", read.get("vcs_info") or {})
    commit = vcs.get("commit_id", "") if vcs.get("vcs") == "git" else ""
    return Source(package.version, str(read.get("url", "")), commit)

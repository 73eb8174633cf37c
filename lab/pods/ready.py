"""Whether the stage of the suite can run on this machine as it is."""

from __future__ import annotations

from pathlib import Path

from lab.pods import enter
from lab.pods.build import missing_programs
from lab.pods.tree import tree_folder


def why_not(cache: Path | None = None) -> str:
    """Why the stage cannot run; empty where it can.

    Args:
        cache: The folder of cached builds.
    """
    refused = enter.why_not()
    if refused:
        return refused
    missing = missing_programs(cache)
    if missing:
        return f"{len(missing)} programs of nodes are not built yet; `make lab-pods` builds them"
    if not tree_folder(cache).is_dir():
        return "the Debian tree of the nodes is not made yet; `make lab-pods` makes it"
    return ""

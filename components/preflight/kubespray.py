"""What this machine needs for kubespray: its tree, its Python environment, OpenSSH's client."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from components.core.errors import RailyardError
from components.core.finding import Finding
from components.kubernetes.kubespray.environment import make_environment
from components.kubernetes.kubespray.tree import bring_tree
from components.kubernetes.planes.kubespray import plan_request
from components.model.cluster import ClusterSpec
from components.project.engine import HERE


def look_at_kubespray(spec: ClusterSpec, project: Path) -> tuple[Finding, ...]:
    """Whether kubespray could run from here: what an update would bring first is brought.

    Tree and environment stay in this user's cache, where the update finds them; no playbook runs.

    Args:
        spec: The site; without kubespray nothing is looked at.
        project: The folder that its paths are relative to.
    """
    return tuple(_look(spec, project)) if spec.kubespray is not None else ()


def _look(spec: ClusterSpec, project: Path) -> Iterator[Finding]:
    request = plan_request(spec, "")
    source, wanted = request.source, request.wanted
    if source.kind == "path":
        source = replace(source, place=str(project / source.place))
    try:
        bring_tree(source, wanted.release, wanted.pin, wanted.version)
    except RailyardError as error:
        what = "the tree of kubespray is not the one that the file names, or cannot be had."
        yield _lack("kubespray-tree", what, error, f"kubespray {wanted.release}")
    try:
        make_environment(str(project / request.requirements), request.python)
    except RailyardError as error:
        what = "the Python environment of kubespray cannot be made."
        yield _lack("kubespray-environment", what, error, "its requirements, with their hashes")
    if shutil.which("ssh") is None:
        yield Finding(
            HERE,
            "kubespray-ssh",
            "there is no ssh, by which Ansible reaches the nodes.",
            "not on PATH",
            "OpenSSH's client",
            "apt-get install openssh-client",
        )


def _lack(cause: str, what: str, error: RailyardError, wanted: str) -> Finding:
    words, _, fix = str(error).partition("\n  fix    ")
    default = "see what it says, and run the same by hand"
    return Finding(HERE, cause, what, " ".join(words.split()), wanted, fix or default)

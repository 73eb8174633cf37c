"""Rules on the parts of an existing cluster: who brings what, against the rest of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.catalogue.cluster_parts import PARTS, TABLE, Part
from components.checks.rule import Finding, at
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.owners import needs, owners_of, written_owner

_BY_KEY: Final[Mapping[Part, str]] = {
    "gpu_operator": "gpu",
    "network_operator": "network",
    "gpu_device_plugin": "gpu_device_plugin",
}
"""Part to the key of `operators` that installs it."""


def _place(part: Part, owner: str) -> Place:
    return at(("kubernetes", "components", part), owner)


def check_cluster_part(spec: ClusterSpec) -> Iterator[Finding]:
    """Each part of an existing cluster has one owner, and what the site needs has one at all.

    `ours` installs it, `theirs` takes what is there, `none` goes without. What `operators` installs
    is not theirs too, and nothing of ours is brought that no key of the file asks for.
    """
    for part in PARTS:
        owner = written_owner(spec, part)
        title = TABLE[part].title
        if owner == "none" and needs(spec, part):
            yield Finding(
                f"{title} is none, and the site needs it.",
                (_place(part, owner), *_asking(spec, part)),
                "write theirs if it is there, or ours.",
            )
        elif owner == "ours" and not needs(spec, part):
            yield Finding(
                f"{title} is to be ours, and nothing in this file asks for it.",
                (_place(part, owner),),
                _fix_of_unasked(part),
            )
        elif owner == "theirs" and part in _BY_KEY and needs(spec, part):
            yield Finding(
                f"{title} is theirs, and operators.{_BY_KEY[part]} installs another one.",
                (_place(part, owner), *_asking(spec, part)),
                f"remove operators.{_BY_KEY[part]}, or write ours.",
            )
    yield from _two_publishers(spec)


def _asking(spec: ClusterSpec, part: Part) -> tuple[Place, ...]:
    """Where the rest of the file asks for a part."""
    if part in _BY_KEY:
        path: SpecPath = ("operators", _BY_KEY[part], "chart", "version")
        return (at(path, getattr(spec.operators, _BY_KEY[part]).chart.version),)
    if part == "mpi_operator":
        return (at(("jobs", "mpi_operator"), spec.jobs.mpi_operator),)
    return (at(("pod_network", "mode"), spec.pod_network.mode),)


def _fix_of_unasked(part: Part) -> str:
    if part in _BY_KEY:
        return f"add operators.{_BY_KEY[part]}, or write theirs or none."
    if part == "trainer":
        return "write theirs if it is there, or none: Railyard installs no Trainer."
    return "remove the line, or write none."


def _two_publishers(spec: ClusterSpec) -> Iterator[Finding]:
    """Two device plugins register the same resource, and the later one takes it from the other."""
    owners = owners_of(spec)
    pair: tuple[Part, Part] = ("gpu_operator", "gpu_device_plugin")
    for theirs, ours in (pair, pair[::-1]):
        if (owners[theirs], owners[ours]) != ("theirs", "ours"):
            continue
        yield Finding(
            f"{TABLE[theirs].title} is theirs and publishes the GPUs, and operators."
            f"{_BY_KEY[ours]} would publish them again.",
            (_place(theirs, "theirs"), *_asking(spec, ours)),
            f"remove operators.{_BY_KEY[ours]}.",
        )

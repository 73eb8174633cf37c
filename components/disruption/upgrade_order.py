"""What an edit of `kubernetes.version` may ask for, and in which order the nodes follow. Pure.

Sources: Kubernetes' version skew policy, K3s' documentation of upgrades (sources.md#k3s).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.catalogue.operator_versions import parse_k3s

UPGRADE_PAGE: Final = "docs/howto/upgrade-k3s.md"
_SHOWN: Final = 8
"""Nodes that a refusal names."""


@dataclass(frozen=True, slots=True)
class VersionProblem:
    """Why the version of the file cannot be reached from what the nodes run."""

    what: str
    fix: str


def judge_versions(found: Mapping[str, str], wanted: str) -> VersionProblem | None:
    """Refuse a way back, and a way over more than one minor release.

    Args:
        found: Node to the release that it runs; one that cannot be read as K3s' is passed over.
        wanted: `kubernetes.version`.
    """
    target = parse_k3s(wanted)
    known = {node: each for node, text in found.items() if (each := parse_k3s(text))}
    if target is None:
        return None
    newer = [node for node, each in known.items() if each > target]
    if newer:
        latest = found[max(newer, key=lambda node: known[node])]
        return VersionProblem(
            f"{_runs(newer, found)}, and kubernetes.version is {wanted}: neither K3s nor etcd goes"
            " back to an earlier release.",
            f"write version: {latest}; there is no way back to an earlier one ({UPGRADE_PAGE})",
        )
    major, minor = target[:2]
    far = [node for node, each in known.items() if (each[0], each[1] + 1) < (major, minor)]
    if not far:
        return None
    first = min(known[node][:2] for node in far)
    return VersionProblem(
        f"{_runs(far, found)}, and kubernetes.version is {wanted}: Kubernetes is upgraded one minor"
        " release at a time.",
        f"write a release of {first[0]}.{first[1] + 1} first and run `pulumi up`; then {wanted}",
    )


def _runs(nodes: Sequence[str], found: Mapping[str, str]) -> str:
    """`gpu01, gpu02 run K3s v1.36.3+k3s1; mgmt01 runs K3s v1.37.1+k3s1`."""
    by_release: dict[str, list[str]] = {}
    for node in nodes:
        by_release.setdefault(found[node], []).append(node)
    return "; ".join(
        f"{_named(names)} {'run' if len(names) > 1 else 'runs'} K3s {release}"
        for release, names in by_release.items()
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more

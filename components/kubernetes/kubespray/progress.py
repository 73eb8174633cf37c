"""How far a cluster has come: after each playbook, and after one that was killed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from components.kubernetes.kubespray.runs import UPGRADE, PlaybookRun, removed_by
from components.kubernetes.kubespray.wanted import Wanted
from components.remote.step import Endpoint


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and the way to its nodes: a node that the file lost is reached by it."""

    wanted: Wanted
    endpoints: Mapping[str, Endpoint]


def over(cluster: Cluster, newer: Cluster) -> Cluster:
    """The same cluster, its nodes reached as a newer one says: a key or a port may have changed."""
    return Cluster(cluster.wanted, {**cluster.endpoints, **newer.endpoints})


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What had begun and is not known to have ended."""

    cluster: Cluster
    """What it was to lead to."""
    playbook: str
    words: str
    upgrading: bool = False
    """An upgrade to the release of `cluster` began and is not through: some nodes may have it."""


def begin(run: PlaybookRun, target: Cluster, before: UnderWay | None) -> UnderWay:
    """What is under way when a playbook begins."""
    upgrading = run.playbook == UPGRADE or (before is not None and before.upgrading)
    return UnderWay(target, run.playbook, run.words, upgrading)


def end(run: PlaybookRun, target: Cluster, before: UnderWay | None) -> UnderWay | None:
    """What is still under way when a playbook ended well: an upgrade that it came before."""
    if before is None or not before.upgrading or run.playbook == UPGRADE:
        return None
    return replace(before, cluster=target)


def go_on(run: PlaybookRun, under_way: UnderWay | None) -> PlaybookRun:
    """The same run after one that was killed.

    kubespray uncordons no node that it finds cordoned (`upgrade/pre-upgrade`), and so would leave
    the ones that the killed upgrade had drained out of service for good.
    """
    if run.playbook != UPGRADE or under_way is None or not under_way.upgrading:
        return run
    return replace(run, variables={**run.variables, "upgrade_node_always_cordon": True})


def after(there: Wanted | None, run: PlaybookRun, wanted: Wanted) -> Wanted:
    """The cluster after one playbook of several."""
    if there is None or run.playbook == "scale.yml":
        return wanted
    if run.playbook == "cluster.yml":
        # The order stays until the API servers know each other's etcd: a kill before it is seen.
        return replace(wanted, order=there.order)
    if gone := removed_by(run):
        # The order stays: the other servers do not know yet.
        return replace(there, nodes={n: v for n, v in there.nodes.items() if n not in gone})
    if run.limit:
        return wanted
    return replace(wanted, nodes=there.nodes, order=there.order)


def presumed(there: Wanted | None, under_way: UnderWay | None, wanted: Wanted) -> Wanted | None:
    """The cluster that must be reckoned with after a playbook was killed.

    A node that was about to join may be in it, one that was about to leave may be gone, and a
    setting may have reached some nodes: what is not wanted is taken away, what is wanted is done
    again.
    """
    if there is None or under_way is None:
        return there
    target = under_way.cluster.wanted
    nodes = {
        name: node
        for name, node in there.nodes.items()
        if name in target.nodes or name not in wanted.nodes
    }
    nodes |= {name: node for name, node in target.nodes.items() if name not in wanted.nodes}
    begun: dict[str, JsonValue] = {}
    if under_way.playbook in {"cluster.yml", UPGRADE}:
        asked, had = wanted.settings, target.settings
        begun = {key: value for key, value in had.items() if asked.get(key) != value}
    return replace(there, nodes=nodes, settings={**there.settings, **begun})


def refuse_turn(there: Wanted | None, under_way: UnderWay | None, wanted: Wanted) -> str:
    """Why the file may not ask for something else in the middle; empty: it may."""
    if under_way is None:
        return ""
    target = under_way.cluster.wanted
    same_release = _same_release(target, wanted)
    if there is None:
        lost = sorted({*target.nodes} - {*wanted.nodes})
        if lost or not same_release:
            what = f"without {', '.join(lost)}" if lost else f"to {wanted.version}"
            return (
                f"the first installation ended in the middle, and would now go on {what}.\n"
                f"  fix    put back what the file had ({target.version},"
                f" {', '.join(sorted(target.nodes))}), or run `pulumi destroy` first"
            )
    elif under_way.upgrading and not same_release and not _same_release(there, target):
        return (
            f"an upgrade to {target.version} with kubespray {target.release} ended in the middle,"
            " and some nodes have it.\n"
            f"  fix    write {target.version} and {target.release} back, and run `pulumi up` until"
            " it is through"
        )
    return ""


def _same_release(one: Wanted, other: Wanted) -> bool:
    return (one.version, one.pin) == (other.version, other.pin)

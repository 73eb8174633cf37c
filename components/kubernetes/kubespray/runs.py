"""Which of kubespray's playbooks turn the current cluster into the wanted one.

Pure. Sources: kubespray's pages on nodes and on upgrades (sources.md#kubespray).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue

from components.kubernetes.kubespray.wanted import Wanted

Playbook = Literal[
    "cluster.yml",
    "scale.yml",
    "upgrade-cluster.yml",
    "remove-node.yml",
    "reset.yml",
    "playbooks/facts.yml",
]
UPGRADE: Final = "upgrade-cluster.yml"
REMOVAL: Final = "remove-node.yml"
_CLEANING: Final = {"skip_confirmation": True, "reset_restart_network": False}
"""Ask no question, and leave the host's network alone: a restart of it would discard the card
settings that Railyard made."""
_MANY_MEMBERS: Final = {"etcd_retries": 10}
"""kubespray's page on nodes asks for it if several members of etcd join in one run: each must have
joined before the next one may."""
_CONFIRM_RESET: Final = {**_CLEANING, "reset_confirmation": True}
"""`reset.yml` of v2.31.0 asks nothing with `skip_confirmation`, but fails without this."""


@dataclass(frozen=True, slots=True)
class PlaybookRun:
    """One call of `ansible-playbook`."""

    playbook: Playbook
    why: str
    """The reason, as the preview and the log print it."""
    limit: tuple[str, ...] = ()
    """The nodes of a limited run; empty for all."""
    variables: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Variables of this run only, as JSON: on a command line `true` would be a text."""
    on: Literal["wanted", "there"] = "wanted"
    """Whose inventory it uses: a node that leaves is only in the inventory of the current
    cluster."""
    drains: bool = False
    """Workers leave service."""

    @property
    def words(self) -> str:
        """The playbook and its reason in one line."""
        limit = f" --limit {','.join(self.limit)}" if self.limit else ""
        return f"{self.playbook}{limit}: {self.why}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The runs in order; or why none may start."""

    runs: tuple[PlaybookRun, ...] = ()
    refused: tuple[str, ...] = ()
    """Each has one line with the problem and one line with the fix. Any refusal stops all runs."""


def decide(there: Wanted | None, wanted: Wanted) -> Decision:
    """Decide which runs bring the current cluster to the wanted one."""
    if there is None:
        return Decision((PlaybookRun("cluster.yml", f"installs Kubernetes {wanted.version}"),))
    refused = (*_refuse_versions(there, wanted), *_refuse_nodes(there, wanted))
    if refused:
        return Decision(refused=refused)
    return Decision(tuple(_runs(there, wanted)))


def reset_run() -> PlaybookRun:
    """The run that deletes the whole cluster."""
    why = "deletes the cluster and all its data"
    return PlaybookRun("reset.yml", why, variables=_CONFIRM_RESET)


def removed_by(run: PlaybookRun) -> tuple[str, ...]:
    """The nodes that a removal removes; empty for other playbooks."""
    return tuple(str(run.variables["node"]).split(",")) if run.playbook == REMOVAL else ()


def split_removal(run: PlaybookRun, silent: tuple[str, ...]) -> tuple[PlaybookRun, ...]:
    """Split a removal: first the nodes that do not answer, then the others.

    `remove-node.yml` ends at the first node that it cannot reach, unless it must not clean the
    nodes (its page on nodes): without the split, a lost machine could never leave the cluster. Any
    other run is returned unchanged.
    """
    lost = [name for name in removed_by(run) if name in silent]
    if not lost:
        return (run,)
    clean = {"node": ",".join(lost), "reset_nodes": False, "allow_ungraceful_removal": True}
    why = f"takes {_list(lost)} out and cleans nothing there, as no answer comes"
    parts = [replace(run, why=why, variables={**run.variables, **clean})]
    if others := [name for name in removed_by(run) if name not in silent]:
        parts.append(_removal(others, run.variables))
    return tuple(parts)


def refuse_lost(there: Wanted, silent: tuple[str, ...]) -> str:
    """Why `silent` nodes, which Ansible cannot reach, cannot leave; empty if they can.

    etcd removes a member only with a majority of the current members (its page "Runtime
    reconfiguration"), so `remove-node.yml` would fail halfway.
    """
    servers = there.of_role("control_plane")
    lost = [name for name in servers if name in silent]
    if 2 * len(lost) < len(servers):
        return ""
    return (
        f"{_list(lost)} of the {len(servers)} members of etcd do not answer, and the others are "
        "too few for a majority: no member can leave, and the API cannot store anything.\n"
        "  fix    bring one of them back; if they are lost, kubespray's documentation, "
        "operations/recover-control-plane.md, says how you recover the others yourself"
    )


def _removal(gone: list[str], more: Mapping[str, JsonValue]) -> PlaybookRun:
    return PlaybookRun(
        REMOVAL,
        f"drains {_list(gone)} and takes {'it' if len(gone) == 1 else 'them'} out",
        variables={**more, "node": ",".join(sorted(gone))},
        on="there",
        drains=True,
    )


def allow_even(run: PlaybookRun, servers: int) -> PlaybookRun:
    """The same removal, allowed on an even number of control-plane nodes.

    kubespray's validation refuses an even number of members, as there is between the removals of
    two lost members; the page on nodes switches the validation off for such a run.
    """
    if not removed_by(run) or servers % 2:
        return run
    return replace(run, variables={**run.variables, "ignore_assert_errors": True})


def facts_run(unknown: tuple[str, ...]) -> PlaybookRun:
    """The run that reads facts of the other nodes before a limited run, if none are cached."""
    why = f"reads the facts of {_list(unknown)}, which are not here"
    return PlaybookRun("playbooks/facts.yml", why)


def limit_upgrade(run: PlaybookRun, max_unavailable: int, drain_s: int) -> PlaybookRun:
    """Apply the site's disruption policy to a run: workers at once, and time for a drain."""
    if not run.drains:
        return run
    own: dict[str, JsonValue] = {**run.variables, "drain_timeout": f"{drain_s}s"}
    if run.playbook == UPGRADE:
        own["serial"] = max_unavailable
    return replace(run, variables=own)


def _runs(there: Wanted, wanted: Wanted) -> Iterator[PlaybookRun]:
    gone = [name for name in there.nodes if name not in wanted.nodes]
    new = [name for name in wanted.nodes if name not in there.nodes]
    if gone:
        yield _removal(gone, _CLEANING)
    servers = [name for name in new if wanted.nodes[name].role == "control_plane"]
    changed = [
        key
        for key in sorted({*there.settings, *wanted.settings})
        if there.settings.get(key) != wanted.settings.get(key)
    ]
    if there.version != wanted.version:
        yield _upgrade(f"brings Kubernetes from {there.version} to {wanted.version}")
    elif there.pin != wanted.pin:
        yield _upgrade(f"brings the cluster from kubespray {there.release} to {wanted.release}")
    elif servers or changed or there.order != wanted.order:
        more = _MANY_MEMBERS if len(servers) > 1 else {}
        words = [f"adds {_list(servers)} to the control plane"] if servers else []
        words += [f"applies {_list(changed)} on every node"] if changed else []
        why = " and ".join(words) or "tells every node the present control plane"
        yield PlaybookRun("cluster.yml", why, variables=more)
        if there.order != wanted.order:
            # `cluster.yml` does not tell a running API server its etcd members: its role rewrites
            # their manifests only in an upgrade (`kubeadm-upgrade.yml`), and the page on nodes asks
            # for this run after a member joined. The servers leave service one after another.
            why = "tells the API servers the present members of etcd, one after the other"
            yield PlaybookRun(UPGRADE, why, wanted.of_role("control_plane"))
        return  # the first run adds the new workers too
    if workers := tuple(sorted(new)):
        yield PlaybookRun("scale.yml", f"adds {_list(workers)}", workers)


def _upgrade(why: str) -> PlaybookRun:
    return PlaybookRun(UPGRADE, f"{why}, a few nodes at a time", drains=True)


def _refuse_versions(there: Wanted, wanted: Wanted) -> Iterator[str]:
    """Refuse a downgrade, and an upgrade by more than one minor."""
    for what, old, new in (
        ("Kubernetes", there.version, wanted.version),
        ("kubespray", there.release, wanted.release),
    ):
        if _parts(new) < _parts(old):
            yield (
                f"{what} {new} is older than {old}, which runs: neither goes back.\n"
                f"  fix    write {old} or a later one"
            )
        elif _parts(new)[:2] > (_parts(old)[0], _parts(old)[1] + 1):
            major, minor, _ = _parts(old)
            yield (
                f"{what} {new} is {_parts(new)[1] - minor} minors after {old}, which runs: it goes"
                " one at a time.\n"
                f"  fix    write a v{major}.{minor + 1} first, and run `pulumi up` between"
            )
    moved = there.version != wanted.version or there.pin != wanted.pin
    new_nodes = sorted({*wanted.nodes} - {*there.nodes})
    if moved and new_nodes:
        yield (
            f"{_list(new_nodes)} would join while the release changes: an upgrade handles only "
            "nodes in the cluster.\n"
            "  fix    add the nodes with one update and change the release with another"
        )
    if there.release == wanted.release and there.pin != wanted.pin:
        yield (
            f"kubespray {wanted.release} is another tree ({wanted.pin[:12]}) than the one that"
            f" ran ({there.pin[:12]}), and says to be the same release.\n"
            "  fix    take the tree that ran, or name the release that this one is"
        )


def _refuse_nodes(there: Wanted, wanted: Wanted) -> Iterator[str]:
    """Refuse a new role or address of a node, and another first control-plane node."""
    for name in sorted({*there.nodes} & {*wanted.nodes}):
        old, new = there.nodes[name], wanted.nodes[name]
        if old != new:
            what = f"a {new.role}" if old.role != new.role else new.address
            was = f"a {old.role}" if old.role != new.role else old.address
            yield (
                f"the node {name} is {was} and would be {what}.\n"
                "  fix    take it out with one update, and add it again with another"
            )
    kept = [name for name in there.order if name in wanted.order]
    if there.order[0] not in wanted.order:
        yield (
            f"{there.order[0]} is the first of the control plane, which kubespray cannot remove.\n"
            f"  fix    put {there.order[0]} back; its documentation, operations/nodes.md, says how "
            "you make another node the first"
        )
    elif list(wanted.order[: len(kept)]) != kept:
        yield (
            f"the control plane would be {_list(wanted.order)}, and is {_list(there.order)}: new"
            " ones come at the end.\n"
            "  fix    write the hosts in that order"
        )


def _parts(version: str) -> tuple[int, int, int]:
    major, minor, patch = version.removeprefix("v").split(".")
    return int(major), int(minor), int(patch)


def _list(names: list[str] | tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"

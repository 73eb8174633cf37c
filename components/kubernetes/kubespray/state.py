"""How far a kubespray cluster has come, which playbooks it needs, and the files kept for it here.

Sources: kubespray's pages on nodes and on upgrades (sources.md#kubespray). The state is saved after
each playbook, also after a killed one. The folder also contains the last inventory and kubespray's
own credentials, so it is worth a backup.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import DeviceError
from components.core.record import field, record, replace
from components.core.templates import fault_text
from components.core.to_json import to_json
from components.kubernetes.kubespray.wanted import HOSTS, VARIABLES, Wanted
from components.remote.step import Endpoint

Playbook = Literal[
    "cluster.yml", "scale.yml", "upgrade-cluster.yml", "remove-node.yml", "reset.yml",
    "playbooks/facts.yml",
]  # fmt: skip
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
FOLDER: Final = Path(".railyard") / "kubespray"
"""Relative to the program's directory, like all paths of inner commands."""
_STATE: Final = "state.json"
_OF_KUBESPRAY: Final = ("artifacts/", "credentials/")
"""Folders of the inventory that its playbooks write, and its ansible.cfg does not read."""


@record
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

    @property
    def removed(self) -> tuple[str, ...]:
        """The nodes that a removal removes; empty for other playbooks."""
        return tuple(str(self.variables["node"]).split(",")) if self.playbook == REMOVAL else ()


@record
class Decision:
    """The runs in order; or why none may start."""

    runs: tuple[PlaybookRun, ...] = ()
    refused: tuple[str, ...] = ()
    """Each has one line with the problem and one line with the fix. Any refusal stops all runs."""


def decide(there: Wanted | None, wanted: Wanted) -> Decision:
    """Decide which runs bring the current cluster to the wanted one."""
    if there is None:
        return Decision((PlaybookRun("cluster.yml", f"installs Kubernetes {wanted.version}"),))
    refused = [*_refuse_versions(there, wanted)]
    # Refuse a new role or address of a node, and another first control-plane node.
    for name in sorted({*there.nodes} & {*wanted.nodes}):
        old, new = there.nodes[name], wanted.nodes[name]
        same = old.role == new.role
        was, now = (each.address if same else f"a {each.role}" for each in (old, new))
        if old != new:
            refused.append(fault_text(__file__, "other-node", name=name, was=was, now=now))
    kept = [name for name in there.order if name in wanted.order]
    if there.order[0] not in wanted.order:
        refused.append(fault_text(__file__, "first-server", name=there.order[0]))
    elif list(wanted.order[: len(kept)]) != kept:
        names = {"wanted": list_names(wanted.order), "there": list_names(there.order)}
        refused.append(fault_text(__file__, "other-order", **names))
    if refused:
        return Decision(refused=tuple(refused))
    return Decision(tuple(_runs(there, wanted)))


def reset_run() -> PlaybookRun:
    """The run that deletes the whole cluster."""
    why = "deletes the cluster and all its data"
    return PlaybookRun("reset.yml", why, variables=_CONFIRM_RESET)


def split_removal(run: PlaybookRun, silent: tuple[str, ...]) -> tuple[PlaybookRun, ...]:
    """Split a removal: first the nodes that do not answer, then the others.

    `remove-node.yml` ends at the first node that it cannot reach, unless it must not clean the
    nodes (its page on nodes): without the split, a lost machine could never leave the cluster. Any
    other run is returned unchanged.
    """
    lost = [name for name in run.removed if name in silent]
    if not lost:
        return (run,)
    clean = {"node": ",".join(lost), "reset_nodes": False, "allow_ungraceful_removal": True}
    why = f"takes {list_names(lost)} out and cleans nothing there, as no answer comes"
    parts = [replace(run, why=why, variables={**run.variables, **clean})]
    if others := [name for name in run.removed if name not in silent]:
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
    return fault_text(__file__, "no-majority", lost=list_names(lost), count=len(servers))


def _removal(gone: list[str], more: Mapping[str, JsonValue]) -> PlaybookRun:
    return PlaybookRun(
        REMOVAL,
        f"drains {list_names(gone)} and takes {'it' if len(gone) == 1 else 'them'} out",
        variables={**more, "node": ",".join(sorted(gone))},
        on="there",
        drains=True,
    )


def allow_even(run: PlaybookRun, servers: int) -> PlaybookRun:
    """The same removal, allowed on an even number of control-plane nodes.

    kubespray's validation refuses an even number of members, as there is between the removals of
    two lost members; the page on nodes switches the validation off for such a run.
    """
    if not run.removed or servers % 2:
        return run
    return replace(run, variables={**run.variables, "ignore_assert_errors": True})


def _runs(there: Wanted, wanted: Wanted) -> Iterator[PlaybookRun]:
    gone = [name for name in there.nodes if name not in wanted.nodes]
    new = [name for name in wanted.nodes if name not in there.nodes]
    if gone:
        yield _removal(gone, _CLEANING)
    servers = [name for name in new if wanted.nodes[name].role == "control_plane"]
    old, asked = there.settings, wanted.settings
    changed = [key for key in sorted({*old, *asked}) if old.get(key) != asked.get(key)]
    if there.version != wanted.version:
        yield _upgrade(f"brings Kubernetes from {there.version} to {wanted.version}")
    elif there.pin != wanted.pin:
        yield _upgrade(f"brings the cluster from kubespray {there.release} to {wanted.release}")
    elif servers or changed or there.order != wanted.order:
        more = _MANY_MEMBERS if len(servers) > 1 else {}
        words = [f"adds {list_names(servers)} to the control plane"] if servers else []
        words += [f"applies {list_names(changed)} on every node"] if changed else []
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
        yield PlaybookRun("scale.yml", f"adds {list_names(workers)}", workers)


def _upgrade(why: str) -> PlaybookRun:
    return PlaybookRun(UPGRADE, f"{why}, a few nodes at a time", drains=True)


def _refuse_versions(there: Wanted, wanted: Wanted) -> Iterator[str]:
    """Refuse a downgrade, and an upgrade by more than one minor."""
    for what, old, new in (
        ("Kubernetes", there.version, wanted.version),
        ("kubespray", there.release, wanted.release),
    ):
        if _parts(new) < _parts(old):
            yield fault_text(__file__, "older", what=what, new=new, old=old)
        elif _parts(new)[:2] > (_parts(old)[0], _parts(old)[1] + 1):
            major, minor, _ = _parts(old)
            words = {"what": what, "new": new, "old": old, "count": _parts(new)[1] - minor}
            yield fault_text(__file__, "too-new", **words, major=major, following=minor + 1)
    moved = there.version != wanted.version or there.pin != wanted.pin
    new_nodes = sorted({*wanted.nodes} - {*there.nodes})
    if moved and new_nodes:
        yield fault_text(__file__, "joins-meanwhile", names=list_names(new_nodes))
    if there.release == wanted.release and there.pin != wanted.pin:
        words = {"release": wanted.release, "tree": wanted.pin[:12], "ran": there.pin[:12]}
        yield fault_text(__file__, "other-tree", **words)


def _parts(version: str) -> tuple[int, int, int]:
    major, minor, patch = version.removeprefix("v").split(".")
    return int(major), int(minor), int(patch)


def list_names(names: list[str] | tuple[str, ...]) -> str:
    """Names in a sentence: `a, b and c`."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


@record
class Cluster:
    """A cluster and how to reach its nodes, also those that the file no longer lists."""

    wanted: Wanted
    endpoints: Mapping[str, Endpoint]


def over(cluster: Cluster, newer: Cluster) -> Cluster:
    """The same cluster, with a newer one's access to nodes: a key or a port may have changed."""
    return Cluster(cluster.wanted, {**cluster.endpoints, **newer.endpoints})


@record
class UnderWay:
    """A playbook that began and is not known to have ended."""

    cluster: Cluster
    """The cluster that it was to make."""
    playbook: str
    words: str
    upgrading: bool = False
    """An upgrade to the release of `cluster` began and did not end: some nodes may have it."""


def begin(run: PlaybookRun, target: Cluster, before: UnderWay | None) -> UnderWay:
    """Describe the work under way when a playbook begins."""
    upgrading = run.playbook == UPGRADE or (before is not None and before.upgrading)
    return UnderWay(target, run.playbook, run.words, upgrading)


def end(run: PlaybookRun, target: Cluster, before: UnderWay | None) -> UnderWay | None:
    """The work still under way after a playbook ended well: an upgrade that must follow it."""
    if before is None or not before.upgrading or run.playbook == UPGRADE:
        return None
    return replace(before, cluster=target)


def after(there: Wanted | None, run: PlaybookRun, wanted: Wanted) -> Wanted:
    """The cluster after one of several playbooks."""
    if there is None or run.playbook == "scale.yml":
        return wanted
    if run.playbook == "cluster.yml":
        # Keep the old order until all API servers know etcd's members: a kill before then shows.
        return replace(wanted, order=there.order)
    if gone := run.removed:
        # Keep the old order: the other servers do not know yet.
        return replace(there, nodes={n: v for n, v in there.nodes.items() if n not in gone})
    if run.limit:
        return wanted
    return replace(wanted, nodes=there.nodes, order=there.order)


def presumed(there: Wanted | None, under_way: UnderWay | None, wanted: Wanted) -> Wanted | None:
    """The cluster to assume after a killed playbook.

    A node that was about to join may be in it, one that was about to leave may be gone, and a
    setting may have reached some nodes: the next run removes and repeats accordingly.
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
    begins = under_way.playbook in {"cluster.yml", UPGRADE}
    had, asked = target.settings if begins else dict[str, JsonValue](), wanted.settings
    begun = {key: value for key, value in had.items() if asked.get(key) != value}
    return replace(there, nodes=nodes, settings={**there.settings, **begun})


def refuse_turn(there: Wanted | None, under_way: UnderWay | None, wanted: Wanted) -> str:
    """Why unfinished work forbids the file's new target; empty if it allows it."""
    if under_way is None:
        return ""
    target = under_way.cluster.wanted
    same_release = target.made_by == wanted.made_by
    if there is None:
        lost = sorted({*target.nodes} - {*wanted.nodes})
        if lost or not same_release:
            what = f"without {', '.join(lost)}" if lost else f"to {wanted.version}"
            words = {"version": target.version, "nodes": ", ".join(sorted(target.nodes))}
            return fault_text(__file__, "first-run", what=what, **words)
    elif under_way.upgrading and not same_release and there.made_by != target.made_by:
        words = {"version": target.version, "release": target.release}
        return fault_text(__file__, "upgrading", **words)
    return ""


@record
class State:
    """The content of `state.json`."""

    there: Cluster | None = None
    """The cluster after the last playbook that ended well."""
    under_way: UnderWay | None = None
    tree: str = ""
    """Checksum over the files of the tree that was used."""
    inventory: tuple[str, ...] = ()
    """Checksums of its files as written; during a write, also those of the earlier files."""


_STATES: Final = TypeAdapter(State)


class Keeper:
    """The folder of one stack."""

    def __init__(self, folder: Path) -> None:
        """Name what is in it; nothing is read or made."""
        self.folder: Final = folder
        self.inventory: Final = folder / "inventory"
        """The inventory folder for Ansible."""
        self.facts: Final = folder / "facts"
        """The folder of the nodes' cached facts."""
        self.log: Final = folder / "log"
        """The file to which a playbook writes while it runs."""
        self.secrets: Final = folder / "secrets"
        """The file with the path of a playbook's keys while it runs."""

    def load(self, evidence: str = "") -> State:
        """The known state, from this folder, else from the output of the step's last run."""
        path = self.folder / _STATE
        try:
            if path.exists():
                return _STATES.validate_json(path.read_text("utf-8"))
            if evidence:
                return _STATES.validate_python(json.loads(evidence)["state"])
        except (OSError, ValueError, ValidationError, KeyError, TypeError) as error:
            words = fault_text(__file__, "unreadable", path=path, kind=type(error).__name__)
            raise DeviceError(words) from error
        return State()

    def save(self, state: State) -> None:
        """Write it completely or not at all."""
        text = json.dumps(to_json(state), indent=1, sort_keys=True) + "\n"
        self._write(self.folder / _STATE, text)

    def forget(self) -> None:
        """Forget the cluster, which is deleted."""
        (self.folder / _STATE).unlink(missing_ok=True)

    def write_inventory(self, files: Mapping[str, str]) -> None:
        """Write each file of the inventory completely or not at all."""
        for name, text in files.items():
            self._write(self.inventory / name, text)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.folder / ".draft"
        draft.write_text(text, "utf-8")
        draft.replace(path)

    def edited(self, known: tuple[str, ...]) -> tuple[Path, ...]:
        """The inventory files that Railyard did not write in their current form.

        `known` are the checksums of its files; if empty, files with its names count as its own.
        """
        found: list[Path] = []
        for path in sorted(each for each in self.inventory.rglob("*") if each.is_file()):
            name = str(path.relative_to(self.inventory))
            ours = inventory_digest(name, path.read_bytes()) in known
            unknown = not known and name in {HOSTS, VARIABLES}
            if not (ours or unknown or name.startswith(_OF_KUBESPRAY)):
                found.append(path)
        return tuple(found)


def inventory_digest(name: str, content: bytes) -> str:
    """The checksum of one file of the inventory and its relative path."""
    return hashlib.sha256(f"{name}\0".encode() + content).hexdigest()

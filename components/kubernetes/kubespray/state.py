"""How far a kubespray cluster has come, and the files that this machine keeps for it.

The state is saved after each playbook, also after a killed one. The folder also contains the last
inventory and kubespray's own credentials, so it is worth a backup.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import DeviceError
from components.core.to_json import to_json
from components.kubernetes.kubespray.runs import UPGRADE, PlaybookRun, removed_by
from components.kubernetes.kubespray.wanted import HOSTS, VARIABLES, Wanted
from components.remote.step import Endpoint


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and how to reach its nodes, also those that the file no longer lists."""

    wanted: Wanted
    endpoints: Mapping[str, Endpoint]


def over(cluster: Cluster, newer: Cluster) -> Cluster:
    """The same cluster, with a newer one's access to nodes: a key or a port may have changed."""
    return Cluster(cluster.wanted, {**cluster.endpoints, **newer.endpoints})


@dataclass(frozen=True, slots=True)
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


def go_on(run: PlaybookRun, under_way: UnderWay | None) -> PlaybookRun:
    """The same run after a killed upgrade: it uncordons every node.

    kubespray does not uncordon a node that was cordoned before the run (`upgrade/pre-upgrade`), so
    it would leave the nodes that the killed upgrade drained out of service for good.
    """
    if run.playbook != UPGRADE or under_way is None or not under_way.upgrading:
        return run
    return replace(run, variables={**run.variables, "upgrade_node_always_cordon": True})


def after(there: Wanted | None, run: PlaybookRun, wanted: Wanted) -> Wanted:
    """The cluster after one of several playbooks."""
    if there is None or run.playbook == "scale.yml":
        return wanted
    if run.playbook == "cluster.yml":
        # Keep the old order until all API servers know etcd's members: a kill before then shows.
        return replace(wanted, order=there.order)
    if gone := removed_by(run):
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
    begun: dict[str, JsonValue] = {}
    if under_way.playbook in {"cluster.yml", UPGRADE}:
        asked, had = wanted.settings, target.settings
        begun = {key: value for key, value in had.items() if asked.get(key) != value}
    return replace(there, nodes=nodes, settings={**there.settings, **begun})


def refuse_turn(there: Wanted | None, under_way: UnderWay | None, wanted: Wanted) -> str:
    """Why unfinished work forbids the file's new target; empty if it allows it."""
    if under_way is None:
        return ""
    target = under_way.cluster.wanted
    same_release = _same_release(target, wanted)
    if there is None:
        lost = sorted({*target.nodes} - {*wanted.nodes})
        if lost or not same_release:
            what = f"without {', '.join(lost)}" if lost else f"to {wanted.version}"
            return (
                f"the first installation ended in the middle, and would now continue {what}.\n"
                f"  fix    restore the former values in the file ({target.version},"
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


FOLDER: Final = Path(".railyard") / "kubespray"
"""Relative to the program's directory, like all paths of inner commands."""
_STATE: Final = "state.json"
_OF_KUBESPRAY: Final = ("artifacts/", "credentials/")
"""Folders of the inventory that its playbooks write, and its ansible.cfg does not read."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Keeper:
    """The folder of one stack."""

    folder: Path

    @property
    def inventory(self) -> Path:
        """The inventory folder for Ansible."""
        return self.folder / "inventory"

    @property
    def facts(self) -> Path:
        """The folder of the nodes' cached facts."""
        return self.folder / "facts"

    @property
    def log(self) -> Path:
        """The file to which a playbook writes while it runs."""
        return self.folder / "log"

    @property
    def secrets(self) -> Path:
        """The file with the path of a playbook's keys while it runs."""
        return self.folder / "secrets"

    def load(self, evidence: str = "") -> State:
        """The known state, from this folder, else from the output of the step's last run."""
        path = self.folder / _STATE
        try:
            if path.exists():
                return _STATES.validate_json(path.read_text("utf-8"))
            if evidence:
                found = json.loads(evidence)
                return _STATES.validate_python(found["state"])
        except (OSError, ValueError, ValidationError, KeyError, TypeError) as error:
            raise DeviceError(
                f"{path}: how far kubespray is cannot be read ({type(error).__name__}). Nothing was"
                " changed.\n  fix    put the file back from a backup"
            ) from error
        return State()

    def save(self, state: State) -> None:
        """Write it completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{_STATE}"
        draft.write_text(json.dumps(to_json(state), indent=1, sort_keys=True) + "\n", "utf-8")
        draft.replace(self.folder / _STATE)

    def forget(self) -> None:
        """Forget the cluster, which is deleted."""
        (self.folder / _STATE).unlink(missing_ok=True)

    def write_inventory(self, files: Mapping[str, str]) -> None:
        """Write each file of the inventory completely or not at all."""
        for name, text in files.items():
            path = self.inventory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.folder / ".inventory"
            draft.write_text(text, "utf-8")
            draft.replace(path)

    def edited(self, known: tuple[str, ...]) -> tuple[Path, ...]:
        """The inventory files that Railyard did not write in their current form.

        `known` has the checksums of the files it wrote; if empty, files with its names count as its
        own.
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


def keeper_of(stack: str) -> Keeper:
    """The folder of a stack."""
    return Keeper(FOLDER / stack)

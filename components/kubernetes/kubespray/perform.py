"""`railyard device kubespray`: bring the cluster where the file wants it, one playbook at a time.

After each playbook the state says how far it is, so that a run that was killed goes on. Nothing is
run, fetched or asked where nothing differs.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from components.core.errors import DeviceError
from components.core.to_json import to_json
from components.kubernetes.kubespray.environment import make_environment
from components.kubernetes.kubespray.inventory import HOSTS, VARIABLES, render_inventory
from components.kubernetes.kubespray.playing import Player, secrets_folder
from components.kubernetes.kubespray.progress import (
    Cluster,
    UnderWay,
    after,
    presumed,
    refuse_turn,
)
from components.kubernetes.kubespray.runs import (
    Decision,
    PlaybookRun,
    decide,
    limit_upgrade,
    reset_run,
)
from components.kubernetes.kubespray.state import Keeper, State, keeper_of
from components.kubernetes.kubespray.tree import bring_tree
from components.kubernetes.kubespray.wanted import Request, Wanted, parse_request

PREVIOUS_OUTPUT: Final = "PULUMI_COMMAND_STDOUT"
FORKS: Final = 20
"""Nodes at once: Ansible's five make a long run of many nodes four times as long."""
FILES: Final = (HOSTS, VARIABLES)


def decide_on(state: State, request: Request) -> Decision:
    """What will run, with all that is known; pure, so that a preview says the same.

    Args:
        state: How far the cluster is.
        request: What the file wants.
    """
    there = state.there.wanted if state.there else None
    wanted = request.wanted
    if turn := refuse_turn(there, state.under_way, wanted):
        return Decision(refused=(turn,))
    found = decide(presumed(there, state.under_way, wanted), wanted)
    runs = tuple(
        limit_upgrade(run, request.max_unavailable, request.drain_deadline_s) for run in found.runs
    )
    draining = [run for run in runs if run.drains]
    if draining and request.disruption == "deny":
        refused = tuple(
            f"kubespray's {run.words}: workers would leave service, and disruption.reboots is"
            " deny.\n  fix    plan a window and set disruption.reboots to allow"
            for run in draining
        )
        return Decision(refused=refused)
    return Decision(runs, found.refused)


def edited_inventory(keeper: Keeper, state: State) -> str:
    """Why the inventory of the last run cannot be written over; empty: it can."""
    if not state.inventory or keeper.inventory_digest(FILES) in {state.inventory, ""}:
        return ""
    return (
        f"{keeper.inventory}: {HOSTS} or {VARIABLES} was changed since the last run, and"
        " Railyard would write over it.\n"
        "  fix    put what shall stay into kubernetes.extra_vars, then delete the two files"
    )


@dataclass(slots=True)
class Performance:
    """One run for one request."""

    request: Request
    keeper: Keeper
    environ: Mapping[str, str]
    state: State
    lock: int

    def perform(self) -> dict[str, object]:
        """Run what is to run; the evidence.

        Raises:
            DeviceError: It is refused, or a playbook failed; the text says what the state is.
        """
        decision = decide_on(self.state, self.request)
        refused = list(decision.refused)
        if edited := edited_inventory(self.keeper, self.state):
            refused.append(edited)
        if refused:
            raise DeviceError("\n".join((*refused, "Nothing was changed.")))
        resumed = self.state.under_way.words if self.state.under_way else ""
        target = Cluster(self.request.wanted, self.request.endpoints)
        if decision.runs:
            player = self._player()
            for run in decision.runs:
                self._run(player, run, target)
        digest = self._write(target)
        self.state = replace(self.state, there=target, under_way=None, inventory=digest)
        self.keeper.save(self.state)
        return {
            "changed": [run.words for run in decision.runs],
            "resumed": resumed,
            "log": str(self.keeper.log) if decision.runs else "",
            "state": to_json(replace(self.state, inventory="")),
        }

    def _player(self) -> Player:
        wanted = self.request.wanted
        tree, digest = bring_tree(self.request.source, wanted.release, wanted.pin, wanted.version)
        self.state = replace(self.state, tree=digest)
        keeper = self.keeper
        return Player(
            tree=tree.absolute(),
            environment=make_environment(self.request.requirements, self.request.python),
            inventory=keeper.inventory,
            facts=keeper.folder / "facts",
            log=keeper.log,
            forks=FORKS,
            lock=self.lock,
        )

    def _run(self, player: Player, run: PlaybookRun, target: Cluster) -> None:
        there = self._reckoned(target.wanted)
        cluster = there if run.on == "there" and there is not None else target
        under_way = UnderWay(target, run.playbook, run.words)
        digest = self._write(cluster)
        # What a killed run may have left is kept: this one may be killed as well.
        self.state = replace(self.state, there=there, under_way=under_way, inventory=digest)
        self.keeper.save(self.state)
        ends = [cluster.endpoints[name] for name in cluster.wanted.nodes]
        with secrets_folder(run, ends, self.environ) as secrets:
            player.play(run, secrets)
        ended = after(there.wanted if there else None, run, target.wanted)
        reached = {**(there.endpoints if there else {}), **target.endpoints}
        self.state = replace(self.state, there=Cluster(ended, reached), under_way=None)
        self.keeper.save(self.state)

    def _reckoned(self, wanted: Wanted) -> Cluster | None:
        """The cluster that is there, with the nodes that a killed run may have left in it."""
        there, under_way = self.state.there, self.state.under_way
        if there is None or under_way is None:
            return there
        found = presumed(there.wanted, under_way, wanted)
        ends = {**under_way.cluster.endpoints, **there.endpoints}
        return Cluster(found or there.wanted, ends)

    def _all_nodes(self) -> Cluster | None:
        """Every node that has anything of the cluster, also of a run that was killed."""
        begun = self.state.under_way.cluster if self.state.under_way else None
        there = self.state.there or begun
        if there is None or begun is None:
            return there
        nodes = {**begun.wanted.nodes, **there.wanted.nodes}
        ends = {**begun.endpoints, **there.endpoints}
        return Cluster(replace(there.wanted, nodes=nodes), ends)

    def _write(self, cluster: Cluster) -> str:
        return self.keeper.write_inventory(render_inventory(cluster.wanted, cluster.endpoints))

    def reset(self) -> dict[str, object]:
        """Delete the cluster.

        Raises:
            DeviceError: The file does not allow it, or the playbook failed.
        """
        known = self._all_nodes()
        if known is None:
            return {"changed": [], "state": {}}
        if self.request.reset == "deny":
            raise DeviceError(
                "destroy would delete the cluster with all that is stored in it, and"
                " kubernetes.reset is deny. Nothing was changed on its nodes.\n"
                "  fix    set kubernetes.reset to allow and run `pulumi up`, then destroy; or"
                " `pulumi state delete` the step kubespray, which leaves the cluster running"
            )
        run, player = reset_run(), self._player()
        self._write(known)
        with secrets_folder(run, known.endpoints.values(), self.environ) as secrets:
            player.play(run, secrets)
        for folder in (self.keeper.inventory, self.keeper.folder / "facts"):
            shutil.rmtree(folder, ignore_errors=True)
        self.keeper.forget()
        return {"changed": [run.words], "state": {}}


@contextmanager
def _performance(text: str, environ: Mapping[str, str]) -> Generator[Performance]:
    request = parse_request(text)
    keeper = keeper_of(request.stack)
    keeper.folder.mkdir(parents=True, exist_ok=True)
    with (keeper.folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DeviceError(
                f"{keeper.folder}: another run of kubespray goes on; it may have outlived the"
                " update that began it. Nothing was changed.\n"
                f"  next   follow it with `tail -f {keeper.log}`, and run `pulumi up` when it ended"
            ) from error
        state = keeper.load(environ.get(PREVIOUS_OUTPUT, ""))
        yield Performance(request, keeper, environ, state, lock.fileno())


def run_kubespray(text: str, environ: Mapping[str, str]) -> str:
    """Do what the request on stdin asks; the evidence is indented JSON.

    Raises:
        UsageError: It is no request, or a key is not in the environment.
        DeviceError: See `Performance.perform`.
    """
    with _performance(text, environ) as performance:
        return _show(performance.perform())


def run_kubespray_reset(text: str, environ: Mapping[str, str]) -> str:
    """Delete the cluster of the request on stdin.

    Raises:
        UsageError: It is no request, or a key is not in the environment.
        DeviceError: See `Performance.reset`.
    """
    with _performance(text, environ) as performance:
        return _show(performance.reset())


def _show(evidence: Mapping[str, object]) -> str:
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"

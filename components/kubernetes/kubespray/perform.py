"""`railyard device kubespray`: bring the cluster to the wanted state, one playbook at a time.

The state is saved after each playbook, and a later run continues from there if this one is killed.
If nothing differs, nothing is run, fetched or asked. A preview of the playbooks, and of the reasons
not to start, comes from the files on this machine and the outputs recorded in the stack.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from pydantic import JsonValue

from components.core.errors import DeviceError
from components.core.record import record
from components.core.templates import fault_text, read_table
from components.core.to_json import to_json
from components.kubernetes.kubespray import state as states
from components.kubernetes.kubespray import wanted as kubespray
from components.kubernetes.kubespray.state import Cluster, Decision, Keeper, PlaybookRun, State
from components.kubernetes.kubespray.tree import bring_tree, make_environment
from components.kubernetes.planes.base import KubernetesPlan
from components.remote.login import AGENT, client_key
from components.remote.step import Endpoint, secrets_for

PREVIOUS_OUTPUT: Final = "PULUMI_COMMAND_STDOUT"
CLOSE_DEADLINE_S: Final = 10.0
_OWNER_ONLY: Final = 0o600
_SAID_LINES: Final = 3
_SAID_CHARACTERS: Final = 600
_WORST: Final = ("fatal:", "failed:", "ERROR!", "[ERROR]")
"""Beginnings of Ansible's lines that name the cause of a failure."""
_OF_SCHEMA: Final = re.compile(r"^s[0-9]+_")
"""The prefix of a node's name in the cache of facts, since Ansible 2.19."""
_WHOLE: Final = ("cluster.yml", "upgrade-cluster.yml")
"""These gather the facts of all nodes again unless limited; other playbooks use cached facts."""
_KEPT: Final = ("PATH", "HOME", "TMPDIR", "TERM", "XDG_CACHE_HOME", "SSL_CERT_FILE", AGENT)


def decide_on(state: State, request: kubespray.Request) -> Decision:
    """Decide which playbooks run, from all known state; pure, for the preview too.

    The site's disruption policy limits each run. kubespray does not uncordon a node that was
    cordoned before the run (`upgrade/pre-upgrade`), so it would leave the nodes that a killed
    upgrade drained out of service for good, unless the next one uncordons always.
    """
    there = state.there.wanted if state.there else None
    wanted = request.wanted
    if turn := states.refuse_turn(there, state.under_way, wanted):
        return Decision(refused=(turn,))
    found = states.decide(states.presumed(there, state.under_way, wanted), wanted)
    killed = state.under_way is not None and state.under_way.upgrading
    runs: list[PlaybookRun] = []
    for run in found.runs:
        own: dict[str, JsonValue] = {**run.variables}
        if run.playbook == states.UPGRADE and killed:
            own["upgrade_node_always_cordon"] = True
        if run.drains:
            own["drain_timeout"] = f"{request.drain_deadline_s}s"
            own |= {"serial": request.max_unavailable} if run.playbook == states.UPGRADE else {}
        runs.append(replace(run, variables=own))
    draining = [run for run in runs if run.drains]
    if draining and request.disruption == "deny":
        refused = (fault_text(__file__, "denied", words=run.words) for run in draining)
        return Decision(refused=tuple(refused))
    return Decision(tuple(runs), found.refused)


def edited_inventory(keeper: Keeper, state: State) -> str:
    """Why the last run's inventory must not be overwritten; empty if it may be."""
    edited = " ".join(str(path) for path in keeper.edited(state.inventory))
    if not edited:
        return ""
    there, begun = state.there, state.under_way
    words = "no playbook ended well yet"
    if there is not None:
        nodes = ", ".join(sorted(there.wanted.nodes))
        words = f"Kubernetes {there.wanted.version} by {there.wanted.release} on {nodes}"
    words += f"; in the middle: {begun.words}" if begun else ""
    return fault_text(__file__, "edited", edited=edited, state=words)


@record
class Player:
    """Settings shared by the playbooks of one run."""

    tree: Path
    environment: Path
    keeper: Keeper
    lock: int
    """Descriptor of the lock: a running playbook holds it too, even if our process is killed."""

    def unknown(self, run: PlaybookRun, nodes: Iterable[str]) -> tuple[str, ...]:
        """The nodes outside a limited run whose facts are not cached here: roles read them."""
        if not run.limit:
            return ()
        files = self.keeper.facts.iterdir() if self.keeper.facts.is_dir() else ()
        known = {_OF_SCHEMA.sub("", path.name) for path in files}
        return tuple(sorted({*nodes} - {*run.limit} - known))

    def play(self, run: PlaybookRun, secrets: Path) -> None:
        """Run one playbook to its end; a DeviceError has its last words and the path of its log."""
        command = [*self._command("ansible-playbook", secrets), "--become"]
        command += ["--limit", ",".join(run.limit)] if run.limit else []
        command += ["--flush-cache"] if run.playbook in _WHOLE and not run.limit else []
        command.append(run.playbook)
        self.keeper.log.parent.mkdir(parents=True, exist_ok=True)
        self.keeper.log.touch(_OWNER_ONLY)
        with self.keeper.log.open("ab") as log:
            log.write(f"\n=== {time.strftime('%F %T')} {run.words}\n".encode())
            log.flush()
            start = log.tell()
            done = self._run(command, secrets, log)
        if done.returncode == 0:
            return
        with self.keeper.log.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        worst = [line for line in lines if line.startswith(_WORST)]
        worst = worst or [line for line in lines if line.strip()]
        said = "\n".join(f"  said   {line[:_SAID_CHARACTERS]}" for line in worst[-_SAID_LINES:])
        words = {"words": run.words, "status": done.returncode, "said": said}
        raise DeviceError(fault_text(__file__, "failed", log=self.keeper.log, **words))

    def silent(self, nodes: tuple[str, ...], secrets: Path) -> tuple[str, ...]:
        """The nodes that Ansible cannot reach with their pinned keys."""
        command = [*self._command("ansible", secrets), "-m", "ping", ",".join(nodes)]
        said = self._run(command, secrets, subprocess.PIPE).stdout.decode(errors="replace")
        return tuple(name for name in nodes if f"{name} | UNREACHABLE!" in said)

    def _run(
        self, command: list[str], secrets: Path, out: int | IO[bytes]
    ) -> subprocess.CompletedProcess[bytes]:
        """Run an Ansible program, and close its connections to the nodes however it ends."""
        kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
        environ = {
            **kept,
            **read_table(__file__, "environment"),
            "PATH": f"{self.environment / 'bin'}:{kept.get('PATH', '/usr/bin:/bin')}",
            "VIRTUAL_ENV": str(self.environment),
            "ANSIBLE_CONFIG": str((self.tree / "ansible.cfg").absolute()),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(secrets / "cp"),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.keeper.facts.absolute()),
            "ANSIBLE_LOCAL_TEMP": str(secrets / "tmp"),
        }
        try:
            return subprocess.run(
                command,
                check=False,
                cwd=self.tree,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(self.lock,),
            )
        finally:
            _close_connections(secrets / "cp")

    def _command(self, program: str, secrets: Path) -> list[str]:
        path, inventory = self.environment / "bin" / program, self.keeper.inventory.absolute()
        return [str(path), "-i", str(inventory), "-e", f"@{secrets / 'variables.json'}"]


def _close_connections(sockets: Path) -> None:
    """End the connections that Ansible keeps open for its next call."""
    ssh = shutil.which("ssh")
    for path in sockets.glob("*") if ssh else ():
        subprocess.run(
            [str(ssh), "-o", f"ControlPath={path}", "-O", "exit", "node"],
            check=False,
            capture_output=True,
            timeout=CLOSE_DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )


@contextmanager
def secrets_folder(
    run: PlaybookRun, endpoints: Iterable[Endpoint], environ: Mapping[str, str], note: Path
) -> Generator[Path]:
    """The private keys and passwords of one playbook, in a folder that is removed after it.

    `note` is a file with the folder's path while the folder exists: `forget_secrets` reads it.
    """
    ends = tuple(endpoints)
    with tempfile.TemporaryDirectory(prefix="ry") as name:  # 0700; short for control sockets
        folder = Path(name)
        note.write_text(name, "utf-8")
        become: dict[str, JsonValue] = {}
        known_ends = {each.device: each for node in ends for each in (*node.jump, node)}
        for each in known_ends.values():
            known = secrets_for(each, environ)
            if each.private_key_secret is not None:
                _write(folder / each.device, client_key(each, known).export_private_key())
            if each.sudo_secret is not None:
                become[each.device] = known[each.sudo_secret]
        # The pinned keys of nodes and jump hosts, by name: `HostKeyAlias` selects them.
        keys = sorted((name, each.host_key) for name, each in known_ends.items())
        lines = "".join(f"{name} {key}\n" for name, key in keys)
        _write(folder / kubespray.KNOWN_HOSTS, lines.encode())
        config = kubespray.render_ssh_config(ends, str(folder))
        _write(folder / kubespray.SSH_CONFIG, config.encode())
        variables = {**run.variables, kubespray.SECRETS: str(folder), kubespray.BECOME: become}
        _write(folder / "variables.json", json.dumps(variables).encode())
        try:
            yield folder
        finally:
            note.unlink(missing_ok=True)


def forget_secrets(note: Path) -> None:
    """Remove the keys of a killed run, and close its connections; the caller has the lock."""
    if note.is_file() and (folder := Path(note.read_text("utf-8"))).is_dir():
        _close_connections(folder / "cp")
        shutil.rmtree(folder)
    note.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    path.touch(_OWNER_ONLY)
    path.write_bytes(content)


@dataclass(slots=True)
class Performance:
    """One run for one request."""

    request: kubespray.Request
    keeper: Keeper
    environ: Mapping[str, str]
    state: State
    lock: int

    def perform(self) -> dict[str, object]:
        """Run the needed playbooks, and return the evidence; a DeviceError describes the state."""
        decision = decide_on(self.state, self.request)
        refused = list(decision.refused)
        if edited := edited_inventory(self.keeper, self.state):
            refused.append(edited)
        if refused:
            raise DeviceError("\n".join((*refused, "Nothing was changed.")))
        resumed = self.state.under_way.words if self.state.under_way else ""
        target = Cluster(self.request.wanted, self.request.endpoints)
        played: list[str] = []
        if decision.runs:
            player = self._player()
            for run in decision.runs:
                there, parts = self._reckoned(target.wanted), (run,)
                if there is not None and run.removed:
                    # A removal is split in two if some of its nodes do not answer.
                    cluster = states.over(there, target)
                    self._write(cluster)
                    with self._secrets(run, cluster) as secrets:
                        silent = player.silent(run.removed, secrets)
                    if lost := states.refuse_lost(there.wanted, silent):
                        raise DeviceError(f"{lost}\nNothing was changed.")
                    parts = states.split_removal(run, silent)
                for part in parts:
                    self._run(player, part, target)
                    played.append(part.words)
        self._write(target)
        self.state = replace(self.state, there=target, under_way=None)
        self.keeper.save(self.state)
        return {
            "changed": played,
            "resumed": resumed,
            "log": str(self.keeper.log) if decision.runs else "",
            "state": to_json(replace(self.state, inventory=())),
        }

    def _player(self) -> Player:
        request, wanted = self.request, self.request.wanted
        tree, digest = bring_tree(request.source, wanted.release, wanted.pin, wanted.version)
        self.state = replace(self.state, tree=digest)
        environment = make_environment(request.requirements, request.python)
        return Player(tree.absolute(), environment, self.keeper, self.lock)

    def _run(self, player: Player, run: PlaybookRun, target: Cluster) -> None:
        there, before = self._reckoned(target.wanted), self.state.under_way
        cluster = states.over(there, target) if run.on == "there" and there is not None else target
        run = states.allow_even(run, len(cluster.wanted.of_role("control_plane")))
        # Keep the possible remains of a killed run: this run may be killed too.
        self.state = replace(self.state, there=there, under_way=states.begin(run, target, before))
        self._write(cluster)
        if unknown := player.unknown(run, cluster.wanted.nodes):
            why = f"reads the facts of {states.list_names(unknown)}, which are not here"
            self._play(player, PlaybookRun("playbooks/facts.yml", why), cluster)
        self._play(player, run, cluster)
        ended = states.after(there.wanted if there else None, run, target.wanted)
        ways = states.over(there, target).endpoints if there else target.endpoints
        left = states.end(run, target, before)
        self.state = replace(self.state, there=Cluster(ended, ways), under_way=left)
        self.keeper.save(self.state)

    def _play(self, player: Player, run: PlaybookRun, cluster: Cluster) -> None:
        with self._secrets(run, cluster) as secrets:
            player.play(run, secrets)

    def _secrets(self, run: PlaybookRun, cluster: Cluster) -> AbstractContextManager[Path]:
        ends = [cluster.endpoints[name] for name in cluster.wanted.nodes]
        return secrets_folder(run, ends, self.environ, self.keeper.secrets)

    def _reckoned(self, wanted: kubespray.Wanted) -> Cluster | None:
        """The current cluster, with the nodes that a killed run may have added."""
        there, under_way = self.state.there, self.state.under_way
        if there is None or under_way is None:
            return there
        found = states.presumed(there.wanted, under_way, wanted)
        return Cluster(found or there.wanted, states.over(under_way.cluster, there).endpoints)

    def _write(self, cluster: Cluster) -> None:
        """Write the inventory; the state lists its digests before and after the write."""
        files = kubespray.render_inventory(cluster.wanted, cluster.endpoints)
        ours = tuple(states.inventory_digest(name, text.encode()) for name, text in files.items())
        self.keeper.save(replace(self.state, inventory=(*self.state.inventory, *ours)))
        self.keeper.write_inventory(files)
        self.state = replace(self.state, inventory=ours)
        self.keeper.save(self.state)

    def reset(self) -> dict[str, object]:
        """Delete the cluster; DeviceError if the file does not allow it."""
        begun = self.state.under_way.cluster if self.state.under_way else None
        known = self.state.there or begun
        if known is None:
            return {"changed": [], "state": {}}
        if begun is not None:  # the nodes of a killed run may have joined
            nodes = {**begun.wanted.nodes, **known.wanted.nodes}
            known = Cluster(replace(known.wanted, nodes=nodes), states.over(begun, known).endpoints)
        known = states.over(known, Cluster(self.request.wanted, self.request.endpoints))
        if self.request.reset == "deny":
            raise DeviceError(fault_text(__file__, "reset-denied"))
        if edited := edited_inventory(self.keeper, self.state):
            raise DeviceError(f"{edited}\nNothing was changed.")
        run, player = states.reset_run(), self._player()
        self._write(known)
        self._play(player, run, known)
        for folder in (self.keeper.inventory, self.keeper.facts):
            shutil.rmtree(folder, ignore_errors=True)
        self.keeper.forget()
        return {"changed": [run.words], "state": {}}


@contextmanager
def _performance(text: str, environ: Mapping[str, str]) -> Generator[Performance]:
    request = kubespray.parse_request(text)
    keeper = Keeper(states.FOLDER / request.stack)
    keeper.folder.mkdir(parents=True, exist_ok=True)
    with (keeper.folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            words = fault_text(__file__, "goes-on", folder=keeper.folder, log=keeper.log)
            raise DeviceError(words) from error
        forget_secrets(keeper.secrets)
        state = keeper.load(environ.get(PREVIOUS_OUTPUT, ""))
        yield Performance(request, keeper, environ, state, lock.fileno())


def run_kubespray(text: str, environ: Mapping[str, str]) -> str:
    """Perform the request on stdin; the evidence is indented JSON."""
    with _performance(text, environ) as performance:
        return json.dumps(performance.perform(), indent=2, sort_keys=True) + "\n"


def run_kubespray_reset(text: str, environ: Mapping[str, str]) -> str:
    """Delete the cluster of the request on stdin."""
    with _performance(text, environ) as performance:
        return json.dumps(performance.reset(), indent=2, sort_keys=True) + "\n"


def kubespray_changes(
    kubernetes: KubernetesPlan | None, recorded: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The playbooks of an update, and the refusals; `recorded` is the step's last output."""
    if kubernetes is None or kubernetes.playbooks is None:
        return (), ()
    request = kubespray.parse_request(kubernetes.playbooks.step.desired)
    keeper = Keeper(states.FOLDER / request.stack)
    state = keeper.load(recorded)
    decision = decide_on(state, request)
    edited = edited_inventory(keeper, state)
    refused = (*decision.refused, *([edited] if edited else []))
    words = [run.words for run in decision.runs]
    if words and state.under_way is not None:
        words.insert(0, f"the last run ended in the middle of {state.under_way.words}")
    words += [f"it may take hours; follow it with `tail -f {keeper.log}`"] if words else []
    return tuple(f"kubespray: {each}" for each in words), refused

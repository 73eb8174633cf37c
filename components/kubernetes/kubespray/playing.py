"""One call of `ansible-playbook`: its secrets, its environment, its live log."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pydantic import JsonValue

from components.core.errors import DeviceError
from components.kubernetes.kubespray.runs import PlaybookRun
from components.kubernetes.kubespray.wanted import (
    BECOME,
    KNOWN_HOSTS,
    SECRETS,
    SSH_CONFIG,
    render_known_hosts,
    render_ssh_config,
)
from components.remote.login import AGENT, client_key
from components.remote.step import Endpoint, secrets_for

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


@dataclass(frozen=True, slots=True)
class Player:
    """Settings shared by the playbooks of one run."""

    tree: Path
    environment: Path
    inventory: Path
    facts: Path
    log: Path
    forks: int
    lock: int
    """Descriptor of the lock: a running playbook holds it too, even if our process is killed."""

    def unknown(self, run: PlaybookRun, nodes: Iterable[str]) -> tuple[str, ...]:
        """The nodes outside a limited run whose facts are not cached here.

        Roles read their addresses from the facts; kubespray's page on nodes asks for `facts.yml`
        then.
        """
        if not run.limit:
            return ()
        files = self.facts.iterdir() if self.facts.is_dir() else ()
        known = {_OF_SCHEMA.sub("", path.name) for path in files}
        return tuple(sorted({*nodes} - {*run.limit} - known))

    def play(self, run: PlaybookRun, secrets: Path) -> None:
        """Run one playbook to its end.

        Raises:
            DeviceError: It failed; the text contains its last words and the path of the log.
        """
        command = [*self._command("ansible-playbook", secrets), "--become"]
        command += ["--limit", ",".join(run.limit)] if run.limit else []
        command += ["--flush-cache"] if run.playbook in _WHOLE and not run.limit else []
        command.append(run.playbook)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch(_OWNER_ONLY)
        with self.log.open("ab") as log:
            log.write(f"\n=== {time.strftime('%F %T')} {run.words}\n".encode())
            log.flush()
            begin = log.tell()
            done = self._run(command, secrets, log)
        if done.returncode != 0:
            raise DeviceError(self._failed(run, done.returncode, begin))

    def silent(self, nodes: tuple[str, ...], secrets: Path) -> tuple[str, ...]:
        """The nodes that Ansible cannot reach with their pinned keys."""
        command = [*self._command("ansible", secrets), "-m", "ping", ",".join(nodes)]
        said = self._run(command, secrets, subprocess.PIPE).stdout.decode(errors="replace")
        return tuple(name for name in nodes if f"{name} | UNREACHABLE!" in said)

    def _run(
        self, command: list[str], secrets: Path, out: int | IO[bytes]
    ) -> subprocess.CompletedProcess[bytes]:
        """Run an Ansible program, and close its connections to the nodes however it ends."""
        try:
            return subprocess.run(
                command,
                check=False,
                cwd=self.tree,
                env=self._environ(secrets),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(self.lock,),
            )
        finally:
            _close_connections(secrets / "cp")

    def _command(self, program: str, secrets: Path) -> list[str]:
        words = [str(self.environment / "bin" / program), "-i", str(self.inventory.absolute())]
        return [*words, "-e", f"@{secrets / 'variables.json'}"]

    def _environ(self, secrets: Path) -> dict[str, str]:
        """Override the tree's ansible.cfg, which checks no host key and caches facts in /tmp."""
        kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
        return kept | {
            "PATH": f"{self.environment / 'bin'}:{kept.get('PATH', '/usr/bin:/bin')}",
            "VIRTUAL_ENV": str(self.environment),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "ANSIBLE_CONFIG": str((self.tree / "ansible.cfg").absolute()),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(secrets / "cp"),
            "ANSIBLE_SSH_TRANSFER_METHOD": "piped",  # a server may lack SFTP and scp
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": str(self.forks),
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.facts.absolute()),
            "ANSIBLE_CACHE_PLUGIN_TIMEOUT": "0",
            "ANSIBLE_RETRY_FILES_ENABLED": "False",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(secrets / "tmp"),
        }

    def _failed(self, run: PlaybookRun, status: int, begin: int) -> str:
        with self.log.open("rb") as log:
            log.seek(begin)
            lines = log.read().decode(errors="replace").splitlines()
        worst = [line for line in lines if line.startswith(_WORST)] or [
            line for line in lines if line.strip()
        ]
        said = "\n".join(f"  said   {line[:_SAID_CHARACTERS]}" for line in worst[-_SAID_LINES:])
        return (
            f"kubespray's {run.words}: ended with status {status}\n{said}\n"
            f"  log    {self.log}\n"
            "  next   correct that fault, then run `pulumi up` again: it skips the playbooks that "
            "succeeded and repeats this one"
        )


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
        for end in known_ends.values():
            known = secrets_for(end, environ)
            if end.private_key_secret is not None:
                _write(folder / end.device, client_key(end, known).export_private_key())
            if end.sudo_secret is not None:
                become[end.device] = known[end.sudo_secret]
        _write(folder / KNOWN_HOSTS, render_known_hosts(ends).encode())
        _write(folder / SSH_CONFIG, render_ssh_config(ends, str(folder)).encode())
        variables = {**run.variables, SECRETS: str(folder), BECOME: become}
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

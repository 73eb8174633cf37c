"""Whether a launcher reaches a worker over SSH: sshd, port, host key, and mpirun's daemon there.

The texts and exit codes are those of OpenSSH and of Open MPI 4 in real pods, recorded on
`make lab-pods` (docs/howto/real-kernels.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.cluster.launch_ends import JobEnd, full_name
from lab.cluster.pod_probe import image_of
from lab.cluster.pod_shell import program_of
from lab.cluster.pod_view import Pod

_SSHD: Final = "/usr/sbin/sshd"
_DEFAULT_PORT: Final = "22"
_SSH_FAILED: Final = 255
_NOT_FOUND: Final = 127
_ORTE: Final = Path(__file__).with_name("orte_failed.txt")
"""What Open MPI adds; MY_NODE and TARGET stand for names."""
_CHANGED_KEY: Final = Path(__file__).with_name("ssh_changed_key.txt")
_FINGERPRINT: Final = "KUsfirHWWZ0eoW8J2vBX/E6MykzQN3Kf4n4QFONlVVA"
_FORMER_KEY_KNOWN: Final = "UserKnownHostsFile=/tmp/railyard_known_hosts"


def why_unreached(call: Sequence[str], launcher: Pod, worker: Pod) -> JobEnd | None:
    """How mpirun ends where its daemon cannot be started on a worker; None where it can."""
    if not call or not call[0].endswith("mpirun"):
        return None
    refusal = _refusal(call, worker)
    if refusal is None:
        return None
    text = _ORTE.read_text().replace("MY_NODE", launcher.hostname)
    return JobEnd(refusal.log + text.replace("TARGET", full_name(worker)), refusal.exit_code)


def _refusal(call: Sequence[str], worker: Pod) -> JobEnd | None:
    command = program_of(worker.command) or (_SSHD, "-De")  # the MPI operator's own default
    options, name = _ssh_options(call), full_name(worker)
    port = _after(options, "-p") or _DEFAULT_PORT
    refused = JobEnd(f"ssh: connect to host {name} port {port}: Connection refused\n", _SSH_FAILED)
    if worker.host_network and port == _DEFAULT_PORT:
        # The host's own sshd answers.
        return JobEnd(f"root@{name}: Permission denied (publickey).\n", _SSH_FAILED)
    if not image_of(worker).has(command[0]) or port != (_after(command, "-p") or _DEFAULT_PORT):
        return refused
    if not _trusts(options, command):
        return JobEnd(_untrusted(options, name), _SSH_FAILED)
    if not image_of(worker).root_login:
        again = "Permission denied, please try again.\n" * 3
        words = f"root@{name}: Permission denied (publickey,password).\n"
        return JobEnd(again + words, _SSH_FAILED)
    return _without_daemon(call, worker)


def _without_daemon(call: Sequence[str], worker: Pod) -> JobEnd | None:
    """Mpirun called by its full path looks for its daemon beside itself."""
    if any(image_of(worker).has(name) for name in ("orted", "prted")):
        return None
    folder = call[0].rpartition("/")[0]
    words = f"{folder}/orted: No such file or directory" if folder else "orted: command not found"
    return JobEnd(f"bash: line 1: {words}\n", _NOT_FOUND)


def _untrusted(options: Sequence[str], name: str) -> str:
    """What ssh says of another key than it knows; without known keys it says less."""
    if _FORMER_KEY_KNOWN not in options:
        return "Host key verification failed.\n"
    return _CHANGED_KEY.read_text().replace("NAME", name).replace("FINGERPRINT", _FINGERPRINT)


def _ssh_options(call: Sequence[str]) -> list[str]:
    text = _after(call, "plm_rsh_args")
    return text.split()


def _after(words: Sequence[str], name: str) -> str:
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word == name), "")


def _trusts(options: Sequence[str], command: Sequence[str]) -> bool:
    """Whether ssh accepts the worker's host key: any, or that of the job where sshd shows it."""
    if {"StrictHostKeyChecking=no", "StrictHostKeyChecking=accept-new"} & {*options}:
        return True
    known = any(word.startswith("UserKnownHostsFile=/") for word in options)
    return known and "HostKey=/root/.ssh/id_rsa" in command

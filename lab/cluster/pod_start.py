"""How a worker's container ends that cannot start; words and codes are those of real pods.

A real kubelet shows such a pod as Failed, and the MPI operator makes no launcher for its job
(docs/howto/real-kernels.md).
"""

from __future__ import annotations

from components.core.record import record
from lab.cluster.launcher import JOB_ROLE
from lab.cluster.pod_probe import World, container_of, image_of
from lab.cluster.pod_shell import run_script, script_of
from lab.cluster.pod_view import Pod

SSHD = "/usr/sbin/sshd"
_RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
    " create failed: unable to start container process: exec: "
)


@record
class NotStarted:
    """The end of a container that never served."""

    exit_code: int
    reason: str
    message: str
    """Of the container's state; runc's own words."""
    log: str


def why_not_started(pod: Pod, world: World) -> NotStarted | None:
    """Why the container of a worker ends at once; None if it runs, and for all other pods."""
    command, image = pod.command, image_of(pod)
    if pod.labels.get(JOB_ROLE) != "worker" or not command:
        return None
    if script_of(command):
        run = run_script(command, container_of(pod, world))
        return None if run.call else NotStarted(run.exit_code, "Error", "", run.output)
    program = command[0]
    if program.startswith("/") and not image.has(program):
        words = f'{_RUNC}"{program}": stat {program}: no such file or directory'
        return NotStarted(128, "StartError", words, "")
    if program == SSHD and not image.run_sshd:
        log = "Missing privilege separation directory: /run/sshd\n"
        return NotStarted(255, "Error", "", log)
    return None

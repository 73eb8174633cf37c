"""SSH between the launcher and the workers of one job: port, host key, options.

The MPI operator mounts one key pair of the job at `/root/.ssh` of launcher and workers. Workers
show that key as their host key, and the launcher trusts it alone, so an image needs no host keys
and no check is switched off.

Sources: the controller and the base image of the MPI operator; sshd(8), ssh(1).
"""

from __future__ import annotations

from typing import Final

from components.model.cluster import ClusterSpec

SSHD: Final = "/usr/sbin/sshd"
"""sshd wants to be started by its full path: it runs itself again for every connection."""
POD_PORT: Final = 22
HOST_NETWORK_PORT: Final = 2222
"""In the host's network the host's own sshd has port 22."""
KNOWN_HOSTS: Final = "/tmp/railyard_known_hosts"  # noqa: S108 - the launcher's own container
_CONNECT: Final = "-o ConnectionAttempts=10"
"""As the MPI operator sets it, which options of ours replace: a worker may need a moment."""


def ssh_port(spec: ClusterSpec, *, host_network: bool) -> int:
    """The port of the workers' sshd."""
    if spec.jobs.ssh_port is not None:
        return spec.jobs.ssh_port
    return HOST_NETWORK_PORT if host_network else POD_PORT


def sshd_command(port: int) -> tuple[str, ...]:
    """What a worker runs.

    `StrictModes`: a mounted Secret is a folder that all may write to, on a file system of its own.
    """
    options = ("-o", "HostKey=/root/.ssh/id_rsa", "-o", "StrictModes=no")
    return (SSHD, "-De", "-p", str(port), *options)


def ssh_options(port: int) -> str:
    """The options of ssh with which mpirun reaches the workers."""
    trust = f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={KNOWN_HOSTS}"
    return f"{_CONNECT} -p {port} {trust}"


def launcher_env(port: int) -> dict[str, str]:
    """Open MPI 5 reads these options from its launcher's environment alone."""
    return {"PRTE_MCA_plm_ssh_args": ssh_options(port)}

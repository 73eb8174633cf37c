"""How a command runs in a container of a lab host: the host's namespace with mounts of its own.

A container sees the host's network, names and devices, as one with `--net=host --uts=host
--ipc=host` does; `/root` and `/usr/local` are its own, and its `-v` folders are the host's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from components.core.record import record
from lab.hosts.docker_state import Container, DockerState, Image, load_state
from lab.hosts.model import HostModel
from lab.hosts.namespace import CONTROL_VARIABLES, INNER_PATH, Namespace
from lab.hosts.rootfs import CONTAINER_TOOLS, GPU_FOLDER, OUTER_BIN
from lab.hosts.supervisor import Supervisor
from lab.hosts.tools.options import pairs
from lab.hosts.tools.packages import PROGRAMS
from lab.hosts.units import full_name

CONTAINER_VARIABLE: Final = "RAILYARD_LAB_CONTAINER"
"""Tells the emulated tools which container they were called in."""
MPI_BIN: Final = "/usr/local/mpi/bin"
"""Where NVIDIA's images have Open MPI."""
DOCKERD_CONFIG: Final = "run/docker/daemon.json"
_MOUNTS: Final = (
    'set -e; b=$1; shift; "$b/mount" -t tmpfs -o mode=0700 tmpfs /root; '
    '"$b/mount" -t tmpfs -o mode=0755 tmpfs /usr/local; mkdir -p "$1"; '
    '"$b/mount" --bind "$2" "$1"; shift 2; '
    'while [ "$1" != -- ]; do mkdir -p "$2"; "$b/mount" --bind "$1" "$2"; shift 2; done; '
    'shift; exec "$@"'
)


@record
class ContainerHost:
    """What Docker and MPI may do with the machine that they run on."""

    stack: str
    lab: Path
    """Folder of the lab."""
    root: Path
    model: HostModel
    supervisor: Supervisor
    namespace: Callable[[], Namespace]
    control: Path
    """Socket on which the host reaches the lab daemon."""

    def inner_path(self, path: str) -> Path:
        """A file of the running host as this process sees it, in memory or on disk."""
        return Path(f"/proc/{self.namespace().init_pid}/root") / path.lstrip("/")

    def docker_runs(self) -> bool:
        """The daemon's unit is active."""
        state = self.supervisor.states.get(full_name("docker"))
        return state is not None and state.active == "active"

    def state(self) -> DockerState:
        """Docker's state; after a reboot only what restarts itself runs."""
        state = load_state(self.root)
        for container in state.containers.values():
            if container.boot_id != self.model.boot_id:
                container.running = container.running and container.restarts
                container.exit_code = 0 if container.running else 255
                container.boot_id = self.model.boot_id
        return state

    def locks_memory(self) -> bool:
        """A running container may pin any amount of memory."""
        return any(
            container.running and "memlock=-1" in container.options.get("ulimit", [])
            for container in self.state().containers.values()
        )

    def argv(self, container: Container, command: Sequence[str]) -> list[str]:
        """The command line that runs a command in the container, from the outer machine."""
        mounts = [
            f"{OUTER_BIN}/unshare", "--mount", "--propagation", "private",
            f"{OUTER_BIN}/sh", "-c", _MOUNTS, "container", OUTER_BIN, MPI_BIN, CONTAINER_TOOLS,
            *(part for pair in (*self._gpu_tools(container), *binds(container)) for part in pair),
            "--",
        ]  # fmt: skip
        return self.namespace().argv_after(mounts, command)

    def _gpu_tools(self, container: Container) -> list[tuple[str, str]]:
        """NVIDIA's runtime brings the host's own nvidia-smi to a container that asks for GPUs."""
        host_has = (self.root / PROGRAMS / "nvidia-smi").is_symlink()
        if not container.options.get("gpus") or not host_has:
            return []
        return [(f"{CONTAINER_TOOLS}/{GPU_FOLDER}", f"/{PROGRAMS}")]

    def environment(self, container: Container, image: Image | None) -> dict[str, str]:
        """The environment of a process in the container."""
        given = pairs(container.options.get("env", []))
        return {
            "PATH": f"{MPI_BIN}:{INNER_PATH}",
            "HOME": "/root",
            "HOSTNAME": self.model.hostname,
            "LANG": "C.UTF-8",
            CONTAINER_VARIABLE: container.name,
            **CONTROL_VARIABLES,
            **(image.env if image else {}),
            **given,
        }

    async def output(
        self, container: Container, command: Sequence[str], env: Mapping[str, str]
    ) -> tuple[int, str, str]:
        """Run a command in the container to its end: status, output and errors."""
        process = await asyncio.create_subprocess_exec(
            *self.argv(container, command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


def binds(container: Container) -> list[tuple[str, str]]:
    """Folder of the host and of the container of each `-v` and `--mount type=bind`."""
    found: list[tuple[str, str]] = []
    for text in container.options.get("volume", []):
        parts = text.split(":")
        found.append((parts[0], parts[1] if len(parts) > 1 else parts[0]))
    for text in container.options.get("mount", []):
        values = pairs(text.split(","))
        source = values.get("source") or values.get("src", "")
        target = values.get("target") or values.get("dst") or values.get("destination", "")
        found.append((source, target))
    return found

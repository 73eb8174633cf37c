"""What the images of the lab's registries hold: programs, where they are, how they were built.

The lab has no layers to unpack; it has what an image's recipe says of it. Images that are not in
the table have a shell and the usual small tools, as a base image has, and no program of a job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from components.core.record import field, record, replace

COLLECTIVES: Final = (
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf",
    "broadcast_perf", "sendrecv_perf",
)  # fmt: skip
_PERFTEST: Final = (
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat",
)  # fmt: skip
_SSH: Final = ("/usr/bin/ssh", "/usr/bin/ssh-keygen", "/usr/sbin/sshd")
MPI_LIBRARIES: Final = ("libmpi.so.40", "libnccl.so.2", "libcudart.so.12")
_PROBE_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@record
class Image:
    """What a container of an image finds in its file system."""

    programs: frozenset[str] = frozenset()
    """Absolute paths."""
    linked: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Path of a program to the libraries that it is linked with; a missing one begins with `!`."""
    path: str = _PROBE_PATH
    """ENV PATH of the image."""
    mpi: str = "mpirun (Open MPI) 4.1.6"
    """What `mpirun --version` prints first."""
    run_sshd: bool = True
    """It has the folder /run/sshd."""
    root_login: bool = True
    """Its sshd lets root log in by key."""
    root_home: str = "/root"
    user: int = 0
    nccl: str = ""
    """Release of its libnccl.so.2, whose file is named after it; with a `~` before, the file of a
    wheel, which has it in its text alone."""
    torch_nccl: str = ""
    """What `torch.cuda.nccl.version()` of its Python says; empty where there is no torch."""
    modules: frozenset[str] = frozenset()
    """Modules of its Python that are no part of Python."""

    def has(self, program: str) -> bool:
        """Whether a container could start a program, by path or by the image's PATH."""
        if "/" in program:
            return program in self.programs
        return any(f"{folder}/{program}" in self.programs for folder in self.path.split(":"))

    @property
    def release_of_nccl(self) -> str:
        """Release of the NCCL that its jobs use; empty if it is not known."""
        return self.torch_nccl or self.nccl.removeprefix("~")

    def without(self, *names: str) -> Image:
        """The same image, but for programs of these names."""
        kept = (each for each in self.programs if each.rpartition("/")[2] not in names)
        return replace(self, programs=frozenset(kept))


def _in(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


def _with_mpi(folder: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(_in(folder, COLLECTIVES), MPI_LIBRARIES)


PROBE: Final = Image(
    frozenset(
        (
            *_SSH,
            *_in("/usr/bin", ("mpirun", "orted", "getent")),
            *_in("/usr/local/bin", (*COLLECTIVES, *_PERFTEST, "nvbandwidth")),
            *_in("/opt/perftest-cuda/bin", _PERFTEST),
        )
    ),
    _with_mpi("/usr/local/bin"),
    nccl="2.26.5",
)
"""components/jobs/images/probe/Dockerfile."""
VENDOR: Final = Image(
    frozenset(
        (
            *_SSH,
            *_in("/opt/hpcx/ompi/bin", ("mpirun", "orted")),
            *_in("/opt/nccl-tests/build", COLLECTIVES),
            "/usr/bin/getent",
        )
    ),
    _with_mpi("/opt/nccl-tests/build"),
    path=f"/opt/hpcx/ompi/bin:{_PROBE_PATH}",
    nccl="2.26.5",
)
"""ghcr.io/crusoecloud/nccl-tests: the programs are where its manifests call them; no perftest."""
DEEPSPEED: Final = Image(
    frozenset((*_SSH, *_in("/usr/bin", ("deepspeed", "pdsh", "getent", "tensorboard", "python3")))),
    torch_nccl="2.26.2",
)
"""components/jobs/images/deepspeed/Dockerfile."""
HOROVOD: Final = Image(
    frozenset(
        (
            *_SSH,
            *_in("/usr/local/bin", ("mpirun", "orted")),
            *_in("/usr/bin", ("getent", "python")),
            "/horovod/examples/tensorflow2/tensorflow2_synthetic_benchmark.py",
        )
    ),
    mpi="mpirun (Open MPI) 3.0.0",
    modules=frozenset({"tensorflow", "horovod"}),
)
"""docker/horovod/Dockerfile of horovod/horovod (lab/sources.md#trainer)."""
TORCH: Final = Image(frozenset({"/usr/local/bin/torchrun", "/workspace/multinode.py"}))
"""PyTorch with its example of training on several nodes (lab/sources.md#trainer)."""
BASE: Final = Image()
_NO_MPI: Final = replace(
    PROBE, linked=dict.fromkeys(_in("/usr/local/bin", COLLECTIVES), MPI_LIBRARIES[1:])
)
_NO_NCCL: Final = replace(
    PROBE,
    linked=dict.fromkeys(_in("/usr/local/bin", COLLECTIVES), ("libmpi.so.40", "!libnccl.so.2")),
)
_TABLE: Final = (
    (r".*/(nccl-(roce|ib)-test|rdma-test|railyard-probe)", PROBE),
    (r".*/crusoecloud/nccl-tests", VENDOR),
    (r".*/(zyg|deepspeed)", DEEPSPEED),
    (r".*/horovod", HOROVOD),
    (r".*/ddp-tutorial", TORCH),
    (r"lab\.railyard\.dev/no-horovod", replace(HOROVOD, modules=frozenset({"tensorflow"}))),
    (r"lab\.railyard\.dev/no-benchmark", HOROVOD.without("tensorflow2_synthetic_benchmark.py")),
    (r"lab\.railyard\.dev/no-sshd", PROBE.without("sshd")),
    (r"lab\.railyard\.dev/no-mpirun", PROBE.without("mpirun", "orted")),
    (r"lab\.railyard\.dev/no-orted", PROBE.without("orted")),
    (r"lab\.railyard\.dev/no-perftest", PROBE.without(*_PERFTEST)),
    (r"lab\.railyard\.dev/no-nccl-tests", PROBE.without(*COLLECTIVES)),
    (r"lab\.railyard\.dev/no-mpi-in-tests", _NO_MPI),
    (r"lab\.railyard\.dev/no-libnccl", _NO_NCCL),
    (r"lab\.railyard\.dev/old-nccl", replace(PROBE, nccl="2.25.1")),
    (r"lab\.railyard\.dev/old-nccl-of-wheel", replace(PROBE, nccl="~2.21.5")),
    (r"lab\.railyard\.dev/nccl-2.28.9", replace(PROBE, nccl="2.28.9")),
    (r"lab\.railyard\.dev/some-nccl", replace(PROBE, nccl="~")),
    (r"lab\.railyard\.dev/old-torch", replace(DEEPSPEED, torch_nccl="2.21.5")),
    (r"lab\.railyard\.dev/no-run-sshd", replace(PROBE, run_sshd=False)),
    (r"lab\.railyard\.dev/no-root-login", replace(PROBE, root_login=False)),
    (r"lab\.railyard\.dev/other-home", replace(PROBE, root_home="/home/root")),
    (r"lab\.railyard\.dev/user", replace(PROBE, user=1000)),
    (r"lab\.railyard\.dev/mpich", replace(PROBE, mpi="HYDRA build details:")),
)
"""Name without tag and digest; `lab.railyard.dev/` are images that lack one thing each."""


def find_image(name: str) -> Image:
    """What an image holds; a base image where nothing is known of it."""
    bare = name.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    bare = head + slash + last.partition(":")[0]
    return next((image for pattern, image in _TABLE if re.fullmatch(pattern, bare)), BASE)

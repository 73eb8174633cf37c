"""How mpirun of Open MPI 4 ends a job that fails; words and exit codes are those of real pods.

They were recorded on `make lab-pods` (docs/howto/real-kernels.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from components.core.record import record
from lab.cluster.document import text_at
from lab.cluster.pod_shell import ScriptRun
from lab.cluster.pod_view import Pod

NO_PROGRAM = 134
"""mpirun ends itself by SIGABRT where it can start no process."""
_LINE = "-" * 74
_JOB_FAMILY = 47703
"""A number that mpirun picks; real ones differ from job to job."""


@record
class JobEnd:
    """What the launcher's pod shows."""

    log: str
    exit_code: int


def without_program(call: Sequence[str], worker: Pod, program: str) -> JobEnd:
    """A program that a worker's image lacks."""
    text = (
        f"{_LINE}\n"
        "mpirun was unable to find the specified executable file, and therefore\n"
        "did not launch the job.  This error was first reported for process\n"
        "rank 0; it may have occurred for other processes as well.\n\n"
        "NOTE: A common cause for this error is misspelling a mpirun command\n"
        "      line parameter option (remember that mpirun interprets the first\n"
        "      unrecognized command line token as the executable).\n\n"
        f"Node:       {full_name(worker)}\nExecutable: {program}\n"
        f"{_LINE}\n{_count(call)} total processes failed to start\n"
    )
    return JobEnd(text, NO_PROGRAM)


def after_rank(call: Sequence[str], workers: int, index: int, run: ScriptRun) -> JobEnd:
    """A rank that ended with an error: mpirun ends the others, and takes over its exit code.

    Args:
        call: mpirun's command.
        workers: How many there are; each has as many ranks.
        index: Of the worker whose rank it is.
        run: How it ended.
    """
    rank = index * (_count(call) // max(workers, 1))
    tag = f"[1,{rank}]<stderr>:" if "--tag-output" in call else ""
    said = "".join(f"{tag}{line}\n" for line in run.output.splitlines())
    text = (
        f"{said}{_LINE}\n"
        "Primary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted.\n"
        f"{_LINE}\n{_LINE}\n"
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        f"  Process name: [[{_JOB_FAMILY},1],{rank}]\n  Exit code:    {run.exit_code}\n"
        f"{_LINE}\n"
    )
    return JobEnd(text, run.exit_code)


def full_name(worker: Pod) -> str:
    """As the operator's hostfile names it."""
    host, service = (text_at(worker.document, "spec", key) for key in ("hostname", "subdomain"))
    return f"{host}.{service}.{worker.namespace}.svc" if host and service else worker.name


def _count(call: Sequence[str]) -> int:
    """How many ranks mpirun was called for."""
    words = [*call]
    counts = [words[i + 1] for i, word in enumerate(words[:-1]) if word in {"-np", "-n"}]
    return int(counts[0]) if counts and counts[0].isdigit() else 1

"""How launchers, containers, schedulers and kernels say that a program did not end well.

The words of our own jobs come first: those of the scripts in `components/jobs/scripts/` and
`components/containers/scripts/`, which end a rank before its program starts.

Sources: the texts of Open MPI 4 and 5 (PRRTE), MPICH's hydra, Slurm's srun and slurmstepd, PBS,
LSF, OpenSSH, kubectl, the kubelet and runc, Docker compose, systemd, torchrun, and Linux; collected
in docs/explanation/sources.md#logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from components.acceptance.logs.causes import Cause, FailureFinder, cause
from components.acceptance.logs.lines import read_lines
from components.acceptance.logs.log_model import LogFailure, ParseProblem

_EARLIER = "an earlier line says why"
_MEMORY = "the host or the container ran out of memory: look at its limit"

LAUNCHERS: tuple[Cause, ...] = (
    cause(r"no RDMA device (?:behind|has a)|no RoCE v2 GID with|no active InfiniBand port on",
          "no_device",
          "the line names the host and its interface: card, driver, address and link there"),
    cause(r"the memlock limit of this pod is",
          "memory", "memory cannot be pinned: the limit of containerd or of the host's unit"),
    cause(r"of /job/hostfile does not resolve|Could not resolve hostname",
          "dns",
          "the cluster's DNS does not know a worker: the headless Service of the job, or CoreDNS"),
    cause(r"Host key verification failed",
          "host_key", "the host shows another key than the pinned one"),
    cause(r"Permission denied \([a-z,-]{3,80}\)",
          "ssh_login", "the job's key is not let in on that host"),
    cause(r"(?:unable to|could not) find (?:the specified|an) executable"
          r"|: not found: this image has none on its PATH"
          r"|specified application as it could not (?:access|find)"
          r"|(?:orted|prted|_perf\w{0,20}): (?:No such file|command not found)",
          "missing_program",
          "the image of that host lacks the program, or has it in another folder"),
    cause(r"error while loading shared libraries|: symbol lookup error: "
          r"|^\S{1,200}: \S{1,200}: version .{1,40} not found \(required by",
          "missing_library",
          "the image of that host lacks the library, or has another release of it"),
    cause(r"MPI_INIT failed|Fatal error in (?:internal|P?MPI)_Init\b",
          "mpi", "MPI did not start: it must be the same on all hosts, and reach each of them"),
    cause(r"oom[_-]kill|OOM[- ]?[Kk]ill|Out of memory: Kill|Memory cgroup out of memory"
          r"|Out Of Memory|Detected \d+ oom|TERM_MEMLIMIT",
          "out_of_memory", _MEMORY),
    cause(r"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|DeadlineExceeded|active deadline"
          r"|PBS: job killed|TERM_RUNLIMIT|timeout: sending signal|context deadline exceeded"
          r"|timed out waiting for",
          "deadline", "the run was ended from outside, by its deadline"),
    cause(r"[Ww]atchdog caught collective operation timeout|atchdog thread terminated"
          r"|[Hh]eartbeat monitor timed out|before timing out|operations have failed or timed out"
          r"|atchdog got stuck|due to ProcessGroupNCCL",
          "watchdog", "a collective hung: another rank died, or the network lost it"),
    cause(r"soft lockup|hard LOCKUP|blocked for more than \d+ seconds|NETDEV WATCHDOG"
          r"|rcu\w* (?:self-)?detected stall",
          "kernel", "the kernel of that host hangs: read its log"),
    cause(r"NVRM: Xid|fell off the bus", "gpu", "the GPU failed: look up the Xid"),
    cause(r"mlx5_core \S{1,40}:? .{0,120}(?:health|internal error|[Cc]ommand .{0,60}timeout)",
          "nic", "the card failed: read the kernel's log of that host"),
    cause(r"Error from server|unable to upgrade connection|lost connection to pod"
          r"|ImagePullBackOff|ErrImagePull|BackoffLimitExceeded|CrashLoopBackOff|\bEvicted\b"
          r"|rpc error: code = |OCI runtime \w{1,20} failed|specified backoff limit"
          r"|^error: unexpected EOF",
          "kubernetes", "the cluster did not run the job to its end: read the events of its pods"),
    cause(r"slurmstepd: error:|srun: error: (?:Unable|Timed out|Application launch|Task launch)"
          r"|\bCANCELLED AT \d{4}-",
          "scheduler", "the scheduler ended the step, or could not start it", late=True),
    cause(r"ORTE was unable|ORTE has lost communication|PRTE has lost|(?:ORTE|PRTE)\w* daemon has"
          r"|(?:ORTE|PRTE)(?:_ERROR_LOG| ERROR)|(?:mpirun|prterun|mpiexec) was unable"
          r"|unreachable daemon",
          "launcher", "ssh, or the daemon on that host"),
    cause(r"ssh: connect to host \S{1,253} port \d{1,5}: |kex_exchange_identification"
          r"|Connection (?:reset|closed) by \S{1,253} port \d|client_loop: send disconnect",
          "launcher", "no sshd answers on that host, or the login ended"),
    cause(r"There are not enough slots available|nodes which are allocated .{1,40} already filled",
          "slots", "more ranks than GPU slots"),
    cause(r"has detected an attempt to run as root", "launcher",
          "mpirun as root asks for --allow-run-as-root"),
    cause(r"exited on signal (?:4|7|8|9|11)\b", "crash",
          "that rank crashed, or was killed: 9 comes from a limit of memory, or from outside"),
    cause(  # mpirun, prterun; its banner breaks the sentence after "returned".
          r"(?i:exited with non-?zero|non-?zero (?:exit )?(?:status|code)|job\s{1,3}terminated "
          r"normally, but \d)|noticed that process rank \d|MPI_ABORT was invoked|exiting improperly"
          # hydra and Intel MPI
          r"|BAD TERMINATION|KILLED BY SIGNAL"
          # srun
          r"|srun: error: |Job step aborted"
          # systemd, torchrun
          r"|code=(?:exited, status=[1-9]|killed|dumped)|Failed with result '|ChildFailedError",
          "rank_failed", f"a rank ended with an error; {_EARLIER}", late=True),
    cause(r"(?i)\b(?:exit(?:ed|s)?(?: with)?(?: an?)?(?: exit)?|return(?:ed)?)[ _-]?"
          r"(?:code|status|value)\s{0,8}(?:of|is|was)?\s{0,8}[:=(]?\s{0,8}-?[1-9]\d{0,9}\b"
          r"|\bexited \([1-9]\d{0,9}\)|\brc[=:] ?-?[1-9]\d{0,9}\b",
          "rank_failed", f"a program ended with an error; {_EARLIER}", late=True),
    cause(r"(?i)\b(?:killed by|exited on|terminated by|ended by|caught|received"
          r"|died (?:of|from|on)) (?:a )?signal:?\s{0,4}\(?(?:\d|sig|[a-z])",
          "rank_failed", f"a rank was ended by a signal; {_EARLIER}", late=True),
    cause(r"^\s{0,40}(?:\S{1,200}: line \d{1,9}:\s{1,8})?\d{0,10}\s{0,8}"
          r"(?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Illegal instruction)"
          # Not a helper that a script ends itself.
          r"(?!\s{1,40}(?:sleep|tail|watch|kubectl|stern|nvidia-smi|dcgmi|tcpdump)\b)(?:\s|$|\()",
          "crash", "the shell says that a program was ended by a signal"),
    cause(r"Segmentation fault|Bus error \(|core dumped|terminate called after|double free"
          r"|Fatal Python error|\*\*\* (?:Aborted at|Process received signal)"
          r"|^(?:free|malloc|realloc|munmap_chunk)\(\): |^corrupted (?:size vs|double-linked)",
          "crash", "a rank crashed"),
    cause(r"Traceback \(most recent call last\)", "crash", "a Python program failed", late=True),
)  # fmt: skip
"""Rows that any log may have, whatever its program is."""


class Reader(Protocol):
    """What gets the lines of one program."""

    finder: FailureFinder

    def feed(self, line: str) -> None:
        """Take one line, without the launcher's tag."""
        ...

    @property
    def is_known(self) -> bool:
        """A line of the program was read."""
        ...


def feed_all(
    reader: Reader, source: str | Iterable[str], lacks: str
) -> tuple[LogFailure, ...] | ParseProblem:
    """Feed a log to its reader: the failures that it tells, or why it is no log of the program.

    Args:
        reader: Gets every line.
        source: The launcher's whole output, or its pieces in order.
        lacks: What a log of another program lacks: `no table of DeepSpeed's benchmarks`.
    """
    is_empty = True
    for _, line in read_lines(source):
        is_empty = False
        reader.feed(line)
    if is_empty:
        return ParseProblem(kind="empty", what="the log is empty")
    failures = tuple(reader.finder.failures)
    if reader.is_known or failures:
        return failures
    what = f"{lacks} is in it; is it the log of another program?"
    return ParseProblem(kind="unrecognised", what=what)

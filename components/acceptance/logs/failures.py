"""The failure texts of NCCL, nccl-tests, perftest and of launchers, one table for each.

NCCL: its sources and issue threads (2.4-2.30). perftest: the sources of linux-rdma/perftest at its
tags v4.5-0.2 to 26.04.17 (20 tags): no text disappeared in between. Tests compare both with
nccl_words.tsv and perftest_words.tsv of tests/acceptance/recorded. Launchers: Open MPI 4 and 5
(PRRTE), MPICH's hydra, Slurm's srun and slurmstepd, PBS, LSF, OpenSSH, kubectl, the kubelet and
runc, Docker compose, systemd, torchrun and Linux. All are collected in lab/sources.md#logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from components.acceptance.logs.log_model import LogFailure

_LONGEST_LINE: Final = 300
_MOST_FAILURES: Final = 40
"""One broken link makes every rank complain; the first lines are enough."""
_MOST_WARNINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Cause:
    """One row of a table: a class of failure; `late` if it follows from a failure elsewhere."""

    pattern: re.Pattern[str]
    kind: str
    meaning: str
    late: bool


HARMLESS: Final = "harmless"
"""The kind of lines that look like failures but come from good runs."""
_GAVE_UP_KINDS: Final = frozenset(
    {"nccl_failure", "unhandled", "framework", "aborted", "test_failure"}
)
"""Kinds of lines that only say that NCCL gave up."""
COMM_ABORT: Final = "comm_abort"
"""PyTorch also ends good runs in this way (recorded, 2.11): it counts only in a log of
nccl-tests."""
_ENDED_KINDS: Final = frozenset({COMM_ABORT, "rank_failed", "scheduler"})

_HINTS: Final = (
    "ail", "down", "evice", "rror", "warn", "xit", "bort", "ill", "imeout", "imed out", "iming out",
    "ignal", "closed", "reset", "lost", "oom", "emory", "not ", "noticed", "sync ", "xid",
    "fell off", "lockup", "stall", "blocked", "efused", "enied", "enough", "term", "cancel",
    "due to", "fault", "nvalid", "able to", "ersions", "rc=", "rc:", "code=", "deadline", "backoff",
    "victed", "errimage", "core dumped", "unreach", "eof", "below", "ouldn't", "idn't", "atchdog",
    "unrecog", "traceback", "fatal", "exceeded", "onnected", "unexpected", "erminat", "unhandled",
    "limit", "orte", "prte", "health", "required", "ssh:", "kex_", "eturn", "double free", "gpus",
    "got ", "does not", "addr_", "wrong", "no socket", "socketprogress", "retcode", "no such",
    "was unable", "zero", "no active", "no roce", "disconnect", "memlimit", "runlimit",
    "speed change", "mixed", "cqe", "probing", "resiliency", "outstanding", "duplicate gpu",
    "uniqueid", "prevstate", "different number", "already filled", "as root", "algorithm/",
    "corrupt", "alloc()", "free()", "chunk()", "received s", "using the same", "net/mlx: call",
    "no usable", "no transport", "no interface", "mismatch",
)  # fmt: skip
"""A line without any of these, in small letters, matches no row: a cheap look before the
patterns."""


_WITHOUT_DIGITS: Final = str.maketrans("", "", "0123456789")


def has_hint(line: str) -> bool:
    """Whether a line may match a table; cached by its text without numbers."""
    return _has_hint(line.translate(_WITHOUT_DIGITS))


@lru_cache(maxsize=4096)
def _has_hint(shape: str) -> bool:
    lowered = shape.lower()
    return any(hint in lowered for hint in _HINTS)


@dataclass(slots=True)
class FailureFinder:
    """Searches a log line by line; the first row of its tables that fits a line names it.

    A line with the text `warning` that fits no row is a warning of unknown meaning. Before the run
    has `started`, launchers' messages do not tell how it ends. The search skips names of hosts.
    """

    tables: Sequence[Cause]
    warning: str = ""
    started: bool = True
    names: set[str] = field(default_factory=set[str])
    failures: list[LogFailure] = field(default_factory=list[LogFailure])
    warnings: dict[str, None] = field(default_factory=dict[str, None])

    def feed(self, line: str) -> None:
        """Takes a line."""
        if not has_hint(line):
            return
        shown = line
        for name in self.names:
            shown = shown.replace(name, "-")
        for row in self.tables:
            if row.pattern.search(shown):
                if row.kind != HARMLESS:
                    self.add(row.kind, line, row.meaning, late=row.late)
                return
        if self.warning and self.warning in line and len(self.warnings) < _MOST_WARNINGS:
            self.warnings[line.strip()[:_LONGEST_LINE]] = None

    def explained(self) -> tuple[LogFailure, ...]:
        """The failures; if they only say that NCCL gave up, its unknown warnings come first."""
        kinds = {each.kind for each in self.failures if not each.is_before_run}
        if kinds & _GAVE_UP_KINDS and kinds <= _GAVE_UP_KINDS | _ENDED_KINDS:
            told, self.failures = self.failures, []
            for line in self.warnings:
                self.add("nccl_warning", line, "NCCL warned before it gave up")
            self.failures += told
        return tuple(self.failures)

    def add(self, kind: str, line: str, meaning: str, *, late: bool = False) -> None:
        """Takes down a failure."""
        # A waiting loop may fill only its own part of the list, not that of the run.
        part = [each for each in self.failures if each.is_before_run is not self.started]
        if len(part) >= _MOST_FAILURES and (late or not all(each.is_consequence for each in part)):
            return
        places = {name: pattern.search(line) for name, pattern in _PLACES.items()}
        self.failures.append(
            LogFailure(
                kind=kind,
                line=line.strip()[:_LONGEST_LINE],
                meaning=meaning,
                is_consequence=late,
                is_before_run=not self.started,
                **{name: found[found.lastindex or 0] for name, found in places.items() if found},
            )
        )


_PLACES: Final = {
    "host": re.compile(
        r"^([\w.-]{1,253}):\d{1,12}:\d{1,12} \[|\bon node ([\w.-]{1,253})"
        r"|\bsrun: error: ([\w.-]{1,253}):|^([\w.-]{1,253}): Test \w{2,9} failure"
    ),
    "device": re.compile(
        r"NET/IB ?: ([\w.-]{1,64}:\d{1,4}) |\bhca ([\w.-]{1,64}(?::\d{1,4})?)"
        r"|\bdev(?:ice)?[ =:]{1,2}([a-z][a-z\d]{1,20}_\w{1,20}(?::\d{1,4})?)"
    ),
    "peer": re.compile(
        r"\bpeer ((?!posted)[^\s,]{1,300})|\b[Cc]onnect(?:ion)? to (?:host )?([^\s,]{1,300})"
        r"|\b(?:recv|send) (?:from |to )?([\w.:-]{1,280}<\d{1,5}>)"
    ),
}
"""Patterns for the place of a failure in a line; the first that fits counts."""


def first_cause(failures: Iterable[LogFailure]) -> LogFailure | None:
    """The first failure that is not just a consequence of another; else the first."""
    every = list(failures)
    causes = [failure for failure in every if not failure.is_consequence]
    return next(iter(causes or every), None)


_EARLIER: Final = "an earlier line says why"


def _rows(*rows: tuple[str, str, str]) -> tuple[Cause, ...]:
    """A kind with the prefix `late` follows from a failure elsewhere."""
    return tuple(
        Cause(re.compile(regex), kind.removeprefix("late "), text, kind.startswith("late "))
        for regex, kind, text in rows
    )


_STATUS = r"Got completion .{0,200}(?:status=|error )(?:[\w ()-]{1,60}\()?"
"""`error 12` (2.4), `status=12` (2.20), `status=transport retry counter exceeded(12)` (2.28)."""
_GAVE_UP = f"NCCL gave up; {_EARLIER}, or none without NCCL_DEBUG=WARN"
_GPU = "the GPU or its driver failed"
_PIN = "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem"
_ARRIVE = "packets of that rail do not arrive: MTU of a switch port, VLAN, GID, or loss"
_REACH = "the NIC cannot reach GPU memory: check nvidia_peermem, ACS and IOMMU"
_CONNECT = "no TCP connection between the two hosts: route, firewall, NCCL_SOCKET_IFNAME"


NCCL: tuple[Cause, ...] = _rows(
    (r"NCCL INFO .{0,80}Call to (?:ibv|mlx5dv)_\w+ failed", HARMLESS,
     "NCCL, misc/ibvwrap.cc: optional since 2.19, or tried again (2.30)"),
    (r"NCCL (?:INFO|TRACE) .{0,300}(?:\bRC: |returned code = )", HARMLESS,
     "aws/aws-ofi-nccl: options tried; RCCL, misc/api_trace.cc: no profiler"),
    (r"iommu=(?:pt|on)", HARMLESS, "NCCL's own advice: graph/topo.cc and RCCL's init.cc"),
    (r"NUMA auto balancing|HSA_FORCE_FINE_GRAIN_PCIE", HARMLESS, "RCCL's advice, init.cc"),
    (r"Could not find: libnccl", HARMLESS, "NCCL's INFO without a plugin, plugin/net.cc"),
    (r"disabling NCHANNELS", HARMLESS, "NCCL, transport/nvls.cc"),
    (r"OpenFabrics device", HARMLESS, "NVIDIA/nccl issue 1705: Open MPI's openib next to NCCL"),
    (r"Failed to open libibverbs\.so", HARMLESS,
     "NVIDIA/nccl-tests issue 82: one host, whole table"),
    (r"NET/OFI .*Could not find nccl\w+ symbol|Could not find ncclGetVersion", HARMLESS,
     "aws/aws-ofi-nccl: a plugin older than its NCCL, runs that completed"),
    (r"Could not find a path for pattern \d", HARMLESS, "NCCL, graph/search.cc: a simple order"),
    (r"Failed to find ncclNet\w* symbol|Failed to find ncclCollNet\w* symbol", HARMLESS,
     "NCCL, plugin/net.cc: it tries the next version of the plugin's interface"),
    (r"Failed to initialize NET plugin|NET/IB : No device found", HARMLESS,
     "judged as the transport"),
    (r"Got (?:async(?: error)?|non-fatal async) event ?: (?:port error|path migration request)",
     "port_down", "a port went down in the run: its cable, transceiver or switch port"),
    ((r"async fatal event"
      r"|Got async event : (?:CQ error|local |invalid request|SRQ catastrophic|WQ fatal)"),
     "device_fatal", "the RDMA device or one of its queues failed: read that host's kernel log"),
    ((r"Device \d+ marked as failed|Detected \d+ failed devices|The error is fatal \("
      r"|Could not find a (?:functional device|replacement QP)|not on a functional device"
      r"|Maximum number of probing|Got CQE with error|stale CQE with error"
      r"|Unsupported completion status|Failed to initialize a resiliency|GoToPrevState result"
      r"|outstanding recovery operations"), "port_failed",
     "NCCL lost an RDMA device in the run, also if others carried its data on"),
    (r"Detected mixed local (?:Net|CollNet) device counts|has a different number of devices=",
     "rails_differ", "a host has fewer network devices than others: a rail is missing there"),
    (r"NET/IB : \S+ speed change detected", "speed_change",
     "the link of that port came to another speed in the run (NCCL 2.30.7)"),
    (r"Call to ibv_modify_qp failed.*timed out", "ibv_modify_qp",
     ("no neighbour answers on that rail: VLAN, rail subnet or cabling "
      "(on a rail-only fabric also NCCL_CROSS_NIC=0)")),
    (r"Call to ibv_modify_qp failed", "ibv_modify_qp",
     "wrong GID index, or no IP route between the rail subnets"),
    (r"(?:read|open) failed in ncclIbRoceGetVersionNum", "hidden_gid",
     ("the driver hides GIDs of the host and of other pods, and NCCL before 2.26.2 "
      "fails at them (NVIDIA/nccl#1573): take an image with a newer NCCL")),
    (r"Call to ibv_(?:reg_mr\w*|create_cq|create_qp) failed", "ibv_memory", _PIN),
    ((r"Call to ibv_\w+(?: failed|\(\) returned)|ibv_post_(?:send|recv)\(\) failed"
      r"|NET/MLX5: Call to |mlx5dv_create_qp failed"), "ibv", "the RDMA device refused the call"),
    (rf"{_STATUS}12\b", "retry_exceeded", _ARRIVE),
    (rf"{_STATUS}4\b", "local_protection", _REACH),
    (rf"{_STATUS}5\b", "late flushed", _EARLIER),
    (rf"{_STATUS}\d+", "completion_error", "an RDMA error"),
    (r"NET/OFI .{0,80}completed with error", "completion_error",
     "libfabric lost data: EFA's security group must allow all traffic within itself, in and out"),
    (r"NET/OFI .{0,20}(?:[Uu]nable to (?:register|enable|bind)|[Cc]ouldn't register) [mM]",
     "ibv_memory", _PIN),
    (r"NET/OFI .{0,200}\bRC: -?[1-9]", "libfabric", "libfabric refused the call"),
    (r"socketFinalizeAccept(?: from \S{1,300})?: wrong type", "mixed_transports",
     "some hosts use RDMA and some sockets, or they run different NCCL builds"),
    ((r"(?:connect|merge) (?:incompatible|net) devices|device is incompatible with the local"
      r"|devices together with different link_layer"), "mixed_transports",
     "some ports are InfiniBand and some Ethernet: NCCL_IB_HCA chooses"),
    (r"[Nn]o socket interface found|NET/Socket : no interface found|No usable listening",
     "no_interface", "NCCL_SOCKET_IFNAME names none"),
    (r"Failed to initialize any NET plugin|Error: network \S+ not found", "no_network",
     "NCCL_NET names a network that this host lacks: its card, or NCCL's plugin"),
    (r"Unrecognized (?:element|prefix) token|no algorithm/protocol available", "setting",
     "NCCL_ALGO or NCCL_PROTO names what this NCCL, or this job, cannot use"),
    (r"P2P is disabled between NVLINK connected GPUs|NVswitch links mismatch", "nvlink",
     "two GPUs with an NVLink between them cannot use it: the GPUs, or NVSwitch"),
    (r"MNNVL \(cliqueSize \d+\) is available but not", "nvlink",
     "NVLink between hosts does not work: IMEX and its channels"),
    (r"Failed to bind NVLink SHARP", "nvlink",
     "NVSwitch's multicast does not work: Fabric Manager, or NVSwitch"),
    ((r"[Ff]ailed to peer with device|(?:cuda|hip)IpcGetMemHandle failed"
      r"|failed to (?:get|open) CUDA IPC handle"), "p2p",
     "a GPU cannot reach another one of its host: ACS, IOMMU, or /dev/shm"),
    ((r"Error while \w+ shared memory segment|Error: failed to (?:extend|create shared memory)"
      r"|Could not map \S{1,300} size|posix_fallocate failed"), "shm",
     "no room in /dev/shm: a pod needs an emptyDir of medium Memory, Docker --shm-size"),
    (r"No transport found", "no_transport",
     "two ranks cannot reach each other: a host lacks network devices"),
    ((r"NCCL WARN .{0,200}(?:[Cc]onnect to .{0,300} (?:failed|returned)"
      r"|[Pp]ollConnect.{0,300}(?:failed|returned)"
      r"|Call to (?:recv|send|connect|accept|bind|poll)\b.{0,300}failed"
      r"|exceeded (?:error )?(?:retr|timeouts)|Accept failed)"), "socket", _CONNECT),
    (r"client socket has timed out|retrieving ncclUniqueId", "socket", _CONNECT),
    (r"Connection closed by remote peer|socketProgress|socket progress error|retcode [1-9]",
     "late peer_lost", "another rank died first: read its log"),
    (r"communicator encountered a fatal error", "late aborted", _EARLIER),
    (r"\bcomm \S{1,30} .{0,160}- Abort COMPLETE", f"late {COMM_ABORT}",
     "NCCL gave up this communicator; an earlier line says why"),
    (r"Avg bus bandwidth\s*:\s*\S{1,30}\s+FAILED", "below_limit",
     "nccl-tests' own bandwidth limit was missed (NCCL_TESTS_MIN_BW)"),
    (r"^#\s*error: \S", "nccl_tests", "nccl-tests saw an error of NCCL"),
    (r"NCCL WARN .{0,200}[Cc]uda failure.{0,20}out of memory|CUDA out of memory", "memory",
     "no memory was left on the GPU or for the process: `nvidia-smi` names who has it"),
    (r"NCCL WARN .{0,200}(?:(?:[Cc]uda|CUDA|HIP) failure|Cuda error)", "cuda", _GPU),
    (r"Test (?:CUDA|HIP) failure|(?:CUDA|HIP) error:", "cuda", _GPU),
    (r"Test NCCL failure", "late nccl_failure", _GAVE_UP),
    (r"unhandled (?:system|cuda) error", "late unhandled", _EARLIER),
    (r"Test timeout \(\d+s\)", "timeout", "the test hung"),
    (r"\.\. \S+ pid \d+: Test failure", "late test_failure", _EARLIER),
    (r"Duplicate GPU detected|Multiple [Rr]anks (?:are|detected) using the same", "gpus",
     "two ranks got one GPU: slots of the hostfile, or the GPU of each rank"),
    (r"Mismatched NCCL version detected", "versions",
     "hosts run different releases of NCCL: compare their images"),
    (r"Incompatible NCCL versions", "versions", "built with one NCCL, run with another"),
    (r"^invalid size specified for |_perf: (?:unrecognized|invalid) option ", "usage",
     "an argument that the program does not take"),
    (r"Invalid number of GPUs", "gpus", "fewer GPUs in the pod than asked for"),
    ((r"torch\.distributed\.\w*Error|DistBackendError|NCCL error in: |ncclSystemError"
      r"|ncclInternalError|ncclRemoteError|ncclUnhandledCudaError"), "late framework",
     "the framework's NCCL call failed"),
)  # fmt: skip
"""A harmless line comes from runs that completed, and its row cites a published one."""
_LAUNCHED = _rows(
    (r"unrecognized arguments|the following arguments are required", "usage",
     "an argument that the program does not know"),
    (r"command not found|No such file or directory|executable file not found", "missing_program",
     "the image lacks the program, or a mount is missing"),
    (r"ModuleNotFoundError: No module named", "missing_module",
     "the image's Python lacks that module"),
    (r"failed to initialize NVML|NVIDIA-SMI has failed", "no_driver", "no GPU driver"),
)  # fmt: skip

LAUNCHERS: tuple[Cause, ...] = _rows(
    (r"no RDMA device (?:behind|has a)|no RoCE v2 GID with|no active InfiniBand port on",
     "no_device",
     "the line names the host and its interface: card, driver, address and link there"),
    (r"the memlock limit of this pod is", "memory",
     "memory cannot be pinned: the limit of containerd or of the host's unit"),
    (r"of /job/hostfile does not resolve|Could not resolve hostname", "dns",
     "the cluster's DNS does not know a worker: the headless Service of the job, or CoreDNS"),
    (r"Host key verification failed", "host_key", "the host shows another key than the pinned one"),
    (r"Permission denied \([a-z,-]{3,80}\)", "ssh_login",
     "the job's key is not let in on that host"),
    ((r"(?:unable to|could not) find (?:the specified|an) executable"
      r"|: not found: this image has none on its PATH"
      r"|specified application as it could not (?:access|find)"
      r"|(?:orted|prted|_perf\w{0,20}): (?:No such file|command not found)"), "missing_program",
     "the image of that host lacks the program, or has it in another folder"),
    ((r"error while loading shared libraries|: symbol lookup error: "
      r"|^\S{1,200}: \S{1,200}: version .{1,40} not found \(required by"), "missing_library",
     "the image of that host lacks the library, or has another release"),
    (r"MPI_INIT failed|Fatal error in (?:internal|P?MPI)_Init\b", "mpi",
     "MPI did not start: all hosts need the same MPI, and it must reach each host"),
    ((r"oom[_-]kill|OOM[- ]?[Kk]ill|Out of memory: Kill|Memory cgroup out of memory|Out Of Memory"
      r"|Detected \d+ oom|TERM_MEMLIMIT"), "out_of_memory",
     "the host or the container ran out of memory: look at its limit"),
    ((r"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|DeadlineExceeded|active deadline"
      r"|PBS: job killed|TERM_RUNLIMIT|timeout: sending signal|context deadline exceeded"
      r"|timed out waiting for"), "deadline", "the run was ended from outside, by its deadline"),
    ((r"[Ww]atchdog caught collective operation timeout|atchdog thread terminated"
      r"|[Hh]eartbeat monitor timed out|before timing out|operations have failed or timed out"
      r"|atchdog got stuck|due to ProcessGroupNCCL"), "watchdog",
     "a collective hung: another rank died, or the network lost it"),
    ((r"soft lockup|hard LOCKUP|blocked for more than \d+ seconds|NETDEV WATCHDOG"
      r"|rcu\w* (?:self-)?detected stall"),
     "kernel", "the kernel of that host hangs: read its log"),
    (r"NVRM: Xid|fell off the bus", "gpu", "the GPU failed: look up the Xid"),
    (r"mlx5_core \S{1,40}:? .{0,120}(?:health|internal error|[Cc]ommand .{0,60}timeout)", "nic",
     "the card failed: read the kernel's log of that host"),
    ((r"Error from server|unable to upgrade connection|lost connection to pod|ImagePullBackOff"
      r"|ErrImagePull|BackoffLimitExceeded|CrashLoopBackOff|\bEvicted\b|rpc error: code = "
      r"|OCI runtime \w{1,20} failed|specified backoff limit|^error: unexpected EOF"), "kubernetes",
     "the cluster did not run the job to its end: read the events of its pods"),
    ((r"slurmstepd: error:|srun: error: (?:Unable|Timed out|Application launch|Task launch)"
      r"|\bCANCELLED AT \d{4}-"), "late scheduler",
     "the scheduler ended the step, or could not start it"),
    ((r"ORTE was unable|ORTE has lost communication|PRTE has lost|(?:ORTE|PRTE)\w* daemon has"
      r"|(?:ORTE|PRTE)(?:_ERROR_LOG| ERROR)|(?:mpirun|prterun|mpiexec) was unable"
      r"|unreachable daemon"), "launcher", "ssh, or the daemon on that host"),
    ((r"ssh: connect to host \S{1,253} port \d{1,5}: |kex_exchange_identification"
      r"|Connection (?:reset|closed) by \S{1,253} port \d|client_loop: send disconnect"),
     "launcher", "no sshd answers on that host, or the login ended"),
    (r"There are not enough slots available|nodes which are allocated .{1,40} already filled",
     "slots", "more ranks than GPU slots"),
    (r"has detected an attempt to run as root", "launcher",
     "mpirun as root asks for --allow-run-as-root"),
    (r"exited on signal (?:4|7|8|9|11)\b", "crash",
     "that rank crashed, or was killed: 9 comes from a limit of memory, or from outside"),
    ((r"(?i:exited with non-?zero|non-?zero (?:exit )?(?:status|code)"
      r"|job\s{1,3}terminated normally, but \d)|noticed that process rank \d|MPI_ABORT was invoked"
      r"|exiting improperly|BAD TERMINATION|KILLED BY SIGNAL|srun: error: |Job step aborted"
      r"|code=(?:exited, status=[1-9]|killed|dumped)|Failed with result '|ChildFailedError"),
     "late rank_failed", f"a rank ended with an error; {_EARLIER}"),
    ((r"(?i)\b(?:exit(?:ed|s)?(?: with)?(?: an?)?(?: exit)?|return(?:ed)?)[ _-]?(?:code|status"
      r"|value)\s{0,8}(?:of|is|was)?\s{0,8}[:=(]?\s{0,8}-?[1-9]\d{0,9}\b|\bexited \([1-9]\d{0,9}\)"
      r"|\brc[=:] ?-?[1-9]\d{0,9}\b"), "late rank_failed",
     f"a program ended with an error; {_EARLIER}"),
    ((r"(?i)\b(?:killed by|exited on|terminated by|ended by|caught|received"
      r"|died (?:of|from|on)) (?:a )?signal:?\s{0,4}\(?(?:\d|sig|[a-z])"), "late rank_failed",
     f"a rank was ended by a signal; {_EARLIER}"),
    ((r"^\s{0,40}(?:\S{1,200}: line \d{1,9}:\s{1,8})?\d{0,10}\s{0,8}(?:Killed|Terminated|Aborted"
      r"|Segmentation fault|Bus error|Illegal instruction)"
      # Except a helper process that a script ends on purpose.
      r"(?!\s{1,40}(?:sleep|tail|watch|kubectl|stern|nvidia-smi|dcgmi|tcpdump)\b)(?:\s|$|\()"),
     "crash", "the shell says that a program was ended by a signal"),
    ((r"Segmentation fault|Bus error \(|core dumped|terminate called after|double free"
      r"|Fatal Python error|\*\*\* (?:Aborted at|Process received signal)"
      r"|^(?:free|malloc|realloc|munmap_chunk)\(\): |^corrupted (?:size vs|double-linked)"),
     "crash", "a rank crashed"),
    (r"Traceback \(most recent call last\)", "late crash", "a Python program failed"),
)  # fmt: skip
"""Rows that fit any log. The messages of our own jobs come first: those of the scripts in
`components/jobs/scripts/` and `components/containers/scripts/`, which end a rank before its program
starts."""


WORDS: Final = _rows(
    (r"VALIDATION: FAILED", "corrupt_data",
     "perftest compared the data, and they arrived wrong: card, PCIe or memory of that host"),
    ((r"VALIDATION: (?:WARNING|ERROR)|Data validation requested but no memory"
      r"|Data validation requested but memory type does not|Data validation: cannot start"),
     "not_validated", "--data_validation was asked for, and perftest compared nothing"),
    (r"IB device \S+ not found|Unable to find the Infiniband/RoCE device|Did not detect devices",
     "no_device", "the RDMA device is not in the pod: no VF, or no SR-IOV resource"),
    (r"Port number \d+ state is Down", "link_down", "the link of the device is down"),
    (r"Couldn't set the link layer|Couldn't get context for the device", "late link_down",
     _EARLIER),
    (r"Unexpected CM event bl blka 8\b", "rejected",
     "a host answers at that address, and no server listens there"),
    (r"ADDR_ERROR|unexpected CM event|Unexpected CM event bl blka 7\b", "no_route",
     "no neighbour answers on that rail: VLAN, address or cabling"),
    ((r"Unable to perform rdma_client function|Unable to init the socket connection"
      r"|Unable to open file descriptor"), "late not_connected", _EARLIER),
    (r"Couldn't connect to \S+", "control_connection",
     "the server does not listen there, or no route leads to it"),
    (r"Failed status[ -](?:12\b|transport retry)|Failed status.*\(12\)", "retry_exceeded",
     "packets do not arrive: MTU of a switch port, VLAN, GID, or loss; never retry this"),
    (r"Failed status[ -]4\b|Failed status.*\(4\)", "local_protection",
     "the NIC cannot reach that memory: check nvidia_peermem, ACS and IOMMU"),
    (r"Failed status", "completion_error", "an RDMA error"),
    (r"Completion with error at", "late completion_error", _EARLIER),
    (r"(?i:poll (?:on )?(?:send |receive |recv )?CQ failed)", "completion_error",
     "the device stopped reporting its sends: read that host's kernel log"),
    (r"Couldn't post (?:send|recv)", "post",
     "the device refuses more work: read that host's kernel log"),
    ((r"Couldn't create (?:a receiver )?CQ|Failed to create (?:CQs|QP|MR)|Unable to create QP"
      r"|Couldn't allocate MR|failed to create mr|Couldn't create IB resources"), "memory",
     "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem"),
    (r"Failed to modify QP", "modify_qp", "no usable GID on the device"),
    (r"Couldn't read remote address|Failed to exchange data between server and clients",
     "late peer_lost", f"the other end died: read its log; {_EARLIER}"),
    (r"Failed to complete run_iter_", "late run_iter", _EARLIER),
    (r"below (?:bw|msg_rate) limit", "below_limit", "the tool's own limit was missed"),
    (r"invalid option|Invalid Command", "usage", "an option that this build lacks"),
)  # fmt: skip
"""The first row that fits a line names it."""


def nccl_finder() -> FailureFinder:
    """Find failures in the messages of NCCL, nccl-tests, their launchers and their hosts."""
    return FailureFinder(NCCL + LAUNCHERS, warning="NCCL WARN")


def launched_finder() -> FailureFinder:
    """Looks for the failures of a program that launchers start on other hosts, and of its NCCL."""
    return FailureFinder(tuple(r for r in NCCL if r.kind != COMM_ABORT) + _LAUNCHED + LAUNCHERS)


def perftest_finder() -> FailureFinder:
    """Find failures in the messages of perftest, its launchers and its hosts."""
    return FailureFinder(WORDS + LAUNCHERS)

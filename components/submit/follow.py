"""A submitted job: wait for its pods, print its log, read how it ended and judge it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final
from urllib.parse import quote

from components.acceptance.collect import cluster_jobs
from components.acceptance.collect.cluster_jobs import Api, Body, path_of
from components.acceptance.digest import parse_training_log
from components.acceptance.evidence import Limits, Probe
from components.acceptance.judge.log import (
    LogVerdict,
    judge_deepspeed_text,
    judge_nccl_text,
    judge_perftest_text,
    judge_training_text,
)
from components.acceptance.judge.nccl import NcclAsked, asked_of, members_of, nccl_floor
from components.acceptance.judge.nccl_findings import judged_rows
from components.acceptance.judge.verdict import EXIT_CODES, Verdict, row, verdict_for
from components.acceptance.logs.log_model import ParseProblem
from components.acceptance.logs.nccl import parse_nccl_log
from components.core.errors import DeviceError, UnreachableError
from components.core.record import record
from components.kubernetes.live.why import NodeTrouble, troubles_of
from components.kubernetes.manifest import name_of
from components.model.hosts import Host
from components.submit.make import Asked, JobKind, Refusal, UserJob

OVER_TCP: Final = "railyard: launch over TCP"
"""The line that `mpi_compare.sh` prints between its two launches."""
LOOK_S: Final = 2.0
"""Seconds between two polls: a person reads along."""
_LOOKS_A_WAIT: Final = 5
"""Polls between two searches for the reason of a wait: each asks for all pods and their events."""
START_DEADLINE_S: Final = 600
"""Seconds in which the pods of a job have to start: a large image takes minutes."""
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ?")
"""The time (RFC 3339) that the kubelet writes before each line if the request asks for times."""
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
TRAINER: Final = "/apis/trainer.kubeflow.org/v1alpha1"
_INSTALL: Final[Mapping[str, str]] = {
    "kubeflow.org/v2beta1": "set jobs.mpi_operator to true and update the stack.",
    "trainer.kubeflow.org/v1alpha1": "install Kubeflow Trainer, or leave --form out.",
}
"""API that a job may need, and how a cluster gets it."""
_MEND: Final[Mapping[str, str]] = {
    "absent": "let it join, or leave it out of --nodes.",
    "not ready": "look at its kubelet (kubectl describe node), or leave it out of --nodes.",
    "cordoned": "kubectl uncordon opens it; or leave it out of --nodes.",
    "tainted": "take the taint away, tolerate it in the file, or leave the node out of --nodes.",
}


@record
class Ended:
    """One followed object that came to its end."""

    log: str
    reason: str
    """Why it failed, in the cluster's words; empty if it ended well."""


@record
class Told:
    """The judgement of one log."""

    lines: tuple[str, ...]
    verdict: Verdict

    @property
    def exit_code(self) -> int:
        """The same code as that of `railyard judge`."""
        return EXIT_CODES[self.verdict]


def judge_end(asked: Asked, limits: Limits, probe: Probe | None, ended: Ended) -> Told:
    """The verdict of one followed object; a log without a judge is its job's own end."""
    found = [] if probe is None else _judge(asked, limits, probe, ended.log)
    lines = [line for each in found for line in each.lines]
    verdicts: list[Verdict] = [each.verdict for each in found]
    if ended.reason:
        lines.append(f"failed: the job did not end well: {ended.reason}")
        verdicts.append("failed")
    elif not found:
        lines.append("passed: the job ended well; nothing judges its log")
        verdicts.append("passed")
    order: tuple[Verdict, ...] = ("failed", "error", "skipped", "passed")
    return Told(tuple(lines), min(verdicts, key=order.index))


def _judge(asked: Asked, limits: Limits, probe: Probe, log: str) -> list[LogVerdict]:
    if asked.kind == "perftest":
        rates = {each.name: each.line_rate_gbit_s for each in limits.rails} | dict(probe.rates)
        least = min(rates[rail] for rail in probe.rails) * limits.pair_fraction
        return [judge_perftest_text(log, "roce" if limits.transport == "roce" else "ib", least)]
    if asked.kind == "deepspeed":
        return [judge_deepspeed_text(log, limits.scan_floor_gbit_s)]
    if not asked.compare:
        return [_launch(asked.kind, limits, probe, log)]
    first, _, second = log.partition(OVER_TCP)
    rdma, tcp = _reached(asked.kind, first), _reached(asked.kind, second)
    verdict: Verdict = "error"
    actual = "a launch without a result"
    if rdma and tcp:
        unit = "GB/s" if asked.kind == "nccl" else "images/s"
        verdict = verdict_for(rdma > tcp)
        numbers = f"{rdma:.2f} {unit} over RDMA, {tcp:.2f} {unit} over TCP"
        actual = f"{numbers}: {rdma / tcp:.2f} times as much"
    return [
        _launch(asked.kind, limits, probe, first),
        _launch(asked.kind, limits, probe, second, tcp=True),
        LogVerdict.of((row("comparison", verdict, actual),), actual),
    ]


def _launch(
    kind: JobKind, limits: Limits, probe: Probe, log: str, *, tcp: bool = False
) -> LogVerdict:
    """Judge one launch; over TCP it must have used sockets, and no bandwidth is demanded."""
    if kind == "nccl":
        floor, origin = nccl_floor(limits, probe)
        wanted = replace(asked_of(limits), floor_origin=origin, members=members_of(limits, probe))
        if tcp:
            return judge_nccl_text(log, "socket")
        return judge_nccl_text(log, limits.transport, floor, wanted)
    asked = NcclAsked(transport="socket") if tcp else asked_of(limits)
    return judge_training_text(log, probe.ranks, None if tcp else limits.images_floor_s, asked)


def _reached(kind: JobKind, text: str) -> float | None:
    """NCCL's worst bus bandwidth, else the images each second; None without a result."""
    if kind == "nccl":
        log = parse_nccl_log(text)
        runs = () if isinstance(log, ParseProblem) else log.runs
        rows = (row for run in runs for row in judged_rows(run)[0])
        return min((row.worst_busbw_gb_s for row in rows), default=None)
    trained = parse_training_log(text)
    found = () if isinstance(trained, ParseProblem) else trained.totals_images_s
    return median(found) if found else None


@dataclass
class LogReader:
    """Read the log of one pod, each time from the last line on: kubelets rotate logs of 10 MiB."""

    path: str
    lines: list[str] = field(default_factory=list[str])
    _second: str = ""
    """The second of the last line, as the kubelet wrote it; empty if it writes no time."""
    _in_second: int = 0
    """Lines that were read of that second."""

    def read_on(self, api: Api) -> list[str]:
        """Read the lines written since the last call."""
        since = f"&sinceTime={quote(self._second)}" if self._second else ""
        # The kubelet begins at the start of that second again.
        found = api.text(f"{self.path}?timestamps=true{since}").splitlines()[self._in_second :]
        new: list[str] = []
        for line in found:
            stamp = _STAMP.match(line)
            second = stamp[1] + stamp[2] if stamp else self._second
            self._in_second = self._in_second + 1 if second == self._second else 1
            self._second = second
            new.append(line[stamp.end() :] if stamp else line)
        self.lines += new
        return new


@dataclass
class _Part:
    body: Body
    label: str
    """Prefix of each of its lines; empty if the job has only one object."""
    logs: dict[str, LogReader] = field(default_factory=dict[str, LogReader])
    ended: Ended | None = None

    def look(self, api: Api, tell: Callable[[str], None]) -> None:
        """Print the new lines, and find out whether it ended."""
        current = api.get(path_of(self.body))
        for pod in cluster_jobs.pods_of(api, self.body):
            meta, phase = pod["metadata"], pod.get("status", {}).get("phase")
            # Of a job with numbered pods the first one, which has rank 0.
            is_first = meta.get("annotations", {}).get(_INDEX, "0") == "0"
            if is_first and cluster_jobs.is_launcher(pod) and phase not in {None, "Pending"}:
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
                log = self.logs.setdefault(path, LogReader(path))
                for line in log.read_on(api):
                    tell(f"{self.label}{line}")
        reason = "it was deleted while it ran" if current is None else cluster_jobs.end_of(current)
        if reason is not None:
            self.ended = Ended("\n".join(self.text) + "\n", reason)

    @property
    def text(self) -> list[str]:
        """All lines so far."""
        return [line for log in self.logs.values() for line in log.lines]


def read_job(
    api: Api, job: UserJob, tell: Callable[[str], None], start_deadline_s: float
) -> list[Ended]:
    """Print the logs of a job until all watched objects have ended.

    DeviceError: the cluster does not answer any more. UnreachableError: the pods did not start.
    The text gives the reason, and says how to follow or delete the job, which stays.
    """
    several = len(job.watched) > 1
    parts = [
        _Part(job.objects[each.index], f"{each.probe.name}: " if several and each.probe else "")
        for each in job.watched
    ]
    waiting = _Waiting(api, job, tell, start_deadline_s)
    try:
        while True:
            for part in parts:
                if part.ended is None:
                    part.look(api, tell)
            ends = [part.ended for part in parts if part.ended is not None]
            if len(ends) == len(parts):
                return ends
            if not any(part.text for part in parts):
                waiting.look()
            pause()
    except DeviceError as error:
        raise type(error)(f"{error}\n{how_to_go_on(job)}") from error


@dataclass
class _Waiting:
    api: Api
    job: UserJob
    tell: Callable[[str], None]
    deadline_s: float
    _looks: int = 0
    _said: str = ""

    def look(self) -> None:
        """Print each reason for the wait once; give up if the pods do not start in time."""
        waited_s = self._looks * LOOK_S
        over = self.deadline_s and waited_s >= self.deadline_s
        asks, self._looks = self._looks % _LOOKS_A_WAIT == 0, self._looks + 1
        if not (asks or over):
            return
        wait = next(iter(cluster_jobs.find_waits(self.api, self.job.objects)), None)
        if wait is not None and wait.words != self._said:
            self.tell(f"waiting: {wait.words}\n  fix    {wait.hint}\n  next   {wait.look}")
            self._said = wait.words
        if over and (wait or not cluster_jobs.all_pods(self.api, self.job.objects)):
            words = wait.words if wait else "the cluster made no pod: does its controller run?"
            raise UnreachableError(f"{self.job.name} did not start in {waited_s:g} s: {words}")


def pause() -> None:
    """Wait between two polls."""
    time.sleep(LOOK_S)  # noqa: TID251 - the loop ends with the job, whose deadline is the cluster's


def how_to_go_on(job: UserJob) -> str:
    """The commands to follow a job that goes on alone, and to delete it."""
    lines = [f"{job.name} goes on in the cluster."]
    for each in job.watched:
        body = job.objects[each.index]
        role = ",training.kubeflow.org/job-role=launcher" if body["kind"] == "MPIJob" else ""
        label = f"{cluster_jobs.POD_LABELS[str(body['kind'])]}={name_of(body)}{role}"
        lines.append(f"  follow it   kubectl -n {job.namespace} logs -f --tail=-1 -l {label}")
    return "\n".join([*lines, f"  end it      {delete_line(job)}"])


def has_trainer(api: Api) -> bool:
    """Whether the cluster has Kubeflow Trainer."""
    return api.get(TRAINER) is not None


def node_troubles(api: Api, hosts: Sequence[Host], tolerated: Sequence[Body]) -> Iterator[Refusal]:
    """List the chosen nodes that refuse the job's pods, each with every reason."""
    for host in hosts:
        node = api.get(f"/api/v1/nodes/{host.node}")
        found = [NodeTrouble("absent")] if node is None else troubles_of(node, tolerated)
        for each in found:
            yield Refusal(each.words(host.node).partition(": kubectl")[0], _MEND[each.kind])


def object_troubles(api: Api, job: UserJob) -> Iterator[Refusal]:
    """Kinds that the cluster lacks, and objects whose names are in use."""
    versions = [str(body["apiVersion"]) for body in job.objects]
    lacking = [each for each in dict.fromkeys(versions) if each in _INSTALL]
    lacking = [each for each in lacking if api.get(f"/apis/{each}") is None]
    for version in lacking:
        kinds = [str(body["kind"]) for body in job.objects if body["apiVersion"] == version]
        what = f"the cluster does not serve {' or '.join(kinds)} ({version})"
        yield Refusal(what, _INSTALL[version])
    for body in job.objects:
        if body["apiVersion"] not in lacking and api.get(path_of(body)) is not None:
            name = name_of(body)
            what = f"{body['kind']} {name} is in namespace {job.namespace} already"
            fix = f"give the job another --name, or delete that one: {delete_line(job)}"
            yield Refusal(what, fix)


def delete_line(job: UserJob) -> str:
    """The command that takes a job away."""
    names = " ".join(f"{str(body['kind']).lower()}/{name_of(body)}" for body in job.objects)
    return f"kubectl -n {job.namespace} delete {names}"


def create(api: Api, job: UserJob) -> None:
    """Create all objects of a job; DeviceError if one is refused, and then none is left."""
    made: list[Body] = []
    try:
        for body in job.objects:
            api.post(path_of(body).rpartition("/")[0], body)
            made.append(body)
    except DeviceError:
        for body in reversed(made):
            api.delete(path_of(body))
        raise

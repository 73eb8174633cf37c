"""What the launcher of an MPIJob does: its own script, that of each rank, and the job between them.

Scripts are run for real (`pod_shell`); the job itself is the physics'. A rank's script is one
that stands before the program in `mpirun … sh -c SCRIPT NAME PROGRAM`: it runs once per worker, on
that worker's devices, and what it exports is the rank's environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.cluster.document import Doc, Json, doc_at, text_at
from lab.cluster.lab_link import LabLink
from lab.cluster.launch_ends import after_rank, without_program
from lab.cluster.launch_python import PYTHON, why_python_ends
from lab.cluster.launch_ssh import why_unreached
from lab.cluster.pod_probe import World, container_of, image_of, probe_pod
from lab.cluster.pod_shell import WRAPPER_WORDS, ScriptRun, run_script, script_of
from lab.cluster.pod_view import Pod
from lab.cluster.probe_end import Ended, finish

JOB_NAME = "training.kubeflow.org/job-name"
JOB_ROLE = "training.kubeflow.org/job-role"
_HOSTFILE = "/etc/mpi/hostfile"
_PUBLIC_KEY = "/root/.ssh/id_rsa.pub"


def run_launcher(launcher: Pod, world: World, link: LabLink) -> Ended:
    """Run a launcher whose workers are up."""
    job = f"{launcher.namespace}/{launcher.labels.get(JOB_NAME, '')}"
    workers = _workers(launcher, world)
    files = {_HOSTFILE: world.hostfiles.get(job, ""), _PUBLIC_KEY: "ssh-rsa lab mpi\n"}
    names = names_of(workers, world)
    mine = run_script(launcher.command, container_of(launcher, world, files=files, names=names))
    if not mine.call:
        return Ended(launcher, mine.output, mine.exit_code)
    ended = _launch(launcher, workers, mine, world, link)
    if not mine.first_call:
        return ended
    before = replace(mine, call=mine.first_call, output=mine.first_output)
    first = _launch(launcher, workers, before, world, link)
    return replace(ended, log=first.log + ended.log, exit_code=ended.exit_code or first.exit_code)


def _launch(
    launcher: Pod, workers: list[Pod], mine: ScriptRun, world: World, link: LabLink
) -> Ended:
    """One call of a launcher's script: mpirun, or what else starts the ranks."""
    ends = (why_unreached(mine.call, launcher, pod) for pod in workers)
    unreached = next((end for end in ends if end is not None), None)
    if unreached is not None:
        return Ended(launcher, mine.output + unreached.log, unreached.exit_code)
    lacking, program = _lacking(mine.call, workers)
    if lacking is not None and mine.call[0].endswith("mpirun"):
        end = without_program(mine.call, lacking, program)
        return Ended(launcher, mine.output + end.log, end.exit_code)
    call, runs = _run_ranks(mine.call, workers, world)
    runs = [
        why_python_ends(call, image_of(pod)) or run for pod, run in zip(workers, runs, strict=True)
    ]
    failed = next((index for index, run in enumerate(runs) if not run.call), None)
    if failed is not None:
        end = after_rank(mine.call, len(workers), failed, runs[failed])
        return Ended(launcher, mine.output + end.log, end.exit_code)
    kind = "deepspeed_scan" if call[0] == "deepspeed" else "nccl"
    request: Doc = {
        "op": "run_probe",
        "kind": kind,
        "pods": [
            _with_env(probe_pod(pod, world), run) | _kept(pod, launcher, world)
            for pod, run in zip(workers, runs, strict=True)
        ],
        "launcher": {**probe_pod(launcher, world), "command": [*call]},
    }
    ended, _ = finish(launcher, request, link)
    return replace(ended, log=mine.output + ended.log)


def _workers(launcher: Pod, world: World) -> list[Pod]:
    job = launcher.labels.get(JOB_NAME, "")
    workers = [
        pod
        for pod in world.pods
        if pod.namespace == launcher.namespace
        and pod.labels.get(JOB_NAME) == job
        and pod.labels.get(JOB_ROLE) == "worker"
        and pod.phase == "Running"
    ]
    return sorted(workers, key=lambda pod: pod.name)


def names_of(workers: Sequence[Pod], world: World) -> dict[str, str]:
    """The names that the cluster's DNS has for pods: those of a headless Service that exists."""
    names: dict[str, str] = {}
    for pod in workers:
        host, service = (text_at(pod.document, "spec", key) for key in ("hostname", "subdomain"))
        address = text_at(pod.document, "status", "podIP")
        if host and address and f"{pod.namespace}/{service}" in world.services:
            names[f"{host}.{service}.{pod.namespace}.svc"] = address
            names[f"{host}.{service}"] = address
    return names


def _run_ranks(
    call: Sequence[str], workers: Sequence[Pod], world: World
) -> tuple[tuple[str, ...], list[ScriptRun]]:
    """Run the script before the program on every worker; the call without that script."""
    start = next((i for i in range(len(call)) if script_of(call[i:])), None)
    if start is None or start + WRAPPER_WORDS >= len(call):
        return tuple(call), [ScriptRun(tuple(call)) for _ in workers]
    wrapper, program = call[start : start + WRAPPER_WORDS], call[start + WRAPPER_WORDS :]
    ranks = [*wrapper, *program]
    runs = [run_script(ranks, container_of(pod, world)) for pod in workers]
    return (*call[:start], *program), runs


def _lacking(call: Sequence[str], workers: Sequence[Pod]) -> tuple[Pod | None, str]:
    """The first worker whose image lacks the program that mpirun itself starts there."""
    scripted = any(script_of(call[i:]) for i in range(len(call)))
    named = (word for word in call if word.endswith(("_perf", "_perf_mpi")) or word == PYTHON)
    program = "" if scripted else next(named, "")
    lacking = (pod for pod in workers if program and not image_of(pod).has(program))
    return next(lacking, None), program


def _with_env(pod: Doc, run: ScriptRun) -> Doc:
    exported: dict[str, Json] = {**doc_at(pod, "env"), **run.env}
    return {**pod, "env": exported}


def _kept(pod: Pod, launcher: Pod, world: World) -> Doc:
    """What a worker wrote into /etc/nccl.conf when it started: the ranks' own variables win."""
    if not script_of(pod.command):
        return {}
    conf = run_script(pod.command, container_of(pod, world)).conf
    handed = {name for name in launcher.env if name.startswith("NCCL")}
    kept: dict[str, Json] = {name: text for name, text in conf.items() if name not in handed}
    return {"rank_env": kept} if kept else {}

"""The nodes of a `torchrun`: each is a pod, which waits for all others and ends with its own log.

Which variables it reads, and that all nodes meet at the address of the first one: the documentation
of torchrun (lab/sources.md#trainer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.cluster.document import Doc, Json
from lab.cluster.lab_link import LabLink
from lab.cluster.launch_python import why_python_ends
from lab.cluster.launcher import names_of
from lab.cluster.pod_probe import World, container_of, image_of, probe_pod
from lab.cluster.pod_shell import ScriptRun, run_script
from lab.cluster.pod_view import Pod
from lab.cluster.probe_end import Ended, finish

TORCHRUN: Final = "torchrun"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOB: Final = "batch.kubernetes.io/job-name"
_FAILED: Final = 1


def is_torch(pod: Pod) -> bool:
    """Whether a pod is a node of a `torchrun` over several."""
    return TORCHRUN in pod.command and "PET_NNODES" in pod.env


def run_torch(pod: Pod, world: World, link: LabLink) -> list[Ended]:
    """Run one node; nothing while another one is not there yet."""
    mine = _run(pod, world)
    if not mine.call:
        return [Ended(pod, mine.output, mine.exit_code)]
    nodes = _nodes(pod, world)
    if len(nodes) < int(pod.env["PET_NNODES"]):
        return []
    first = pod.env.get("PET_MASTER_ADDR", "")
    if first not in names_of(nodes, world):
        text = (
            "torch.distributed.DistNetworkError: The client socket has failed to connect to any "
            f"network address of ({first}, {pod.env.get('PET_MASTER_PORT', '')}).\n"
        )
        return [Ended(pod, mine.output + text, _FAILED)]
    pods: list[Json] = [_ranks(each, world) for each in nodes]
    launcher: Doc = {**_ranks(pod, world), "command": [*mine.call]}
    request: Doc = {"op": "run_probe", "kind": "nccl", "pods": pods, "launcher": launcher}
    ended, _ = finish(pod, request, link)
    return [Ended(pod, mine.output + ended.log, ended.exit_code)]


def _run(pod: Pod, world: World) -> ScriptRun:
    run = run_script(pod.command, container_of(pod, world))
    if not run.call:
        return run
    words = [word for word in run.call if not word.startswith("-")]
    end = why_python_ends(["python", *words[1:2]], image_of(pod))
    return run if end is None else ScriptRun((), end.output, _FAILED)


def _nodes(pod: Pod, world: World) -> Sequence[Pod]:
    """All pods of its job that have started, those that ended before it too."""
    mine = [
        each
        for each in world.pods
        if each.namespace == pod.namespace
        and each.labels.get(_JOB) == pod.labels.get(_JOB)
        and each.phase in {"Running", "Succeeded", "Failed"}
    ]
    return sorted(mine, key=lambda each: int(each.annotations.get(_INDEX, "0")))


def _ranks(pod: Pod, world: World) -> Doc:
    exported: dict[str, Json] = {**_run(pod, world).env}
    return {**probe_pod(pod, world), "rank_env": exported}

"""Programs that use GPUs in a pod: what they print, from the GPUs of the host as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from components.core.errors import UsageError
from lab.hosts.gpu_faults import gpu_views
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall
from lab.hosts.tools.gpus import nvidia_smi
from lab.physics.nvbandwidth import run_nvbandwidth
from lab.physics.one_host import run_one_host
from lab.physics.request import ProbePod, parse_request


def gpu_pod(request: Mapping[str, object]) -> ProbePod:
    """The one pod of a request; its command is the program and its arguments.

    Raises:
        UsageError: A part is missing or of the wrong type.
    """
    asked = parse_request({"kind": "nccl", "pods": [request.get("pod")]})
    if not asked.pods[0].command:
        raise UsageError("a call on GPUs needs a command")
    return asked.pods[0]


def call_on_gpus(model: HostModel, pod: ProbePod, *, loaded: bool) -> dict[str, object]:
    """Play `nvidia-smi`, `nvbandwidth` or a program of nccl-tests in a pod of one host.

    Args:
        model: The host.
        pod: What calls it, and how.
        loaded: Another program of the pod computes on the GPUs.

    Raises:
        UsageError: The lab does not play the program.
    """
    seen = replace(pod, gpu_views=gpu_views(model)[: pod.gpus])
    if pod.command[0] == "nvidia-smi":
        call = ToolCall("nvidia-smi", pod.command[1:], 0, 0, "/", model, model.root)
        told = nvidia_smi(call, seen.gpu_views, loaded=loaded)
        return {"log": told.out + told.err, "exit_code": told.rc}
    play = run_nvbandwidth if pod.command[0] == "nvbandwidth" else run_one_host
    result = play(seen)
    return {"log": result.log, "exit_code": result.exit_code}

"""What runs in the lab's pods: the commands it plays, their logs and their exit codes.

A probe's log is computed by the lab's physics from the devices (`run_probe` of the lab daemon).
What the lab does not play fails as an image without that program does, so that nothing passes that
was never run.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Sequence

from lab.cluster.allocate import awaits_devices
from lab.cluster.document import Doc, Json, text_at
from lab.cluster.lab_link import LabLink
from lab.cluster.launcher import JOB_ROLE, run_launcher
from lab.cluster.pod_probe import World, addresses_of, container_of, probe_pod
from lab.cluster.pod_shell import ScriptRun, run_script, script_of
from lab.cluster.pod_view import EXIT_CODE, Pod
from lab.cluster.probe_end import Ended, finish
from lab.cluster.torch_pods import is_torch, run_torch

_NOT_FOUND_CODE = 127
_LAUNCHER_RUN_S = 2.0
"""A launcher that ends at once may never be seen running (sources.md#kubernetes-in-the-lab)."""
_RETRY_S = 120.0
"""How long a client's script waits for its server, as the product's own script does."""
_PERFTEST = re.compile(
    r"(?m)(?:^|[;&|(]|\b(?:exec|until|while|if|then|do|run)\s)\s*(?:\S*/)?ib_(write|read|send)_(bw|lat)\b"
)
"""A call of perftest: the name of a tool may stand elsewhere in a script."""
_LOOK = "railyard-image: "
"""What the look at an image prints; its script is run, and no other one of a pod's own."""
_IDLE = re.compile(r"^(sleep|true|:|echo|exit 0)\b")


def run_pods(world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    """Run what is due: the pods whose command has ended, with log and exit code."""
    here = [(pod, world.nodes[pod.node]) for pod in world.pods if pod.node in world.nodes]
    if any(awaits_devices(pod, node) for pod, node in here):
        return []  # KWOK calls such a pod Running; a launcher must not find it without devices
    ended: list[Ended] = []
    for pod in world.pods:
        if pod.node in world.nodes and _is_due(pod, world, now):
            ended += _run(pod, world, link, now)
    return ended


def is_awaited(pod: Pod) -> bool:
    """Whether it runs a command that ends by itself, and that has not ended yet."""
    if pod.phase != "Running" or pod.deleting or EXIT_CODE in pod.annotations:
        return False
    ends = pod.owned_by_job or text_at(pod.document, "spec", "restartPolicy") == "Never"
    return ends and pod.labels.get(JOB_ROLE) != "worker"


def _is_due(pod: Pod, world: World, now: dt.datetime) -> bool:
    if not is_awaited(pod) or _is_server(pod, world):
        return False
    return _age_s(pod, now) >= _LAUNCHER_RUN_S


def _age_s(pod: Pod, now: dt.datetime) -> float:
    started = text_at(pod.document, "status", "startTime")
    return (now - dt.datetime.fromisoformat(started)).total_seconds()


def _text(pod: Pod) -> str:
    return "\n".join((*pod.command, *pod.env.values()))


def _is_perftest(pod: Pod) -> bool:
    return bool(_PERFTEST.search(_text(pod)))


def _is_server(pod: Pod, world: World) -> bool:
    """A perftest server names no peer; it ends together with its client."""
    return _is_perftest(pod) and not _address_words(pod, world)


def _address_words(pod: Pod, world: World) -> set[str]:
    words = set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", _text(pod)))
    return words - addresses_of(pod, world)


def _run(pod: Pod, world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    command = " ".join(pod.command)
    if pod.labels.get(JOB_ROLE) == "launcher":
        return [run_launcher(pod, world, link)]
    if _is_perftest(pod):
        return _run_perftest(pod, world, link, now)
    if is_torch(pod):
        return run_torch(pod, world, link)
    return [_run_plain(pod, world, command, link)]


def _run_plain(pod: Pod, world: World, command: str, link: LabLink) -> Ended:
    """A pod that is no part of a probe between nodes."""
    node = world.nodes.get(pod.node)
    word = pod.command[0] if pod.command else "(the image's default command)"
    text = f'exec: "{word}": executable file not found in $PATH (the lab does not play it)\n'
    ended = Ended(pod, text, _NOT_FOUND_CODE)
    if node and re.search(r"\bulimit -l\b", command):
        limit = node.devices.memlock_kib
        ended = Ended(pod, f"{'unlimited' if limit is None else limit}\n", 0)
    elif node and "nvidia-smi" in command:
        script = pod.command if script_of(pod.command) else ("sh", "-c", shlex.join(pod.command))
        look = run_script(script, container_of(pod, world, link.control))
        ended = Ended(pod, look.output, look.exit_code)
    elif _LOOK in command:
        look = run_script(pod.command, container_of(pod, world))
        ended = Ended(pod, look.output, look.exit_code)
    elif _IDLE.match(_inner(pod.command)):
        ended = Ended(pod, "", 0)
    return ended


def _inner(command: Sequence[str]) -> str:
    """The script of `sh -c SCRIPT`, or the command itself."""
    return script_of(command).strip() or shlex.join(command)


def _run_perftest(client: Pod, world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    mine = run_script(client.command, container_of(client, world))
    if not mine.call:
        return [Ended(client, mine.output, mine.exit_code)]
    wanted = _address_words(client, world)
    servers = [
        pod
        for pod in world.pods
        if pod.phase == "Running" and _is_server(pod, world) and wanted & addresses_of(pod, world)
    ]
    if not servers:
        # A script with a loop tries again while its server's pod is still coming up.
        retries = re.search(r"\b(until|while)\b", _inner(client.command))
        if retries and _age_s(client, now) < _RETRY_S:
            return []
        return [Ended(client, mine.calls[0].before + _unanswered(wanted), 1)]
    server = servers[0]
    theirs = run_script(server.command, container_of(server, world))
    if not theirs.call:
        return [Ended(server, theirs.output, theirs.exit_code)]
    return _play_tests((client, mine), (server, theirs), world, link)


def _unanswered(wanted: set[str]) -> str:
    peer = ", ".join(sorted(wanted))
    return (
        f"Couldn't connect to {peer}:18515\n Unable to open file descriptor for socket connection\n"
    )


def _play_tests(
    client: tuple[Pod, ScriptRun], server: tuple[Pod, ScriptRun], world: World, link: LabLink
) -> list[Ended]:
    """The tests of two scripts, one after the other; the first that fails ends both."""
    logs, code = ["", ""], 0
    mine, theirs = client[1].calls, server[1].calls
    after = [[*(each.before for each in run.calls[1:]), run.rest] for run in (client[1], server[1])]
    for number, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        pods: list[Json] = [
            {**probe_pod(pod, world), "command": list(called.words)}
            for pod, called in ((server[0], other), (client[0], one))
        ]
        request: Doc = {"op": "run_probe", "kind": "perftest", "pods": pods}
        ended, reply = finish(client[0], request, link)
        code = ended.exit_code
        said = (ended.log, text_at(reply, "server_log") or ended.log)
        for end in (0, 1):
            logs[end] += said[end] + _ending(after[end][number], code)
        if code:
            break
    if not code and len(mine) > len(theirs):
        logs[0], code = logs[0] + _unanswered({mine[-1].words[-1]}), 1
    start = mine[0].before, theirs[0].before
    return [
        Ended(pod, start[end] + logs[end], code) for end, pod in enumerate((client[0], server[0]))
    ]


def _ending(printed: str, code: int) -> str:
    """What a script prints after a call: it believed that each one ended well."""
    head, believed, _ = printed.partition("ended with status 0")
    return f"{head}ended with status {code}\n" if code and believed else printed

"""What runs in the lab's pods: the commands it plays, their logs and their exit codes.

A probe's log is computed by the lab's physics from the devices (`run_probe` of the lab daemon).
What the lab does not play fails as an image without that program does, so that nothing passes that
was never run.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.errors import RailyardError
from lab.cluster.attach import plugins_of
from lab.cluster.document import (
    Doc,
    Json,
    as_doc,
    docs_at,
    number_at,
    pairs_at,
    text_at,
    texts_at,
)
from lab.cluster.lab_link import LabLink
from lab.cluster.pod_shell import ScriptRun, run_script, script_of
from lab.cluster.pod_view import EXIT_CODE, NodeState, Pod

_JOB_NAME = "training.kubeflow.org/job-name"
_JOB_ROLE = "training.kubeflow.org/job-role"
_GPU = "nvidia.com/gpu"
_NOT_FOUND_CODE = 127
_LAB_FAILED_CODE = 125
_LAUNCHER_RUN_S = 2.0
"""A launcher that ends at once may never be seen running (sources.md#kubernetes-in-the-lab)."""
_RETRY_S = 120.0
"""How long a client's script waits for its server, as the product's own script does."""
_IDLE = re.compile(r"^(sleep|true|:|echo|exit 0)\b")


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one pod."""

    pod: Pod
    log: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class World:
    """Everything a probe can see: nodes, pods and attachment definitions."""

    nodes: Mapping[str, NodeState]
    pods: Sequence[Pod]
    definitions: Mapping[str, Doc]


def run_pods(world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    """Run what is due: the pods whose command has ended, with log and exit code."""
    ended: list[Ended] = []
    for pod in world.pods:
        if pod.node in world.nodes and _is_due(pod, now):
            ended += _run(pod, world, link, now)
    return ended


def _is_due(pod: Pod, now: dt.datetime) -> bool:
    if pod.phase != "Running" or pod.deleting or EXIT_CODE in pod.annotations:
        return False
    ends = pod.owned_by_job or text_at(pod.document, "spec", "restartPolicy") == "Never"
    if not ends or pod.labels.get(_JOB_ROLE) == "worker" or _is_server(pod):
        return False
    return _age_s(pod, now) >= _LAUNCHER_RUN_S


def _age_s(pod: Pod, now: dt.datetime) -> float:
    started = text_at(pod.document, "status", "startTime")
    return (now - dt.datetime.fromisoformat(started)).total_seconds()


def _text(pod: Pod) -> str:
    return " ".join((*pod.command, *pod.env.values()))


def _is_perftest(pod: Pod) -> bool:
    return "ib_write_bw" in _text(pod)


def _is_server(pod: Pod) -> bool:
    """A perftest server names no peer; it ends together with its client."""
    return _is_perftest(pod) and not _address_words(pod)


def _address_words(pod: Pod) -> set[str]:
    return set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", _text(pod))) - _plain(pod.addresses())


def _run(pod: Pod, world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    command = " ".join(pod.command)
    if pod.labels.get(_JOB_ROLE) == "launcher":
        return _run_launcher(pod, world, link)
    if _is_perftest(pod):
        return _run_perftest(pod, world, link, now)
    node = world.nodes.get(pod.node)
    if node and re.search(r"\bulimit -l\b", command):
        limit = node.devices.memlock_kib
        return [Ended(pod, f"{'unlimited' if limit is None else limit}\n", 0)]
    if node and "nvidia-smi" in command:
        return [_nvidia_smi(pod)]
    if _IDLE.match(_inner(pod.command)):
        return [Ended(pod, "", 0)]
    word = pod.command[0] if pod.command else "(the image's default command)"
    text = f'exec: "{word}": executable file not found in $PATH (the lab does not play it)\n'
    return [Ended(pod, text, _NOT_FOUND_CODE)]


def _inner(command: Sequence[str]) -> str:
    """The script of `sh -c SCRIPT`, or the command itself."""
    return script_of(command).strip() or shlex.join(command)


def _nvidia_smi(pod: Pod) -> Ended:
    count = pod.requested(_GPU)
    if not count:
        return Ended(pod, "Failed to initialize NVML: Unknown Error\n", 255)
    lines = [f"GPU {number}: Tesla V100-SXM2-32GB" for number in range(count)]
    return Ended(pod, "\n".join(lines) + "\n", 0)


def _run_launcher(launcher: Pod, world: World, link: LabLink) -> list[Ended]:
    job = launcher.labels.get(_JOB_NAME, "")
    workers = [
        pod
        for pod in world.pods
        if pod.namespace == launcher.namespace
        and pod.labels.get(_JOB_NAME) == job
        and pod.labels.get(_JOB_ROLE) == "worker"
        and pod.phase == "Running"
    ]
    workers.sort(key=lambda pod: pod.name)
    request = _request("nccl", workers, launcher, world)
    return [_finish(launcher, request, link)[0]]


def _run_perftest(client: Pod, world: World, link: LabLink, now: dt.datetime) -> list[Ended]:
    mine = _run_script(client, world)
    if not mine.call:
        return [Ended(client, mine.output, mine.exit_code)]
    wanted = _address_words(client)
    servers = [
        pod
        for pod in world.pods
        if pod.phase == "Running" and _is_server(pod) and wanted & _plain(pod.addresses())
    ]
    if not servers:
        # A script with a loop tries again while its server's pod is still coming up.
        retries = re.search(r"\b(until|while)\b", _inner(client.command))
        if retries and _age_s(client, now) < _RETRY_S:
            return []
        peer = ", ".join(sorted(wanted))
        text = f"Couldn't connect to {peer}:18515\n Unable to open file descriptor for socket"
        return [Ended(client, text + " connection\n", 1)]
    server = servers[0]
    theirs = _run_script(server, world)
    if not theirs.call:
        return [Ended(server, theirs.output, theirs.exit_code)]
    request = _request("perftest", [], None, world)
    request["pods"] = [
        {**_probe_pod(pod, world), "command": list(run.call)}
        for pod, run in ((server, theirs), (client, mine))
    ]
    ended, reply = _finish(client, request, link)
    return [ended, Ended(server, text_at(reply, "server_log") or ended.log, ended.exit_code)]


def _run_script(pod: Pod, world: World) -> ScriptRun:
    view = _probe_pod(pod, world)
    node = world.nodes.get(pod.node)
    limit = node.devices.memlock_kib if node else 0
    return run_script(pod.command, pairs_at(view, "env"), docs_at(view, "networks"), limit)


def _plain(addresses: set[str]) -> set[str]:
    return {address.partition("/")[0] for address in addresses}


def _request(kind: str, pods: Sequence[Pod], launcher: Pod | None, world: World) -> Doc:
    request: Doc = {
        "op": "run_probe",
        "kind": kind,
        "pods": [_probe_pod(pod, world) for pod in pods],
    }
    if launcher:
        request["launcher"] = _probe_pod(launcher, world)
    return request


def _finish(pod: Pod, request: Doc, link: LabLink) -> tuple[Ended, Doc]:
    try:
        reply = link.ask(request)
    except RailyardError as error:
        return Ended(pod, f"the lab cannot play this probe: {error}\n", _LAB_FAILED_CODE), {}
    result = as_doc(reply.get("result", reply))
    if "exit_code" not in result:
        text = "the lab daemon answered the probe without an exit code\n"
        return Ended(pod, text, _LAB_FAILED_CODE), {}
    return Ended(pod, text_at(result, "log"), number_at(result, "exit_code")), result


def _probe_pod(pod: Pod, world: World) -> Doc:
    node = world.nodes.get(pod.node)
    environment: dict[str, Json] = {**_device_env(pod, node), **pod.env}
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "node": pod.node,
        "command": list(pod.command),
        "env": environment,
        "gpus": pod.requested(_GPU),
        "capabilities": list(pod.capabilities),
        "networks": [*_networks(pod, node, world)] if node else [],
    }


def _networks(pod: Pod, node: NodeState, world: World) -> list[Doc]:
    found: list[Doc] = []
    vfs = {vf.pci: (vf, pool) for pool in node.pools for vf in pool.devices}
    for status in pod.network_status():
        pci = text_at(status, "device-info", "pci", "pci-address")
        vf, pool = vfs.get(pci, (None, None))
        # A resource without isRdma mounts no verbs device, so the pod has no RDMA interface there.
        if vf is None or pool is None or not pool.rdma:
            continue
        definition = world.definitions.get(text_at(status, "name"), {})
        main = plugins_of(definition)[0] if definition else {}
        ips = texts_at(status, "ips")
        found.append(
            {
                "name": text_at(status, "name"),
                "interface": text_at(status, "interface"),
                "ip": ips[0].partition("/")[0] if ips else "",
                "vlan": number_at(main, "vlan"),
                "pcp": number_at(main, "vlanQoS"),
                "mtu_bytes": number_at(status, "mtu"),
                "pf": vf.pf_pci,
                "rdma": vf.rdma,
            }
        )
    return found


def _device_env(pod: Pod, node: NodeState | None) -> dict[str, str]:
    """What the device plugin puts into a container: PCIDEVICE_<PREFIX>_<NAME>."""
    held = pod.devices_in_use()
    env: dict[str, str] = {}
    for pool in node.pools if node else ():
        mine = [vf.pci for vf in pool.devices if vf.pci in held]
        if mine:
            key = re.sub(r"[^A-Za-z0-9]", "_", pool.resource).upper()
            env[f"PCIDEVICE_{key}"] = ",".join(mine)
    return env

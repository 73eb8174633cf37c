"""A Kubernetes API and a host with state, for runs of `reboot-hosts` in which time is played.

The API answers as a real one does to what a drain asks: 201 and a pod that ends a little later,
429 with the words of a disruption budget, 404, merge patches (lab/sources.md#reboots).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from components.core.errors import UnreachableError
from components.disruption.disruption_plan import RebootGroup, plan_reboots
from components.disruption.reboot import HostRun
from components.disruption.request import HostReboot
from components.hosts.host_plan import plan_hosts
from components.kubernetes.client import Answer, Body
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
"""The API server's words (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go)."""
SERVER = "node-role.kubernetes.io/control-plane"
_EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
_PODS = "/api/v1/pods?fieldSelector=spec.nodeName%3D"


def groups_of(spec: ClusterSpec) -> tuple[RebootGroup, ...]:
    """The planned groups of a site."""
    return plan_reboots(spec, plan_hosts(spec, "dev"), plan_kubernetes(spec, "dev"))


def request_of(spec: ClusterSpec, host: str) -> HostReboot:
    """What the step of one host asks."""
    found = [step for group in groups_of(spec) for step in group.steps]
    return next(step.request for step in found if step.request.endpoint.device == host)


def make_node(name: str, *, server: bool = False) -> dict[str, Any]:
    """A node as the API shows it; a worker offers GPUs and VFs."""
    boot_id = "boot-1" if name.startswith("gpu01") else f"boot-of-{name}"
    return {
        "metadata": {"name": name, "annotations": {}, "labels": {SERVER: "true"} if server else {}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "nvidia.com/gpu": "8", "intel.com/sriov_111": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": boot_id},
        },
    }


def make_pod(name: str, node: str, owner: str = "Job", **more: object) -> dict[str, Any]:
    """A running pod; `owner` is empty for one that nothing would make again."""
    owners = [{"kind": owner, "controller": True, "name": "it"}] if owner else []
    pod: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "jobs", "uid": name, "ownerReferences": owners},
        "spec": {"nodeName": node, "volumes": []},
        "status": {"phase": "Running"},
    }
    return pod | more


@dataclass
class PlayedCluster:
    """Nodes and pods, and what was asked of them."""

    nodes: dict[str, dict[str, Any]]
    pods: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    guarded: set[str] = field(default_factory=set[str])
    """Pods that a disruption budget holds."""
    linger: int = 1
    """How often an evicted pod is still listed."""
    readyz: str = "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"
    silent: bool = False
    starting: bool = False
    """It answers, and refuses everything."""
    asked: list[str] = field(default_factory=list[str])
    """Changes, in order: `cordon gpu01`, `evict a`, `uncordon gpu01`."""
    _ending: dict[str, int] = field(default_factory=dict[str, int])

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        if self.silent:
            raise UnreachableError(f"the cluster did not answer {method} {path}: refused")
        if self.starting:
            return Answer(503, json.dumps({"message": "apiserver not ready"}))
        return self._served(method, path, body)

    def _served(self, method: str, path: str, body: Body | None) -> Answer:
        if path == "/readyz?verbose":
            return Answer(500 if "[-]" in self.readyz else 200, self.readyz)
        if path == "/api/v1/nodes":
            return _answer({"items": list(self.nodes.values())})
        if path.startswith("/api/v1/nodes/"):
            return self._node(method, path.rsplit("/", 1)[-1], body)
        if path.startswith(_PODS):
            return self._list(path.removeprefix(_PODS))
        if method == "DELETE":
            return self._delete(path.rsplit("/", 1)[-1])
        match = _EVICTION.fullmatch(path)
        assert match is not None, f"{method} {path} is not played"
        assert method == "POST"
        return self._evict(match[2], body or {})

    def _node(self, method: str, name: str, body: Body | None) -> Answer:
        node = self.nodes.get(name)
        if node is None:
            return Answer(404, json.dumps({"message": f'nodes "{name}" not found'}))
        if method == "PATCH":
            assert body is not None
            if "spec" in body:
                word = "cordon" if body["spec"]["unschedulable"] else "uncordon"
                self.asked.append(f"{word} {name}")
            _merge(node, body)
        return _answer(node)

    def _list(self, node: str) -> Answer:
        here = [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node]
        answer = _answer({"items": here})
        for name, looks in list(self._ending.items()):
            self._ending[name] = looks - 1
            if looks <= 1:
                self.pods.pop(name, None)
                del self._ending[name]
        return answer

    def _delete(self, name: str) -> Answer:
        """Its DaemonSet makes a pod again at once."""
        assert self.pods[name]["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
        self.asked.append(f"restart {name}")
        return _answer({})

    def _evict(self, name: str, body: Body) -> Answer:
        assert body["kind"] == "Eviction"
        pod = self.pods.get(name)
        if pod is None:
            return Answer(404, json.dumps({"message": f'pods "{name}" not found'}))
        assert body["deleteOptions"]["preconditions"]["uid"] == pod["metadata"]["uid"]
        if name in self.guarded:
            return Answer(429, json.dumps({"message": BUDGET}))
        self.asked.append(f"evict {name}")
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._ending[name] = self.linger
        return Answer(201, "{}")

    def cordoned(self, name: str) -> bool:
        return bool(self.nodes[name]["spec"].get("unschedulable"))


def _answer(body: object) -> Answer:
    return Answer(200, json.dumps(body))


def _merge(target: dict[str, Any], patch: Body) -> None:
    """RFC 7396: null removes."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), cast("Body", value))
        else:
            target[key] = value


@dataclass
class PlayedHost:
    """A host that answers the parts of `maintain.sh` and `converge.sh`; pausing passes time."""

    request: HostReboot
    cluster: PlayedCluster | None = None
    now_s: float = 0.0
    boot: int = 1
    boots: dict[str, str] = field(default_factory=dict[str, str])
    """What waits for a boot: key to `now -> next`."""
    drains: dict[str, str] = field(default_factory=dict[str, str])
    """What waits for a drain."""
    powers: dict[str, str] = field(default_factory=dict[str, str])
    """What waits for a power cycle."""
    left: list[str] = field(default_factory=list[str])
    """What converge leaves alone, since the firmware of the cards does not allow it yet."""
    mark: str = ""
    """The boot id at which a run began; a blank for a mark that a full disk left empty."""
    away_s: float = 60.0
    lost: bool = False
    """It never comes back."""
    stuck: bool = False
    """It comes back with the boot that it had."""
    ready: dict[str, str] = field(default_factory=lambda: {"unit": "active", "rdma.a": "ok"})
    looped: dict[str, str] = field(default_factory=dict[str, str])
    """What RDMA writes of the cards to themselves came to; empty without perftest."""
    actions: list[str] = field(default_factory=list[str])
    kill_at: str = ""
    """The part before which this run is killed."""
    back_at_s: float | None = None

    def run(self) -> HostRun:
        return HostRun(
            self.request, self.ask, lambda: self.cluster, now=lambda: self.now_s, pause=self.pause
        )

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        if self.back_at_s is None or self.now_s < self.back_at_s or self.lost:
            return
        self.back_at_s = None
        if not self.stuck:
            self.boot += 1
            self.boots = {}
        name = self.request.endpoint.device
        if self.cluster is not None and name in self.cluster.nodes:
            self.cluster.nodes[name]["status"]["nodeInfo"]["bootID"] = f"boot-{self.boot}"

    def ask(self, endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        del deadline_s
        assert endpoint == self.request.endpoint
        if self.back_at_s is not None:
            raise UnreachableError(f"{endpoint.where} is not reachable: connection refused")
        values = dict(line.split("=", 1) for line in stdin.splitlines())
        action = values.get("action", "converge")
        assert ("disrupt" in values) == (action == "converge"), command
        if action == self.kill_at:
            raise KeyboardInterrupt
        self.actions.append(action)
        parts: dict[str, Callable[[], str]] = {
            "look": self._look,
            "begin": self._begin,
            "reboot": self._reboot,
            "ready": lambda: _lines(self.ready),
            "loopback": lambda: _lines(self.looped),
            "forget": self._forget,
            "forget-mark": self._forget,
            "converge": lambda: self._converge(values),
        }
        return HostAnswer(parts[action](), "", 0)

    def _look(self) -> str:
        values = {"boot_id": f"boot-{self.boot}", "pending.in_service": "yes"}
        values |= {f"pending.boot.{key}": value for key, value in self.boots.items()}
        values |= {f"pending.drain.{key}": value for key, value in self.drains.items()}
        values |= {f"pending.power.{key}": value for key, value in self.powers.items()}
        return _lines(values | ({"pending.begun": self.mark.strip()} if self.mark else {}))

    def _begin(self) -> str:
        self.mark = self.mark or f"boot-{self.boot}"
        return ""

    def _reboot(self) -> str:
        self.back_at_s = self.now_s + self.away_s
        return ""

    def _forget(self) -> str:
        self.mark = ""
        return ""

    def _converge(self, values: dict[str, str]) -> str:
        assert values["disrupt"] == "now"
        changed = [key for key in self.drains if key not in self.left]
        self.drains = {key: value for key, value in self.drains.items() if key in self.left}
        report = {"changed": changed, "unchanged": 1, "waiting": self.left}
        return json.dumps(report) + "\n"


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def small_cluster(*, servers: int = 1) -> PlayedCluster:
    """The nodes of the DGX example, with a job's pod and a DaemonSet's on each worker."""
    names = [f"mgmt{number:02}" for number in range(1, servers + 1)]
    nodes = {name: make_node(name, server=True) for name in names}
    nodes |= {name: make_node(name) for name in ("gpu01", "gpu02")}
    pods: dict[str, dict[str, Any]] = {}
    for name in ("gpu01", "gpu02"):
        pods[f"train-{name}"] = make_pod(f"train-{name}", name)
        pods[f"plugin-{name}"] = make_pod(f"plugin-{name}", name, "DaemonSet")
        sockets = {"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}
        pods[f"plugin-{name}"]["spec"]["volumes"].append(sockets)
    return PlayedCluster(nodes, pods)


def with_role(request: HostReboot, host: str) -> HostReboot:
    """The same for a control-plane host of that name, alone in its group."""
    endpoint = replace(request.endpoint, device=host)
    return replace(request, endpoint=endpoint, role="control_plane", group=(host,))


def frozen(cluster: PlayedCluster) -> tuple[object, ...]:
    """What of a cluster must be as before when a run changed nothing."""
    return copy.deepcopy((cluster.nodes, cluster.pods))

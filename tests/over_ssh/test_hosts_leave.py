"""`device apply-drained`: an emulated switch over SSH, and nodes of a real Kubernetes API.

Before each line the switch gets, the API is asked which nodes take pods and which pods they have.
What happened in which order is told by that record alone.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from components.core.errors import DeviceError
from components.disruption.leave_plan import PortsLeave, plan_ports
from components.disruption.node import ANNOTATION, SWITCH
from components.disruption.ports import run_apply_drained
from components.fabric.gate import place_file
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.base import ClusterRef
from components.remote.tools import FOLDER
from lab.cluster.document import doc_at, text_at
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until
from lab.cluster.testing import node_is_ready, running_plane
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
NODES: Final = ("gpu01", "gpu02")
KUBECONFIG: Final = "RAILYARD_SECRET_KUBECONFIG"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
IDENTITY: Final = "show version"
"""What tells the serial number of an EOS switch (a capture of 4.31.2F)."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster whose nodes are both hosts of the site; each runs a pod that fits nowhere else."""
    with running_plane(tmp_path_factory.mktemp("drain")) as plane:
        for number, name in enumerate(NODES):
            register_node(plane.admin, NodeFacts(name, plane.address, f"boot-{number}"))
            plane.admin.request("POST", DEPLOYMENTS, _pinned(name))
        for name in NODES:
            wait_until(f"{name} to be Ready", lambda n=name: node_is_ready(plane, n), 120)
        yield plane


def _pinned(node: str) -> Any:  # noqa: ANN401 - an object
    labels = {"app": f"train-{node}"}
    container = {"name": "train", "image": "reg/train:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"train-{node}"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "containers": [container],
                    "terminationGracePeriodSeconds": 0,
                },
            },
        },
    }


@dataclass(frozen=True)
class Moment:
    """One line that the switch got, and the cluster just before it."""

    line: str
    cordoned: AbstractSet[str]
    busy: AbstractSet[str]
    """Nodes with a pod."""


@dataclass
class Stage:
    """A switch, a cluster, and what happened."""

    room: SwitchRoom
    plane: ControlPlane
    moments: list[Moment] = field(default_factory=list[Moment])

    def __post_init__(self) -> None:
        """Look at the cluster before the switch decides about a line."""
        refuse = self.room.switch.refuse

        def recorded(line: str) -> str | None:
            self.moments.append(Moment(line, self.cordoned(), self.busy()))
            return refuse(line)

        self.room.switch.refuse = recorded

    def node(self, name: str) -> Any:  # noqa: ANN401 - an object
        return self.plane.admin.find(f"/api/v1/nodes/{name}")

    def cordoned(self) -> AbstractSet[str]:
        return frozenset(
            name for name in NODES if doc_at(self.node(name), "spec").get("unschedulable")
        )

    def busy(self) -> AbstractSet[str]:
        pods = self.plane.admin.items("/api/v1/pods")
        return frozenset(text_at(pod, "spec", "nodeName") for pod in pods) & {*NODES}

    def marked(self, name: str) -> bool:
        notes = doc_at(self.node(name), "metadata", "annotations")
        return bool({ANNOTATION, SWITCH} & {*notes})

    def request(self, most: int, mtus: Mapping[str, int], **more: object) -> str:
        """An update that gives the ports of some hosts another MTU."""
        leave = self.leave(most)
        ports = {
            name: port.model_copy(update={"mtu_bytes": mtus[leave.nodes[name]]})
            if leave.nodes.get(name) in mtus
            else port
            for name, port in self.room.desired.ports.items()
        }
        state = self.room.desired.model_copy(update={"ports": ports})
        desired = state.model_dump(mode="json")
        return self.room.request(desired=desired, ports="drain", **leave.document(), **more)

    def leave(self, most: int) -> PortsLeave:
        spec = self.room.lab.spec
        drain = spec.disruption.model_copy(update={"ports": "drain", "max_unavailable": most})
        spec = spec.model_copy(update={"disruption": drain})
        planned = plan_ports(spec, "dev", plan_kubernetes(spec, "dev"))[self.room.lab.plan.name]
        cluster = ClusterRef("dev", kubeconfig_secret="kubeconfig")
        return replace(planned, leave=replace(planned.leave, cluster=cluster))

    def run(self, request: str, **more: str) -> Any:  # noqa: ANN401 - JSON of the evidence
        env = self.room.env | {KUBECONFIG: self.plane.kubeconfig.read_text()} | more
        return json.loads(run_apply_drained(request, env))

    def first(self, word: str) -> int:
        return next(n for n, each in enumerate(self.moments) if word in each.line)

    def changing(self, word: str = "l2 mtu") -> list[Moment]:
        return [each for each in self.moments if each.line.startswith(word)]


@contextmanager
def _cordoned_by_hand(plane: ControlPlane, name: str) -> Generator[None]:
    plane.admin.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        plane.admin.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


@pytest.fixture
def stage(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The switch as the file wants it, and every node with its pod."""
    monkeypatch.chdir(tmp_path)
    with switch_room("eos", tmp_path) as room:
        path = FOLDER.parent / place_file(room.endpoint)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"settle_s": 1}))
        room.apply(room.request())
        wait_until("both nodes to be busy", lambda: Stage.busy(_peek(plane)) == {*NODES}, 60)
        yield Stage(room, plane)


def _peek(plane: ControlPlane) -> Stage:
    stage = Stage.__new__(Stage)
    stage.plane = plane
    return stage


def test_identity_drain_change_gate_uncordon(stage: Stage) -> None:
    evidence = stage.run(stage.request(1, {"gpu01": 4200}))
    first, (change, *_), last = stage.moments[0], stage.changing(), stage.moments[-1]
    assert stage.moments[stage.first(IDENTITY)].cordoned == frozenset()
    assert stage.first(IDENTITY) < stage.first("l2 mtu")
    assert (first.cordoned, first.busy) == (frozenset(), {*NODES})
    assert (change.cordoned, change.busy) == ({"gpu01"}, {"gpu02"})
    assert last.cordoned == {"gpu01"}, "until the gate has seen all of it again"
    assert "lldp" in last.line or "interfaces status" in last.line
    assert stage.cordoned() == frozenset()
    assert not stage.marked("gpu01")
    assert evidence["drained"] == ["gpu01"]
    wait_until("its pod is back", lambda: "gpu01" in stage.busy(), 60)


def test_another_switch_is_refused_before_anyone_leaves(stage: Stage) -> None:
    with pytest.raises(DeviceError, match="this is another switch"):
        stage.run(stage.request(1, {"gpu01": 4200}, serial="JPE00000000"))
    assert not any(each.cordoned for each in stage.moments)
    assert stage.busy() == {*NODES}


def test_a_refused_change_brings_the_nodes_back(stage: Stage) -> None:
    before = stage.room.switch.snapshot()
    stage.room.switch.fault(["reject", "mtu"])
    with pytest.raises(DeviceError) as caught:
        stage.run(stage.request(1, {"gpu01": 4200}))
    assert [each.cordoned for each in stage.changing()] == [{"gpu01"}]
    assert stage.cordoned() == frozenset()
    assert not stage.marked("gpu01")
    assert "gpu01 take pods again: leaf-01 is as it was" in str(caught.value)
    assert stage.room.switch.snapshot() == before


def test_of_a_switch_that_is_lost_the_nodes_stay_and_the_message_says_so(stage: Stage) -> None:
    room, recorded = stage.room, stage.room.switch.refuse

    def cut(line: str) -> str | None:
        answer = recorded(line)
        if line.startswith("l2 mtu"):
            room.switch.drop_sessions()
        return answer

    room.switch.refuse = cut
    request = stage.request(1, {"gpu01": 4200})
    with pytest.raises(DeviceError, match="session was lost") as caught:
        stage.run(request)
    text = str(caught.value)
    assert "gpu01 stay cordoned" in text
    assert "`kubectl uncordon gpu01`" in text
    assert "`pulumi up`" in text
    assert stage.cordoned() == {"gpu01"}
    room.switch.refuse = recorded
    room.clock.now_s += 3600
    assert stage.run(request)["changed"]
    assert stage.cordoned() == frozenset()
    assert not stage.marked("gpu01")


def test_hosts_behind_many_ports_leave_one_group_after_the_other(stage: Stage) -> None:
    evidence = stage.run(stage.request(1, dict.fromkeys(NODES, 4200)))
    away = [each.cordoned for each in stage.changing()]
    assert away == sorted(away, key=sorted), "one group after the other"
    assert (away[0], away[-1]) == ({"gpu01"}, {"gpu02"})
    assert max(len(each.cordoned) for each in stage.moments) == 1
    assert evidence["drained"] == [*NODES]
    assert stage.cordoned() == frozenset()
    assert stage.room.switch.snapshot()["running"] == stage.room.switch.snapshot()["startup"]
    assert all(stage.room.switch.port_view(p).mtu_bytes == 4200 for p in stage.leave(1).nodes)


def test_a_change_of_the_whole_switch_needs_all_at_once(stage: Stage) -> None:
    """A VLAN goes from the switch: every port loses it together."""
    room, leave = stage.room, stage.leave(1)
    wanted = room.desired.model_copy(update={"vlans": room.desired.vlans[:-1]})
    baseline = room.baseline() | {"vlans": [1]}
    request = room.request(
        desired=wanted.model_dump(mode="json"), baseline=baseline, ports="drain", **leave.document()
    )
    before = {"PULUMI_COMMAND_STDOUT": json.dumps(room.apply(room.request()))}
    stage.moments.clear()
    with pytest.raises(DeviceError, match="would have to leave service at once") as caught:
        stage.run(request, **before)
    assert "disruption: {max_unavailable: 2}" in str(caught.value)
    assert not any(each.cordoned for each in stage.moments)


def test_a_node_that_a_person_cordoned_stays_so(stage: Stage) -> None:
    with _cordoned_by_hand(stage.plane, "gpu01"):
        evidence = stage.run(stage.request(1, {"gpu01": 4200}))
        assert evidence["changed"]
        assert stage.changing()[0].busy == {"gpu02"}
        assert stage.cordoned() == {"gpu01"}
        assert not stage.marked("gpu01")


def test_the_site_has_several_ports_of_each_node_here(stage: Stage) -> None:
    """Else the groups above would prove nothing."""
    nodes = [*stage.leave(1).nodes.values()]
    assert all(nodes.count(name) >= 2 for name in NODES)

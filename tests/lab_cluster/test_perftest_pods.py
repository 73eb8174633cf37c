"""Several tests of perftest in one script, between two pods on InfiniBand without a Job."""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from lab.cluster.devices import NodeDevices, scan_devices
from lab.cluster.document import Doc, as_doc
from lab.cluster.lab_link import LabLink
from lab.cluster.pod_probe import World, container_of
from lab.cluster.pod_runner import is_awaited, run_pods
from lab.cluster.pod_shell import run_script
from lab.cluster.pod_view import DEVICES, NodeState, Pod
from lab.physics.request import dump_result, parse_request
from tests.lab_cluster.conftest import FakeLab
from tests.lab_cluster.nodes import make_hca_node
from tests.lab_physics.examples import Played, example

NOW = dt.datetime.fromisoformat("2026-01-01T00:01:00Z")
SCRIPT = """hca=mlx5_3
run() {
  echo 'railyard: attempt 1'
  status=0
  "$@" || status=$?
  echo "railyard: attempt 1 ended with status $status"
  [ "$status" -eq 0 ] || exit "$status"
}
"""
TESTS = ("ib_write_bw -D 5", "ib_read_bw -D 5", "ib_write_lat -n 20000")
SERVER = "10.42.0.7"


@dataclass
class Pair:
    """Two nodes of a site and the lab that plays it."""

    played: Played
    devices: NodeDevices
    link: LabLink

    def pod(self, place: int, tests: Sequence[str], server: str = "", tail: str = "") -> Pod:
        """One end: it calls each test in turn."""
        lines = [f'run {test} -d "$hca" -F --report_gbits {server}\n' for test in tests]
        card = next(card.pci for card in self.devices.cards if card.rdma == "mlx5_3")
        container = {
            "name": "perftest",
            "image": "registry.example.com/railyard-probe:1",
            "command": ["/bin/sh", "-c", SCRIPT + "".join(lines) + tail],
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        }
        name = "client" if server else "server"
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        notes = {DEVICES: json.dumps({"nvidia.com/hca": [card]})}
        document = {
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": notes},
            "spec": {
                "nodeName": self.played.spec.workers[place].name,
                "restartPolicy": "Never",
                "containers": [container],
            },
            "status": {**status, "podIP": SERVER if not server else "10.42.1.9"},
        }
        return Pod(as_doc(document))

    def run(self, *pods: Pod) -> dict[str, tuple[int, str]]:
        """The end of each pod that came to its end: exit status and log."""
        assert all(is_awaited(pod) for pod in pods)
        states = {
            host.name: NodeState(host.name, self.devices, (), pods)
            for host in self.played.spec.workers
        }
        ended = run_pods(World(states, pods, {}), self.link, NOW)
        return {each.pod.name: (each.exit_code, each.log) for each in ended}


@pytest.fixture
def pair(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    played = Played(example("crusoe-k3s"))
    make_hca_node(tmp_path)

    def play(asked: Doc) -> Doc:
        result = dump_result(played.run(parse_request(asked)))
        return {"ok": True, **cast("Doc", result)}

    lab = FakeLab(tmp_path_factory.mktemp("lab") / "control.sock", physics=play)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(lab.socket_path))
        listener.listen()
        threading.Thread(target=lab.serve, args=(listener,), daemon=True).start()
        yield Pair(played, scan_devices(tmp_path / "sys", None), LabLink(lab.socket_path))


def runs_of(log: str) -> list[PerftestLog]:
    found = parse_perftest_log(log)
    assert isinstance(found, PerftestLog), log
    return [*found.runs]


def test_each_test_has_its_own_part_of_the_log(pair: Pair) -> None:
    ends = pair.run(pair.pod(0, TESTS), pair.pod(1, TESTS, SERVER))
    status, log = ends["client"]
    assert (status, ends["server"][0]) == (0, 0), log
    runs = runs_of(log)
    assert [run.test for run in runs] == [
        "RDMA_Write BW Test",
        "RDMA_Read BW Test",
        "RDMA_Write Latency Test",
    ]
    assert [len(run.rows) for run in runs] == [1, 1, 0]
    assert log.count("attempt 1 ended with status 0") == 3
    assert ends["server"][1].count("Waiting for client") == 3


def test_the_first_test_that_fails_ends_both(pair: Pair) -> None:
    pods = pair.pod(0, TESTS), pair.pod(1, TESTS, SERVER)
    pair.played.break_hcas(("mlx5_3",), active=False)
    status, log = pair.run(*pods)["client"]
    assert status == 1
    assert log.count("railyard: attempt 1 ended with status 1") == 1
    assert "state is Down" in log


def test_a_server_that_ends_before_the_last_test_is_missed(pair: Pair) -> None:
    ends = pair.run(pair.pod(0, TESTS[:2]), pair.pod(1, TESTS, SERVER))
    status, log = ends["client"]
    assert (status, "Couldn't connect to 10.42.0.7:18515" in log) == (1, True)


def test_a_client_finds_its_server_by_the_address_of_its_pod_alone(pair: Pair) -> None:
    ends = pair.run(pair.pod(0, TESTS), pair.pod(1, TESTS, "10.42.0.8"))
    assert ends["client"][0] == 1
    assert "server" not in ends


def test_a_container_sees_where_its_card_and_the_gpus_are(pair: Pair) -> None:
    look = 'readlink -f "/sys/class/infiniband/$hca/device"\nls /sys/bus/pci/devices\n'
    pod = pair.pod(0, (), tail=look)
    state = NodeState(pod.node, pair.devices, (), [pod])
    shown = run_script(pod.command, container_of(pod, World({pod.node: state}, [pod], {})))
    lines = shown.output.splitlines()
    assert lines[0] == "/sys/bus/pci/devices/0000:a3:00.0"
    assert lines[1:9] == [f"0000:1{number}:00.0" for number in range(8)]

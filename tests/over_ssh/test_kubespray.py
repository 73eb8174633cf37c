"""kubespray's step against emulated hosts: the real Ansible over real SSH, a real API behind it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import psutil
import pytest

from components.artefacts.lock import Lock
from components.core.errors import DeviceError
from components.core.record import record, replace
from components.drift.applied import Applied
from components.kubernetes.kubernetes_plan import plan_request
from components.kubernetes.kubespray.perform import (
    PREVIOUS_OUTPUT,
    run_kubespray,
    run_kubespray_reset,
)
from components.kubernetes.kubespray.state import FOLDER
from components.kubernetes.kubespray.wanted import Request
from components.plan.make import make_plan
from components.preflight.run import run_preflight
from components.remote.step import env_name
from lab.cache import cache_root
from lab.cluster.build import ensure_binaries
from lab.cluster.process import wait_until
from lab.keys import client_secrets
from lab.kubespray.source import ensure_ansible
from tests.over_ssh.host_lab import PROJECT, HostLab, running_hosts
from tests.over_ssh.test_preflight import UNPLAYED, listening

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
EXAMPLE: Final = PROJECT / "examples" / "dgx-roce" / "kubespray.yaml"
STACK: Final = "kubespray-over-ssh"
LEFT: Final = ("home/nvidia/.ansible", "root/.kube")
"""Ansible's folder for what it sends, and the cache of root's kubectl: both stay on a real host."""
HOSTS: Final = ("mgmt01", "gpu01", "gpu02")
RELEASED: Final = "v1.34.7"
NEXT: Final = "v1.35.4"
UPGRADES: Final = (
    "upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4, a few nodes at a time"
)
STRANGER: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
DEADLINE_S: Final = 300.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    cache = cache_root()
    ensure_binaries(cache)
    ensure_ansible()
    root = tmp_path_factory.mktemp("kubespray") / "lab"
    with running_hosts(STACK, root, cache, EXAMPLE) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


@record
class Site:
    """A project's folder, and the hosts that its step plays on."""

    lab: HostLab
    folder: Path

    def request(self, *hosts: str, version: str = RELEASED) -> Request:
        spec = self.lab.spec
        kept = tuple(host for host in spec.hosts if host.name in hosts)
        plane = cast("Any", spec.kubernetes).model_copy(update={"version": version})
        return plan_request(spec.model_copy(update={"hosts": kept, "kubernetes": plane}), STACK)

    def play(self, request: Request, recorded: str = "") -> dict[str, Any]:
        """One run of the step; `recorded` is what the stack has of the one before."""
        environ = {**self.environ, PREVIOUS_OUTPUT: recorded}
        return json.loads(run_kubespray(request.render(), environ))

    def reset(self, request: Request) -> dict[str, Any]:
        return json.loads(run_kubespray_reset(request.render(), self.environ))

    def refused(self, request: Request) -> str:
        with pytest.raises(DeviceError) as caught:
            self.play(request)
        return str(caught.value)

    def kill(self, request: Request, play: str, task: str) -> str:
        """Begin a run and kill its step in a task of a play, then the playbook that goes on alone.

        Returns:
            What a run between the two was told.
        """
        command = [str(PROJECT / ".venv/bin/railyard"), "device", "kubespray"]
        environ = {**os.environ, **self.environ}
        step = psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
        step.stdin.write(request.render().encode())
        step.stdin.close()
        log = self.state / "log"

        def begun() -> bool:
            assert step.poll() is None, log.read_text()[-3000:]
            said = log.read_text().rpartition(request.wanted.version)[2]
            return f"TASK [{task}]" in said.partition(f"PLAY [{play}]")[2]

        wait_until(task, begun, DEADLINE_S)
        playbook = step.children(recursive=True)
        for process in playbook:
            process.suspend()
        step.kill()
        step.wait(DEADLINE_S)
        told = self.refused(request)
        for process in playbook:
            process.kill()
        psutil.wait_procs(playbook, DEADLINE_S)
        return told

    @property
    def environ(self) -> dict[str, str]:
        return {env_name(name): value for name, value in client_secrets(STACK).items()}

    @property
    def state(self) -> Path:
        return self.folder / FOLDER / STACK

    def log(self) -> str:
        return (self.state / "log").read_text()

    def kubectl(self, words: str) -> str:
        return self.lab.sh(self.lab.plan("mgmt01"), f"kubectl {words}")

    def nodes(self) -> dict[str, str]:
        """Each node of the API that is Ready, and the version it reports."""
        items = json.loads(self.kubectl("get nodes -o json"))["items"]
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"]
            for node in items
            if any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in node["status"]["conditions"]
            )
        }

    def connections(self) -> dict[str, int]:
        """How many SSH connections each host has let in."""
        counted = cast("dict[str, dict[str, int]]", self.lab.ask(op="counted")["counted"])
        return {name: each["connections"] for name, each in counted.items()}


@pytest.fixture
def site(lab: HostLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "lab").symlink_to(PROJECT / "lab")
    monkeypatch.chdir(tmp_path)
    return Site(lab, tmp_path)


def settled(snapshot: object) -> dict[str, object]:
    """A host but for what Ansible and kubectl keep of their own beside the cluster."""
    host = cast("dict[str, object]", snapshot)
    files = cast("dict[str, object]", host["files"])
    kept = {name: each for name, each in files.items() if not name.startswith(LEFT)}
    return {**host, "files": kept}


@pytest.mark.timeout(1800)  # six runs of Ansible: minutes where the cores are shared
def test_a_life(site: Site) -> None:
    """Up, quiet, a worker more, a release up over a kill, a worker replaced, and gone."""
    before = {host: settled(site.lab.snapshot(host)) for host in HOSTS}

    two = site.request("mgmt01", "gpu01")
    strange = replace(two.endpoints["gpu01"], host_key=STRANGER)
    other = replace(two, endpoints={**two.endpoints, "gpu01": strange})
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in site.refused(other)

    up = site.play(two)
    assert up["changed"] == ["cluster.yml: installs Kubernetes v1.34.7"]
    assert up["resumed"] == "cluster.yml: installs Kubernetes v1.34.7"
    assert site.nodes() == {"mgmt01": "v1.34.7", "gpu01": "v1.34.7"}
    assert "GSSAPI" not in site.log()

    _a_lost_machine_leaves(site, two)
    count = site.connections()
    assert site.play(two)["changed"] == []
    assert site.connections() == count

    added = site.play(site.request("mgmt01", "gpu01", "gpu02"))
    assert added["changed"] == ["scale.yml --limit gpu02: adds gpu02"]
    now = site.connections()
    assert now["gpu01"] == count["gpu01"], "a worker that stays is not connected to"
    assert now["mgmt01"] > count["mgmt01"], "the join token comes from the first server"
    assert site.nodes() == {"mgmt01": "v1.34.7", "gpu01": "v1.34.7", "gpu02": "v1.34.7"}

    _is_upgraded_over_a_kill(site)

    removed = site.play(site.request("mgmt01", "gpu02", version=NEXT))
    assert removed["changed"] == ["remove-node.yml: drains gpu01 and takes it out"]
    assert site.nodes() == {"mgmt01": "v1.35.4", "gpu02": "v1.35.4"}

    shutil.rmtree(site.state)
    three = site.request(*HOSTS, version=NEXT)
    again = site.play(three, json.dumps(removed))
    assert again["changed"] == ["scale.yml --limit gpu01: adds gpu01"]
    assert "playbooks/facts.yml: reads the facts of gpu02 and mgmt01" in site.log()
    assert site.nodes() == {"mgmt01": "v1.35.4", "gpu01": "v1.35.4", "gpu02": "v1.35.4"}

    with pytest.raises(DeviceError, match=r"kubernetes\.reset is deny"):
        site.reset(replace(three, reset="deny"))
    gone = site.reset(three)
    assert gone["changed"] == ["reset.yml: deletes the cluster and all its data"]
    assert {host: settled(site.lab.snapshot(host)) for host in HOSTS} == before
    assert [path.name for path in sorted(site.state.iterdir())] == ["lock", "log"]


def _a_lost_machine_leaves(site: Site, wanted: Request) -> None:
    """A node of the last state whose machine answers nowhere, and that the file has no more."""
    path = site.state / "state.json"
    state = json.loads(path.read_text())
    there = state["there"]
    there["wanted"]["nodes"]["gpu09"] = {"role": "worker", "address": "192.168.2.19"}
    address = wanted.endpoints["gpu01"].address.rpartition(".")[0] + ".99"
    lost = {**there["endpoints"]["gpu01"], "device": "gpu09", "address": address}
    there["endpoints"]["gpu09"] = lost
    path.write_text(json.dumps(state))
    assert site.play(wanted)["changed"] == [
        "remove-node.yml: takes gpu09 out and cleans nothing there, as no answer comes"
    ]
    assert site.nodes() == {"mgmt01": "v1.34.7", "gpu01": "v1.34.7"}


def test_preflight_asks_for_what_kubespray_needs(lab: HostLab) -> None:
    """The port of a worker's proxy and one of etcd are taken; nothing else lacks."""
    site = lab.spec.model_copy(update={"switches": ()})
    address = {host.name: host.address for host in site.hosts}
    before = {host: lab.snapshot(host) for host in HOSTS}
    with listening(address["gpu01"], 6443), listening(address["mgmt01"], 2380):
        plan, secrets = make_plan(site, STACK), client_secrets(STACK)
        found = run_preflight(site, plan, secrets, Applied(), PROJECT, Lock()).findings
    assert {host: lab.snapshot(host) for host in HOSTS} == before
    assert {(each.device, each.rule) for each in found} - UNPLAYED == {
        ("gpu01", "port-6443"),
        ("mgmt01", "port-2380"),
    }


def _is_upgraded_over_a_kill(site: Site) -> None:
    """The playbook is killed while the first worker is out of service; a second try ends it."""
    site.kubectl("create configmap kept --from-literal=by=user")
    higher = site.request(*HOSTS, version=NEXT)
    told = site.kill(
        higher,
        "Finally handle worker upgrades, based on given batch size",
        "kubernetes/upgrade : Write the configuration",
    )
    assert "another run of kubespray goes on" in told
    assert "unschedulable" in site.kubectl("get node gpu01 -o jsonpath={.spec}")
    assert site.nodes()["mgmt01"] == "v1.35.4"
    left = Path((site.state / "secrets").read_text())
    assert left.is_dir(), "its keys are where the note says"

    assert "an upgrade to v1.35.4 with kubespray v2.31.0 ended in the middle" in site.refused(
        site.request(*HOSTS)
    )
    hosts = site.state / "inventory" / "hosts.yaml"
    written = hosts.read_text()
    hosts.write_text(written.replace("gpu02", "gpu03"))
    edited = site.refused(higher)
    assert f"in the middle: {UPGRADES}" in edited
    assert f"next   rm {FOLDER / STACK / 'inventory' / 'hosts.yaml'}; then `pulumi up`" in edited
    hosts.unlink()

    upgraded = site.play(higher)
    assert (upgraded["changed"], upgraded["resumed"]) == ([UPGRADES], UPGRADES)
    assert site.nodes() == {"mgmt01": "v1.35.4", "gpu01": "v1.35.4", "gpu02": "v1.35.4"}
    assert "unschedulable" not in site.kubectl("get nodes -o jsonpath={.items[*].spec}")
    assert "kept" in site.kubectl("get configmaps -o name")
    assert not left.exists()

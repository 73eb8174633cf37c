"""kubespray's step against emulated hosts: the real Ansible over real SSH, a real API behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.core.errors import DeviceError
from components.kubernetes.kubespray.perform import run_kubespray, run_kubespray_reset
from components.kubernetes.kubespray.state import FOLDER
from components.kubernetes.kubespray.wanted import Request
from components.kubernetes.planes.kubespray import plan_request
from components.remote.step import env_name
from lab.cluster.build import ensure_binaries
from lab.engine.install import cache_root
from lab.keys import client_secrets
from lab.kubespray.source import ensure_ansible
from tests.over_ssh.host_lab import PROJECT, HostLab, running_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
EXAMPLE: Final = PROJECT / "examples" / "dgx-roce" / "kubespray.yaml"
STACK: Final = "kubespray-over-ssh"
LEFT: Final = ("home/nvidia/.ansible", "root/.kube")
"""Ansible's folder for what it sends, and the cache of root's kubectl: both stay on a real host."""
HOSTS: Final = ("mgmt01", "gpu01", "gpu02")
RELEASED: Final = "v1.34.7"
NEXT: Final = "v1.35.4"


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


@dataclass(frozen=True, slots=True)
class Site:
    """A project's folder, and the hosts that its step plays on."""

    lab: HostLab
    folder: Path

    def request(self, *hosts: str, version: str = RELEASED) -> Request:
        spec = self.lab.spec
        kept = tuple(host for host in spec.hosts if host.name in hosts)
        plane = cast("Any", spec.kubernetes).model_copy(update={"version": version})
        return plan_request(spec.model_copy(update={"hosts": kept, "kubernetes": plane}), STACK)

    def play(self, request: Request) -> dict[str, Any]:
        return json.loads(run_kubespray(request.render(), self.environ))

    def reset(self, request: Request) -> dict[str, Any]:
        return json.loads(run_kubespray_reset(request.render(), self.environ))

    def refused(self, request: Request) -> str:
        with pytest.raises(DeviceError) as caught:
            self.play(request)
        return str(caught.value)

    @property
    def environ(self) -> dict[str, str]:
        return {env_name(name): value for name, value in client_secrets(STACK).items()}

    @property
    def state(self) -> Path:
        return self.folder / FOLDER / STACK

    def nodes(self) -> dict[str, str]:
        """Each node of the API that is Ready, and the version it reports."""
        plan = self.lab.plan("mgmt01")
        items = json.loads(self.lab.sh(plan, "kubectl get nodes -o json"))["items"]
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
    """Up, quiet, a worker more, a release up, a worker less, and gone."""
    before = {host: settled(site.lab.snapshot(host)) for host in HOSTS}

    up = site.play(site.request("mgmt01", "gpu01"))
    assert up["changed"] == ["cluster.yml: installs Kubernetes v1.34.7"]
    assert site.nodes() == {"mgmt01": "v1.34.7", "gpu01": "v1.34.7"}
    assert "GSSAPI" not in (site.state / "log").read_text()

    count = site.connections()
    assert site.play(site.request("mgmt01", "gpu01"))["changed"] == []
    assert site.connections() == count

    added = site.play(site.request("mgmt01", "gpu01", "gpu02"))
    assert added["changed"] == ["scale.yml --limit gpu02: adds gpu02"]
    now = site.connections()
    assert now["gpu01"] == count["gpu01"], "a worker that stays is not connected to"
    assert now["mgmt01"] > count["mgmt01"], "the join token comes from the first server"
    assert site.nodes() == {"mgmt01": "v1.34.7", "gpu01": "v1.34.7", "gpu02": "v1.34.7"}

    upgraded = site.play(site.request(*HOSTS, version=NEXT))
    assert upgraded["changed"] == [
        "upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4, a few nodes at a time"
    ]
    assert site.nodes() == {"mgmt01": "v1.35.4", "gpu01": "v1.35.4", "gpu02": "v1.35.4"}

    removed = site.play(site.request("mgmt01", "gpu02", version=NEXT))
    assert removed["changed"] == ["remove-node.yml: drains gpu01 and takes it out"]
    assert site.nodes() == {"mgmt01": "v1.35.4", "gpu02": "v1.35.4"}

    gone = site.reset(site.request("mgmt01", "gpu02", version=NEXT))
    assert gone["changed"] == ["reset.yml: deletes the cluster and all that is stored in it"]
    assert {host: settled(site.lab.snapshot(host)) for host in HOSTS} == before
    assert [path.name for path in sorted(site.state.iterdir())] == ["lock", "log"]

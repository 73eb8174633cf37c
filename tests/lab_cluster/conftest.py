"""A small K3s site on plain folders: one server, two GPU nodes, no lab hosts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from components.kubernetes.manifest import Manifest
from components.operators.operators_plan import ChartPlan
from lab.cluster.api import APPLY_PATCH, Api
from lab.cluster.build import ensure_binaries
from lab.cluster.document import Doc, as_doc, docs_at, name_of, namespace_of, number_at, text_at
from lab.cluster.pki import KeyPair
from lab.cluster.process import wait_until

PROJECT = Path(__file__).parents[2]
CHARTS = PROJECT / "lab/cluster/charts"
TOKEN = "site-secret"
PODS = "/api/v1/namespaces/default/pods"


def make_gpu_node(root: Path, vfs: int) -> None:
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (root / "sys/module/nvidia").mkdir(parents=True)
    runtime = root / "usr/bin/nvidia-container-runtime"
    runtime.parent.mkdir(parents=True)
    runtime.touch(mode=0o755)
    for number in range(8):
        gpu = devices / f"0000:1{number}:00.0"
        gpu.mkdir()
        (gpu / "vendor").write_text("0x10de\n")
    make_nic(devices, "0000:05:00.0", "enp5s0", vfs)
    make_nic(devices, "0000:84:00.0", "enp132s0", vfs)


def make_nic(devices: Path, pci: str, netdev: str, vfs: int) -> None:
    pf = devices / pci
    (pf / "net" / netdev).mkdir(parents=True)
    (pf / "vendor").write_text("0x15b3\n")
    (pf / "device").write_text("0x1017\n")
    (pf / "sriov_numvfs").write_text(f"{vfs}\n")
    for index in range(vfs):
        vf = devices / f"{pci[:-1]}{index + 1}"
        (vf / "net" / f"{netdev}v{index}").mkdir(parents=True)
        (vf / "net" / f"{netdev}v{index}" / "mtu").write_text("9000\n")
        (vf / "infiniband" / f"mlx5_{pci[5:7]}{index}").mkdir(parents=True)
        (vf / "vendor").write_text("0x15b3\n")
        (vf / "device").write_text("0x1018\n")
        (vf / "physfn").symlink_to(f"../{pci}")
        (pf / f"virtfn{index}").symlink_to(f"../{vf.name}")


@dataclass
class FakeLab:
    """Answers as the lab daemon does, and keeps what was asked.

    `run_probe` is always played well; `dhcp` has a server with state.
    """

    socket_path: Path
    asked: list[Doc] = field(default_factory=list[Doc])
    pools: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """VLAN to the addresses that its DHCP server gives out; no entry: nobody answers there."""
    leases: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    physics: Callable[[Doc], Doc] | None = None
    """Plays probes as the lab daemon does, on devices of the test's choice."""

    def answer(self, request: Doc) -> Doc:
        if request.get("op") != "dhcp":
            self.asked.append(request)
            if self.physics is not None:
                return self.physics(request)
            return {"ok": True, "log": "played\n", "exit_code": 0}
        vlan, client = number_at(request, "vlan"), text_at(request, "client")
        held = {address for (number, _), address in self.leases.items() if number == vlan}
        free = [address for address in self.pools.get(vlan, []) if address not in held]
        if (vlan, client) not in self.leases and free:
            self.leases[vlan, client] = free[0]
        return {"ok": True, "address": self.leases.get((vlan, client), "")}

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            with link, link.makefile("rw") as lines:
                request = cast("Doc", json.loads(lines.readline()))
                lines.write(json.dumps(self.answer(request)) + "\n")


@dataclass
class Site:
    """The folders and processes of a K3s site."""

    folder: Path
    control: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    last: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, subprocess.Popen[bytes]]
    )
    """The process that was started last on each host."""
    served: dict[tuple[str, str], Doc] = field(default_factory=dict[tuple[str, str], Doc])
    """Version and kind to what the API says of it."""

    @property
    def block(self) -> str:
        number = os.getpid()
        return f"127.45.{number // 250 % 250 + 1}"

    def root(self, name: str) -> Path:
        return self.folder / name

    def address(self, number: int) -> str:
        return f"{self.block}.{number}"

    def install(self, chart: ChartPlan) -> None:
        values = self.folder / "values.json"
        values.write_text(json.dumps(chart.values))
        config = self.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
        homes = {f"HELM_{kind}_HOME": str(self.folder / "helm") for kind in ("CACHE", "DATA")}
        own = {"HOME": str(self.folder), "KUBECONFIG": str(config), **homes}
        helm = [str(ensure_binaries()["helm"]), "upgrade", "--install", chart.release]
        helm += [str(CHARTS / chart.release), "-n", chart.namespace, "--create-namespace"]
        subprocess.run([*helm, "-f", str(values), "--wait"], check=True, timeout=90, env=own)

    def configure(self, name: str, text: str) -> Path:
        root = self.root(name)
        (root / "etc/rancher/k3s").mkdir(parents=True, exist_ok=True)
        (root / "etc/hostname").write_text(f"{name}\n")
        (root / "etc/rancher/k3s/config.yaml").write_text(text)
        return root

    def start(self, name: str, role: str) -> subprocess.Popen[bytes]:
        root = self.root(name)
        env = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "RAILYARD_HOST_ROOT": str(root),
            "RAILYARD_LAB_CONTROL": str(self.control),
        }
        with (root / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.cluster.k3s", role], env=env, stdout=log, stderr=log
            )
        self.processes.append(process)
        self.last[name] = process
        return process

    def stop(self, name: str) -> None:
        """End what was started last on a host: one that is refused would ask on and on."""
        self.last[name].terminate()
        self.last[name].wait(60)

    def end(self) -> None:
        """End all processes at once, and remove the folder.

        The last of several servers, ended one after another, waits for a quorum that is no more.
        """
        for process in reversed(self.processes):
            process.terminate()  # sent to those that run
        for process in self.processes:
            process.wait(60)  # a server gives each of six processes three seconds
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> str:
        return (self.root(name) / "log").read_text()

    def wait_log(self, name: str, text: str, deadline_s: float = 60) -> None:
        def told() -> bool:
            ended = self.last[name].poll()
            if text in self.log(name):
                return True
            assert ended is None, f"{name} ended with {ended}:\n{self.log(name)[-3000:]}"
            return False

        wait_until(f"{text!r} in the log of {name}", told, deadline_s)

    @property
    def api(self) -> Api:
        tls = self.root("mgmt01") / "var/lib/rancher/k3s/server/tls"
        admin = KeyPair(tls / "admin.crt", tls / "admin.key")
        return Api(f"https://{self.address(10)}:6443", tls / "server-ca.crt", admin)

    def path_of(self, body: Doc) -> str:
        """Where the API serves an object, as the API itself says it."""
        version, kind = text_at(body, "apiVersion"), text_at(body, "kind")
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"

        def is_served() -> bool:
            for each in docs_at(self.api.find(root), "resources"):
                if "/" not in text_at(each, "name"):
                    self.served[version, text_at(each, "kind")] = each
            return (version, kind) in self.served

        if (version, kind) not in self.served:
            wait_until(f"{version} {kind} to be served", is_served, 120)
        entry = self.served[version, kind]
        within = f"/namespaces/{namespace_of(body) or 'default'}" if entry["namespaced"] else ""
        plural = text_at(entry, "name")
        return f"{root}{within}/{plural}/{name_of(body)}"

    def apply(self, bodies: Iterable[Mapping[str, object]]) -> None:
        """What `kubectl apply --server-side` sends: starting that costs more than the request."""
        query = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
        for body in map(as_doc, bodies):
            self.api.request("PATCH", self.path_of(body), body, APPLY_PATCH, query)

    def delete(self, *paths: str) -> None:
        """Delete objects, at once and with what they own, and wait until they are gone."""
        options: Doc = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for path in paths:
            if self.api.find(path):
                self.api.request("DELETE", path, options)
        for path in paths:
            wait_until(f"{path} to be gone", lambda p=path: self.api.find(p) is None, 60)

    def has(self, path: str, kind: str) -> bool:
        """Whether a condition of an object is true."""
        return any(
            text_at(each, "type") == kind and text_at(each, "status") == "True"
            for each in docs_at(self.api.find(path), "status", "conditions")
        )

    def phase(self, path: str) -> str:
        """`status.phase` of an object; empty while there is none."""
        return text_at(self.api.find(path), "status", "phase")

    def install_network(self, manifests: Sequence[Manifest]) -> None:
        """Put the objects of a pod network there, until its DaemonSets run.

        As on a real node, a pod that starts before Multus has the default network alone.
        """
        for group in sorted({manifest.group for manifest in manifests}):
            together = [as_doc(each.body) for each in manifests if each.group == group]
            self.apply(together)
            for path in map(self.path_of, together):
                if "/customresourcedefinitions/" in path:
                    wait_until(f"{path}", lambda p=path: self.has(p, "Established"), 120)
        for path in (self.path_of(as_doc(m.body)) for m in manifests if m.kind == "DaemonSet"):
            wait_until(f"{path} to run", lambda p=path: self.runs(p), 120)

    def runs(self, path: str) -> bool:
        """Whether a DaemonSet has all of its pods, as `kubectl rollout status` asks it."""
        found = self.api.find(path)
        wanted = number_at(found, "status", "desiredNumberScheduled")
        seen = number_at(found, "status", "observedGeneration")
        return (
            seen >= number_at(found, "metadata", "generation")
            and number_at(found, "status", "updatedNumberScheduled") >= wanted
            and number_at(found, "status", "numberAvailable") >= wanted
        )

    def kubectl(self, *words: str) -> str:
        config = self.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
        argv = [str(ensure_binaries()["kubectl"]), f"--kubeconfig={config}", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def agent_config(self, number: int, token: str = TOKEN) -> str:
        server = f"https://{self.address(10)}:6443"
        return f"token: {token}\nserver: {server}\nnode-ip: {self.address(number)}\n"


@pytest.fixture(scope="session")
def fake_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeLab]:
    path = tmp_path_factory.mktemp("lab") / "control.sock"
    lab = FakeLab(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=lab.serve, args=(listener,), daemon=True).start()
        yield lab


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, fake_lab: FakeLab) -> Iterator[Site]:
    """A running site: mgmt01 at .10, gpu01 at .11, gpu02 at .12."""
    ensure_binaries()
    site = Site(tmp_path_factory.mktemp("site"), fake_lab.socket_path)
    head = f"token: {TOKEN}\nnode-ip: {site.address(10)}\ncluster-init: true\n"
    site.configure("mgmt01", f'{head}write-kubeconfig-mode: "0600"\ndisable: [traefik]\n')
    try:
        site.start("mgmt01", "server")
        site.wait_log("mgmt01", "up and running")
        for number, name in ((11, "gpu01"), (12, "gpu02")):
            make_gpu_node(site.configure(name, site.agent_config(number)), vfs=4)
            site.start(name, "agent")
            site.wait_log(name, "up and running")
        yield site
    finally:
        site.end()

"""Fixtures of the kubernetes plugin's contract suite, on a real control plane.

The suite runs against the executable named by RAILYARD_KUBERNETES_PLUGIN, or else against the
lab's stand-in.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.cluster.build import ensure_binaries
from lab.cluster.plane import ControlPlane
from standins.kubernetes.client import Client
from standins.kubernetes.kubeconfig import Overrides, load_document, resolve
from tests.standins.kubernetes.protocol import Handle, PluginProcess


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], PluginProcess]]:
    """Starts plugin processes that end with the session."""
    chosen = os.environ.get("RAILYARD_KUBERNETES_PLUGIN")
    command = [chosen] if chosen else [sys.executable, "-m", "standins.kubernetes"]
    home = tmp_path_factory.mktemp("helm")
    programs = ensure_binaries()["helm"].parent
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(home / "none"),
        **{f"HELM_{key}_HOME": str(home / key) for key in ("CACHE", "CONFIG", "DATA")},
    }
    started: list[PluginProcess] = []

    def make() -> PluginProcess:
        process = PluginProcess(command, environment)
        started.append(process)
        return process

    yield make
    for process in started:
        process.stop()


@pytest.fixture(scope="session")
def kubeconfig(plane: ControlPlane) -> str:
    return plane.kubeconfig.read_text()


@pytest.fixture(scope="session")
def plugin(start: Callable[[], PluginProcess], kubeconfig: str) -> PluginProcess:
    process = start()
    process.configure({"kubeconfig": kubeconfig, "enableConfigMapMutable": "true"})
    return process


@pytest.fixture(scope="session")
def cluster(kubeconfig: str) -> Client:
    """The hand that changes the cluster behind Pulumi's back."""
    return Client(resolve(load_document(kubeconfig), Overrides()))


@pytest.fixture
def namespace(plugin: PluginProcess) -> str:
    """A namespace of the test's own."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    Handle(plugin, "kubernetes:core/v1:Namespace", "ns").create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    return name


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A local chart with one ConfigMap, one Deployment and one CRD."""
    folder = tmp_path / "widget"
    (folder / "templates").mkdir(parents=True)
    (folder / "crds").mkdir()
    (folder / "Chart.yaml").write_text(
        "apiVersion: v2\nname: widget\nversion: 1.2.3\nappVersion: '9'\n"
    )
    (folder / "values.yaml").write_text("color: red\nimage: lab/none:1\nreplicas: 1\ncpu: 1m\n")
    (folder / "templates" / "all.yaml").write_text(
        """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-config"}
data: {color: "{{ .Values.color }}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-app"}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      containers:
      - {name: app, image: "{{ .Values.image }}", resources: {requests: {cpu: "{{ .Values.cpu }}"}}}
"""
    )
    return folder

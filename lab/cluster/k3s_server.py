"""`k3s server` of the lab: a real control plane, kwok, the node agent, and the join side.

Missing on purpose, because nothing would run behind them: CoreDNS, Traefik, metrics-server, the
Helm controller and more than one server.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from components.errors import DeviceError
from lab.cluster.document import Doc
from lab.cluster.fake_nodes import start_kwok
from lab.cluster.https import serve_tls
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_node import (
    ensure_node_password,
    read_devices,
    read_facts,
    read_memlock_kib,
    write_kubelet_config,
)
from lab.cluster.k3s_token import check_ca, format_token, parse_token
from lab.cluster.kubelet import PORT as KUBELET_PORT
from lab.cluster.kubelet import make_kubelet
from lab.cluster.lab_link import LabLink
from lab.cluster.mpi import MpiOperator
from lab.cluster.node_agent import NodeAgent, Reports
from lab.cluster.pki import KeyPair, write_private
from lab.cluster.plane import ControlPlane, PlaneOptions, render_kubeconfig
from lab.cluster.pod_logs import PodLogs
from lab.cluster.supervisor import PORT as SUPERVISOR_PORT
from lab.cluster.supervisor import Supervisor

REPORT_S = 2.0
_RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-experimental", "crun")
"""Some of the classes that K3s creates in advance (sources.md#k3s)."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a lab K3s needs from outside of its host."""

    binaries: Mapping[str, Path]
    link: LabLink


def run_server(
    config: K3sConfig,
    paths: HostPaths,
    tools: Tools,
    stop: threading.Event,
    on_ready: Callable[[], None],
) -> None:
    """Run a server until `stop` is set; its data survives.

    Raises:
        DeviceError: it cannot start; the text is for the unit's log.
    """
    if config.server:
        raise DeviceError("the lab plays one server: `server:` of another one is not supported")
    options = PlaneOptions(tls_sans=config.tls_sans, api_args=config.api_args)
    address, port = config.node_ip, config.api_port
    plane = ControlPlane(paths.server, address, port, tools.binaries, options)
    password = _settle_token(config, paths, plane)
    plane.start()
    try:
        _serve(config, paths, tools, (plane, password, stop, on_ready))
    finally:
        plane.stop()


def _serve(
    config: K3sConfig,
    paths: HostPaths,
    tools: Tools,
    running: tuple[ControlPlane, str, threading.Event, Callable[[], None]],
) -> None:
    plane, password, stop, on_ready = running
    folder = paths.server
    binaries = tools.binaries
    stages = ("nodes_and_pods.yaml",)
    plane.children.append(
        start_kwok(binaries["kwok"], plane.admin, plane.kubeconfig, folder, stages)
    )
    reports, logs = Reports(), PodLogs(folder / "pod-logs")
    supervisor = Supervisor(plane.admin, plane.ca, password, reports, logs, folder / "nodes")
    serving = KeyPair(folder / "tls/apiserver.crt", folder / "tls/apiserver.key")
    memlock_kib = read_memlock_kib(paths, "k3s")
    reports.put(config.node_name, read_devices(paths, memlock_kib))
    pair = supervisor.join(read_facts(paths, config), ensure_node_password(paths))
    _write_kubeconfig(config, paths, plane)
    write_kubelet_config(paths, plane.server, plane.ca.files.cert, pair)
    _create_runtime_classes(plane)
    servers = [
        serve_tls((config.node_ip, SUPERVISOR_PORT), serving, supervisor.answer),
        serve_tls(
            (config.node_ip, KUBELET_PORT), pair, make_kubelet(logs.read), plane.ca.files.cert
        ),
    ]
    mpi = MpiOperator(plane.admin, binaries["mpi-controller"], folder)
    agent = NodeAgent(plane.admin, reports, logs, tools.link, mpi)
    worker = threading.Thread(target=agent.run, args=(stop,))
    worker.start()
    try:
        on_ready()
        while not stop.wait(REPORT_S):
            reports.put(config.node_name, read_devices(paths, memlock_kib))
            for child in plane.children:
                child.check_running()
    finally:
        stop.set()
        for server in servers:
            server.shutdown()
            server.server_close()
        worker.join(10)


def _settle_token(config: K3sConfig, paths: HostPaths, plane: ControlPlane) -> str:
    """Take the configured token, or the recorded one, or make one; returns its password."""
    ca_pem = plane.ca.files.cert.read_bytes()
    record = paths.server / "token"
    recorded = parse_token(record.read_text().strip()).password if record.exists() else ""
    password = recorded or secrets.token_hex(16)
    if config.token:
        token = parse_token(config.token)
        check_ca(token, ca_pem)
        password = token.password
    if recorded and recorded != password:
        raise DeviceError(
            "starting kubernetes: preparing server: bootstrap data already found and encrypted "
            "with different token"
        )
    write_private(record, (format_token(ca_pem, "server", password) + "\n").encode())
    node = (format_token(ca_pem, "node", password) + "\n").encode()
    for name in ("node-token", "agent-token"):
        write_private(paths.server / name, node)
    return password


def _write_kubeconfig(config: K3sConfig, paths: HostPaths, plane: ControlPlane) -> None:
    # K3s writes 127.0.0.1 here whatever the node's address is; users replace it.
    server = f"https://127.0.0.1:{config.api_port}"
    pair = KeyPair(paths.server / "tls/admin.crt", paths.server / "tls/admin.key")
    path = paths.etc / "k3s.yaml"
    write_private(path, render_kubeconfig(server, plane.ca.files.cert, pair).encode())
    path.chmod(config.kubeconfig_mode)


def _create_runtime_classes(plane: ControlPlane) -> None:
    for name in _RUNTIME_CLASSES:
        body: Doc = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": name,
        }
        plane.admin.apply(f"/apis/node.k8s.io/v1/runtimeclasses/{name}", body, "k3s")

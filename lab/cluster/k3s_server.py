"""`k3s server` of the lab: a real control plane, kwok, the node agent, and the join side.

Missing on purpose, because nothing would run behind them: CoreDNS, Traefik, metrics-server and the
Helm controller.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.document import Doc
from lab.cluster.https import serve_tls
from lab.cluster.join import ensure_member_name, has_data, join, wait_promoted
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_node import (
    DeviceWatch,
    ensure_node_password,
    look_around,
    read_facts,
    write_kubelet_config,
)
from lab.cluster.k3s_token import Passwords, Token, check_ca, format_token, parse_token
from lab.cluster.kubelet import PORT as KUBELET_PORT
from lab.cluster.kubelet import make_kubelet
from lab.cluster.lab_link import LabLink
from lab.cluster.leader import Leader
from lab.cluster.mpi import MpiOperator
from lab.cluster.mux import API_PORT, SUPERVISOR_PORT, start_mux
from lab.cluster.node_agent import NodeAgent
from lab.cluster.pki import KeyPair, write_private
from lab.cluster.plane import ControlPlane, PlaneOptions, render_kubeconfig
from lab.cluster.pod_logs import PodLogs
from lab.cluster.reports import REPORT_S, Reports
from lab.cluster.supervisor import ClusterSide, Supervisor
from lab.cluster.upstream import Upstream

_RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-experimental", "crun")
"""Some of the classes that K3s creates in advance (sources.md#k3s)."""


@record
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
    name, joined = ensure_member_name(config, paths), ""
    if config.server and not has_data(paths):
        joined = join(config, paths, name, stop.wait)
    plane = make_plane(config, paths, tools.binaries, joined)
    (paths.server / "db" / "reset-flag").unlink(missing_ok=True)  # as K3s does at a plain start
    passwords = _settle_token(config, paths, plane)
    try:
        plane.start_etcd()
        wait_promoted(config, paths, plane.members)
        plane.start_api()
        plane.children.append(start_mux(config.node_ip, config.api_port, paths.server))
        _Server(config, paths, tools, plane, passwords).serve(stop, on_ready)
    finally:
        plane.stop()


def make_plane(
    config: K3sConfig, paths: HostPaths, binaries: Mapping[str, Path], joined: str = ""
) -> ControlPlane:
    """The control plane of a server, which runs nothing yet."""
    name = ensure_member_name(config, paths)
    options = PlaneOptions(config.tls_sans, config.api_args, name, joined)
    return ControlPlane(paths.server, config.node_ip, API_PORT, binaries, options)


class _Server:
    """A server whose API answers."""

    def __init__(
        self,
        config: K3sConfig,
        paths: HostPaths,
        tools: Tools,
        plane: ControlPlane,
        passwords: Passwords,
    ) -> None:
        self._config, self._paths, self._plane = config, paths, plane
        self._reports, self._logs = Reports(), PodLogs(paths.server / "pod-logs")
        side = ClusterSide(plane.members, paths.server / "tls", config.api_port, config.disable)
        self._supervisor = Supervisor(
            *(plane.admin, plane.ca, passwords, self._reports, self._logs),
            *(paths.server / "nodes", side),
        )
        self._others = Upstream("", Token(passwords.server), "server", plane.ca.files.cert)
        self._watch = DeviceWatch(paths, look_around(paths, "k3s", os.environ.get("PATH", "")))
        mpi = MpiOperator(plane.admin, tools.binaries["mpi-controller"], paths.server)
        self._leader = Leader(
            plane,
            tools.binaries["kwok"],
            lambda: NodeAgent(plane.admin, self._reports, self._logs, tools.link, mpi),
        )

    def serve(self, stop: threading.Event, on_ready: Callable[[], None]) -> None:
        """Register this node, serve the join side, and act for the cluster while it leads."""
        config, plane = self._config, self._plane
        self._report()
        self._leader.follow()
        member = ensure_member_name(config, self._paths)
        facts = read_facts(self._paths, config, member)
        pair = self._supervisor.join(facts, ensure_node_password(self._paths))
        _write_kubeconfig(config, self._paths, plane)
        write_kubelet_config(self._paths, plane.server, plane.ca.files.cert, pair)
        _create_runtime_classes(plane)
        tls = self._paths.server / "tls"
        serving = KeyPair(tls / "apiserver.crt", tls / "apiserver.key")
        servers = [
            serve_tls((config.node_ip, SUPERVISOR_PORT), serving, self._supervisor.answer),
            serve_tls(
                *((config.node_ip, KUBELET_PORT), pair),
                *(make_kubelet(self._read_log), plane.ca.files.cert),
            ),
        ]
        try:
            on_ready()
            while not stop.wait(REPORT_S):
                self._report()
                plane.check_running()
                self._leader.follow()
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()
            self._leader.stop()

    def _report(self) -> None:
        """Tell this server and all others that the node lives, and what it has."""
        self._watch.look()
        self._reports.put(self._config.node_name, self._watch.devices)
        here = f"{self._config.node_ip}:{self._config.api_port}"
        found = self._supervisor.cluster.servers()
        self._others.servers = tuple(str(server) for server in found if server != here)
        body: Doc = {"name": self._config.node_name, "devices": self._watch.dumped}
        for address in self._others.servers:
            with contextlib.suppress(DeviceError):  # a server that is lost learns nothing
                self._others.tell(address, body)

    def _read_log(self, namespace: str, pod: str) -> str:
        text = self._logs.read(namespace, pod)
        if text or not self._others.servers:
            return text
        query = f"namespace={quote(namespace)}&pod={quote(pod)}"
        return self._others.read_log(f"/v1-lab/log?{query}")


def _settle_token(config: K3sConfig, paths: HostPaths, plane: ControlPlane) -> Passwords:
    """Take the configured tokens, or the recorded one, or make one."""
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
    of_agents = parse_token(config.agent_token) if config.agent_token else Token(password)
    check_ca(of_agents, ca_pem)
    node = (format_token(ca_pem, "node", of_agents.password) + "\n").encode()
    for name in ("node-token", "agent-token"):
        write_private(paths.server / name, node)
    return Passwords(password, of_agents.password)


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

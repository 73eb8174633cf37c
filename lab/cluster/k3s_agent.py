"""`k3s agent` of the lab: proves its token, joins, reports its devices, serves its pods' logs."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import cast
from urllib.parse import quote

from components.core.errors import DeviceError
from lab.cluster.document import Doc, Json, as_doc, text_at
from lab.cluster.https import serve_tls
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_node import (
    DeviceWatch,
    ensure_node_password,
    look_around,
    read_facts,
    write_kubelet_config,
)
from lab.cluster.k3s_token import parse_token
from lab.cluster.kubelet import PORT as KUBELET_PORT
from lab.cluster.kubelet import make_kubelet
from lab.cluster.pki import KeyPair, write_private
from lab.cluster.reports import REPORT_S
from lab.cluster.supervisor import dump_facts
from lab.cluster.upstream import Upstream, connect

_RETRY_S = 2.0


def run_agent(
    config: K3sConfig, paths: HostPaths, stop: threading.Event, on_ready: Callable[[], None]
) -> None:
    """Run an agent until `stop` is set; like K3s it tries to join again and again.

    Raises:
        DeviceError: the token cannot be used at all.
    """
    parse_token(config.token)
    facts = read_facts(paths, config)
    password = ensure_node_password(paths)
    started = look_around(paths, "k3s-agent", os.environ.get("PATH", ""))
    joined = _join(config, paths, {**dump_facts(facts), "node_password": password}, stop)
    if joined is None:
        return
    upstream, pair = joined

    def read_log(namespace: str, pod: str) -> str:
        query = f"namespace={quote(namespace)}&pod={quote(pod)}"
        return upstream.read_log(f"/v1-lab/log?{query}")

    write_kubelet_config(paths, config.server, paths.agent / "server-ca.crt", pair)
    address = (config.node_ip, KUBELET_PORT)
    kubelet = serve_tls(address, pair, make_kubelet(read_log), upstream.ca)
    try:
        on_ready()
        watch = DeviceWatch(paths, started)
        while True:
            _try_report(upstream, {"name": config.node_name, "devices": watch.dumped})
            if stop.wait(REPORT_S):
                return
            watch.look()
    finally:
        kubelet.shutdown()
        kubelet.server_close()


def _join(
    config: K3sConfig, paths: HostPaths, body: Doc, stop: threading.Event
) -> tuple[Upstream, KeyPair] | None:
    while not stop.is_set():
        try:
            upstream = connect(config, paths)
            raw = upstream.request("POST", "/v1-lab/join", body)
            upstream.learn(raw)
            answer = as_doc(cast("Json", json.loads(raw)))
        except DeviceError as error:
            print(
                f'level=error msg="Failed to validate connection to cluster at {config.server}: '
                f'{error}"',
                file=sys.stderr,
                flush=True,
            )
            stop.wait(_RETRY_S)
            continue
        pair = KeyPair(paths.agent / "serving-kubelet.crt", paths.agent / "serving-kubelet.key")
        write_private(pair.key, text_at(answer, "key").encode())
        write_private(pair.cert, text_at(answer, "cert").encode())
        return upstream, pair
    return None


def _try_report(upstream: Upstream, body: Doc) -> None:
    try:
        upstream.report(body)
    except DeviceError as error:
        print(f'level=error msg="Error updating node status: {error}"', file=sys.stderr, flush=True)

"""How a server joins a cluster: the CAs come over TLS, then etcd takes it in as a learner.

Real K3s reads the CAs from the datastore's bootstrap data, sealed with the token; the lab's server
hands them to whoever proves the server's token, at the same moment and to the same end.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from lab.cluster.document import Doc, Json, as_doc, pairs_at, text_at
from lab.cluster.etcd_members import EtcdMembers
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_token import hash_password, parse_token
from lab.cluster.pki import Authority, ensure_token_keys, write_private
from lab.cluster.plane import ETCD_PEER_PORT
from lab.cluster.process import wait_until
from lab.cluster.upstream import NoAnswerError, Upstream, connect

SHARED_FILES = (
    *("server-ca.crt", "server-ca.key", "etcd-ca.crt", "etcd-ca.key"),
    *("sa.pub", "sa.key"),
)
"""What all servers of a cluster have in common."""
PROMOTION_S = 60.0
RETRY_S = 1.0
"""K3s asks again as often (k3s-io/k3s, pkg/etcd, `Start`), and for as long as it takes."""
_BUSY = (
    "etcdserver: too many learner members in cluster",
    "etcdserver: unhealthy cluster",
    "etcdserver: request timed out",
    "no answer from",
)
"""What etcd says while another member joins: it takes one learner at a time, and none in the first
five seconds after it heard from a new voter (etcd, server/etcdserver, `HealthInterval`). While the
new voter starts there may be no majority, and then no answer at all; K3s waits for the list of
members (`ErrMemberListFailed`), and systemd starts it again after the rest."""
ADMISSION_S = 35.0
"""The server that is asked puts three questions to etcd, ten seconds for each (`Api.timeout_s`);
who gives up before it does might ask a second time while the first request is still under way."""


def has_data(paths: HostPaths) -> bool:
    """Whether etcd's data is on disk; then flags about joining count no more."""
    return (paths.server / "db" / "etcd" / "member").is_dir()


def ensure_member_name(config: K3sConfig, paths: HostPaths) -> str:
    """Read the member's name, made at the first start: the node's name and a random part."""
    file = paths.server / "db" / "name"
    if not file.exists():
        write_private(file, f"{config.node_name}-{secrets.token_hex(4)}\n".encode())
    return file.read_text().strip()


def dump_shared(tls: Path) -> dict[str, Json]:
    """Give the files that a joining server needs, as texts by name; they are made if missing."""
    for name in ("server-ca", "etcd-ca"):
        Authority(tls, name)
    ensure_token_keys(tls)
    return {name: (tls / name).read_text() for name in SHARED_FILES}


def join(config: K3sConfig, paths: HostPaths, name: str, wait: Callable[[float], bool]) -> str:
    """Join the cluster of `config.server`: returns etcd's `--initial-cluster`.

    Args:
        config: Of this server.
        paths: Where the cluster's CAs are written.
        name: Of its member.
        wait: Lets so many seconds go by; True where this server shall end.

    Raises:
        DeviceError: No server answers, token or CA are of another cluster, etcd refuses, or this
            server shall end.
    """
    upstream = connect(config, paths)
    path = "/v1-lab/server-bootstrap"
    try:
        raw = upstream.request("GET", path)
    except DeviceError as error:
        raise DeviceError(
            f"starting kubernetes: preparing server: failed to get CA certs: {error}"
        ) from error
    tls = paths.server / "tls"
    files = pairs_at(as_doc(cast("Json", json.loads(raw))), "files")
    present = tls / "server-ca.crt"
    if present.exists() and present.read_text() != files["server-ca.crt"]:
        raise DeviceError(
            f"starting kubernetes: preparing server: {present} is newer than datastore and could "
            "cause a cluster outage: it is the CA of another cluster"
        )
    for file, text in files.items():
        write_private(tls / file, text.encode())
    peer = f"https://{config.node_ip}:{ETCD_PEER_PORT}"
    of_agents = parse_token(config.agent_token or config.token).password
    body: Doc = {
        "name": name,
        "peer": peer,
        "disable": list[Json](config.disable),
        "agent_token": hash_password(of_agents),
    }
    return text_at(_ask_in(upstream, body, wait), "initial_cluster")


def _ask_in(upstream: Upstream, body: Doc, wait: Callable[[float], bool]) -> Doc:
    while True:
        try:
            raw = upstream.request("POST", "/v1-lab/etcd-member", body, ADMISSION_S)
        except DeviceError as error:
            silent = isinstance(error, NoAnswerError)
            if not silent and not any(words in str(error) for words in _BUSY):
                raise
            told = f"Waiting for other members to finish joining etcd cluster: {error}"
            print(f'level=info msg="{told}"', file=sys.stderr, flush=True)
            if wait(RETRY_S):
                raise DeviceError(f"ended while it waited to join: {error}") from error
            continue
        return as_doc(cast("Json", json.loads(raw)))


def wait_promoted(config: K3sConfig, paths: HostPaths, members: EtcdMembers) -> None:
    """Become a voting member, where this one is still a learner.

    Raises:
        DeviceError: etcd did not let it vote within a minute.
    """
    status = members.status()
    if not status.learner:
        return
    upstream = connect(config, paths)

    def promoted() -> bool:
        if not members.status().learner:
            return True
        try:
            upstream.request("POST", "/v1-lab/etcd-promote", {"id": status.ident})
        except DeviceError:
            return False  # it has not caught up yet, or the server asked is busy
        return True

    wait_until("etcd to promote this learner", promoted, PROMOTION_S)

"""Whom a server of the lab lets in by which token."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest

from components.core.errors import DeviceError
from lab.cluster.https import Request
from lab.cluster.k3s_config import HostPaths, make_config
from lab.cluster.k3s_token import Passwords, hash_password
from lab.cluster.supervisor import ClusterSide, Supervisor

APART = Passwords(server="of-servers", node="of-agents")
UNAUTHORIZED, NOT_FOUND, BAD_REQUEST, UNAVAILABLE = 401, 404, 400, 503


class NoMembers:
    """An etcd that says nothing."""

    def list(self) -> list[object]:
        raise DeviceError("etcd is silent")


def supervisor(passwords: Passwords) -> Supervisor:
    side = ClusterSide(cast("Any", NoMembers()), Path("tls"), 6443, ())
    none = cast("Any", None)
    return Supervisor(none, none, passwords, none, none, Path("nodes"), side)


def status(passwords: Passwords, login: str, path: str, body: object = None) -> int:
    head = {"authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    request = Request("POST", path, {}, head, json.dumps(body).encode(), "")
    return supervisor(passwords).answer(request).status


@pytest.mark.parametrize(
    ("login", "lets_in"),
    [
        ("node:of-agents", True),
        ("server:of-servers", True),
        ("node:of-servers", False),
        ("server:of-agents", False),
        ("root:of-servers", False),
        ("node:", False),
        (":", False),
    ],
)
def test_each_user_has_the_password_of_its_own_token(login: str, *, lets_in: bool) -> None:
    assert status(APART, login, "/nowhere") == (NOT_FOUND if lets_in else UNAUTHORIZED)


def test_an_agents_token_makes_no_server() -> None:
    assert status(APART, "node:of-agents", "/v1-lab/server-bootstrap") == UNAUTHORIZED
    both = Passwords("one", "one")
    assert status(both, "node:one", "/v1-lab/server-bootstrap") == UNAUTHORIZED


def test_servers_must_agree_on_the_token_of_agents() -> None:
    body: dict[str, object] = {"name": "cp-1-x", "peer": "https://127.0.0.2:2380", "disable": []}
    other = {**body, "agent_token": hash_password("another")}
    same = {**body, "agent_token": hash_password("of-agents")}
    assert status(APART, "server:of-servers", "/v1-lab/etcd-member", other) == BAD_REQUEST
    assert status(APART, "server:of-servers", "/v1-lab/etcd-member", same) == UNAVAILABLE


def test_a_server_reads_both_tokens_and_an_agent_has_no_such_flag(tmp_path: Path) -> None:
    paths = HostPaths(tmp_path)
    (tmp_path / "tokens").mkdir()
    for name in ("own", "agents"):
        (tmp_path / "tokens" / name).write_text(f"of-{name}\n")
    flags = {"node-ip": ["127.0.0.9"], "token-file": ["/tokens/own"], "server": ["https://x:1"]}
    both = {**flags, "agent-token-file": ["/tokens/agents"]}
    config = make_config("server", both, {}, paths, "cp-0")
    assert (config.token, config.agent_token) == ("of-own", "of-agents")
    with pytest.raises(DeviceError, match="flag provided but not defined: -agent-token-file"):
        make_config("agent", both, {}, paths, "gpu01")

"""An emulated UFM Enterprise: its REST API for partitions, over real HTTPS.

What it answers and refuses is what NVIDIA's REST guide says, and where that is silent what NVIDIA's
own clients and mock of it take for granted: lab/sources.md#ufm. What its subnet
manager makes of it says `ufm_state.py`.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

SHUTDOWN_POLL_S: Final = 0.02
MANAGEMENT: Final = 0x7FFF
OK: Final = 200
WRITERS: Final = frozenset({"System_Admin", "Fabric_Admin", "Fabric_Operator"})
_GUID: Final = re.compile(r"(0x)?[0-9a-fA-F]{16,18}")
"""The guide: hexadecimal, 16 to 20 characters. That 20 counts `0x` is a guess."""
_KEY: Final = re.compile(r"0x[0-9a-fA-F]{1,4}")
Reply = tuple[int, object]
Body = Mapping[str, Any]


@dataclass(slots=True)
class Partition:
    """One PKey: GUID to membership and to whether the key is first in its port's table."""

    ip_over_ib: bool = True
    guids: dict[str, tuple[str, bool]] = field(default_factory=dict[str, tuple[str, bool]])


@dataclass(slots=True)
class Ufm:
    """What it has: users with password and group, a release, partitions."""

    users: dict[str, tuple[str, str]]
    release: str = "6.19.3 build 6"
    partitions: dict[int, Partition] = field(default_factory=dict[int, Partition])
    requests: list[str] = field(default_factory=list[str])
    """Method and path of each that was let in."""
    routing_engine: str = "ar_updn"
    """Of its subnet manager: the default of MLNX_SM since 5.10 (its release notes)."""
    on_change: Callable[[], None] = lambda: None
    """Called after each request that was done and may have changed something."""
    broken: dict[str, Reply] = field(default_factory=dict[str, Reply])
    """Method to what it answers in place of doing it."""

    def answer(self, method: str, target: str, login: str, text: str) -> Reply:
        """Serve one request; the login is the header as it came."""
        group = self._group(login)
        if group is None:
            return 401, "Unauthorized"
        self.requests.append(f"{method} {target}")
        if method != "GET" and group not in WRITERS:
            return 403, "Forbidden"
        if method in self.broken:
            return self.broken[method]
        reply = self._serve(method, target, text)
        if method != "GET" and reply[0] == OK:
            self.on_change()
        return reply

    def snapshot(self) -> object:
        """Routing engine and partitions, canonical."""
        held = {f"0x{key:x}": asdict(each) for key, each in sorted(self.partitions.items())}
        return {"routing_engine": self.routing_engine, "partitions": held}

    def _serve(self, method: str, target: str, text: str) -> Reply:
        parts = urlsplit(target)
        path = unquote(parts.path).removeprefix("/ufmRest")
        if method == "GET":
            return self._get(path, parse_qs(parts.query).get("guids_data") == ["true"])
        if method == "DELETE":
            return self._delete(path)
        try:
            body = json.loads(text)
        except ValueError:
            return 400, "Bad JSON"
        return self._write(method, path, body)

    def _group(self, login: str) -> str | None:
        kind, _, coded = login.partition(" ")
        user, _, password = base64.b64decode(coded).decode().partition(":")
        known = self.users.get(user)
        return known[1] if kind == "Basic" and known and known[0] == password else None

    def _get(self, path: str, with_guids: bool) -> Reply:  # noqa: FBT001 - a flag of the request
        if path == "/app/ufm_version":
            return 200, {"ufm_release_version": self.release}
        if path == "/app/smconf":
            return 200, {"sm_priority": 15, "routing_engine_active": self.routing_engine}
        name = path.removeprefix("/app/users/")
        if name != path:
            known = self.users.get(name)
            return (200, {"name": name, "group": known[1], "id": 1}) if known else _missing(name)
        if path.rstrip("/") == "/resources/pkeys":
            management = {"partition": "management", "ip_over_ib": True}
            shown: dict[str, object] = {f"0x{MANAGEMENT:x}": management}
            return 200, shown | {f"0x{k:x}": self._show(k, with_guids) for k in self.partitions}
        pkey = _pkey(path.removeprefix("/resources/pkeys/"))
        return (200, self._show(pkey, with_guids)) if pkey in self.partitions else _missing(path)

    def _show(self, pkey: int, with_guids: bool) -> object:  # noqa: FBT001 - see above
        found = self.partitions[pkey]
        shown: dict[str, object] = {
            "partition": f"api_pkey_0x{pkey:x}",
            "ip_over_ib": found.ip_over_ib,
        }
        if with_guids:
            shown["guids"] = [
                {"guid": guid, "membership": kind, "index0": first}
                for guid, (kind, first) in found.guids.items()
            ]
        return shown

    def _delete(self, path: str) -> Reply:
        key, _, guids = path.removeprefix("/resources/pkeys/").partition("/guids/")
        pkey = _pkey(key)
        if pkey == MANAGEMENT:
            return 400, "The management PKey cannot be changed"
        if pkey not in self.partitions:
            return _missing(key)
        named = guids.split(",") if guids else [*self.partitions[pkey].guids]
        for guid in named:
            self.partitions[pkey].guids.pop(guid, None)
        if not guids or not self.partitions[pkey].guids:
            del self.partitions[pkey]  # the last member takes the partition along
        return 200, {}

    def _write(self, method: str, path: str, body: Body) -> Reply:
        pkey = _pkey(str(body.get("pkey")))
        if not 0 < pkey < MANAGEMENT:
            return 400, f"Invalid pkey {body.get('pkey')}: it is between 0x0 and 0x7fff exclusive"
        if (method, path) == ("POST", "/resources/pkeys/add"):
            if pkey in self.partitions:
                return 400, f"PKey 0x{pkey:x} already exists"
            self.partitions[pkey] = Partition(body.get("ip_over_ib", True))
            return 200, {}
        if path.rstrip("/") != "/resources/pkeys" or method not in {"POST", "PUT"}:
            return 405, "Method Not Allowed"
        return self._put_members(pkey, body, replace=method == "PUT")

    def _put_members(self, pkey: int, body: Body, *, replace: bool) -> Reply:
        guids: list[str] = body.get("guids") or []
        kinds: list[str] = [body.get("membership", "full")] * len(guids)
        if replace:  # a list is ignored where members are added (NVIDIA's mock of 6.19)
            kinds = body.get("memberships") or kinds
        if wrong := _wrong_members(guids, kinds):
            return 400, wrong
        if replace:
            self.partitions[pkey] = Partition(body.get("ip_over_ib", True))
        elif pkey not in self.partitions:
            return _missing(f"0x{pkey:x}")
        first = body.get("index0", False)
        self.partitions[pkey].guids |= {
            guid.lower().removeprefix("0x"): (kind, first)
            for guid, kind in zip(guids, kinds, strict=True)
        }
        return 200, {}


def _pkey(text: str) -> int:
    return int(text, 16) if _KEY.fullmatch(text) else -1


def _missing(what: str) -> Reply:
    return 404, f"{what} Not Found"


def _wrong_members(guids: list[str], kinds: list[str]) -> str:
    if not guids or not all(_GUID.fullmatch(guid) for guid in guids):
        return "guids is a list of port GUIDs of 16 to 20 characters"
    if len(kinds) != len(guids) or {*kinds} - {"full", "limited"}:
        return "membership is full or limited, one for each GUID"
    return ""


class UfmServer:
    """The API on a loopback port, in threads of its own; a context manager."""

    def __init__(self, ufm: Ufm, certificate: Path, key: Path, address: str, port: int = 0) -> None:
        """Args: what it serves, its certificate and key in PEM form, a loopback address, a port."""
        self.ufm = ufm
        self._server = ThreadingHTTPServer((address, port), _handler(ufm.answer))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End, and wait until it has."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(answer: Callable[[str, str, str, str], Reply]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length).decode()
            login = self.headers.get("Authorization", "")
            status, body = answer(self.command, self.path, login, text)
            data = json.dumps(body, indent=4).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PUT = _serve  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            del format, args

    return Handler

"""The emulated Crusoe Cloud: plain HTTP on a loopback address, every signature verified."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import UsageError
from lab.cloud.crusoe import firewall
from lab.cloud.crusoe.credentials import expected_header
from lab.cloud.crusoe.faults import USAGE, Faults
from lab.cloud.crusoe.instances import RUNNING, STOPPED, Event, address_of, made_instance
from lab.cloud.crusoe.model import ApiError, CloudState, CrusoeConfig, Document
from lab.cloud.crusoe.routes import Request, Routes

MAX_SKEW: Final = timedelta(minutes=5)
"""A guess: how far a timestamp may be off is not documented."""
SHUTDOWN_POLL_S: Final = 0.02
MEDDLING: Final = ("gone", "stop", "readdress", "open")
"""What somebody else does in the console: `open` lets the whole internet through a rule."""
OnInstance = Callable[[Event], None]
STATE: Final = TypeAdapter(CloudState)


def _ignore(event: Event) -> None:
    del event


class CrusoeCloud:
    """One emulated cloud, in threads of its own.

    Args:
        config: Address, project, keys, what there is.
        state: File that keeps all objects over restarts.
        on_instance: Called in a thread of the server, one after another, when an instance begins
            or ends to run; also for each running one when the cloud is started.
    """

    def __init__(
        self, config: CrusoeConfig, state: Path, on_instance: OnInstance | None = None
    ) -> None:
        self.config = config
        self.faults = Faults()
        self.state_file = state
        self._on_instance = on_instance or _ignore
        self._lock = threading.Lock()
        self._told = threading.Lock()
        self._state = _load(state)
        self._routes = Routes(config, self._state, self.faults)
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """The `endpoint` of a site file, once it listens."""
        host, port = self._listening().server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Requests that the emulator does not know."""
        return tuple(self._state.unmodelled)

    def _listening(self) -> ThreadingHTTPServer:
        if self._server is None:
            raise UsageError("the emulated cloud does not listen")
        return self._server

    def start(self) -> None:
        """Listen, and tell of the instances that run already."""
        self._server = _make_server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True
        )
        self._thread.start()
        running = [item for item in self._state.instances.values() if item["state"] == RUNNING]
        self._tell([Event("created", made_instance(item)) for item in running])

    def stop(self) -> None:
        """Stop listening; the objects stay in the state file."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None
        self._save()

    def snapshot(self) -> dict[str, JsonValue]:
        """The whole state as plain data."""
        with self._lock:
            return cast("dict[str, JsonValue]", json.loads(STATE.dump_json(self._state)))

    def lets_in(self, identity: str, port: int) -> bool:
        """Whether the rules let TCP in to a port of an instance."""
        with self._lock:
            instance = self._state.instances.get(identity)
            rules = self._state.rules.values()
            return instance is not None and firewall.lets_in(rules, instance, port)

    def fault(self, args: Sequence[str]) -> str:
        """Cause a fault and say in words what was done.

        Raises:
            UsageError: There is no such fault or instance.
        """
        if args[:1] == ["clear"]:
            self.faults.waiting.clear()
            return "no faults are waiting"
        if len(args) == 2 and args[0] in MEDDLING:  # noqa: PLR2004 - word and name
            return self._meddle(args[0], args[1])
        return self.faults.cause(args)

    def _meddle(self, what: str, name: str) -> str:
        """Do what somebody else could do in the cloud's console."""
        with self._lock:
            rules = [item for item in self._state.rules.values() if item["name"] == name]
            if rules and what in ("gone", "open"):
                self._meddle_with_rule(what, rules[0])
                events: list[Event] = []
            else:
                events = self._meddle_with_instance(what, name)
            self._save()
        self._tell(events)
        return f"{name}: {what}"

    def _meddle_with_rule(self, what: str, rule: Document) -> None:
        if what == "gone":
            del self._state.rules[str(rule["id"])]
        else:
            rule["sources"] = [{"cidr": "0.0.0.0/0"}]

    def _meddle_with_instance(self, what: str, name: str) -> list[Event]:
        found = [item for item in self._state.instances.values() if item["name"] == name]
        if not found or what == "open":
            kind = "firewall rule" if what == "open" else "instance"
            raise UsageError(f"no {kind} is called {name}.\n{USAGE}")
        made = made_instance(found[0])
        if what == "gone":
            del self._state.instances[str(found[0]["id"])]
            return [Event("deleted", made)]
        if what == "stop":
            found[0]["state"] = STOPPED
            return [Event("stopped", made)]
        return [Event("stopped", made), self._readdress(found[0])]

    def _readdress(self, instance: Document) -> Event:
        taken = {address_of(item, "public") for item in self._state.instances.values()}
        free = [address for address in self.config.public_ips if address not in taken]
        if not free:
            raise UsageError("no public address is left")
        text = json.dumps(instance).replace(f'"{address_of(instance, "public")}"', f'"{free[0]}"')
        instance |= cast("Document", json.loads(text))
        return Event("created", made_instance(instance))

    def answer(self, request: Request) -> tuple[int, Document] | None:
        """Answer one request; None: say nothing and close the connection.

        The change is made before a `lost` answer, as by a real network that fails at that moment.
        """
        with self._lock:
            self._state.requests += 1
            status, body, lost, events = self._answer(request)
            if request.method != "GET" or events:
                self._save()
        self._tell(events)
        return None if lost else (status, body)

    def _answer(self, request: Request) -> tuple[int, Document, bool, list[Event]]:
        events: list[Event] = []
        try:
            self._authorise(request)
            self._fail(request)
            events = self._routes.tick()
            lost = bool(self.faults.take(["lost"], request.method))
            body = self._routes.answer(request)
        except ApiError as error:
            return error.status, error.body, False, events
        return 200, body, lost, events

    def _authorise(self, request: Request) -> None:
        if self.faults.take(["401"], request.method):
            raise ApiError(401, "bad_credential", "the credential is not valid")
        now = datetime.now(tz=UTC)
        try:
            then = datetime.fromisoformat(request.timestamp)
            fresh = abs(now - then) <= MAX_SKEW
        except (ValueError, TypeError):
            fresh = False
        wanted = expected_header(
            self.config.access_key,
            self.config.secret_key,
            request.method,
            (request.path, request.query),
            request.timestamp,
        )
        if not fresh or request.authorization != wanted:
            raise ApiError(401, "bad_credential", "the credential is not valid")

    def _fail(self, request: Request) -> None:
        kinds = ["403", "429", "500"] + (["op500"] if "/operations/" in request.path else [])
        match self.faults.take(kinds, request.method):
            case "403":
                raise ApiError(403, "unauthorized", "not allowed in this project")
            case "429":
                raise ApiError(429, "too_many_requests", "slow down")
            case "500" | "op500":
                raise ApiError(500, "internal_error", "something went wrong")
            case _:
                return

    def _tell(self, events: Sequence[Event]) -> None:
        with self._told:
            for event in events:
                self._on_instance(event)

    def _save(self) -> None:
        fresh = self.state_file.with_suffix(".new")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(asdict(self._state), indent=1, sort_keys=True) + "\n")
        fresh.replace(self.state_file)


def _load(path: Path) -> CloudState:
    try:
        return STATE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return CloudState()
    except ValidationError as error:
        raise UsageError(f"{path}: this is no state of an emulated cloud: {error}") from error


def _make_server(cloud: CrusoeCloud) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            reply = cloud.answer(
                Request(
                    method=self.command,
                    path=parts.path,
                    query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
                    timestamp=self.headers.get("X-Crusoe-Timestamp", ""),
                    authorization=self.headers.get("Authorization", ""),
                    body=self.rfile.read(length),
                )
            )
            if reply is None:
                self.close_connection = True
                return
            status, body = reply
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            del format, args

    return ThreadingHTTPServer((cloud.config.address, cloud.config.port), Handler)

"""A client of the provider protocol, as thin as the engine's own, for the contract suite."""

from __future__ import annotations

import contextlib
import subprocess
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Final, cast

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
)

from standins.serve import GRPC_OPTIONS
from standins.values import Properties, Value, decode, encode

LOCAL: Final = "command:local:Command"
REMOTE: Final = "command:remote:Command"
CALL_TIMEOUT_S: Final = 30


class PluginError(Exception):
    """The plugin answered a call with an error; the text is what the user would read."""


@dataclass
class EngineDouble(engine_pb2_grpc.EngineServicer):
    """Stands where the engine stands and keeps what plugins tell it."""

    messages: list[engine_pb2.LogRequest] = field(default_factory=list[engine_pb2.LogRequest])

    def Log(  # noqa: N802 - the protocol's name
        self, request: engine_pb2.LogRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        del context
        self.messages.append(request)
        return empty_pb2.Empty()


@dataclass(frozen=True)
class Checked:
    inputs: Properties
    failures: dict[str, str]


@dataclass(frozen=True)
class Compared:
    """What a Diff answers; `paths` are the keys of the detailed difference."""

    changed: bool
    replaces: bool
    paths: frozenset[str]


@dataclass(frozen=True)
class Created:
    id: str
    state: Properties


class PluginClient:
    """Calls one running plugin process."""

    def __init__(self, port: int, engine_address: str) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=GRPC_OPTIONS)
        stub: Any = provider_pb2_grpc.ResourceProviderStub(self._channel)
        self._stub = stub
        # Version 1.2.1 answers Unimplemented, and the engine goes on to Configure.
        with contextlib.suppress(PluginError):
            self._call(
                "Handshake", provider_pb2.ProviderHandshakeRequest(engine_address=engine_address)
            )
        self._call(
            "Configure",
            provider_pb2.ConfigureRequest(acceptSecrets=True, sends_old_inputs=True),
        )

    def close(self) -> None:
        self._channel.close()

    def version(self) -> str:
        return cast("str", self._call("GetPluginInfo", empty_pb2.Empty()).version)

    def check(self, kind: str, news: Properties) -> Checked:
        reply: provider_pb2.CheckResponse = self._call(
            "Check", provider_pb2.CheckRequest(urn=urn(kind), news=encode(news))
        )
        failures = {failure.property: failure.reason for failure in reply.failures}
        return Checked(decode(reply.inputs), failures)

    def diff(self, kind: str, created: Created, olds: Properties, news: Properties) -> Compared:
        olds, news = self._checked(kind, olds), self._checked(kind, news)
        reply: provider_pb2.DiffResponse = self._call(
            "Diff",
            provider_pb2.DiffRequest(
                id=created.id,
                urn=urn(kind),
                olds=encode(created.state),
                old_inputs=encode(olds),
                news=encode(news),
            ),
        )
        kinds = [provider_pb2.PropertyDiff.Kind.Name(d.kind) for d in reply.detailedDiff.values()]
        return Compared(
            changed=reply.changes == provider_pb2.DiffResponse.DIFF_SOME,
            replaces=bool(reply.replaces) or any(name.endswith("_REPLACE") for name in kinds),
            paths=frozenset(reply.detailedDiff),
        )

    def create(
        self, kind: str, inputs: Properties, *, preview: bool = False, name: str = "step"
    ) -> Created:
        inputs = self._checked(kind, inputs)
        reply: provider_pb2.CreateResponse = self._call(
            "Create",
            provider_pb2.CreateRequest(
                urn=urn(kind, name), properties=encode(inputs), preview=preview
            ),
        )
        return Created(reply.id, decode(reply.properties))

    def update(
        self, kind: str, created: Created, news: Properties, *, preview: bool = False
    ) -> Created:
        news = self._checked(kind, news)
        reply: provider_pb2.UpdateResponse = self._call(
            "Update",
            provider_pb2.UpdateRequest(
                id=created.id,
                urn=urn(kind),
                olds=encode(created.state),
                old_inputs=encode(_inputs(created.state)),
                news=encode(news),
                preview=preview,
            ),
        )
        return Created(created.id, decode(reply.properties))

    def delete(self, kind: str, created: Created) -> None:
        self._call(
            "Delete",
            provider_pb2.DeleteRequest(
                id=created.id,
                urn=urn(kind),
                properties=encode(created.state),
                old_inputs=encode(_inputs(created.state)),
            ),
        )

    def read(self, kind: str, created: Created) -> Created:
        reply: provider_pb2.ReadResponse = self._call(
            "Read",
            provider_pb2.ReadRequest(
                id=created.id,
                urn=urn(kind),
                properties=encode(created.state),
                inputs=encode(_inputs(created.state)),
            ),
        )
        return Created(reply.id, decode(reply.properties))

    def cancel(self) -> None:
        self._call("Cancel", empty_pb2.Empty())

    def _checked(self, kind: str, inputs: Properties) -> Properties:
        """Pass inputs through Check first, as the engine does before every other call."""
        checked = self.check(kind, inputs)
        assert checked.failures == {}
        return checked.inputs

    def _call(self, method: str, request: object) -> Any:  # noqa: ANN401 - any message
        try:
            return getattr(self._stub, method)(request, timeout=CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            details: Any = error
            raise PluginError(str(details.details())) from None


@dataclass
class PluginProcess:
    """A plugin started as the engine starts it, with an engine of our own behind it."""

    command: list[str]
    engine: EngineDouble = field(default_factory=EngineDouble)

    def __post_init__(self) -> None:
        """Start the process."""
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        engine_pb2_grpc.add_EngineServicer_to_server(self.engine, self._server)
        address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self.process = subprocess.Popen([*self.command, address], stdout=subprocess.PIPE, text=True)
        if self.process.stdout is None:
            raise PluginError("no standard output")
        try:
            self.client = PluginClient(int(self.process.stdout.readline()), address)
        except BaseException:
            self.process.kill()
            raise

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._server.stop(grace=None)


def urn(kind: str, name: str = "step") -> str:
    return f"urn:pulumi:dev::railyard::{kind}::{name}"


def text(value: Value) -> str:
    """Return a value that must be a string."""
    assert isinstance(value, str), value
    return value


def _inputs(state: Properties) -> Properties:
    return {key: value for key, value in state.items() if key not in {"stdout", "stderr"}}

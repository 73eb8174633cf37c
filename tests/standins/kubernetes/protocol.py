"""A client of the provider protocol that does for one resource what the engine does."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import empty_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
)

from standins.kubernetes.values import as_map, from_struct, to_struct
from standins.serve import GRPC_OPTIONS
from standins.values import Properties, reveal

CALL_TIMEOUT_S = 60
START_TIMEOUT_S = 30


class PluginError(Exception):
    """The plugin answered with an error; the text is what the user would read."""


class InitFailed(PluginError):  # noqa: N818 - the protocol's own name
    """The plugin kept a half-made resource."""

    def __init__(self, text: str, detail: provider_pb2.ErrorResourceInitFailed) -> None:
        super().__init__(text)
        self.resource = Resource(detail.id, from_struct(detail.properties))
        self.reasons = list(detail.reasons)


@dataclass(frozen=True)
class Resource:
    """What the engine records of a resource."""

    id: str
    state: Properties
    inputs: Properties = field(default_factory=dict[str, Any])

    @property
    def plain(self) -> Properties:
        return as_map(reveal(self.state))


@dataclass(frozen=True)
class Compared:
    changed: bool
    kinds: dict[str, str]
    replaces: tuple[str, ...]
    delete_first: bool


@dataclass
class EngineDouble(engine_pb2_grpc.EngineServicer):
    messages: list[str] = field(default_factory=list[str])

    def Log(  # noqa: N802 - the protocol's name
        self, request: engine_pb2.LogRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        del context
        self.messages.append(request.message)
        return empty_pb2.Empty()


class PluginProcess:
    """One running plugin, configured for one cluster."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self.engine = EngineDouble()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        engine_pb2_grpc.add_EngineServicer_to_server(self.engine, self._server)
        engine_port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.process = subprocess.Popen(
            [*command, f"127.0.0.1:{engine_port}"],
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        assert ready, "the plugin did not print a port"
        port = int(self.process.stdout.readline())
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=GRPC_OPTIONS)
        self._stub: Any = provider_pb2_grpc.ResourceProviderStub(self._channel)

    def stop(self) -> None:
        self._channel.close()
        self.process.terminate()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._server.stop(None)

    def configure(self, config: Mapping[str, str]) -> None:
        self.call(
            "Configure",
            provider_pb2.ConfigureRequest(
                variables={f"kubernetes:config:{key}": value for key, value in config.items()},
                acceptSecrets=True,
                sends_old_inputs=True,
                sends_old_inputs_to_delete=True,
            ),
        )

    def diff_config(self, olds: Properties, news: Properties) -> tuple[list[str], list[str]]:
        reply = self.call(
            "DiffConfig",
            provider_pb2.DiffRequest(
                urn=urn("pulumi:providers:kubernetes", "cluster"),
                olds=to_struct(olds),
                old_inputs=to_struct(olds),
                news=to_struct(news),
            ),
        )
        return list(reply.diffs), list(reply.replaces)

    def cancel(self) -> None:
        self.call("Cancel", empty_pb2.Empty())

    def call(self, method: str, request: object) -> Any:  # noqa: ANN401 - any message
        try:
            return getattr(self._stub, method)(request, timeout=CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            raise _opened(error) from error


@dataclass(frozen=True)
class Handle:
    """One resource of a program, by type token and name."""

    plugin: PluginProcess
    token: str
    name: str = "res"

    @property
    def urn(self) -> str:
        return urn(self.token, self.name)

    def check(self, news: Properties, olds: Properties | None = None) -> Properties:
        reply = self.plugin.call(
            "Check",
            provider_pb2.CheckRequest(
                urn=self.urn,
                news=to_struct(news),
                olds=to_struct(olds or {}),
                randomSeed=b"" if olds else os.urandom(8),
            ),
        )
        if reply.failures:
            raise PluginError("; ".join(failure.reason for failure in reply.failures))
        return from_struct(reply.inputs)

    def preview(self, news: Properties) -> Properties:
        inputs = self.check(news)
        reply = self.plugin.call(
            "Create",
            provider_pb2.CreateRequest(urn=self.urn, properties=to_struct(inputs), preview=True),
        )
        assert reply.id == ""
        return from_struct(reply.properties)

    def create(self, news: Properties, timeout_s: float = 0) -> Resource:
        inputs = self.check(news)
        request = provider_pb2.CreateRequest(
            urn=self.urn, properties=to_struct(inputs), timeout=timeout_s
        )
        reply = self._changed("Create", request, inputs)
        return Resource(reply.id, from_struct(reply.properties), inputs)

    def diff(self, old: Resource, news: Properties, ignore: tuple[str, ...] = ()) -> Compared:
        reply: provider_pb2.DiffResponse = self.plugin.call(
            "Diff",
            provider_pb2.DiffRequest(
                urn=self.urn,
                id=old.id,
                olds=to_struct(old.state),
                old_inputs=to_struct(old.inputs),
                news=to_struct(self.check(news, old.inputs)),
                ignoreChanges=ignore,
            ),
        )
        kinds = {
            path: provider_pb2.PropertyDiff.Kind.Name(one.kind)
            for path, one in reply.detailedDiff.items()
        }
        changed = reply.changes == provider_pb2.DiffResponse.DIFF_SOME
        return Compared(changed, kinds, tuple(reply.replaces), reply.deleteBeforeReplace)

    def update(
        self,
        old: Resource,
        news: Properties,
        *,
        preview: bool = False,
        ignore: tuple[str, ...] = (),
        timeout_s: float = 0,
    ) -> Resource:
        inputs = self.check(news, old.inputs)
        request = provider_pb2.UpdateRequest(
            urn=self.urn,
            id=old.id,
            olds=to_struct(old.state),
            old_inputs=to_struct(old.inputs),
            news=to_struct(inputs),
            preview=preview,
            ignoreChanges=ignore,
            timeout=timeout_s,
        )
        reply = self._changed("Update", request, inputs)
        return Resource(old.id, from_struct(reply.properties), inputs)

    def _changed(self, method: str, request: object, inputs: Properties) -> Any:  # noqa: ANN401
        try:
            return self.plugin.call(method, request)
        except InitFailed as error:
            # The engine records a half-made resource with the inputs that it had asked for.
            error.resource = Resource(error.resource.id, error.resource.state, inputs)
            raise

    def refresh(self, old: Resource) -> Resource | None:
        reply = self.plugin.call(
            "Read",
            provider_pb2.ReadRequest(
                urn=self.urn,
                id=old.id,
                properties=to_struct(old.state),
                inputs=to_struct(old.inputs),
            ),
        )
        if not reply.id:
            return None
        return Resource(reply.id, from_struct(reply.properties), from_struct(reply.inputs))

    def delete(self, old: Resource, timeout_s: float = 0) -> None:
        self.plugin.call(
            "Delete",
            provider_pb2.DeleteRequest(
                urn=self.urn,
                id=old.id,
                properties=to_struct(old.state),
                old_inputs=to_struct(old.inputs),
                timeout=timeout_s,
            ),
        )


def urn(token: str, name: str) -> str:
    return f"urn:pulumi:dev::railyard::{token}::{name}"


def _opened(error: Any) -> PluginError:  # noqa: ANN401 - gRPC's errors have no common type
    text = f"{error.details()}"
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                detail = provider_pb2.ErrorResourceInitFailed()
                if packed.Unpack(detail):
                    return InitFailed(text, detail)
    return PluginError(text)

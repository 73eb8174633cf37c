"""Serve a provider plugin the way the engine expects it, and die when the engine dies.

The engine starts `pulumi-resource-<name> ENGINE_ADDRESS`, reads one line with a port from its
standard output and then speaks `pulumirpc.ResourceProvider` to 127.0.0.1:port
(lab/sources.md#pulumi).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

RPC_THREADS: Final = 256
"""A create holds a thread while its command runs; the engine runs `--parallel` of them."""
MAX_MESSAGE_BYTES: Final = 400 * 1024 * 1024
"""The engine's own limit on a message (sdk/go/common/util/rpcutil)."""
GRPC_OPTIONS: Final = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]


class RpcContext(Protocol):
    """The part of gRPC's servicer context that plugins use."""

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the call with an error."""
        ...

    def set_trailing_metadata(self, trailing_metadata: tuple[tuple[str, bytes], ...]) -> None:
        """Attach binary details, for example `grpc-status-details-bin`."""
        ...

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call something when the call ends, also when the engine cancels it."""
        ...

    def is_active(self) -> bool:
        """Return False once the engine no longer waits for this call."""
        ...


class EngineLog:
    """Messages to the engine's display, in order. Without an engine they are dropped."""

    def __init__(self, address: str) -> None:
        """Remember the engine's address; the channel opens on the first message."""
        self._address = address
        self._stub: engine_pb2_grpc.EngineStub | None = None
        self._sender = futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine-log")

    def info(self, urn: str, message: str, *, ephemeral: bool = False) -> None:
        """Show a message, or with `ephemeral` only a passing status, at a resource."""
        self._post(engine_pb2.INFO, urn, message, ephemeral=ephemeral)

    def warning(self, urn: str, message: str) -> None:
        """Show a warning at a resource."""
        self._post(engine_pb2.WARNING, urn, message, ephemeral=False)

    def flush(self) -> None:
        """Wait until all that was posted has been sent."""
        self._sender.submit(lambda: None).result()

    def _post(
        self, severity: engine_pb2.LogSeverity.ValueType, urn: str, message: str, *, ephemeral: bool
    ) -> None:
        if self._address:
            request = engine_pb2.LogRequest(
                severity=severity, message=message, urn=urn, ephemeral=ephemeral
            )
            self._sender.submit(self._send, request)

    def _send(self, request: engine_pb2.LogRequest) -> None:
        if self._stub is None:
            channel = grpc.insecure_channel(self._address, options=GRPC_OPTIONS)
            self._stub = engine_pb2_grpc.EngineStub(channel)
        log = cast(
            "grpc.UnaryUnaryMultiCallable[engine_pb2.LogRequest, empty_pb2.Empty]",
            self._stub.Log,  # pyright: ignore[reportUnknownMemberType] - the SDK's stub file
        )
        # The engine may be gone or shutting down: then nobody is left to tell.
        with contextlib.suppress(grpc.RpcError):
            log(request)


class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    """What every provider plugin answers alike; a provider overrides the rest."""

    version = "0.0.0"

    def __init__(self, log: EngineLog) -> None:
        """Keep the way to the engine's display."""
        self.log = log
        self.cancelled = threading.Event()

    @override
    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: RpcContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """Accept secrets and outputs as they are; ask for old values."""
        del request, context
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True,
            accept_resources=False,
            accept_outputs=False,
        )

    @override
    def GetPluginInfo(self, request: empty_pb2.Empty, context: RpcContext) -> plugin_pb2.PluginInfo:
        """Return the version whose behaviour is played."""
        del request, context
        return plugin_pb2.PluginInfo(version=self.version)

    @override
    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: RpcContext
    ) -> provider_pb2.GetSchemaResponse:
        """Return an empty schema: plain custom resources need none."""
        del request, context
        return provider_pb2.GetSchemaResponse(schema="{}")

    @override
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: RpcContext
    ) -> provider_pb2.CheckResponse:
        """Accept the provider's configuration unchanged."""
        del context
        return provider_pb2.CheckResponse(inputs=request.news)

    @override
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: RpcContext
    ) -> provider_pb2.DiffResponse:
        """Report that a changed configuration replaces nothing."""
        del request, context
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    @override
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: RpcContext
    ) -> provider_pb2.ConfigureResponse:
        """Announce secrets and previews."""
        del request, context
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    @override
    def Cancel(self, request: empty_pb2.Empty, context: RpcContext) -> empty_pb2.Empty:
        """Note that the user asked to stop; a provider stops what it may."""
        del request, context
        self.cancelled.set()
        self.stop_work()
        return empty_pb2.Empty()

    def stop_work(self) -> None:
        """End what the provider has started. Called on Cancel and when the engine dies."""


def serve(make: Callable[[EngineLog], Plugin]) -> int:
    """Serve until told to stop; the first argument of the process is the engine's address.

    Returns:
        The exit status of the process.

    """
    engine = sys.argv[1] if len(sys.argv) > 1 else ""
    stop = threading.Event()
    watch_parent(stop)
    plugin = make(EngineLog(engine))
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=RPC_THREADS),
        options=[*GRPC_OPTIONS, ("grpc.so_reuseport", 0)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(plugin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    stop.wait()
    plugin.stop_work()
    server.stop(grace=None)
    # Threads may still wait for a remote command that nothing can interrupt, as in the real
    # plugin; leaving without joining them is what "the plugin was stopped" means.
    os._exit(0)


def watch_parent(stop: threading.Event) -> None:
    """Set `stop` on SIGINT, SIGTERM, and when the parent process dies by whatever means.

    The engine gives each plugin a process group of its own and ends it with SIGINT, so that a
    Ctrl-C in a terminal does not come here: the engine then calls Cancel. Its death is read from a
    file descriptor of its process (pidfd_open(2)): a signal at a parent's death (PR_SET_PDEATHSIG)
    comes once for each of the parent's threads. Any signal may be taken by any thread of ours, and
    then leaves the main one asleep, which alone runs Python's handlers. So the interpreter writes
    each signal into a pipe, and a thread reads that.
    """
    parent = os.getppid()
    engine = os.pidfd_open(parent)
    came, comes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(comes)

    def wait() -> None:
        select.select([engine, came], [], [])
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    threading.Thread(target=wait, name="watch-parent", daemon=True).start()
    if os.getppid() != parent:
        stop.set()

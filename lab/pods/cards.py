"""Stand-ins of the device plugins whose devices this machine lacks, at the real kubelets.

A kernel without the RDMA subsystem ends the real shared device plugin (it asks the kernel for the
subsystem's mode), and without a GPU NVIDIA's plugin has nothing to publish. These speak the same
protocol with kubelet over its own socket: registration, admission and what a node offers are
kubelet's. They hand no device into a pod.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import grpc

from components.core.errors import DeviceError

_FOLDER: Final = "var/lib/kubelet/device-plugins"
_SERVICE: Final = "v1beta1.DevicePlugin"
_REGISTER: Final = "/v1beta1.Registration/Register"
_VERSION: Final = b"v1beta1"
REGISTER_DEADLINE_S: Final = 30.0
_LENGTH_DELIMITED: Final = 2
_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80


def field(number: int, value: bytes) -> bytes:
    """One length-delimited field of a protocol buffer."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    out = bytearray()
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    return bytes([*out, value])


def render_devices(count: int, healthy: int) -> bytes:
    """A `ListAndWatchResponse`: so many devices, of which the first are healthy."""
    states = (b"Healthy" if number < healthy else b"Unhealthy" for number in range(count))
    return b"".join(
        field(1, field(1, str(number).encode()) + field(2, state))
        for number, state in enumerate(states)
    )


class CardPlugin:
    """One resource of one node."""

    def __init__(self, root: Path, resource: str, count: int) -> None:
        """Prepare; nothing is served before `start`.

        Args:
            root: The node's file system, as this process sees it.
            resource: For example `rdma/hca_shared_devices_b`.
            count: How often it is there.
        """
        self.resource = resource
        self.count = count
        self._folder = root / _FOLDER
        self._endpoint = resource.replace("/", "-")[:40] + ".sock"
        self._healthy = count
        self._changed = threading.Condition()
        self._stopped = False
        self._server = grpc.server(ThreadPoolExecutor(4))

    def start(self) -> None:
        """Serve, and register at the node's kubelet; a kubelet that starts forgets all plugins.

        Raises:
            DeviceError: kubelet refuses it; the text holds its words.
        """
        (self._folder / self._endpoint).unlink(missing_ok=True)
        raw = grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(_empty),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._watch),
                "Allocate": grpc.unary_unary_rpc_method_handler(_allocate),
            },
        )
        self._server.add_generic_rpc_handlers((raw,))
        self._server.add_insecure_port(f"unix:{self._folder / self._endpoint}")
        self._server.start()
        request = (
            field(1, _VERSION)
            + field(2, self._endpoint.encode())
            + field(3, self.resource.encode())
        )
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            call = cast("Any", channel.unary_unary(_REGISTER))
            try:
                call(request, timeout=REGISTER_DEADLINE_S, wait_for_ready=True)
            except grpc.RpcError as error:
                words = f"kubelet refuses the device plugin of {self.resource}: {error}"
                raise DeviceError(words) from error

    def lose(self, healthy: int) -> None:
        """From now on only so many are healthy."""
        with self._changed:
            self._healthy = healthy
            self._changed.notify_all()

    def stop(self) -> None:
        """End it."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._server.stop(None)

    def _watch(self, request: bytes, context: object) -> Iterator[bytes]:
        del request, context
        while not self._stopped:
            yield render_devices(self.count, self._healthy)
            with self._changed:
                self._changed.wait()


def _empty(request: bytes, context: object) -> bytes:
    del request, context
    return b""


def _allocate(request: bytes, context: object) -> bytes:
    """One empty answer for every container that asks."""
    del context
    answers, position = b"", 0
    while position < len(request):
        length, position = _read_varint(request, position + 1)
        position += length
        answers += field(1, b"")
    return answers


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & _SEVEN_BITS) << shift
        position, shift = position + 1, shift + 7
        if byte <= _SEVEN_BITS:
            return value, position

"""The payload without Kubernetes: one container per host, and MPI over SSH between them.

`Payload` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.containers.component import Payload

__all__ = ["Payload"]


def __getattr__(name: str) -> type[Payload]:
    if name == "Payload":
        from components.containers.component import Payload  # noqa: PLC0415 - lazy on purpose

        return Payload
    raise AttributeError(name)

"""The payload without Kubernetes: one container per host, and MPI over SSH between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.containers.component import Payload
else:
    __getattr__ = on_demand(__name__, "Payload")

__all__ = ["Payload"]

"""The hosts: desired state, scripts, and the component that converges them.

`Hosts` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.lazy import on_demand

if TYPE_CHECKING:
    from components.hosts.component import Hosts
else:
    __getattr__ = on_demand(__name__, "Hosts")

__all__ = ["Hosts"]

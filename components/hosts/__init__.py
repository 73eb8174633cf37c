"""The hosts: desired state, scripts, and the component that converges them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.hosts.component import Hosts
else:
    __getattr__ = on_demand(__name__, "Hosts")

__all__ = ["Hosts"]

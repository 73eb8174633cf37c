"""The hosts: desired state, scripts, and the component that converges them.

`Hosts` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.hosts.component import Hosts

__all__ = ["Hosts"]


def __getattr__(name: str) -> type[Hosts]:
    if name == "Hosts":
        from components.hosts.component import Hosts  # noqa: PLC0415 - lazy on purpose

        return Hosts
    raise AttributeError(name)

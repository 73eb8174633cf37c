"""Components that a package gives on demand, so that its pure parts import no Pulumi.

A room's `__init__.py` has its components for the type checker, and this for the interpreter
(PEP 562):

    if TYPE_CHECKING:
        from components.fabric.component import Fabric
    else:
        __getattr__ = on_demand(__name__, "Fabric")
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def on_demand(room: str, *names: str) -> Callable[[str], object]:
    """The `__getattr__` of a room that imports its `component` module when a name is asked for."""

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.component"), name)

    return get

"""Start a Python process quickly: imports, and components that a package loads on demand.

A room's `__init__.py` imports its components for the type checker, and uses this at run time (PEP
562):

    if TYPE_CHECKING:
        from components.fabric.component import Fabric
    else:
        __getattr__ = on_demand(__name__, "Fabric")
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable
from importlib import import_module
from typing import Final

_OBJECTS_A_COLLECTION: Final = 1_000_000
"""New objects between two garbage collections (Python: 700). Importing the models and reading a
site create many objects and next to no garbage: collections took an eighth of the time of `check`,
and a quarter of the program's imports. With 100,000 a program still collected twice, for 0.1 s."""


def start_quickly() -> None:
    """Collect garbage rarely and not at the end, and never search for pydantic plugins.

    Call it before loading models. The interpreter's own collections at its end took a quarter of
    the time of `check`; what runs at exit still runs.

    Railyard has no such plugins, and the search reads the metadata of every installed package. If
    `PYDANTIC_DISABLE_PLUGINS` is set already, its value stays.
    """
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def on_demand(room: str, *names: str) -> Callable[[str], object]:
    """The `__getattr__` of a room that imports its `component` module when a name is asked for."""

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.component"), name)

    return get

"""How a process of ours begins: what it imports is most of what a short one does."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_OBJECTS_A_COLLECTION: Final = 1_000_000
"""New objects between two looks for garbage (Python: 700). Importing the models and reading a site
make many objects and next to no garbage: an eighth of the time of `check` went to looking, and a
quarter of that of the program's imports. With 100,000 a program still looked twice, for 0.1 s."""


def start_quickly() -> None:
    """Look for garbage rarely, and for plugins of pydantic never; call it before the models.

    We have none of those, and the search reads the metadata of every installed package. Who has
    said `PYDANTIC_DISABLE_PLUGINS` keeps what was said.
    """
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


@contextmanager
def without_programs() -> Generator[None]:
    """Import modules that would start programs to look for what they can do without.

    Inside, no program is found by its name; one with a path is.
    """
    path = os.environ.get("PATH")
    os.environ["PATH"] = os.devnull  # an empty one is the folder that we are in
    try:
        yield
    finally:
        del os.environ["PATH"]
        if path is not None:
            os.environ["PATH"] = path

"""How a process of a stand-in imports a part of a package without the whole of it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType


@contextmanager
def without_init(*packages: str, **given: object) -> Generator[None]:
    """Import modules of packages whose `__init__` imports much that is not needed.

    Inside, the packages are folders of modules and nothing else; afterwards they are as before, so
    that who imports one of them later gets the whole of it.

    Args:
        packages: Their names, an outer one before its inner ones. One that is imported already is
            left alone.
        given: What the modules ask the packages for.
    """
    bare = [name for name in packages if name not in sys.modules]
    try:
        for name in bare:
            spec = find_spec(name)
            package = ModuleType(name)
            package.__path__ = list((spec and spec.submodule_search_locations) or ())
            vars(package).update(given)
            sys.modules[name] = package
        yield
    finally:
        for name in bare:
            sys.modules.pop(name, None)

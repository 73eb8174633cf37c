"""Import asyncssh, which searches for liboqs at its import: by ldconfig, then with a C compiler.

The compiler takes 0.1 s, and a library unknown to ldconfig would not be loaded anyway. So PATH
leads to no program during the import.
"""

from __future__ import annotations

import os

_path = os.environ.get("PATH")
os.environ["PATH"] = os.devnull  # an empty PATH would mean the current folder
try:
    import asyncssh
finally:
    del os.environ["PATH"]
    if _path is not None:
        os.environ["PATH"] = _path

__all__ = ["asyncssh"]

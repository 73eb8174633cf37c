"""asyncssh, which looks for liboqs when it is imported: by ldconfig, then with a C compiler.

The compiler takes 0.1 s, and a library that ldconfig does not know would not be loaded anyway. So
no program is found by its name meanwhile.
"""

from __future__ import annotations

import os

_path = os.environ.get("PATH")
os.environ["PATH"] = os.devnull  # an empty one is the folder that we are in
try:
    import asyncssh
finally:
    del os.environ["PATH"]
    if _path is not None:
        os.environ["PATH"] = _path

__all__ = ["asyncssh"]

"""asyncssh, which looks for liboqs when it is imported: by ldconfig, then with a C compiler.

The compiler takes 0.1 s, and a library that ldconfig does not know would not be loaded anyway.
"""

from __future__ import annotations

from components.core.start import without_programs

with without_programs():
    import asyncssh

__all__ = ["asyncssh"]

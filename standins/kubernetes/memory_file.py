"""Files that live in memory only: private keys must not be left behind when a plugin is killed."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def memory_file(text: str) -> Generator[int]:
    """Yields the descriptor of an anonymous file with this text.

    Its path for this process, and for a child that inherits the descriptor, is `path_of(fd)`.
    """
    descriptor = os.memfd_create("lab-kubernetes")
    try:
        os.write(descriptor, text.encode())
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    """Returns the path by which an inherited descriptor can be opened again."""
    return f"/proc/self/fd/{descriptor}"

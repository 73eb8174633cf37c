"""What a command reads of its user ends: at a limit, at a deadline, or before it begins."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.core.limits import Deadline, Stream, bounded, refuse_endless


class Ticks:
    """A clock that moves by a second with each look."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, int]]:
    """The reading end of a pipe, and the descriptor that writes."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        yield file, writing
        os.close(writing)


def feed(stream: Stream, writing: int, size: int) -> None:
    """Write and read pieces of one size; a stream without limits would end after 1,000."""
    for _ in range(1_000):
        os.write(writing, bytes(size))
        stream.read(1 << 20)


def test_a_pipe_that_drips_ends_at_its_deadline(pipe: tuple[io.BufferedReader, int]) -> None:
    file, writing = pipe
    stream = Stream(file, Deadline(5, Ticks()))
    with pytest.raises(UsageError, match="standard input: no end within 5 s"):
        feed(stream, writing, 1)
    assert 0 < stream.size < 10


def test_a_pipe_without_end_stops_at_its_limit(pipe: tuple[io.BufferedReader, int]) -> None:
    file, writing = pipe
    stream = Stream(file, limit=3 << 20)
    with pytest.raises(UsageError, match="more than 3 MiB"):
        feed(stream, writing, 1 << 15)
    assert stream.size <= (3 << 20) + (1 << 20)


def test_what_is_in_memory_needs_no_limit() -> None:
    text = io.BytesIO(b"log")
    assert bounded(text) is text


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "pipe"])
def test_a_device_is_refused_before_it_is_opened(path: str, tmp_path: Path) -> None:
    named = tmp_path / path
    if path == "pipe":
        os.mkfifo(named)
    with pytest.raises(UsageError, match="not a regular file"):
        refuse_endless(named)

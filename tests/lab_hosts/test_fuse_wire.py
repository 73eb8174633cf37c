"""The lab's own FUSE server, asked by the real kernel."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.hosts.fuse_wire import Wire
from lab.mounts import unmount

pytestmark = pytest.mark.lab
MANY = tuple(f"vf-with-a-name-as-long-as-it-takes-{number:03}" for number in range(300))
"""More than the kernel takes in one answer (a page)."""
DEADLINE_S = 10.0
LATE_S = 1.0


class Attributes:
    """One folder: a file of three bytes, a link, and many folders."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.made: set[str] = set()

    def mode(self, path: str) -> int:
        if path == "/mtu":
            return stat.S_IFREG | 0o644
        if path == "/driver":
            return stat.S_IFLNK | 0o777
        if path == "/" or path[1:] in {*MANY, *self.made}:
            return stat.S_IFDIR | 0o755
        if path == "/broken":
            raise ValueError(path)
        raise OSError(errno.ENOENT, path)

    def names(self, path: str) -> list[tuple[str, int]]:
        assert path == "/"
        return [(name, self.mode(f"/{name}")) for name in ("mtu", "driver", *MANY)]

    def target(self, path: str) -> str:
        return {"/driver": "../mlx5_core"}[path]

    def open(self, path: str, flags: int) -> None:
        if path != "/mtu" or flags & os.O_APPEND:
            raise OSError(errno.EACCES, path)

    def read(self, path: str, size: int, offset: int) -> bytes:
        return {"/mtu": b"90\n"}[path][offset : offset + size]

    def write(self, path: str, data: bytes) -> bool:
        if data == b"9999\n":
            raise OSError(errno.EINVAL, path)
        self.written.append(data)
        return data == b"2\n"

    def mkdir(self, path: str) -> None:
        self.made.add(path[1:])

    def rmdir(self, path: str) -> None:
        self.made.remove(path[1:])


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Attributes, Path]]:
    files, place = Attributes(), tmp_path / "mount"
    place.mkdir()
    wire = Wire(files, place, 0.05, LATE_S)
    server = threading.Thread(target=wire.serve, daemon=True)
    server.start()
    yield files, place
    unmount(place)
    server.join(DEADLINE_S)
    assert not server.is_alive()


def _errno(work: Callable[[], object]) -> int | None:
    try:
        work()
    except OSError as error:
        return error.errno
    return None


def test_what_there_is(mounted: tuple[Attributes, Path]) -> None:
    _, place = mounted
    assert sorted(each.name for each in place.iterdir()) == sorted(("mtu", "driver", *MANY))
    kinds = {each.name: (each.is_dir(), each.is_symlink()) for each in os.scandir(place)}
    assert kinds["mtu"] == (False, False)
    assert kinds["driver"] == (False, True)
    assert kinds[MANY[0]] == (True, False)
    assert (place / "driver").readlink() == Path("../mlx5_core")
    assert (place / "mtu").stat().st_size == 4096
    with (place / "mtu").open("rb", buffering=0) as file:
        assert [file.read(1), file.read(1), file.read(1), file.read(1)] == [b"9", b"0", b"\n", b""]


def test_what_is_taken_and_what_is_refused(
    mounted: tuple[Attributes, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    files, place = mounted
    (place / "mtu").write_bytes(b"1500\n")
    (place / "rdma0").mkdir()
    assert (place / "rdma0").is_dir()
    (place / "rdma0").rmdir()
    refused = {
        "value": _errno(lambda: (place / "mtu").write_bytes(b"9999\n")),
        "gone": _errno((place / "rdma0").stat),
        "append": _errno(lambda: (place / "mtu").open("ab", buffering=0)),
        "new": _errno(lambda: (place / "new").write_bytes(b"")),
        "unlink": _errno((place / "mtu").unlink),
        "mode": _errno(lambda: (place / "mtu").chmod(0o600)),
        "owner": _errno(lambda: os.chown(place / "mtu", 1, 1)),
        "times": _errno(lambda: os.utime(place / "mtu")),
        "broken": _errno((place / "broken").stat),
    }
    assert files.written == [b"1500\n"]
    assert refused == {
        "value": errno.EINVAL,
        "gone": errno.ENOENT,
        "append": errno.EACCES,
        "new": errno.EACCES,
        **dict.fromkeys(("unlink", "mode", "owner", "times"), errno.ENOSYS),
        "broken": errno.EIO,
    }
    assert "ValueError: /broken" in capfd.readouterr().err


def test_who_changes_names_is_answered_later_and_holds_up_nobody(
    mounted: tuple[Attributes, Path],
) -> None:
    files, place = mounted
    begun = time.monotonic()
    writer = threading.Thread(target=(place / "mtu").write_bytes, args=(b"2\n",))
    writer.start()
    while not files.written:
        (place / "mtu").stat()
    assert (place / "mtu").read_bytes() == b"90\n"
    assert writer.is_alive()
    writer.join(DEADLINE_S)
    assert time.monotonic() - begun >= LATE_S

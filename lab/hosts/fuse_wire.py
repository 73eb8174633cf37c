"""The kernel's questions to a file system of ours, read from /dev/fuse and answered.

Without libfuse: its bindings take 75 us of processor time for each question, this a tenth of that,
and a shell asks one for each byte that its `read` takes from an attribute. The protocol is
linux/fuse.h of Linux 5.4 (version 7.31), which later kernels speak too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

DEVICE: Final = Path("/dev/fuse")
PAGE_BYTES: Final = 4096
"""What the kernel shows as the size of every sysfs file."""
MAX_WRITE_BYTES: Final = 1 << 17
_VERSION: Final = (7, 31)
_BIG_WRITES: Final = 1 << 5
_CACHE_LINKS: Final = 1 << 23
"""The kernel reads where a link leads once for each node: another target is another node."""
_DIRECT_IO: Final = 1
_SIZE: Final = 1 << 3
_OWNER_OR_TIME: Final = 0b1_1011_0111
"""Of a change of attributes: mode, user, group and times; nothing here takes them."""
_MOUNT_FLAGS: Final = 0b110
"""No set-user-ID and no devices (mount(2))."""
_ROOT: Final = 1
_UNKNOWN_INODE: Final = 0xFFFFFFFF
_SILENT: Final = frozenset({2, 36, 42})
"""Forget, interrupt and batch-forget have no answer."""
_HEAD: Final = struct.Struct("<IIQQIIII")
_ANSWER: Final = struct.Struct("<IiQ")
_INIT: Final = struct.Struct("<IIIIHHIIHHII24x")
_ENTRY: Final = struct.Struct("<QQQQII")
_ATTRIBUTES: Final = struct.Struct("<QQQQQQIIIIIIIIII")
_VALID: Final = struct.Struct("<QII")
_READ: Final = struct.Struct("<QQIIQII")
_OPEN: Final = struct.Struct("<QII")
_WRITTEN: Final = struct.Struct("<II")
_FLAGS: Final = struct.Struct("<I")
_NAME: Final = struct.Struct("<QQII")
_STATFS: Final = struct.Struct("<QQQQQIII28x")
_MKDIR_BYTES: Final = 8
_MAX_NAME_BYTES: Final = 255


class Files(Protocol):
    """What is asked, by path; each refuses with an OSError."""

    def mode(self, path: str) -> int:
        """Type and permissions of a path."""
        ...

    def names(self, path: str) -> list[tuple[str, int]]:
        """What is in a folder, with the mode of each."""
        ...

    def target(self, path: str) -> str:
        """Where a link leads."""
        ...

    def open(self, path: str, flags: int) -> None:
        """Somebody opens a file."""
        ...

    def read(self, path: str, size: int, offset: int) -> bytes:
        """A part of a file."""
        ...

    def write(self, path: str, data: bytes) -> bool:
        """Somebody writes a file; whether there are other names since."""
        ...

    def mkdir(self, path: str) -> None:
        """Somebody makes a folder."""
        ...

    def rmdir(self, path: str) -> None:
        """Somebody removes a folder."""
        ...


class Wire:
    """One mount and the questions about it, answered one after another."""

    def __init__(
        self, files: Files, mount_point: Path, remembered_s: float, forgotten_s: float
    ) -> None:
        """Mount at `mount_point`.

        Args:
            files: Answers.
            mount_point: An empty folder.
            remembered_s: So long the kernel may remember names and attributes.
            forgotten_s: Who changed names is answered so much later; nobody else waits for it.

        Raises:
            OSError: The device is not there, or the kernel does not mount.
        """
        self._files = files
        whole, part = divmod(int(remembered_s * 1e9), 1_000_000_000)
        self._valid = (whole, part)
        self._forgotten_s = forgotten_s
        self._changed = False
        self._late: list[threading.Timer] = []
        self._paths = {_ROOT: "/"}
        self._nodes: dict[tuple[str, int | str], int] = {("/", stat.S_IFDIR): _ROOT}
        self._listings: dict[int, bytes] = {}
        self._last_listing = 0
        self._device = os.open(DEVICE, os.O_RDWR)
        try:
            _mount(self._device, mount_point)
        except OSError:
            os.close(self._device)
            raise
        self._answers = self._table()

    def _table(self) -> dict[int, Callable[[int, memoryview], bytes]]:
        """What answers which number of linux/fuse.h; all others the kernel hears are not there."""
        return {
            1: self._lookup,
            3: self._get_attributes,
            4: self._set_attributes,
            5: self._read_link,
            9: self._mkdir,
            11: self._rmdir,
            14: self._open,
            15: self._read,
            16: self._write,
            17: _tell_sizes,
            18: _agree,
            26: _greet,
            27: self._open_folder,
            28: self._read_folder,
            29: self._release_folder,
            35: _refuse_create,
            38: _agree,
        }

    def serve(self) -> None:
        """Answer until it is unmounted."""
        room = bytearray(MAX_WRITE_BYTES + PAGE_BYTES)
        view = memoryview(room)
        try:
            while True:
                try:
                    size = os.readv(self._device, [room])
                except OSError as error:
                    if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                        continue
                    return
                self._serve_one(view[:size])
        finally:
            for late in self._late:
                late.join()
            os.close(self._device)

    def _serve_one(self, question: memoryview) -> None:
        _, number, unique, node, *_ = _HEAD.unpack_from(question)
        if number in _SILENT:
            return
        refused, answer = 0, b""
        self._changed = False
        try:
            answer = self._answer(number, node, question[_HEAD.size :])
        except OSError as error:
            refused = -(error.errno or errno.EIO)
        except Exception:  # noqa: BLE001 - one bad question must not end the lab; it is reported
            traceback.print_exc()
            refused = -errno.EIO
        raw = _ANSWER.pack(_ANSWER.size + len(answer), refused, unique) + answer
        if not self._changed:
            self._send(raw)
            return
        late = threading.Timer(self._forgotten_s, self._send, (raw,))
        self._late = [*(each for each in self._late if each.is_alive()), late]
        late.start()

    def _send(self, raw: bytes) -> None:
        try:
            os.write(self._device, raw)
        except OSError as error:
            if error.errno != errno.ENOENT:  # who asked was interrupted
                raise

    def _answer(self, number: int, node: int, body: memoryview) -> bytes:
        known = self._answers.get(number)
        if known is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return known(node, body)

    def _below(self, node: int, name: memoryview) -> str:
        folder = self._paths[node]
        text = bytes(name).rstrip(b"\0").decode(errors="surrogateescape")
        return f"/{text}" if folder == "/" else f"{folder}/{text}"

    def _entry(self, path: str) -> bytes:
        mode = self._files.mode(path)
        place = (path, self._files.target(path) if stat.S_ISLNK(mode) else stat.S_IFMT(mode))
        node = self._nodes.get(place)
        if node is None:
            node = self._nodes[place] = len(self._paths) + 1
            self._paths[node] = path
        whole, part = self._valid
        return _ENTRY.pack(node, 0, whole, whole, part, part) + _attributes(node, mode)

    def _lookup(self, node: int, body: memoryview) -> bytes:
        return self._entry(self._below(node, body))

    def _get_attributes(self, node: int, _: memoryview) -> bytes:
        mode = self._files.mode(self._paths[node])
        return _VALID.pack(*self._valid, 0) + _attributes(node, mode)

    def _read_link(self, node: int, _: memoryview) -> bytes:
        return self._files.target(self._paths[node]).encode()

    def _set_attributes(self, node: int, body: memoryview) -> bytes:
        """A shell's `>` truncates before it writes; an attribute has no length to change."""
        what = _FLAGS.unpack_from(body)[0]
        if what & _OWNER_OR_TIME or not what & _SIZE:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return self._get_attributes(node, body)

    def _mkdir(self, node: int, body: memoryview) -> bytes:
        path = self._below(node, body[_MKDIR_BYTES:])
        self._files.mkdir(path)
        return self._entry(path)

    def _rmdir(self, node: int, body: memoryview) -> bytes:
        self._files.rmdir(self._below(node, body))
        return b""

    def _open(self, node: int, body: memoryview) -> bytes:
        self._files.open(self._paths[node], _FLAGS.unpack_from(body)[0])
        return _OPEN.pack(0, _DIRECT_IO, 0)

    def _read(self, node: int, body: memoryview) -> bytes:
        _, offset, size, *_ = _READ.unpack_from(body)
        return self._files.read(self._paths[node], size, offset)

    def _write(self, node: int, body: memoryview) -> bytes:
        data = bytes(body[_READ.size :])
        self._changed = self._files.write(self._paths[node], data)
        return _WRITTEN.pack(len(data), 0)

    def _open_folder(self, node: int, _: memoryview) -> bytes:
        """Every reader of a folder sees it as it was when they opened it."""
        found = [(".", stat.S_IFDIR), ("..", stat.S_IFDIR), *self._files.names(self._paths[node])]
        listing = b""
        for name, mode in found:
            raw = name.encode(errors="surrogateescape")
            size = (_NAME.size + len(raw) + 7) // 8 * 8
            head = _NAME.pack(
                _UNKNOWN_INODE, len(listing) + size, len(raw), stat.S_IFMT(mode) >> 12
            )
            listing += (head + raw).ljust(size, b"\0")
        self._last_listing += 1
        self._listings[self._last_listing] = listing
        return _OPEN.pack(self._last_listing, 0, 0)

    def _read_folder(self, _: int, body: memoryview) -> bytes:
        handle, offset, size, *_rest = _READ.unpack_from(body)
        listing, end = self._listings[handle], offset
        while end < len(listing):
            following = _NAME.unpack_from(listing, end)[1]
            if following - offset > size:
                break
            end = following
        return listing[offset:end]

    def _release_folder(self, _: int, body: memoryview) -> bytes:
        self._listings.pop(_OPEN.unpack_from(body)[0], None)
        return b""


def _greet(_: int, __: memoryview) -> bytes:
    background, congested = 12, 9  # as libfuse; nothing here is read ahead
    can = _BIG_WRITES | _CACHE_LINKS
    return _INIT.pack(*_VERSION, 0, can, background, congested, MAX_WRITE_BYTES, 1, 0, 0, 0, 0)


def _tell_sizes(_: int, __: memoryview) -> bytes:
    return _STATFS.pack(0, 0, 0, 0, 0, PAGE_BYTES, _MAX_NAME_BYTES, PAGE_BYTES)


def _agree(_: int, __: memoryview) -> bytes:
    return b""


def _refuse_create(_: int, __: memoryview) -> bytes:
    """Nothing can be created by hand in sysfs."""
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def _attributes(node: int, mode: int) -> bytes:
    size = PAGE_BYTES if stat.S_ISREG(mode) else 0
    return _ATTRIBUTES.pack(node, size, 0, 0, 0, 0, 0, 0, 0, mode, 2, 0, 0, 0, 0, 0)


def _mount(device: int, mount_point: Path) -> None:
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    library = ctypes.CDLL(None, use_errno=True)
    words = (b"railyard-lab", os.fsencode(mount_point), b"fuse", _MOUNT_FLAGS, options.encode())
    if library.mount(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(mount_point))

"""One FUSE file system with `<host>/sys` and `<host>/procsys` of every lab host.

Plain files cannot refuse a write nor grow `virtfnN` links at once; this can.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.hosts.fuse_wire import Wire
from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal
from lab.hosts.sysfs import (
    SysFile,
    SysLink,
    Table,
    make_proc_sys_table,
    make_rdma_cm_table,
    make_sys_table,
)

REMEMBERED_S: Final = 0.05
"""So long the kernel may remember which names there are: else each of ten folders of a path is
asked for at each use, which was two thirds of what a lab took."""
LOOKED_S: Final = 0.005
"""So long this server does not look again whether they changed."""
FORGOTTEN_S: Final = 0.07
"""Whatever changes the names is answered so much later, when both have forgotten (the kernel counts
in ticks of up to 10 ms, and rounds up): its caller sees none of those from before."""
_FOLDER: Final = stat.S_IFDIR | 0o755
CONFIGFS = "/sys/kernel/config/rdma_cm"
ALWAYS_THERE = (
    "/sys/class/net",
    "/sys/class/infiniband",
    "/sys/bus/pci/devices",
    "/sys/module",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/block",
)


class HostFiles:
    """The files of one host, indexed for look-ups."""

    def __init__(self, model: HostModel) -> None:
        """Serve the state of `model`."""
        self.model = model
        self._cached: tuple[tuple[object, ...], Table, dict[str, set[str]]] | None = None
        self._rdma_cm: Table = {}
        self._looked = (0.0, "")

    def forget(self) -> None:
        """Look again at once."""
        self._looked = (0.0, "")

    def snapshot(self) -> tuple[Table, dict[str, set[str]]]:
        """Entries by path, and the names in each folder; made again when the tree changed."""
        now, boot = time.monotonic(), self.model.boot_id
        looked_at, of_boot = self._looked
        if self._cached is not None and now - looked_at < LOOKED_S and boot == of_boot:
            return self._cached[1], self._cached[2]
        with self.model.lock:
            shape = self.model.shape()
            self._looked = (now, boot)
            if self._cached is not None and self._cached[0] == shape:
                return self._cached[1], self._cached[2]
            if self._cached is None or self._cached[0][:-1] != shape[:-1]:
                table = {f"/sys{path}": e for path, e in make_sys_table(self.model).items()}
                table |= {f"/procsys{p}": e for p, e in make_proc_sys_table(self.model).items()}
                folders = _folders_of(table, has_configfs="rdma_cm" in self.model.modules)
                self._rdma_cm = {}
            else:  # Only folders of configfs came or went: a tool makes and removes one a device.
                _, table, folders = self._cached
            self._put_rdma_cm(table, folders)
        self._cached = (shape, table, folders)
        return table, folders

    def _put_rdma_cm(self, table: Table, folders: dict[str, set[str]]) -> None:
        for path in self._rdma_cm:
            del table[path]
        for path in [each for each in folders if each.startswith(f"{CONFIGFS}/")]:
            del folders[path]
        if CONFIGFS in folders:
            folders[CONFIGFS].clear()
        self._rdma_cm = {f"/sys{p}": e for p, e in make_rdma_cm_table(self.model).items()}
        table |= self._rdma_cm
        for path in self._rdma_cm:
            _index(folders, path)


def _folders_of(table: Table, *, has_configfs: bool) -> dict[str, set[str]]:
    """The names in each folder."""
    there = (*ALWAYS_THERE, *((CONFIGFS,) if has_configfs else ()))
    folders: dict[str, set[str]] = {"/": set(), **{path: set() for path in there}}
    for path in (*table, *there):
        _index(folders, path)
    return folders


def _index(folders: dict[str, set[str]], path: str) -> None:
    while path != "/":
        parent, _, name = path.rpartition("/")
        parent = parent or "/"
        if parent in folders:
            folders[parent].add(name)
            return
        folders[parent] = {name}
        path = parent


class LabFiles:
    """What the kernel asks; every answer is quick, so one thread serves all hosts."""

    def __init__(self, models: Mapping[str, HostModel]) -> None:
        """Serve the given hosts by name; the mapping may change while it is served."""
        self._models = models
        self._files: dict[str, HostFiles] = {}

    def _host(self, name: str) -> HostFiles | None:
        """The files of a host; a cloud makes hosts, and makes them again under the same name."""
        model = self._models.get(name)
        if model is None:
            return None
        found = self._files.get(name)
        if found is None or found.model is not model:
            found = self._files[name] = HostFiles(model)
        return found

    def _split(self, path: str) -> tuple[HostFiles, str]:
        _, name, *rest = path.split("/")
        host = self._host(name)
        if host is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return host, "/" + "/".join(rest)

    def mode(self, path: str) -> int:
        """Type and permissions of one path."""
        if path == "/":
            return _FOLDER
        host, inner = self._split(path)
        table, folders = host.snapshot()
        return _mode(inner, table, folders)

    def names(self, path: str) -> list[tuple[str, int]]:
        """Names in one folder, with the mode of each."""
        if path == "/":
            return [(name, _FOLDER) for name in sorted(self._models)]
        host, inner = self._split(path)
        table, folders = host.snapshot()
        below = inner.rstrip("/")
        found = sorted(folders.get(inner, ()))
        return [(name, _mode(f"{below}/{name}", table, folders)) for name in found]

    def target(self, path: str) -> str:
        """Target of one link."""
        host, inner = self._split(path)
        entry = host.snapshot()[0].get(inner)
        if entry is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not isinstance(entry, SysLink):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return entry.target

    def _file(self, path: str) -> tuple[HostFiles, SysFile]:
        host, inner = self._split(path)
        entry = host.snapshot()[0].get(inner)
        if not isinstance(entry, SysFile):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return host, entry

    def open(self, path: str, flags: int) -> None:
        """Refuse writing to a read-only attribute, for root too."""
        _, entry = self._file(path)
        if entry.write is None and flags & 3:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def read(self, path: str, size: int, offset: int) -> bytes:
        """The attribute's text."""
        host, entry = self._file(path)
        with host.model.lock:
            return entry.read().encode()[offset : offset + size]

    def write(self, path: str, data: bytes) -> bool:
        """Hand the text to the emulated driver; whether names came or went."""
        host, entry = self._file(path)
        if entry.write is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        try:
            with host.model.lock:
                before = host.model.shape()
                entry.write(data.decode(errors="replace"))
                return host.model.shape() != before
        except DeviceRefusal as refusal:
            raise OSError(refusal.errno, os.strerror(refusal.errno)) from refusal

    def mkdir(self, path: str) -> None:
        """Configfs: a folder under rdma_cm binds that device (cma_roce_mode)."""
        host, inner = self._split(path)
        parent, _, name = inner.rpartition("/")
        if parent != CONFIGFS:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if "rdma_cm" not in host.model.modules or not host.model.has_rdma(name):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        host.model.rdma_cm_devices.add(name)
        host.forget()

    def rmdir(self, path: str) -> None:
        """Configfs: take the folder away; the values stay in the kernel, which forgets the name."""
        host, inner = self._split(path)
        name = inner.rpartition("/")[2]
        if inner != f"{CONFIGFS}/{name}" or name not in host.model.rdma_cm_devices:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        host.model.rdma_cm_devices.discard(name)
        host.forget()


def _mode(inner: str, table: Table, folders: Mapping[str, set[str]]) -> int:
    if inner in folders:
        return _FOLDER
    match table.get(inner):
        case SysLink():
            return stat.S_IFLNK | 0o777
        case SysFile(write=None):
            return stat.S_IFREG | 0o444
        case SysFile():
            return stat.S_IFREG | 0o644
        case None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def serve(models: Mapping[str, HostModel], mount_point: Path) -> threading.Thread:
    """Mount the file system and serve it from a thread of its own until it is unmounted.

    Raises:
        OSError: The kernel does not mount it.
    """
    mount_point.mkdir(parents=True, exist_ok=True)
    wire = Wire(LabFiles(models), mount_point, REMEMBERED_S, FORGOTTEN_S)
    thread = threading.Thread(target=wire.serve, name="lab-sysfs", daemon=True)
    thread.start()
    return thread

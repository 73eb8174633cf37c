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
from typing import Any, Final

from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal
from lab.hosts.sysfs import SysFile, SysLink, Table, make_proc_sys_table, make_sys_table

PAGE_BYTES = 4096
"""What the kernel shows as the size of every sysfs file."""
REMEMBERED_S: Final = 0.05
"""So long the kernel may remember which names there are: else each of ten folders of a path is
asked for at each use, which was two thirds of what a lab took."""
FORGOTTEN_S: Final = 0.07
"""Whatever changes the names is answered so much later, when the kernel has forgotten (it counts in
ticks of up to 10 ms, and rounds up): its caller sees none of those from before."""
DIRECTORIES = ("/sys", "/procsys")
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
        self._cached: tuple[object, Table, dict[str, set[str]]] | None = None

    def snapshot(self) -> tuple[Table, dict[str, set[str]]]:
        """Entries by path, and the names in each folder; made again when the tree changed."""
        with self.model.lock:
            shape = self.model.shape()
            if self._cached is not None and self._cached[0] == shape:
                return self._cached[1], self._cached[2]
            table = {f"/sys{path}": e for path, e in make_sys_table(self.model).items()}
            table |= {f"/procsys{p}": e for p, e in make_proc_sys_table(self.model).items()}
        there = (*ALWAYS_THERE, *((CONFIGFS,) if "rdma_cm" in self.model.modules else ()))
        folders: dict[str, set[str]] = {"/": set(), **{path: set() for path in there}}
        for path in (*table, *there):
            _index(folders, path)
        self._cached = (shape, table, folders)
        return table, folders


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
    """The callbacks of fusepy; every one is quick, so one thread serves all hosts.

    Not a subclass of `fuse.Operations`: what is missing here is then refused by the kernel.
    """

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

    def __call__(self, operation: str, *arguments: object) -> object:
        """How fusepy calls an operation."""
        return getattr(self, operation)(*arguments)

    def _split(self, path: str) -> tuple[HostFiles, str]:
        _, name, *rest = path.split("/")
        host = self._host(name)
        if host is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return host, "/" + "/".join(rest)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:  # noqa: ARG002 - fusepy's signature
        """Attributes of one path."""
        if path == "/":
            return _attributes(stat.S_IFDIR | 0o755)
        host, inner = self._split(path)
        table, folders = host.snapshot()
        if inner in folders:
            return _attributes(stat.S_IFDIR | 0o755)
        match table.get(inner):
            case SysLink():
                return _attributes(stat.S_IFLNK | 0o777)
            case SysFile(write=None):
                return _attributes(stat.S_IFREG | 0o444)
            case SysFile():
                return _attributes(stat.S_IFREG | 0o644)
            case None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    def readdir(self, path: str, fh: int) -> list[str]:  # noqa: ARG002 - fusepy's signature
        """Names in one folder."""
        if path == "/":
            return [".", "..", *sorted(self._models)]
        host, inner = self._split(path)
        return [".", "..", *sorted(host.snapshot()[1].get(inner, ()))]

    def readlink(self, path: str) -> str:
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

    def open(self, path: str, flags: int) -> int:
        """Refuse writing to a read-only attribute, for root too."""
        _, entry = self._file(path)
        if entry.write is None and flags & 3:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:  # noqa: ARG002 - fusepy's signature
        """The attribute's text."""
        host, entry = self._file(path)
        with host.model.lock:
            return entry.read().encode()[offset : offset + size]

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:  # noqa: ARG002 - fusepy's signature
        """A shell's `>` truncates before it writes; an attribute has no length to change."""
        self._file(path)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:  # noqa: ARG002 - fusepy's signature
        """Hand the text to the emulated driver."""
        host, entry = self._file(path)
        if entry.write is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        try:
            with host.model.lock:
                before = host.model.shape()
                entry.write(data.decode(errors="replace"))
                changed = host.model.shape() != before
        except DeviceRefusal as refusal:
            raise OSError(refusal.errno, os.strerror(refusal.errno)) from refusal
        if changed:
            time.sleep(FORGOTTEN_S)
        return len(data)

    def mkdir(self, path: str, mode: int) -> None:  # noqa: ARG002 - fusepy's signature
        """Configfs: a folder under rdma_cm binds that device (cma_roce_mode)."""
        host, inner = self._split(path)
        parent, _, name = inner.rpartition("/")
        if parent != CONFIGFS:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if "rdma_cm" not in host.model.modules or host.model.nic_by_rdma(name) is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        host.model.rdma_cm_devices.add(name)

    def rmdir(self, path: str) -> None:
        """Configfs: take the folder away; the values stay in the kernel."""
        host, inner = self._split(path)
        name = inner.rpartition("/")[2]
        if inner != f"{CONFIGFS}/{name}" or name not in host.model.rdma_cm_devices:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        host.model.rdma_cm_devices.discard(name)
        time.sleep(FORGOTTEN_S)

    def create(self, path: str, mode: int, fi: Any = None) -> int:  # noqa: ANN401, ARG002 - fusepy's signature
        """Nothing can be created by hand in sysfs."""
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def _attributes(mode: int) -> dict[str, int]:
    size = PAGE_BYTES if stat.S_ISREG(mode) else 0
    return {"st_mode": mode, "st_nlink": 2, "st_size": size, "st_uid": 0, "st_gid": 0}


def serve(models: Mapping[str, HostModel], mount_point: Path) -> threading.Thread:
    """Mount the file system and serve it from a thread of its own until it is unmounted."""
    # Imported here: fusepy fails at import where libfuse is missing, and stopping needs neither.
    import fuse  # noqa: PLC0415 - see above

    def run() -> None:
        fuse.FUSE(
            LabFiles(models),
            str(mount_point),
            foreground=True,
            nothreads=True,
            direct_io=True,
            allow_other=True,
            default_permissions=True,
            attr_timeout=REMEMBERED_S,
            entry_timeout=REMEMBERED_S,
            fsname="railyard-lab",
        )

    mount_point.mkdir(parents=True, exist_ok=True)
    thread = threading.Thread(target=run, name="lab-sysfs", daemon=True)
    thread.start()
    return thread

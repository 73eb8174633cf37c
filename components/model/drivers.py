"""The drivers of the hosts: the RDMA stack, the GPU driver's owner, and the path between both."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import StringConstraints

from components.model.units import Frozen, ReleaseText, Sha256

GpuDirect: TypeAlias = Literal["peermem", "dma_buf", "none", "nv_peer_mem"]
"""How a card reaches GPU memory."""
GPU_DRIVER: Final = r"^[0-9]{3}\.[0-9]+(\.[0-9]+)?$"
GpuDriverVersion = Annotated[str, StringConstraints(pattern=GPU_DRIVER)]
"""A GPU driver's version as `modinfo -F version nvidia` shows it: branch and release."""
PACKAGE_NAME: Final = r"^[a-z0-9][a-z0-9.+-]*$"
PackageName = Annotated[str, StringConstraints(pattern=PACKAGE_NAME)]
"""A package as apt and dnf take it, without a version: the repository holds one."""


class DriverRepository(Frozen):
    """An apt or dnf repository on the site's own ground that has the driver."""

    url: str
    """https address, or an absolute path on the hosts, of a flat apt or a dnf repository."""
    key: str
    """https address, or an absolute path on the hosts, of the key that signs it."""
    key_sha256: Sha256
    """Checksum of the file at `key`."""


class DriverPackage(Frozen):
    """The RDMA driver of the hosts."""

    kind: Literal["inbox", "doca_ofed", "mlnx_ofed"] = "inbox"
    """`inbox` is the kernel's own driver; the others are packages with `source` or `repository`."""
    version: ReleaseText | None = None
    """Version that must be installed, as `ofed_info -s` says it (`24.10-1.1.4.0`,
    `MLNX_OFED_LINUX-5.4-1.0.3.0`, `OFED-internal-25.10-1.7.1.413`), or a DOCA release (`3.2.0`)."""
    source: str | None = None
    """Absolute path on the host, or an https URL, of the package; with `sha256`."""
    sha256: Sha256 | None = None
    """Checksum of the package at `source`."""
    repository: DriverRepository | None = None
    """A repository with the driver, in place of `source`."""
    packages: tuple[PackageName, ...] = ()
    """What to install from `repository`; default `doca-ofed`, or `mlnx-ofed-all`."""
    rebuild: bool = True
    """Build the driver's modules again for a kernel that has none: the running one, and that of the
    next boot. Without it a kernel upgrade falls back to the inbox driver."""
    add_kernel_support: bool = False
    """Give `--add-kernel-support` to the MLNX_OFED installer: it builds its packages for this
    kernel. Only with a `.tgz`."""

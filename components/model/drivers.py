"""The drivers of the hosts: the RDMA stack, the GPU driver's owner, and the path between both."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, StringConstraints, WithJsonSchema

from components.model.texts import refuse
from components.model.units import Frozen, ReleaseText, Sha256

GpuDirect: TypeAlias = Literal["peermem", "dma_buf", "none", "nv_peer_mem"]
"""How a card reaches GPU memory."""
GPU_DRIVER: Final = r"^[0-9]{3}\.[0-9]+(\.[0-9]+)?$"
GpuDriverVersion = Annotated[str, StringConstraints(pattern=GPU_DRIVER)]
"""A GPU driver's version as `modinfo -F version nvidia` shows it: branch and release."""
TOOLKIT_VERSION = r"^[0-9]+(\.[0-9]+)+(-[0-9]+)?$"
ToolkitVersion = Annotated[str, StringConstraints(pattern=TOOLKIT_VERSION)]
"""A version as apt and dnf have it, without an epoch."""
PACKAGE_NAME: Final = r"^[a-z0-9][a-z0-9.+-]*$"
PackageName = Annotated[str, StringConstraints(pattern=PACKAGE_NAME)]
"""A package as apt and dnf take it, without a version: the repository holds one."""


_ADDRESS: Final = r"(/|https://)[A-Za-z0-9._:/@,+-]+"
"""What the scripts take as an address: nothing that a shell or apt would read otherwise."""
_NO_SIGN: Final = re.compile(r"[^A-Za-z0-9._:/@,+-]")


def _address(text: str) -> str:
    if re.fullmatch(_ADDRESS, text):
        return text
    sign = _NO_SIGN.search(text.removeprefix("https://"))
    if text.startswith(("/", "https://")) and sign:
        raise refuse(
            f'{text} has a "{sign[0]}" in it, which no host takes',
            "offer the file at a path or an address of letters, digits and ._:/@,+- alone, "
            "without a query.",
        )
    raise refuse(
        f"{text} is neither an absolute path nor https",
        "use an https address, or a path on the hosts that begins with /.",
    )


DriverAddress = Annotated[
    str, AfterValidator(_address), WithJsonSchema({"type": "string", "pattern": rf"^{_ADDRESS}$"})
]
"""An absolute path on the hosts, or an https address."""


class DriverRepository(Frozen):
    """An apt or dnf repository on the site's own ground that has the driver."""

    url: DriverAddress
    """https address, or an absolute path on the hosts, of a flat apt or a dnf repository."""
    key: DriverAddress
    """https address, or an absolute path on the hosts, of the key that signs it."""
    key_sha256: Sha256
    """Checksum of the file at `key`."""


class DriverPackage(Frozen):
    """The RDMA driver of the hosts."""

    kind: Literal["inbox", "present", "doca_ofed", "mlnx_ofed"] = "inbox"
    """`inbox` is the kernel's own driver, and `present` one that the hosts have already, as DGX OS
    and clouds' images do: it is verified, and nothing is installed. The others are packages that
    Railyard installs from `source` or `repository`."""
    flavour: Literal["ofed", "doca", "inbox", "any"] = "ofed"
    """What `present` must be: `ofed` is MLNX_OFED or DOCA-OFED, `doca` the latter alone, `inbox`
    the kernel's own; of `any` no more is planned than the kernel's own can do."""
    at_least: ReleaseText | None = None
    """Oldest version that `present` may have, as `ofed_info -s` says it, or a DOCA release."""
    version: ReleaseText | None = None
    """Version that must be installed, as `ofed_info -s` says it (`24.10-1.1.4.0`,
    `MLNX_OFED_LINUX-5.4-1.0.3.0`, `OFED-internal-25.10-1.7.1.413`), or a DOCA release (`3.2.0`)."""
    source: DriverAddress | None = None
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

    @property
    def is_installed(self) -> bool:
        """Railyard installs it: it is one of NVIDIA's packages, not what the hosts have."""
        return self.kind in {"doca_ofed", "mlnx_ofed"}

    @property
    def is_ofed(self) -> bool:
        """It is NVIDIA's, which has what the kernel's own lacks.

        That is `ecn/` below each network device, the traffic class of a device, and what
        nvidia_peermem needs of ib_core.
        """
        return self.is_installed or (self.kind == "present" and self.flavour in {"ofed", "doca"})

    @property
    def shown(self) -> str:
        """What the file asks for, in a word or two."""
        return f"present ({self.flavour})" if self.kind == "present" else self.kind


class ContainerToolkit(Frozen):
    """NVIDIA's container toolkit, whose runtime shows GPUs to containers."""

    kind: Literal["present", "host", "operator"] = "present"
    """`present`: the hosts have it, as DGX OS does; it is verified. `host`: Railyard installs it
    from `repository`, or `version` of what the hosts' own repositories have. `operator`: the GPU
    operator's own, which no host needs."""
    repository: DriverRepository | None = None
    """An apt or dnf repository that has nvidia-container-toolkit, as NVIDIA's or a mirror of it."""
    version: ToolkitVersion | None = None
    """Version of the package, for example `1.17.8-1`; default what the repository offers."""

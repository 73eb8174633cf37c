"""ESXi releases, and the instance types of Crusoe Cloud: their devices, images and kernel options.

The boot option is `atsSupport` from 7.0 U2 on, with the default FALSE there and TRUE from 7.0 U3
on; 7.0 and 7.0 U1 have another one, `vtdAtsSupport`, and 6.x lacks one. Source: William Lam's
exports of the kernel settings, one a build (sources.md#esxi).
"""

import re
from typing import Final, Literal, NamedTuple

_RELEASE: Final = re.compile(
    r"(?P<major>\d{1,2})\.(?P<minor>\d)(?:\.(?P<patch>\d))?(?:U(?P<update>\d)[a-z]?)?"
)
AtsSupport = Literal["absent", "other_option", "off_by_default", "on_by_default"]
_CPU: Final = re.compile(r"(c1a|c2a|s1a)\.[1-9][0-9]*x")
"""CPU types, `docs.crusoecloud.com` compute/virtual-machines/overview."""
_TOPOLOGY_FOLDER: Final = "/etc/crusoe/nccl_topo"
"""Folder of the images, networking/infiniband/managing-infiniband-networks of the same site."""


class EsxiRelease(NamedTuple):
    """A release without its build: 7.0 U2 is (7, 0, 2)."""

    major: int
    minor: int
    update: int

    @property
    def text(self) -> str:
        """As a host's answer to `esxcli system version get` is written: `7.0U2`, `8.0`."""
        return f"{self.major}.{self.minor}" + (f"U{self.update}" if self.update else "")

    @property
    def ats(self) -> AtsSupport:
        """How the release supports ATS."""
        if self >= DEFAULT_ATS:
            return "on_by_default"
        if self >= FIRST_ATS:
            return "off_by_default"
        return "other_option" if self.major == FIRST_ATS.major else "absent"


FIRST_ATS: Final = EsxiRelease(7, 0, 2)
DEFAULT_ATS: Final = EsxiRelease(7, 0, 3)


def parse_release(text: str) -> EsxiRelease | None:
    """Read `7.0U2`, `7.0.2`, `7.0U3d` or `8.0`; None for anything else."""
    found = _RELEASE.fullmatch(text)
    if found is None or (found["patch"] and found["update"]):
        return None
    update = int(found["update"] or found["patch"] or 0)
    return EsxiRelease(int(found["major"]), int(found["minor"]), update)


class InstanceType(NamedTuple):
    """The equipment of an instance of one type."""

    name: str
    gpus: int = 0
    hcas: int = 0
    """InfiniBand HCAs; the API makes this many of one partition entry."""
    rate_gbit_s: int = 0
    """Rate of one HCA in Gbit/s."""
    image_suffix: str | None = None
    """Suffix after `-nvidia-sxm-docker` in the images for it; None: images without a driver."""

    @property
    def topology_file(self) -> str | None:
        """NCCL's topology file on the images for it, or None without one.

        The hypervisor hides the PCIe tree; hosts of before 2026 ran another one, whose file ends
        in `-qemu.xml`.
        """
        if not self.hcas:
            return None
        return f"{_TOPOLOGY_FOLDER}/{self.name.rpartition('.')[0]}-cloud-hypervisor.xml"


def _sxm(name: str, rate_gbit_s: int, suffix: str = "") -> InstanceType:
    return InstanceType(name, gpus=8, hcas=8, rate_gbit_s=rate_gbit_s, image_suffix=suffix)


GPU_TYPES: Final = {
    kind.name: kind
    for kind in (
        _sxm("a100-80gb-sxm-ib.8x", 200),
        _sxm("h100-80gb-sxm-ib.8x", 400),
        _sxm("h200-141gb-sxm-ib.8x", 400),
        _sxm("b200-180gb-sxm-ib.8x", 400, "-b200"),
        _sxm("b300-288gb-sxm-ib.8x", 400, "-b300"),
    )
}
"""Types on InfiniBand: 8 GPUs, 8 HCAs (the vendor's overview of types, its solutions-library).

GB200 (`gb200-186gb-nvl-ib.4x`) is left out: no source says how many HCAs NCCL may use there.
"""


def find_type(name: str) -> InstanceType | None:
    """The type with that name, or None if this release does not know it."""
    return InstanceType(name) if _CPU.fullmatch(name) else GPU_TYPES.get(name)


def fits_image(kind: InstanceType, image: str) -> bool:
    """Whether an image is of the family that the type needs: its GPU driver, or none."""
    family = image.partition(":")[0]
    _, mark, suffix = family.partition("-nvidia-sxm-docker")
    if kind.image_suffix is None:
        return "-nvidia-" not in family
    return bool(mark) and suffix == kind.image_suffix

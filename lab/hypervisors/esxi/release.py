"""ESXi releases: version texts and kernel options.

Defaults: facts of William Lam's exports of kernel settings, one file for each build. Builds:
Broadcom's knowledge article 316595, "Build numbers and versions of VMware ESXi".
"""

from __future__ import annotations

import re

from components.core.errors import UsageError
from components.core.record import record

BUILDS = {
    (6, 7, 3): "14320388",
    (7, 0, 0): "15843807",
    (7, 0, 1): "16850804",
    (7, 0, 2): "17630552",
    (7, 0, 3): "18644231",
    (8, 0, 0): "20513097",
    (8, 0, 1): "21495797",
    (8, 0, 2): "22380479",
    (8, 0, 3): "24022510",
    (9, 0, 0): "24755229",
}
HARDWARE_VERSIONS = ((6, 7, "14"), (7, 0, "17"), (7, 2, "19"), (8, 0, "20"), (9, 0, "22"))


@record
class Release:
    """A release of ESXi."""

    major: int
    minor: int
    update: int

    @property
    def key(self) -> tuple[int, int, int]:
        """For comparisons."""
        return (self.major, self.minor, self.update)

    @property
    def version(self) -> str:
        """As `esxcli system version get` says it, for example `7.0.2`."""
        return f"{self.major}.{self.minor}.{self.update}"

    @property
    def build(self) -> str:
        """The build of this release, without patches."""
        return BUILDS[self.key]

    @property
    def hardware(self) -> str:
        """The newest virtual hardware that it makes."""
        level = (self.major, self.update if self.major > 6 else self.minor)  # noqa: PLR2004 - 6.7 has no table of its own
        return [text for major, low, text in HARDWARE_VERSIONS if (major, low) <= level][-1]


@record
class KernelOption:
    """One boot option of the VMkernel."""

    name: str
    default: str
    description: str
    kind: str = "Bool"


def parse_release(text: str) -> Release:
    """Read a release such as `7.0U2`, `8.0 U3g` or `9.0.0`.

    Raises:
        UsageError: The lab plays no such release.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\s*[uU](\d+)[a-z]?)?", text.strip())
    numbers = [int(part or 0) for part in found.groups()] if found else []
    release = Release(numbers[0], numbers[1], numbers[3] or numbers[2]) if numbers else None
    if release is None or release.key not in BUILDS:
        known = ", ".join(".".join(map(str, key)) for key in BUILDS)
        raise UsageError(f"the lab plays no ESXi {text!r}; it plays {known}")
    return release


def kernel_options(release: Release) -> tuple[KernelOption, ...]:
    """The options that this release has; those that no capture shows are left out."""
    options = [KernelOption("vga", "TRUE", "Enable/Disable VGA support.")]
    key = release.key
    if (7, 0, 0) <= key < (7, 0, 2):
        options.append(KernelOption("vtdAtsSupport", "FALSE", "Enable Support for VT-d ATS."))
    if key >= (7, 0, 2):
        default = "FALSE" if key == (7, 0, 2) else "TRUE"
        options.append(KernelOption("atsSupport", default, "Enable Support for PCIe ATS"))
    if key >= (9, 0, 0):
        options.append(KernelOption("enableACSDTP2P", "TRUE", "Enable ACS Direct Translated P2P"))
    return tuple(options)

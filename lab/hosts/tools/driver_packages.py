"""The driver packages that a repository of the lab may offer, and the repositories.

A repository is a folder with `Packages` (stanzas of `Package`, `Version` and perhaps `Depends`)
and, where it is signed, `InRelease` with the SHA-256 of its key. The lab's `doca-host` package is
such a text too: what follows its own stanza is the repository that it brings. NVIDIA's one lies
below /usr/share, which a lab host does not own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from components.core.record import field, record, replace

DOCA_REPO: Final = "usr/local/share/doca-host/repo"
_SOURCE: Final = re.compile(r"deb (?:\[signed-by=(?P<key>\S+)\] )?file:(?P<path>\S+) \./")
_HEADERS: Final = re.compile(r"linux-headers-\d\S*")


@record
class Package:
    """One package of the archive."""

    version: str
    programs: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path below the host's root to content."""
    service: str = ""
    """Unit that the package enables and starts."""
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Program that the lab does not emulate from outside, to its text."""
    tools: tuple[str, ...] = ()
    """Paths below the host's root of emulated tools that lie in no folder of PATH."""
    dkms: bool = False
    """Its modules are built when it is installed."""


OFED_TOOLS: Final = (
    "mlnx_qos", "cma_roce_mode", "cma_roce_tos", "ibdev2netdev",  # mlnx-tools
    "mlxconfig", "mlxfwreset", "mlxreg", "flint", "mst",  # mft
    "mstconfig", "mstfwreset", "mstreg", "mstflint",  # mstflint
    "ibstat", "iblinkinfo", "perfquery", "saquery", "sminfo", "smpquery",  # infiniband-diags
    "ibdiagnet", "ibv_devinfo",  # ibutils2, ibverbs-utils
)  # fmt: skip
"""Programs of NVIDIA's RDMA driver, which are on no host without it or the package of the
distribution that has one (tests/lab_hosts/granted.yaml). The lab puts those
of all its packages into one."""
TEMPLATES: Final[Mapping[str, Package]] = {
    "doca-host": Package(
        "", files={"etc/apt/sources.list.d/doca.list": f"deb [trusted=yes] file:/{DOCA_REPO} ./\n"}
    ),
    "doca-ofed": Package("", depends=("mlnx-ofed-kernel-dkms", "ofed-scripts")),
    "doca-extra": Package("", tools=("opt/mellanox/doca/tools/doca-kernel-support",)),
    "mlnx-ofed-all": Package("", depends=("mlnx-ofed-kernel-dkms", "ofed-scripts")),
    "mlnx-ofed-kernel-dkms": Package("", depends=("dkms",), dkms=True),
    "ofed-scripts": Package(
        "",
        programs=("ofed_info", "ofed_uninstall.sh", *OFED_TOOLS),
        tools=("etc/init.d/openibd",),
    ),
    "nvidia-container-toolkit": Package(
        "", programs=("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli")
    ),
    "mlnx-tools": Package("23.07.0", programs=("mlnx_qos", "cma_roce_mode", "cma_roce_tos")),
    "dkms": Package("2.8.7-2ubuntu2.2", programs=("dkms",)),
}
"""What NVIDIA's packages bring, without their versions: those are the repository's."""
DRIVER_PACKAGES: Final = ("doca-ofed", "mlnx-ofed-all", "mlnx-ofed-kernel-dkms", "ofed-scripts")


def read_stanzas(text: str) -> list[dict[str, str]]:
    """Read the paragraphs of a `Packages` file."""
    found: list[dict[str, str]] = []
    for paragraph in text.split("\n\n"):
        lines = (line.partition(": ") for line in paragraph.splitlines() if ": " in line)
        if stanza := {key: value.strip() for key, _, value in lines}:
            found.append(stanza)
    return found


def _sources(root: Path) -> list[tuple[Path, str]]:
    """Folder and key of each repository that apt reads."""
    found: list[tuple[Path, str]] = []
    for path in sorted((root / "etc/apt/sources.list.d").glob("*.list")):
        lines = path.read_text().replace("[trusted=yes] ", "").splitlines()
        matches = filter(None, map(_SOURCE.fullmatch, lines))
        found += [(root / each["path"].lstrip("/"), each["key"] or "") for each in matches]
    return found


def unsigned_source(root: Path) -> str:
    """A repository whose signature is by another key than the one beside its source, or nothing."""
    for folder, key in _sources(root):
        release, path = folder / "InRelease", root / key.lstrip("/")
        if key and release.exists():
            own = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            if release.read_text().strip() != own:
                return f"/{folder.relative_to(root)}"
    return ""


def offers(root: Path) -> dict[str, Package]:
    """The packages of the host's own repositories, with their versions."""
    found: dict[str, Package] = {"dkms": TEMPLATES["dkms"]}
    for folder, _ in _sources(root):
        if not (folder / "Packages").exists():
            continue
        for stanza in read_stanzas((folder / "Packages").read_text()):
            name = stanza["Package"]
            template = TEMPLATES.get(name, Package(""))
            more = tuple(filter(None, stanza.get("Depends", "").split(", ")))
            depends = (*more, *template.depends)
            found[name] = replace(template, version=stanza["Version"], depends=depends)
    return found


def describe(name: str, version: str) -> Package | None:
    """An installed package that came from a repository, or None when there is no such one."""
    if _HEADERS.fullmatch(name):
        return Package(version or "5.15.0-113.123")
    template = TEMPLATES.get(name)
    return None if template is None else replace(template, version=version or template.version)

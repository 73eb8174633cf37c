"""The few packages that the lab knows: what apt-get and dpkg have in common.

A package's programs are links in a folder of the host, and /usr/bin has dangling links of their
names: so `command -v docker` is true on a host exactly when the package is installed there.
Texts: apt 2.4, dpkg 1.21 (Ubuntu 22.04).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from components.core.record import record
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.driver_packages import TEMPLATES, Package, describe, offers
from lab.hosts.tools.options import split_options

PROGRAMS = "usr/local/lib/railyard-lab/bin"
"""Folder of the host with the programs of its installed packages."""
UNITS = "usr/local/lib/systemd/system"
DATABASE = "var/lib/dpkg/railyard-lab.json"
EMULATED = "/usr/bin/.lab-tool"
"""The client of the emulated tools, as a program of a package that the lab emulates."""
DOCKER_UNIT = """\
[Unit]
Description=Docker Application Container Engine
After=network-online.target

[Service]
Type=simple
ExecStart=/usr/bin/dockerd -H fd://
ExecReload=/bin/kill -s HUP $MAINPID
LimitNOFILE=infinity
Restart=always

[Install]
WantedBy=multi-user.target
"""
DOCKERD = """\
#!/bin/sh
# The lab's dockerd: it holds the configuration that it was started with until SIGHUP.
load() {
  mkdir -p /run/docker
  config=/etc/docker/daemon.json
  [ -e "$config" ] || config=/dev/null
  cat "$config" >/run/docker/daemon.json
}
mkdir -p /etc/docker
trap load HUP
trap 'kill "$child"; exit 0' TERM INT
load
while :; do
  sleep 3600 &
  child=$!
  wait "$child"
done
"""


def _script(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


ARCHIVE: Final[Mapping[str, Package]] = {
    "docker.io": Package(
        "24.0.7-0ubuntu2~22.04.1",
        programs=("docker",),
        depends=("containerd",),
        files={f"{UNITS}/docker.service": DOCKER_UNIT},
        service="docker.service",
        scripts={"dockerd": DOCKERD},
    ),
    "containerd": Package("1.7.12-0ubuntu2~22.04.1"),
    "network-manager": Package("1.36.6-0ubuntu2", programs=("nmcli",)),
    "ethtool": Package("1:5.16-1", programs=("ethtool",)),
    "pciutils": Package("1:3.7.0-6", programs=("lspci", "setpci")),
    "mstflint": Package("4.17.0+1-1", programs=("mstconfig", "mstfwreset", "mstflint")),
    "infiniband-diags": Package(
        "39.0-1",
        programs=("ibstat", "iblinkinfo", "perfquery", "saquery", "sminfo", "smpquery"),
    ),
    "ibverbs-utils": Package("39.0-1", programs=("ibv_devinfo",)),
    "nvidia-utils": Package("580.126.20-0ubuntu0.22.04.1", programs=("nvidia-smi",)),
    "perftest": Package("4.4+0.37-1"),
    "keepalived": Package("1:2.2.4-0.2build1", scripts={"keepalived": _script("keepalived.sh")}),
    "openssh-server": Package("1:8.9p1-3ubuntu0.10"),
}
"""What the host's repositories offer: Ubuntu 22.04."""

PROGRAM_NAMES: Final = frozenset(
    name
    for package in (*ARCHIVE.values(), *TEMPLATES.values())
    for name in (*package.programs, *package.scripts)
)
"""What is on a host only with a package that brings it."""
FLAGS = (
    "-y", "--yes", "-q", "-qq", "--no-install-recommends", "--purge", "--allow-downgrades", "-s",
    "-f",
)  # fmt: skip
_HEAD: Final = "Reading package lists...\nBuilding dependency tree...\n"
VERBS = ("update", "install", "remove", "purge", "autoremove", "check", "clean")


def find_package(root: Path, name: str) -> Package | None:
    """A package that is offered to the host, or that it has."""
    known = {**ARCHIVE, **offers(root)}
    return known.get(name) or describe_installed(root, name)


def describe_installed(root: Path, name: str) -> Package | None:
    """A package that the host has, or that Ubuntu has for any kernel."""
    version = installed(root).get(name, "")
    return describe(name, version) if version or name.startswith("linux-headers-") else None


def installed(root: Path) -> dict[str, str]:
    """Installed packages of a host by name, with their versions."""
    path = root / DATABASE
    if not path.exists():
        return {}
    names: dict[str, str] = json.loads(path.read_text())
    return names


def _record(root: Path, names: Mapping[str, str]) -> None:
    (root / DATABASE).parent.mkdir(parents=True, exist_ok=True)
    (root / DATABASE).write_text(json.dumps(dict(sorted(names.items())), indent=1) + "\n")


def install(root: Path, name: str, *, downgrade: bool = False) -> list[str]:
    """Install a package with what it depends on, or its newer version; the names that are new.

    Apt leaves a newer version than the offered one where it is; dpkg goes back, with a warning.

    Raises:
        KeyError: There is no such package, or none that it depends on.
    """
    new: list[str] = []
    for each in _with_depends(root, name):
        package = find_package(root, each)
        if package is None:
            raise KeyError(each)
        have = installed(root)
        there = have.get(each, "")
        if there != package.version and (
            downgrade or version_order(there) < version_order(package.version)
        ):
            new.append(each)
            _unpack(root, package)
            _record(root, {**have, each: package.version})
    return new


def version_order(version: str) -> list[int]:
    """The numbers of a version, by which the lab's packages follow each other."""
    return [int(number) for number in re.findall(r"\d+", version)]


def put_package(root: Path, name: str, version: str) -> None:
    """Install one package in a version of its installer's, which no repository offers."""
    package = describe(name, version) or ARCHIVE.get(name)
    if package is not None:
        _unpack(root, package)
    _record(root, {**installed(root), name: version})


def _with_depends(root: Path, name: str) -> list[str]:
    package = find_package(root, name)
    needed = [each for part in (package.depends if package else ())
              for each in _with_depends(root, part)]  # fmt: skip
    return [*needed, name]


def _unpack(root: Path, package: Package) -> None:
    folder = root / PROGRAMS
    folder.mkdir(parents=True, exist_ok=True)
    for name in package.programs:
        _link(folder / name)
    for path in package.tools:
        _link(root / path)
    for name, text in package.scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for path, text in package.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def _link(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(EMULATED)


def remove(root: Path, name: str) -> bool:
    """Take a package out; False when it is not installed."""
    have = installed(root)
    if name not in have:
        return False
    package = find_package(root, name) or Package("")
    del have[name]
    for program in (*package.programs, *package.scripts):
        (root / PROGRAMS / program).unlink(missing_ok=True)
    for path in (*package.files, *package.tools):
        (root / path).unlink(missing_ok=True)
    _record(root, have)
    return True


@record
class AptPlan:
    """What an apt-get call asks for, or its answer where it ends at once."""

    answer: ToolResult | None
    verb: str = ""
    names: tuple[str, ...] = ()
    simulated: bool = False
    pinned: bool = False
    """The call has preferences of its own, which keep kernels from coming along."""


def plan_apt(call: ToolCall) -> AptPlan:
    """Read an apt-get command line and refuse what apt refuses."""
    options = split_options(call.argv, ("-o", "--option"), FLAGS, mixed=True)
    if isinstance(options, str) or not options.words:
        bad = options if isinstance(options, str) else ""
        text = f"E: Command line option '{bad}' is not understood\n"
        return AptPlan(call.unmodelled(ToolResult(100, err=text)))
    verb, names = options.words[0], options.words[1:]
    if verb not in VERBS:
        return AptPlan(call.unmodelled(ToolResult(100, err=f"E: Invalid operation {verb}\n")))
    if call.uid:
        lock = "/var/lib/dpkg/lock-frontend"
        text = f"E: Could not open lock file {lock} - open (13: Permission denied)\n"
        text += f"E: Unable to acquire the dpkg frontend lock ({lock}), are you root?\n"
        return AptPlan(ToolResult(100, err=text))
    unknown = [name for name in names if not find_package(call.root, name.partition("=")[0])]
    if unknown:
        return AptPlan(ToolResult(100, _HEAD, f"E: Unable to locate package {unknown[0]}\n"))
    for name, _, version in (word.partition("=") for word in names):
        package = find_package(call.root, name)
        if version and package is not None and package.version != version:
            text = f"E: Version '{version}' for '{name}' was not found\n"
            return AptPlan(ToolResult(100, _HEAD, text))
    pins = [value for value in options.all("-o", "--option") if "Dir::Etc::preferences" in value]
    plain = tuple(name.partition("=")[0] for name in names)
    return AptPlan(None, verb, plain, simulated=options.has("-s"), pinned=bool(pins))

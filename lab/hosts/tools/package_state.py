"""What keeps a package tool from its work: a lock, packages that are half there, no space.

Texts: apt 2.4 and dpkg 1.21 (Ubuntu 22.04); who holds the lock is named by apt since 1.9.11.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.driver_packages import DOCA_REPO, read_stanzas
from lab.hosts.tools.options import split_options
from lab.hosts.tools.packages import install, installed, version_order

LOCK: Final = "/var/lib/dpkg/lock-frontend"
HALF: Final = "var/lib/dpkg/half-installed.json"
"""Names of packages whose installation was cut off."""
FREE_KIB: Final = 400 << 20
"""Free space of a lab host: 400 GiB on each of its file systems."""
SIZE_KIB: Final = 440 << 20


def lock_refusal(model: HostModel) -> ToolResult | None:
    """Apt's answer while another process holds the lock; the lab does not let it wait."""
    holder = model.drivers.lock_holder
    if not holder:
        return None
    text = f"E: Could not get lock {LOCK}. It is held by process {holder}\n"
    text += f"E: Unable to acquire the dpkg frontend lock ({LOCK}), is another process using it?\n"
    return ToolResult(100, err=text)


def no_space(model: HostModel, name: str) -> ToolResult | None:
    """Dpkg's answer on a full disk."""
    if not model.drivers.full_folders & {"/", "/var"}:
        return None
    text = f"dpkg: error processing archive {name}: failed to write (No space left on device)\n"
    return ToolResult(100, err=text + "E: Sub-process /usr/bin/dpkg returned an error code (1)\n")


def half_installed(root: Path) -> list[str]:
    """Packages whose installation was cut off."""
    path = root / HALF
    names: list[str] = json.loads(path.read_text()) if path.exists() else []
    return names


def set_half_installed(root: Path, names: list[str]) -> None:
    """Leave packages half there, or none."""
    path = root / HALF
    path.unlink(missing_ok=True)
    if names:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(names))


def dpkg(call: ToolCall) -> ToolResult:
    """`dpkg --configure -a`, `-i FILE`, and what it has in common with dpkg-query."""
    match call.argv:
        case ("--configure", "-a"):
            names = half_installed(call.root)
            set_half_installed(call.root, [])
            return ToolResult(out="".join(f"Setting up {name} ...\n" for name in names))
        case ("-i" | "--install", path):
            return _install_file(call, path)
        case _:
            return dpkg_query(call)


def dpkg_query(call: ToolCall) -> ToolResult:
    """`dpkg-query -W [-f FORMAT] PACKAGE…` and `dpkg -l|-s [PACKAGE…]`."""
    options = split_options(
        call.argv, ("-f", "--showformat"), ("-W", "--show", "-l", "--list", "-s", "--status"),
        mixed=True,
    )  # fmt: skip
    if isinstance(options, str) or not options.given:
        bad = options if isinstance(options, str) else ""
        return call.unmodelled(ToolResult(2, err=f"{call.tool}: error: unknown option {bad}\n"))
    half = half_installed(call.root)
    have = dict.fromkeys(half, "") | installed(call.root)
    found = {word: [n for n in sorted(have) if fnmatchcase(n, word)] for word in options.words}
    missing = [word for word, names in found.items() if not names]
    shown = [name for names in found.values() for name in names] or sorted(have)
    text = "".join(
        _shown(
            name,
            have[name],
            options.last("-f", "--showformat"),
            options.given[0][0],
            half=name in half,
        )
        for name in (() if options.words and not any(found.values()) else shown)
    )
    error = "".join(f"dpkg-query: no packages found matching {name}\n" for name in missing)
    return ToolResult(1 if missing else 0, text, error)


def _shown(name: str, version: str, form: str, verb: str, *, half: bool) -> str:
    """One package in the form that was asked for; a half one is half configured."""
    short, status = ("iF", "half-configured") if half else ("ii", "installed")
    status = f"install ok {status}"
    if verb in ("-l", "--list"):
        return f"{short}  {name:<30} {version:<28} amd64\n"
    if verb in ("-s", "--status"):
        return f"Package: {name}\nStatus: {status}\nVersion: {version}\n"
    shown = form or "${Package}\t${Version}\n"
    values = {"Package": name, "Version": version, "Status": status,
              "db:Status-Abbrev": f"{short} "}  # fmt: skip
    for key, value in values.items():
        shown = shown.replace("${" + key + "}", value)
    return shown.replace("\\n", "\n").replace("\\t", "\t")


def _install_file(call: ToolCall, path: str) -> ToolResult:
    """The lab's own form of a .deb: its stanza, and what its repository shall hold."""
    if call.model.drivers.lock_holder:
        text = "dpkg: error: dpkg frontend lock was locked by another process with pid "
        return ToolResult(2, err=f"{text}{call.model.drivers.lock_holder.split()[0]}\n")
    file = call.host_path(path)
    if not file.exists():
        text = f"dpkg: error: cannot access archive '{path}': No such file or directory\n"
        return ToolResult(2, err=text)
    if refusal := no_space(call.model, path):
        return refusal
    text = file.read_text()
    own, _, repository = text.partition("\n\n")
    stanza = read_stanzas(own)[0]
    folder = call.root / DOCA_REPO
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Packages").write_text(f"{own}\n\n{repository}")
    sources = call.root / "etc/apt/sources.list.d"
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "doca.list").write_text(f"deb [trusted=yes] file:/{DOCA_REPO} ./\n")
    name, there = stanza["Package"], installed(call.root).get(stanza["Package"], "")
    install(call.root, name, downgrade=True)
    warning = f"dpkg: warning: downgrading {name} from {there} to {stanza['Version']}\n"
    back = version_order(there) > version_order(stanza["Version"])
    return ToolResult(
        out=f"Setting up {name} ({stanza['Version']}) ...\n", err=warning if back else ""
    )


def df(call: ToolCall) -> ToolResult:
    """`df -Pk FOLDER…`: a host has one file system, unless a folder of it was filled up."""
    options = split_options(call.argv, (), ("-P", "-k", "-Pk", "-h"), mixed=True)
    if isinstance(options, str):
        return call.unmodelled(ToolResult(1, err=f"df: unrecognized option '{options}'\n"))
    lines = ["Filesystem     1024-blocks      Used Available Capacity Mounted on"]
    full = call.model.drivers.full_folders
    for word in options.words or ("/",):
        mount = next((f for f in sorted(full, reverse=True) if f"{word}/".startswith(f"{f}/")), "/")
        free = 0 if mount in full else FREE_KIB
        used = SIZE_KIB - free
        lines.append(f"/dev/sda1 {SIZE_KIB} {used} {free} {100 * used // SIZE_KIB}% {mount}")
    return ToolResult(out="\n".join(lines) + "\n")

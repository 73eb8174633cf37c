"""A host's tools that answer as the vendors' do, and the scripts run among them without root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.hosts.host_text import library_text, script_text

Done = subprocess.CompletedProcess[str]

UNAME = '#!/bin/sh\ncase $1 in -r) cat "$FAKE/kernel" ;; -m) echo x86_64 ;; esac\n'
MODINFO = """#!/bin/sh
for name; do :; done
[ -e "$FAKE/modules/$name" ] || { echo "modinfo: ERROR: Module $name not found." >&2 && exit 1; }
while [ $# -gt 1 ]; do
  case $1 in
    -k) shift ;;
    -F) field=$2 && shift ;;
  esac
  shift
done
sed -n "s/^$field=//p" "$FAKE/modules/$name"
"""
DF = """#!/bin/sh
echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'
case $2 in
  /boot) echo "/dev/sda2 1000000 900000 $(cat "$FAKE/boot_free") 90% /boot" ;;
  *) echo "/dev/sda1 9000000 100 $(cat "$FAKE/root_free") 90% /" ;;
esac
"""
MOKUTIL = """#!/bin/sh
case $1 in
  --sb-state) cat "$FAKE/secure_boot" ;;
  --test-key) echo "$2 is not enrolled" ;;
  --list-enrolled)
    [ -e "$FAKE/enrolled" ] || { echo 'MokListRT is empty' && exit; }
    echo '[key 1]'
    echo 'SHA1 Fingerprint: 76:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0'
    echo 'Certificate:'
    sed 's/.*/        Issuer: &\\n        Subject: &/' "$FAKE/enrolled"
    ;;
  --db) echo 'db is empty' ;;
  *) echo "mokutil: unrecognized option '$1'" >&2 && exit 255 ;;
esac
"""
"""Words of mokutil 0.6, and the certificates as OpenSSL prints them; `enrolled` has their names."""
KERNEL = "5.15.0-1-generic"
ROOT_PATH = ":/usr/local/sbin:/usr/sbin:/sbin"
"""The folders of root's tools that the scripts add; none of their tools is for here."""
OTHER_TOOLS = ("dpkg", "apt", "rpm", "dnf", "grubby", "modprobe", "ip", "systemctl", "docker")
"""Beginnings of the names of tools that this machine may have, and the host has not."""
LITTLE_ROOM = "trap '' XFSZ\nulimit -f 128\n"
"""No file of more than 64 KiB can be written, as on a file system that is nearly full."""
OWN_FOLDERS = ("/sys/", "/var/lib/", "/run/", "/lib/modules/", "/etc/", "/boot/")
"""What a whole script reads and writes on a host; here it lies below the folder of the tools."""


def make_fake(tmp_path: Path) -> Path:
    tools = {"uname": UNAME, "modinfo": MODINFO, "df": DF, "mokutil": MOKUTIL}
    for name, text in tools.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "modules").mkdir()
    for name, text in {"kernel": KERNEL, "secure_boot": "SecureBoot disabled",
                       "root_free": "90000000", "boot_free": "500000"}.items():  # fmt: skip
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def sh(fake: Path, script: str, *, debian: bool = False) -> Done:
    """Run a script after the library, on a system with rpm, or with dpkg where asked."""
    for name in ("dpkg", "dpkg-query") if debian else ():
        (fake / name).write_text("#!/bin/sh\nexit 0\n")
        (fake / name).chmod(0o755)
    return run(fake, library_text().replace(ROOT_PATH, "") + script)


def converge(fake: Path, stdin: str, before: str = "", *, device: str = "") -> Done:
    """Bring a host whose files lie in the folder to a state, out of service."""
    for folder in OWN_FOLDERS:
        (fake / folder.strip("/")).mkdir(parents=True, exist_ok=True)
    text = script_text("converge").replace(ROOT_PATH, "").replace("/proc/sys/", "PROC_SYS")
    if device:  # as its step says it to the tool
        text = text.replace("set -- converge", f"set -- converge keep={device}-host", 1)
    for folder in OWN_FOLDERS:
        text = text.replace(folder, f"{fake}{folder}")
    text = text.replace("PROC_SYS", "/proc/sys/")
    return run(fake, before + text, f"stack=test\ndisrupt=now\n{stdin}")


def run(fake: Path, script: str, stdin: str = "") -> Done:
    """Run a script with the tools of the host before those of this machine."""
    (fake / "script").write_text(script)
    own = fake / "bin"
    links = own if own.exists() else _tools_of_this_machine(fake.parent / "tools")
    return subprocess.run(
        ["/bin/sh", str(fake / "script")], input=stdin,
        env={"PATH": f"{fake}:{links}", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def remove_tools(fake: Path, *names: str) -> None:
    """Take tools of this machine away from the host."""
    links = _tools_of_this_machine(fake / "bin")
    for name in names:
        (links / name).unlink(missing_ok=True)


def _tools_of_this_machine(links: Path) -> Path:
    """A folder with links to them; there are a thousand, so hosts beside each other share it."""
    if not links.exists():
        links.mkdir()
        paths = {path.name: path for path in Path("/usr/bin").iterdir()}
        paths |= {path.name: path for path in Path("/bin").iterdir()}
        for name, path in paths.items():
            if not name.startswith(OTHER_TOOLS):
                (links / name).symlink_to(path)
    return links


def module(fake: Path, name: str, **fields: str) -> None:
    lines = "".join(f"{key}={value}\n" for key, value in fields.items())
    (fake / "modules" / name).write_text(lines)


def tool(fake: Path, name: str, text: str) -> None:
    (fake / name).write_text(f"#!/bin/sh\n{text}\n")
    (fake / name).chmod(0o755)

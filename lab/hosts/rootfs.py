"""The file tree of a lab host: its own /etc, /var, /root …, and the shared read-only rest."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lab.hosts.driver_state import KERNEL
from lab.hosts.image import install_image
from lab.hosts.platform import grub_cfg
from lab.hosts.tools.packages import PROGRAM_NAMES, PROGRAMS
from lab.hosts.tools.perftest_names import PERFTEST_NAMES
from lab.hosts.udev_names import RULES
from lab.views import HostConfig

OWN_FOLDERS = ("etc", "var", "root", "home", "opt", "srv", "mnt", "media", "boot", "usr/local",
               "usr/lib/udev")  # fmt: skip
"""Folders of the host itself, kept on disk over reboots and `make down`."""

SHARED_ETC = ("alternatives", "ssl", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ca-certificates")
"""Parts of /etc that belong to the read-only /usr and come from the machine the lab runs on."""

OUTER_BIN = "/run/lab/outer-bin"
OUTER_SBIN = "/run/lab/outer-sbin"
"""Where the machine's own /usr/bin and /usr/sbin stand inside of a host."""

INNER_PYTHON = "/run/lab/python"
"""Where the interpreter of the emulated tools stands when its own place is closed to users."""

CONTAINER_TOOLS = "/run/lab/container-tools"
GPU_FOLDER = "gpu"
"""What NVIDIA's runtime adds to a container that asks for GPUs, as a folder of its tools."""
"""Where the tools of container images stand inside of a host."""

CONTAINER_TOOL_NAMES = ("mpirun", "mpiexec", "orted", *PERFTEST_NAMES)

SSH_SCRIPT = """\
#!/bin/sh
# All hosts of the lab share one loopback network: a connection leaves from its own host's address.
set -- -b "$(hostname -I | tr -d ' ')" "$@"
exec /run/lab/outer-bin/ssh "$@"
"""

CLIENT_NAME = ".lab-tool"
"""The one program behind every emulated tool."""

SSH_UID = 1000
"""uid of the login user that the installed system came with."""

HIDDEN_TOOLS = frozenset({
    "docker", "containerd", "kubectl", "helm", "k3s", "pulumi", "apt", "apt-get", "apt-cache",
    "bwrap", "nsenter", "unshare", "mount", "umount", "fusermount", "chroot", "systemd-nspawn",
    "loginctl", "machinectl", "timedatectl", "poweroff", "halt", "init", "telinit",
    "ofed_info", "apptainer", "netplan", "iptables", "ip6tables", "nft", "tc", "bridge", "ss",
    "rdma", "devlink", "dcb", "sshd", "ssh", "rpm", "dnf", "yum", "grubby", "dkms",
})  # fmt: skip
"""Tools of the outer machine that a lab host must not see: it does not have them, or they would
act on the outer kernel. Those of them that the lab emulates come back as emulated tools."""


def prepare_root(root: Path, host: HostConfig) -> None:
    """Make the host's own folders; on the first call also the files of a fresh installation."""
    for folder in (*OWN_FOLDERS, "log"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    marker = root / "installed"
    if marker.exists():
        return
    _install_etc(root / "etc", host)
    (root / "boot/grub").mkdir()
    (root / "boot/grub/grub.cfg").write_text(grub_cfg(root))
    _install_rdma_core(root)
    for folder in ("lib", "log", "cache", "tmp", "spool", "opt"):
        (root / "var" / folder).mkdir(exist_ok=True)
    (root / "var/run").symlink_to("/run")
    (root / "root").chmod(0o700)
    for folder in ("bin", "sbin", "lib", "share"):
        (root / "usr/local" / folder).mkdir(exist_ok=True)
    home = root / "home" / host.user
    ssh = home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (ssh / "authorized_keys").write_text(host.authorized_key.strip() + "\n")
    (ssh / "authorized_keys").chmod(0o600)
    for path in (home, ssh, ssh / "authorized_keys"):
        os.chown(path, SSH_UID, SSH_UID)
    install_image(root, host, KERNEL)
    marker.write_text("1\n")


def _install_rdma_core(root: Path) -> None:
    """What renames RDMA devices. NAME_KERNEL, as names of the lab are, is unproven for any host."""
    (root / RULES).parent.mkdir()
    (root / RULES).write_text(
        'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_KERNEL"\n'
    )
    modes = "NAME_FALLBACK NAME_KERNEL NAME_PCI NAME_GUID NAME_FIXED"
    (root / "usr/lib/udev/rdma_rename").write_text(f"#!/bin/sh\n# {modes}: udev's part is played\n")


def _install_etc(etc: Path, host: HostConfig) -> None:
    user = host.user
    texts = {
        "hostname": f"{host.name}\n",
        "hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{host.name}\n",
        "passwd": (
            "root:x:0:0:root:/root:/bin/bash\n"
            "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
            "sshd:x:110:65534::/run/sshd:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            f"{user}:x:{SSH_UID}:{SSH_UID}:{user}:/home/{user}:/bin/bash\n"
        ),
        "group": (
            "root:x:0:\ndaemon:x:1:\nadm:x:4:\nsudo:x:27:" + user + "\n"
            f"users:x:100:\nnogroup:x:65534:\n{user}:x:{SSH_UID}:\n"
        ),
        "shadow": f"root:*:19700:0:99999:7:::\n{user}:*:19700:0:99999:7:::\n",
        "gshadow": f"root:*::\nsudo:*::{user}\n{user}:!::\n",
        "login.defs": "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\n"
        "USERGROUPS_ENAB yes\nENCRYPT_METHOD SHA512\nHOME_MODE 0750\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "resolv.conf": "",
        "machine-id": f"{abs(hash_name(host.name)):032x}\n",
        "os-release": 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
        'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nVERSION_CODENAME=jammy\n',
        "fstab": "",
        "shells": "/bin/sh\n/bin/bash\n",
        "environment": "",
        f"sudoers.d/90-{user}": f"{user} ALL=(ALL) NOPASSWD:ALL\n",
        "modules": "",
        "default/useradd": "SHELL=/bin/bash\n",
        "default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n',
    }
    for folder in ("sudoers.d", "default/grub.d", "systemd/system", "systemd/network",
                   "modprobe.d", "modules-load.d", "sysctl.d", "udev/rules.d",
                   "skel", "security/limits.d", "ssh", "profile.d", "cron.d"):  # fmt: skip
        (etc / folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (etc / name).write_text(text)
    for name in ("shadow", "gshadow", f"sudoers.d/90-{user}"):
        (etc / name).chmod(0o640 if "shadow" in name else 0o440)


def hash_name(name: str) -> int:
    """A number that stands for a name and is the same in every process."""
    return int.from_bytes(name.encode()[:16].ljust(16, b"\0"), "big")


def build_tool_folders(folder: Path, tools: frozenset[str], client: Path) -> None:
    """Make the `/usr/bin` and `/usr/sbin` that every lab host sees.

    Each is a folder of links to the outer machine's tools, with the emulated ones in their place;
    so an absolute path in a unit finds the emulated tool too.

    Args:
        folder: Where to build; made again.
        tools: Names of the emulated tools.
        client: The program that passes a call on to the lab daemon.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for outer, inner in (("/usr/bin", OUTER_BIN), ("/usr/sbin", OUTER_SBIN)):
        target = folder / Path(outer).name
        target.mkdir(parents=True)
        for name in sorted(path.name for path in Path(outer).iterdir()):
            if name not in tools and name not in HIDDEN_TOOLS and name not in PROGRAM_NAMES:
                (target / name).symlink_to(f"{inner}/{name}")
        shutil.copy2(client, target / CLIENT_NAME)
        for name in tools:
            (target / name).symlink_to(CLIENT_NAME)
        for name in PROGRAM_NAMES:  # they lead somewhere once the package is installed
            (target / name).symlink_to(f"/{PROGRAMS}/{name}")
    if Path("/usr/bin/ssh").exists():
        (folder / "bin/ssh").write_text(SSH_SCRIPT)
        (folder / "bin/ssh").chmod(0o755)
    inside = folder / "container"
    inside.mkdir()
    shutil.copy2(client, inside / CLIENT_NAME)
    for name in CONTAINER_TOOL_NAMES:
        (inside / name).symlink_to(CLIENT_NAME)
    gpu = inside / GPU_FOLDER
    gpu.mkdir()
    shutil.copy2(client, gpu / CLIENT_NAME)
    (gpu / "nvidia-smi").symlink_to(CLIENT_NAME)


def python_prefix() -> Path | None:
    """The interpreter's own prefix, unless it is one that every user may enter (/usr)."""
    base = Path(sys.base_prefix)
    return None if base.is_relative_to("/usr") else base


def tool_interpreter() -> Path:
    """The interpreter of the emulated tools, by its path inside of a host."""
    real = Path(os.path.realpath(sys.executable))
    prefix = python_prefix()
    return real if prefix is None else Path(INNER_PYTHON) / real.relative_to(prefix)


def read_only_paths(project: Path, cache: Path) -> list[Path]:
    """Folders of the outer machine that lab processes inside of a host need, at the same path."""
    base = Path(sys.base_prefix)
    paths = [project, cache] if cache.exists() else [project]
    if base == Path("/usr/local"):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        paths += [base / "bin" / version, base / "lib" / version]
        paths += sorted((base / "lib").glob("libpython*"))
    elif base != Path("/usr"):
        paths.append(base)
    real = Path(os.path.realpath(sys.executable))
    if not any(real.is_relative_to(path) for path in (*paths, Path("/usr"))):
        paths.append(real)
    return paths

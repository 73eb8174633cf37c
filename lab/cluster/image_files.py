"""The file system of a container, as far as scripts of pods look at it: an image laid out.

Small tools are this machine's own; a program of the image only writes down how it was called, but
for those that the look at an image asks: `ldd`, `id`, and sshd with its client. What the image
lacks is not there, whatever this machine has.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

from components.core.record import record
from lab.cluster import lab_socket
from lab.cluster.document import Doc
from lab.cluster.images import COLLECTIVES, Image

_SMALL_TOOLS: Final = (
    "sh", "cat", "cut", "sleep", "mkdir", "cp", "hostname", "basename", "dirname", "date", "env",
    "grep", "sed", "mktemp", "head", "tail", "uname", "rm", "ls", "tr", "sort", "touch", "chmod",
    "wc", "seq", "readlink", "timeout",
)  # fmt: skip
_RECORD: Final = """
[ ! -e "$RAILYARD_LAB_CALL" ] || cp "$RAILYARD_LAB_CALL" "$RAILYARD_LAB_CALL.first"
[ -e "$RAILYARD_LAB_CALL" ] || wc -c <"$RAILYARD_LAB_OUT" >"$RAILYARD_LAB_CALL.at"
for word in "${0##*/}" "$@"; do printf '%s\\0' "$word"; done >"$RAILYARD_LAB_CALL"
printf '%s\\0' $(wc -c <"$RAILYARD_LAB_OUT") $(($# + 1)) >>"$RAILYARD_LAB_CALL.all"
cat "$RAILYARD_LAB_CALL" >>"$RAILYARD_LAB_CALL.all"
env | grep -E '^(NCCL|UCX)_' >"$RAILYARD_LAB_CALL.env"
exit 0
"""
_RECORDER: Final = f"""#!/bin/sh
[ "$1 $2" != '--allow-run-as-root --version' ] || {{ echo '@MPI@'; exit 0; }}
{_RECORD}"""
_LDD: Final = """#!/bin/sh
while read -r name; do
  case $name in
    !*) printf '\\t%s => not found\\n' "${name#!}" ;;
    *) printf '\\t%s => @ROOT@/lib/x86_64-linux-gnu/%s (0x00007f0000000000)\\n' "$name" "$name" ;;
  esac
done <"$1.linked"
"""
_ID: Final = """#!/bin/sh
echo @USER@
"""
_SSHD: Final = f"""#!/bin/sh
[ -d @ROOT@/run/sshd ] || {{
  echo 'Missing privilege separation directory: /run/sshd' >&2
  exit 255
}}
if [ "$1" = -De ]; then
{_RECORD}fi
while [ $# -gt 0 ]; do
  case $1 in
    -E) log=$2; shift ;;
    -p) port=$2; shift ;;
    -o) shift ;;
  esac
  shift
done
echo "$port" >@ROOT@/sshd.port
echo "$log" >@ROOT@/sshd.log
echo "Server listening on 127.0.0.1 port $port." >>"$log"
"""
"""The words of OpenSSH 9.2. It leaves no process, and so no PidFile: nothing is to be ended."""
_SSH: Final = """#!/bin/sh
for last in "$@"; do :; done
port=22
while [ $# -gt 0 ]; do
  [ "$1" != -p ] || port=$2
  shift
done
[ "$(cat @ROOT@/sshd.port 2>/dev/null)" = "$port" ] || {
  echo "ssh: connect to host 127.0.0.1 port $port: Connection refused" >&2
  exit 255
}
[ @ROOT_LOGIN@ = yes ] || {
  echo 'ROOT LOGIN REFUSED FROM 127.0.0.1 port 36602' >>"$(cat @ROOT@/sshd.log)"
  echo 'root@127.0.0.1: Permission denied (publickey,password).' >&2
  exit 255
}
exec env -i HOME=@HOME@ PATH=/usr/local/bin:/usr/bin:/bin /bin/sh -c "$last"
"""
_KEYGEN: Final = """#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" != -f ] || file=$2
  shift
done
echo 'a private key' >"$file"
echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA root@pod' >"$file.pub"
"""
_PYTHON: Final = """#!/bin/sh
[ -n '@TORCH@' ] || {
  echo "ModuleNotFoundError: No module named 'torch'" >&2
  exit 1
}
echo '@TORCH@'
"""
"""Asked by the look at an image alone, for the NCCL of torch."""
_PLAYED: Final = {"sshd": _SSHD, "ssh": _SSH, "ssh-keygen": _KEYGEN, "python3": _PYTHON}


_ON_GPUS: Final = """#!/bin/sh
exec @PYTHON@ -IS @ASK@ @ROOT@ @CONTROL@ "${0##*/}" "$@"
"""
_SLEEP: Final = """#!/bin/sh
exec @SLEEP@ 0.1
"""
"""A look at GPUs every few seconds, without the seconds."""


@record
class GpuAccess:
    """What programs of a container need to run on the GPUs of its host."""

    control: Path
    """Socket of the lab daemon, which knows the GPUs."""
    pod: Doc
    """The pod, as the physics is told of it."""


def lay_gpu_programs(access: GpuAccess, root: Path) -> None:
    """Put NVIDIA's runtime's nvidia-smi beside the image, and let its programs run on GPUs."""
    (root / "gpu-pod.json").write_text(json.dumps(access.pod))
    values = {
        "@PYTHON@": sys.executable,
        "@ASK@": str(Path(lab_socket.__file__)),
        "@ROOT@": str(root),
        "@CONTROL@": str(access.control),
        "@SLEEP@": shutil.which("sleep") or "sleep",
    }
    known = {"nvbandwidth", *COLLECTIVES}
    for file in [each for each in root.rglob("*") if each.name in known]:
        _write(file, _ON_GPUS, values)
    _write(root / "usr/bin/nvidia-smi", _ON_GPUS, values)
    (root / "bin/sleep").unlink()
    _write(root / "bin/sleep", _SLEEP, values)


def lay_out(image: Image, root: Path) -> None:
    """Make the programs of an image under `root`."""
    small = root / "bin"
    small.mkdir(parents=True, exist_ok=True)
    for name in _SMALL_TOOLS:
        found = shutil.which(name)
        if found is not None:
            (small / name).symlink_to(found)
    values = {
        "@ROOT@": str(root),
        "@MPI@": image.mpi,
        "@USER@": str(image.user),
        "@HOME@": image.root_home,
        "@TORCH@": image.torch_nccl,
        "@ROOT_LOGIN@": "yes" if image.root_login else "no",
    }
    _write(small / "ldd", _LDD, values)
    _write(small / "id", _ID, values)
    for path in image.programs:
        name = path.rpartition("/")[2]
        if name != "getent":  # a function of the script's prelude answers in its place
            _write(root / path.lstrip("/"), _PLAYED.get(name, _RECORDER), values)
        else:
            _write(root / path.lstrip("/"), "#!/bin/sh\nexit 2\n", values)
        linked = image.linked.get(path, ())
        lines = "".join(f"{library}\n" for library in linked)
        (root / f"{path.lstrip('/')}.linked").write_text(lines)
    _lay_nccl(image.nccl, root / "lib/x86_64-linux-gnu")
    if image.run_sshd:
        (root / "run/sshd").mkdir(parents=True)


def _lay_nccl(release: str, folder: Path) -> None:
    """NCCL's library as NVIDIA's packages have it, or as the file of a wheel (`~` before)."""
    folder.mkdir(parents=True)
    number = release.removeprefix("~")
    link, text = folder / "libnccl.so.2", f"\0NCCL version {number}+cuda12.9\0" if number else "\0"
    if release.startswith("~"):
        link.write_text(text)
    elif release:
        link.with_name(f"libnccl.so.{release}").write_text(text)
        link.symlink_to(f"libnccl.so.{release}")


def path_of(image: Image, root: Path) -> str:
    """The PATH of a container of that image, under `root`."""
    return ":".join(f"{root}{folder}" for folder in image.path.split(":"))


def _write(file: Path, text: str, values: dict[str, str]) -> None:
    for mark, value in values.items():
        text = text.replace(mark, value)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)

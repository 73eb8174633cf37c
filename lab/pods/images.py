"""The images of the site, made here from the built programs and a Debian tree, and pushed.

Names and tags are those of the product's manifests; where each program lies in its image follows
the Dockerfile of its module. Layers are not compressed: two cores have better to do.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from components.artefacts.naming import MANIFESTS, Manifest
from components.artefacts.registry import RegistryClient
from components.artefacts.web import Access
from components.core.record import field, record

LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
OCI_MANIFEST: Final = next(each for each in MANIFESTS if "oci" in each)
PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_APPLETS: Final = (
    "sh", "cat", "chmod", "cp", "date", "echo", "false", "find", "grep", "id", "ip", "kill", "ln",
    "ls", "mkdir", "mktemp", "mv", "ping", "rm", "sed", "sleep", "stat", "tr", "true", "wget",
    "base64", "sha256sum", "cut", "head", "tail", "test", "touch", "dirname", "basename", "ps",
    "inotifyd", "md5sum", "cmp", "env", "printf", "xargs", "awk", "wc", "sort", "uniq", "tee",
)  # fmt: skip


@record
class Recipe:
    """One image: its name, its files, and what it starts."""

    name: str
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Path in the image to a file here; all are executable."""
    entrypoint: tuple[str, ...] = ()
    busybox: bool = False
    """It has a shell, as images on Alpine do."""
    tree: Path | None = None
    """A whole tree below; the files lie over it."""

    @property
    def repository(self) -> str:
        """Where the site's registry has it: below its whole upstream name."""
        return self.name.rpartition(":")[0]

    @property
    def tag(self) -> str:
        """Its tag."""
        return self.name.rpartition(":")[2]


def push_image(recipe: Recipe, busybox: Path, mirror: str, scratch: Path) -> str:
    """Make an image and push it; its digest.

    Args:
        recipe: What it is.
        busybox: The static program, for those images that have a shell.
        mirror: `host:port` of the registry.
        scratch: A folder for the layer.
    """
    client = RegistryClient(mirror, Access(insecure=True))
    layer = scratch / "layer.tar"
    write_layer(recipe, busybox, layer)
    digest, size = _digest(layer)
    client.push_blob(recipe.repository, digest, layer, "")
    layer.unlink()
    config = json.dumps(_config(recipe, digest)).encode()
    (scratch / "config").write_bytes(config)
    configured = f"sha256:{hashlib.sha256(config).hexdigest()}"
    client.push_blob(recipe.repository, configured, scratch / "config", "")
    body = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": CONFIG, "digest": configured, "size": len(config)},
            "layers": [{"mediaType": LAYER, "digest": digest, "size": size}],
        }
    ).encode()
    named = f"sha256:{hashlib.sha256(body).hexdigest()}"
    client.push_manifest(recipe.repository, recipe.tag, Manifest(OCI_MANIFEST, named, body))
    return named


def write_layer(recipe: Recipe, busybox: Path, layer: Path) -> None:
    """Write the one layer of an image, as a tar file."""
    with tarfile.open(layer, "w") as tar:
        if recipe.tree is not None:
            tar.add(recipe.tree, arcname=".", filter=_plain)
        if recipe.busybox:
            _add(tar, "bin/busybox", busybox)
            for applet in _APPLETS:
                _link(tar, f"bin/{applet}", "busybox")
            for folder in ("tmp", "root", "usr/bin"):
                _folder(tar, folder)
        if recipe.tree is None:
            for name, text in _ACCOUNTS.items():
                _text(tar, name, text)
        for name, source in recipe.files.items():
            _add(tar, name.lstrip("/"), source)


_ACCOUNTS: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
}


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without devices, and without what only a machine has."""
    if entry.isdev() or entry.name.startswith(("./proc/", "./sys/", "./dev/", "./var/cache/apt/")):
        return None
    return entry


def _add(tar: tarfile.TarFile, name: str, source: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = source.stat().st_size, 0o755
    with source.open("rb") as file:
        tar.addfile(entry, file)


def _text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    tar.addfile(entry, io.BytesIO(text.encode()))


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _folder(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)


def _config(recipe: Recipe, digest: str) -> Mapping[str, object]:
    entrypoint: Sequence[str] = recipe.entrypoint
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [PATH], "Entrypoint": [*entrypoint], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }


def _digest(path: Path) -> tuple[str, int]:
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            summed.update(piece)
    return f"sha256:{summed.hexdigest()}", path.stat().st_size

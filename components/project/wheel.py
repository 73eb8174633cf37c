"""Pack the running Railyard into a wheel, which a user's project keeps together with its hash.

With only a name and a version, pip would ask a package index, where another person may own the
name. So a project keeps the wheel itself, and pip refuses any other content.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from components.core.errors import Bug
from components.core.record import record
from components.project.one_package import COMMIT_FILE, PACKAGE, commit_of, one_package

DISTRIBUTION: Final = "railyard-rdma"
"""Name of the distribution. `railyard` on the public index is another person's program."""
FOLDER: Final = "vendor"
"""The folder in a project that keeps the wheel."""
_TAG: Final = "py3-none-any"
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can hold: equal code gives an equal wheel."""
_WHEEL: Final = f"Wheel-Version: 1.0\nGenerator: railyard\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
_BLOCK: Final = re.compile(r"^([A-Za-z0-9._-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
"""One package of a lock file: its pin, and the indented lines with its hashes."""
_SEPARATORS: Final = re.compile(r"[-_.]+")
"""Package names are equal if they differ only in these characters (PEP 503)."""


@record
class Wheel:
    """A wheel, with its path and its pip requirement."""

    name: str
    content: bytes

    @property
    def path(self) -> str:
        """Its path in the project."""
        return f"{FOLDER}/{self.name}"

    @property
    def requirement(self) -> str:
        """Its line in requirements.txt: a path and a hash, so pip does not ask an index."""
        return f"./{self.path} --hash=sha256:{hashlib.sha256(self.content).hexdigest()}"


def own_version() -> str:
    """The version of the installed Railyard."""
    return distribution(DISTRIBUTION).version


def own_commit() -> str:
    """The commit of this checkout, or the one that the wheel was built from; `unknown` without."""
    top = Path(__file__).parents[2]
    if not __name__.startswith(PACKAGE):
        return commit_of(top) or "unknown"
    baked = top / PACKAGE / COMMIT_FILE
    return baked.read_text().strip() if baked.is_file() else "unknown"


def pack_wheel() -> Wheel:
    """Pack the running code into a wheel, from a checkout or from an installed wheel."""
    installed = distribution(DISTRIBUTION)
    stem = f"{DISTRIBUTION.replace('-', '_')}-{installed.version}"
    texts = {name: installed.read_text(name) or "" for name in ("METADATA", "entry_points.txt")}
    top = Path(__file__).parents[2]
    if __name__.startswith(PACKAGE):
        paths = (path for path in sorted((top / PACKAGE).rglob("*")) if path.is_file())
        code = (path for path in paths if "__pycache__" not in path.parts)
        files = {path.relative_to(top).as_posix(): path.read_bytes() for path in code}
    else:
        files = dict(one_package(top))
        if commit := commit_of(top):
            files[f"{PACKAGE}/{COMMIT_FILE}"] = f"{commit}\n".encode()
    files |= {f"{stem}.dist-info/{name}": text.encode() for name, text in texts.items()}
    files[f"{stem}.dist-info/WHEEL"] = _WHEEL.encode()
    record = ""
    for name, content in files.items():
        # The hash in RECORD's form (PEP 376): URL-safe base64 without padding.
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    name = f"{stem}.dist-info/RECORD"
    files[name] = f"{record}{name},,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return Wheel(f"{stem}-{_TAG}.whl", packed.getvalue())


def pick_pins(lock: str, names: frozenset[str]) -> str:
    """The blocks of some packages of a lock file, with their hashes; Bug if it lacks one."""
    blocks = {_SEPARATORS.sub("-", found[1]).lower(): found[0] for found in _BLOCK.finditer(lock)}
    if lacking := names - blocks.keys():
        raise Bug(f"requirements.lock lacks {', '.join(sorted(lacking))}")
    return "".join(blocks[name] for name in sorted(names))

"""Turn the code of a checkout into one import package, for a wheel.

A checkout has the top-level packages `components` and `stacks`. A user may have folders with these
names too, so the wheel has `railyard_rdma` alone: the rooms of `components`, and `stacks`, are
below it. Only the names of modules in the Python code differ. Lines and other files are the same.
`setup.py` imports this module, so it imports nothing but Python's own modules.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = "railyard_rdma"
"""Import name. `railyard` on the public index is another person's package."""
COMMIT_FILE: Final = "commit.txt"
"""The commit from which a wheel or an sdist was built, in the package's folder."""
_NAMES: Final[Mapping[str, str]] = {"components": PACKAGE, "stacks": f"{PACKAGE}.stacks"}
_IMPORT: Final = re.compile(r"^([ \t]*from )(components|stacks)([\w.]* import )", re.MULTILINE)
_WHOLE_IMPORT: Final = re.compile(r"^[ \t]*import (components|stacks)\b", re.MULTILINE)
_MODULE: Final = re.compile(r"(?<![\w./-])(?:components|stacks)\.\w+\b(?![/(])")
"""What may name a module: neither a part of a path nor a call."""
_COMMIT_DEADLINE_S: Final = 10


def commit_of(root: Path) -> str:
    """The commit of a checkout, with `-dirty` if files differ; empty without its own git folder."""
    command = ("git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*")
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            (*command, "--abbrev=12"),
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMIT_DEADLINE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def one_package(root: Path) -> Iterator[tuple[str, bytes]]:
    """Path in the wheel to content, for all files of a checkout that a wheel has.

    ValueError, with the file, for a form of import in which no module can be renamed.
    """
    names = {
        f"{top}.{path.stem}": f"{package}.{path.stem}"
        for top, package in _NAMES.items()
        for path in sorted((root / top).iterdir())
        if path.stem.isidentifier()
    }
    for folder in (PACKAGE, *_NAMES):
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root / folder)
            taken = folder == "components" and inside.as_posix() == "__init__.py"
            if taken or not path.is_file() or "__pycache__" in path.parts:
                continue
            content = path.read_bytes()
            if path.suffix == ".py":
                source = content.decode()
                if found := _WHOLE_IMPORT.search(source):
                    number = source.count("\n", 0, found.start()) + 1
                    raise ValueError(f"{path}:{number}: write `from … import …` instead.")
                source = _IMPORT.sub(
                    lambda found: f"{found[1]}{_NAMES[found[2]]}{found[3]}", source
                )
                content = _MODULE.sub(lambda found: names.get(found[0], found[0]), source).encode()
            yield f"{_NAMES.get(folder, PACKAGE).replace('.', '/')}/{inside.as_posix()}", content

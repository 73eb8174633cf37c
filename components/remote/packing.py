"""Long scripts travel packed: Linux takes at most 128 KiB in one argument of a program.

What a step sends is kept in the state, too, once to apply and once to undo, so that a tenth of the
length is felt on a site of hundreds of hosts. The packed text must be the same on every machine,
else a step would change with the machine it is run from: compressors differ, so the texts of steps
lie beside this module, named by the digest of the script. A test holds that they are there and
unpack to what is sent.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import textwrap
from functools import cache
from importlib import resources
from typing import Final

PACK_FROM_CHARACTERS: Final = 64 * 1024
"""Half of MAX_ARG_STRLEN; shorter scripts are sent as they are, and read in the state."""
_FENCE: Final = "RAILYARD_PACKED"
_COLUMNS: Final = 100


def needs_packing(script: str) -> bool:
    """Whether a script is too long to be sent as it is."""
    return len(script) >= PACK_FROM_CHARACTERS


@cache
def packed_script(script: str) -> str:
    """A script that unpacks another one and runs it in its own shell: stdin stays free."""
    return (
        f"railyard_script=$(base64 -d <<'{_FENCE}' | gzip -dc\n{_packed(script)}{_FENCE}\n)\n"
        '[ -n "$railyard_script" ] || {\n'
        "  echo 'railyard: base64 (coreutils) or gzip is missing on this host' >&2\n"
        "  exit 127\n"
        "}\n"
        'eval "$railyard_script"\n'
    )


def file_name(script: str) -> str:
    """The name below which the packed text of a script is kept."""
    return f"{hashlib.sha256(script.encode()).hexdigest()[:16]}.txt"


def pack(script: str) -> str:
    """Compress a script into lines of base64; the same script may give other lines elsewhere."""
    text = base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()
    return "".join(f"{line}\n" for line in textwrap.wrap(text, _COLUMNS))


def unpack(text: str) -> str:
    """The script in lines of base64."""
    return gzip.decompress(base64.b64decode(text)).decode()


def _packed(script: str) -> str:
    kept = resources.files("components.remote").joinpath("packed", file_name(script))
    return kept.read_text("ascii") if kept.is_file() else pack(script)

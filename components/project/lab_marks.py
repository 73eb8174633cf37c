"""Detect parts of the lab, which a real site refuses. Pure, except for reading small files.

The lab's passphrase is public, `make clean` deletes its state, and its plugins are stand-ins, only
tested against the lab. The name of a stack does not make it a lab stack. Two other facts do: the
configuration that `make up` writes, and loopback addresses of all devices.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from components.core.plain_text import has_placeholder
from components.model.cluster import ClusterSpec
from components.model.reach import as_ipv4

LAB_PASSPHRASE: Final = "railyard-lab"  # noqa: S105 - public on purpose: what must not be used
SHIM_MARK: Final = b"# railyard lab shim"
"""The second line of each program that the lab installs instead of a plugin."""
STAND_IN_MODULES: Final = (b" -m standins.", b" -m lab.")
"""Part of the command in such a program; a shim for a real plugin has neither."""
STATE_MARK: Final = "railyard-lab"
"""A file of this name in a folder of states says that `make clean` deletes them."""
_HEAD_BYTES: Final = 4096
_SALT_PARTS: Final = 5
_ROUNDS: Final = 1_000_000
_KEY_BYTES: Final = 32
"""Pulumi's passphrase provider: PBKDF2 with SHA-256, a million rounds, a key of 256 bits.

The proof is the word `pulumi`, encrypted with AES-GCM (sdk/go/common/resource/config/crypt.go).
"""


def devices_outside_lab(spec: ClusterSpec) -> tuple[str, ...]:
    """`name at address` of each real device: emulated ones are on 127.0.0.0/8."""
    addresses = [(each.name, each.ssh.address) for each in (*spec.switches, *spec.hypervisors)]
    addresses += [(host.name, host.way.address) for host in spec.reached]
    if spec.infiniband is not None and (ufm := spec.infiniband.ufm) is not None:
        addresses.append((ufm.name, ufm.address))
    return tuple(
        f"{name} at {address}"
        for name, address in addresses
        if not has_placeholder(address)
        and not (ip.is_loopback if (ip := as_ipv4(address)) else address in {"localhost", "::1"})
    )


def is_stand_in(program: Path) -> bool:
    """Whether this program is a stand-in of the lab for a plugin."""
    try:
        with program.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return SHIM_MARK in head and any(module in head for module in STAND_IN_MODULES)


def is_lab_backend(url: str) -> bool:
    """Whether the lab's `make clean` deletes the states at this address."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return False
    folder = Path(unquote(f"{parts.netloc}{parts.path}")).expanduser().absolute()
    for each in (folder, *folder.parents):
        if (each / STATE_MARK).is_file():
            return True
        if each.name == ".pulumi" and (each.parent / "lab" / "engine" / "env.py").is_file():
            return True
    return False


def has_lab_passphrase(environ: Mapping[str, str], salt: str) -> bool:
    """Whether the stack's secrets are encrypted with the lab's passphrase.

    `salt` is `encryptionsalt` of the stack's file, or empty: it proves which passphrase was used,
    even if a person typed it.
    """
    given = environ.get("PULUMI_CONFIG_PASSPHRASE")
    if given is None and (file := environ.get("PULUMI_CONFIG_PASSPHRASE_FILE")):
        try:
            given = Path(file).expanduser().read_text().strip()
        except (OSError, UnicodeDecodeError):
            given = None
    if given is not None:
        return given == LAB_PASSPHRASE
    parts = salt.split(":")
    if len(parts) != _SALT_PARTS or parts[0] != "v1" or parts[2] != "v1":
        return False
    # Only here: `check` needs the rest of this module, and starts faster without this library.
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC  # noqa: PLC0415 - see above

    try:
        own, nonce, sealed = (base64.b64decode(parts[at]) for at in (1, 3, 4))
        key = PBKDF2HMAC(SHA256(), _KEY_BYTES, own, _ROUNDS).derive(LAB_PASSPHRASE.encode())
        AESGCM(key).decrypt(nonce, sealed, None)
    except (ValueError, InvalidTag):
        return False
    return True

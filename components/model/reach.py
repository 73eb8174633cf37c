"""Addresses and host keys of machines, checked when the file is read.

An instance that does not exist yet has a hole in place of its address and of its key.
"""

import base64
import binascii
import re
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import AfterValidator, ValidationInfo

from components.core.plain_text import has_placeholder, one_line
from components.model.texts import ANY_LINE, form_schema, only, refuse

OCTET: Final = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4: Final = rf"{OCTET}(\.{OCTET}){{3}}"
_NO_MACHINE: Final = r"(?!0\.0\.0\.0$|22[4-9]\.|23[0-9]\.|24[0-9]\.|25[0-5]\.)"
"""Excludes the unspecified address, multicast (224.0.0.0/4) and reserved ones (240.0.0.0/4)."""
MACHINE_IPV4: Final = rf"^{_NO_MACHINE}{IPV4}$"
_LABEL: Final = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOSTNAME: Final = rf"(?![0-9.]+$){_LABEL}(\.{_LABEL})*"
_IPV6: Final = r"(?!::$|[fF][fF]|[fF][eE][89abAB])(?=.*:.*:)[0-9A-Fa-f:.]+"
"""Not the unspecified address, multicast (ff00::/8) or link-local (fe80::/10); for editors."""
_ADDRESS: Final = re.compile(rf"{_HOSTNAME}|{_NO_MACHINE}{IPV4}")
KEY_TYPES: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
"""Types of host keys, the strongest first."""
_LENGTH_BYTES: Final = 4
"""Each field of a public key begins with its length in four bytes (RFC 4253, section 6.6)."""
_MACHINE: Final = form_schema(MACHINE_IPV4, "ipv4")
_KEY_LINE: Final = form_schema(
    rf"^({'|'.join(KEY_TYPES)}) [A-Za-z0-9+/]+={{0,3}}"
    rf"( {ANY_LINE.strip('^$')})?\s*$"
)


def as_ipv4(text: str) -> IPv4Address | None:
    """The address; None if the text is a name, or an IPv6 address."""
    try:
        return IPv4Address(text)
    except ValueError:
        return None


def is_machine_ipv4(text: str) -> bool:
    """Whether a text is an IPv4 address that a machine can have."""
    known = as_ipv4(text)
    return known is not None and not (
        known.is_unspecified or known.is_multicast or known.is_reserved
    )


def _ssh_address(text: str) -> str:
    if has_placeholder(text):
        return text
    bare, zone, _ = text.strip("[]").partition("%")
    local, whole = _as_ipv6(bare), _as_ipv6(text)
    if local is not None and (local.is_link_local or zone):
        what = f'"{text}" {"is link-local" if local.is_link_local else "has a zone"}'
        raise refuse(
            f"{what}: it needs the name of an interface, which no other machine shares",
            "give the device a global or unique local IPv6 address, an IPv4 one, or a DNS name.",
        )
    is_machine = whole is not None and not (whole.is_unspecified or whole.is_multicast)
    if not _ADDRESS.fullmatch(text) and not is_machine:
        raise refuse(
            f'"{text}" is neither an IP address of a machine nor a DNS name',
            "write the address alone, without user, port or scheme.",
        )
    return text


def _as_ipv6(text: str) -> IPv6Address | None:
    try:
        return IPv6Address(text)
    except ValueError:
        return None


def how_to_pin(address: str, port: int) -> str:
    """Explain how to get a device's host key without trusting the first machine that answers.

    The command asks for all keys: an ESXi host lacks ed25519, and switches differ by system and
    release. An RSA key comes last, since the Pulumi command provider knows only SHA-1 for it.
    """
    return (
        f"run `ssh-keyscan -p {port} {address}` on a trusted network, take the key of ed25519, "
        "else of ECDSA, else of RSA, compare it with the device's console, and write the text "
        "after the address"
    )


def _host_key(key: str, info: ValidationInfo) -> str:
    flaw = None if has_placeholder(key) else _flaw(key)
    if flaw is not None:
        # Address and port come before the key; a wrong one has its own error.
        known = info.data
        fix = how_to_pin(known.get("address", "ADDRESS"), known.get("port", 22))
        raise refuse(flaw, f"{fix}.")
    return key


def _public_key(key: str) -> str:
    if flaw := _flaw(key, "public key"):
        raise refuse(flaw, "write the one line of the key's file that ends in .pub.")
    return key


def _flaw(key: str, name: str = "host key") -> str | None:
    if len(key.strip().splitlines()) > 1:
        return f"the {name} has several lines, and one key is meant"
    if one_line(key.strip()) != key.strip():
        return f"the {name} has characters in its comment that cannot be seen"
    words = key.split()
    kind = words[0] if words else ""
    if kind not in KEY_TYPES:
        if len(words) > 1 and words[1] in KEY_TYPES:
            return f"the {name} begins with {kind!r}; only `<type> <key>` belongs there"
        return f"the {name} is of the unknown type {kind!r}"
    if len(words) == 1 or not _holds_type(words[1], kind):
        return f"the {name} is cut off or is not a {kind} key"
    return None


def _holds_type(encoded: str, kind: str) -> bool:
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    if blob[:_LENGTH_BYTES] != len(kind).to_bytes(_LENGTH_BYTES, "big"):
        return False
    fields: list[bytes] = []
    while blob:
        size = int.from_bytes(blob[:_LENGTH_BYTES], "big")
        field, blob = blob[_LENGTH_BYTES : _LENGTH_BYTES + size], blob[_LENGTH_BYTES + size :]
        if not field or len(field) < size:
            return False
        fields.append(field)
    return len(fields) > 1 and fields[0] == kind.encode()


SshAddress = Annotated[
    str, AfterValidator(_ssh_address), form_schema(rf"^({_HOSTNAME}|{_NO_MACHINE}{IPV4}|{_IPV6})$")
]
"""An IPv4 or IPv6 address that a machine can have, without brackets, or a DNS name."""
NodeAddress = Annotated[
    str,
    only(
        lambda text: has_placeholder(text) or is_machine_ipv4(text),
        'a node needs an IPv4 address, and "{}" cannot belong to a machine',
        "set node_ip to the address by which the other nodes reach it.",
    ),
    _MACHINE,
]
"""The IPv4 address of a node in its cluster."""
CardAddress = Annotated[
    str,
    only(
        is_machine_ipv4,
        '"{}" is not an IPv4 address of a machine',
        "write an address of the rail's subnet, without a prefix length.",
    ),
    _MACHINE,
]
"""The IPv4 address of a card, without the prefix length, which the rail's subnet has."""
HostKey = Annotated[str, AfterValidator(_host_key), _KEY_LINE]
"""An ed25519, ECDSA or RSA key; an RSA key is checked by SHA-2 signatures."""
PublicKey = Annotated[str, AfterValidator(_public_key), _KEY_LINE]
"""One line of OpenSSH's: each further line would be another key with access."""

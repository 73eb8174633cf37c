"""The units of the model: types that refuse an impossible number where it is written."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
POOL_NAME = r"^[a-z0-9]([-a-z0-9]{0,56}[a-z0-9])?$"
LOGIN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$"
IMAGE = (
    r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9._-]+)*(:[\w.-]{1,128})?(@sha256:[0-9a-f]{64})?$"
)
PORT_TARGET = r"^[^/:\s]+(/[^/:\s]+|:[^:\s]+)$"
SHA_256 = r"^[0-9a-f]{64}$"
RELEASE = r"^[A-Za-z0-9][A-Za-z0-9._:+-]*$"
PINNED_SOURCE = r"^(/|https://)[^\s]+$"
K3S_RELEASE = r"^v[0-9]+\.[0-9]+\.[0-9]+\+k3s[0-9]+$"
EXACT_RELEASE = r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"
_PORT_NUMBER = (
    r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
)
REGISTRY = rf"^[A-Za-z0-9][A-Za-z0-9.-]*(:{_PORT_NUMBER})?$"
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
LONGEST_TEXT = 4000
"""Characters: more than a host key has, and fewer digits than Python reads as a number (4,300)."""
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")
_GUID = re.compile(r"[0-9a-f]{16}")
_PORT = re.compile(
    r"[1-9][0-9]*/[1-9][0-9]*(/[1-9][0-9]*)?|swp[1-9][0-9]*(s[0-9])?"
    r"|Ethernet(0|[1-9][0-9]*(/[1-9][0-9]*){0,2})"
)


class Frozen(BaseModel):
    """The base of every part of the model: immutable, and unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        str_max_length=LONGEST_TEXT,
    )


def from_short_form(value: object, key: str, example: str) -> object:
    """Read a mapping that may also be written as the text of one of its keys.

    Raises:
        ValueError: It is a number, a list or nothing.
    """
    if value is None or isinstance(value, bool | int | float | list):
        kind = "a list" if isinstance(value, list) else "nothing" if value is None else str(value)
        raise ValueError(f"{kind} is neither of the two forms: {example}")
    return {key: value} if isinstance(value, str) else value


def _pci(value: str) -> str:
    lowered = value.lower()
    if not _PCI.fullmatch(lowered):
        raise ValueError(f"{value!r} is not a PCI address; expected for example '0000:05:00.0'")
    return lowered


def _port(value: str) -> str:
    if not _PORT.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a switch port; expected for example '1/1', '1/1/2', 'swp1' or "
            "'Ethernet1/1'"
        )
    return value


def _guid_digits(text: str) -> str:
    return text.lower().removeprefix("0x").replace(":", "")


def is_port_guid(text: str) -> bool:
    """Whether a text has the form of a port GUID: 16 hexadecimal digits, with colons or without."""
    return _GUID.fullmatch(_guid_digits(text)) is not None


def _port_guid(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - pydantic's TypeError is no refusal
            f"YAML reads this port GUID as the number {value}; expected in quotes, for example "
            "'0c42:a103:00b4:db20'"
        )
    if not isinstance(value, str):
        return value
    if not is_port_guid(value):
        raise ValueError(
            f"{value!r} is not a port GUID; expected for example '0c42:a103:00b4:db20', as ibstat "
            "or /sys/class/infiniband/*/ports/1/gids/0 shows it"
        )
    digits = _guid_digits(value)
    if not digits.strip("0") or not digits.strip("f"):
        raise ValueError(
            f"{value!r} is no port GUID but the mark for a missing one; expected for "
            "example '0c42:a103:00b4:db20'"
        )
    return digits


def _address(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return IPv4Address(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is not an IPv4 address; expected for example '10.10.111.1'"
        ) from None


def _network(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(
            f"{value!r} is not an IPv4 network; expected for example '10.10.111.0/24'"
        ) from None
    if value.partition("/")[0] != str(network.network_address):
        raise ValueError(f"{value} has host bits set")
    return network


DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
"""A name that Kubernetes, DNS and hostname(1) accept: RFC 1123, at most 63 characters."""
PoolName = Annotated[str, StringConstraints(pattern=POOL_NAME)]
"""The beginning of names that end in a hyphen and up to four digits, 63 characters together."""
PciAddress = Annotated[
    str,
    AfterValidator(_pci),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]$",
        }
    ),
]
"""A PCI address in the form domain:bus:device.function, kept in lower case."""
PortName = Annotated[str, AfterValidator(_port)]
"""A switch port in the vendor's numbering: `1/1` on Onyx, `swp1` or `swp1s0` on Cumulus,
`Ethernet1/1` on EOS, where the second number is the lane, and `Ethernet8` on SONiC, which counts
lanes throughout."""
PortGuid = Annotated[
    str,
    BeforeValidator(_port_guid),
    WithJsonSchema({"type": "string", "pattern": r"^(0[xX])?:*([0-9A-Fa-f]:*){16}$"}),
]
"""GUID of an InfiniBand port: 16 hexadecimal digits, kept in lower case without separators."""
MtuBytes = Annotated[int, Field(ge=576, le=9978)]
"""An interface MTU in bytes, without the Ethernet header."""
VlanId = Annotated[int, Field(ge=1, le=4094)]
Dscp = Annotated[int, Field(ge=0, le=63)]
Kib = Annotated[int, Field(ge=1, le=100_000)]
"""A queue depth in KiB. Other systems take bytes: the drivers convert."""
GbitPerSecond = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
TcpPort = Annotated[int, Field(ge=1, le=65535)]
Ipv4 = Annotated[
    IPv4Address,
    BeforeValidator(_address),
    WithJsonSchema(
        {"type": "string", "format": "ipv4", "pattern": rf"^{_OCTET}(\.{_OCTET}){{3}}$"}
    ),
]
Ipv4Net = Annotated[IPv4Network, BeforeValidator(_network)]
LoginName = Annotated[str, StringConstraints(pattern=LOGIN)]
"""A user name that SSH servers take; nothing that a shell or an option parser would read."""
ImageName = Annotated[str, StringConstraints(pattern=IMAGE)]
"""A container image as Kubernetes takes it: lower case, without a scheme."""
ReleaseText = Annotated[str, StringConstraints(pattern=RELEASE)]
PinnedSource = Annotated[str, StringConstraints(pattern=PINNED_SOURCE)]
"""An absolute path on the hosts, or an https address: never plain http."""
RegistryName = Annotated[str, StringConstraints(pattern=REGISTRY)]
"""A registry as `host:port`, without a scheme or a path."""
HostKey = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( .*)?$",
        }
    ),
]
Sha256 = Annotated[str, StringConstraints(pattern=SHA_256)]


class SecretRef(Frozen):
    """A secret by name. Its value lives in the stack's encrypted configuration only."""

    secret: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
    """Name of the configuration key: `switch_password` is `railyard:switch_password`."""


class Ssh(Frozen):
    """How one device is reached. The host key is pinned: without it nothing connects."""

    address: str
    """IPv4 address or DNS name."""
    port: TcpPort = 22
    """Port of the SSH server."""
    user: LoginName = "root"
    """Login name; on hosts root, or a user with `sudo -n`."""
    password: SecretRef | None = None
    """Secret with the password of a switch; hosts are reached by key."""
    private_key: SecretRef | None = None
    """Secret with the private key."""
    host_key: HostKey | None = None
    """One public key line as `ssh-keyscan` prints it, without the host: `ssh-ed25519 AAAA…`.

    Use ed25519 or ECDSA: the Pulumi command provider offers only SHA-1 for RSA host keys.
    """

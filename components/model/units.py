"""The units of the model: types that refuse an impossible number with its place in the file."""

import hashlib
import json
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Annotated, Final, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from components.model.reach import IPV4, HostKey, SshAddress
from components.model.texts import URL_SIGNS, AnyLine, form_schema, only, refuse

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
POOL_NAME = r"^[a-z0-9]([-a-z0-9]{0,56}[a-z0-9])?$"
LOGIN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$"
IMAGE = (
    r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9._-]+)*"
    r"(:[A-Za-z0-9_.-]{1,128})?(@sha256:[0-9a-f]{64})?$"
)
"""A tag excludes `\\w`: registries take no other letters, and 128 of those of Unicode took 60 ms to
compile, a twentieth of `railyard check`."""
RESOURCE_NAME = r"^[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?$"
HTTPS = rf"^https://[{URL_SIGNS}]+$"
PORT_TARGET = r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+|:[A-Za-z0-9./_-]+)$"
SHA_256 = r"^[0-9a-f]{64}$"
MACHINE_ID = r"^[0-9a-f]{32}$"
"""machine-id(5): 32 hexadecimal digits in small letters."""
RELEASE = r"^[A-Za-z0-9][A-Za-z0-9._:+-]*$"
PINNED_SOURCE = rf"^(/|https://)[{URL_SIGNS}]+$"
PINNED_RPM = rf"^(/|https://)[{URL_SIGNS}]+\.rpm$"
K3S_RELEASE = r"^v[0-9]+\.[0-9]+\.[0-9]+\+k3s[0-9]+$"
DRIVER_TAG = r"^(doca[0-9]+\.[0-9]+\.[0-9]+-)?[0-9]{2}\.[0-9]{2}(-[0-9]+(\.[0-9]+)*)+$"
EXACT_RELEASE = r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"
SWITCH_SERIAL = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"
_PORT_NUMBER = (
    r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
)
ENVIRONMENT_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
REGISTRY = rf"^[A-Za-z0-9][A-Za-z0-9.-]*(:{_PORT_NUMBER})?$"
_MARK_DIGITS: Final = 12
"""Hexadecimal digits that distinguish two sources of secrets: 48 bits."""
LONGEST_TEXT = 4000
"""Characters: more than a host key has, and fewer digits than Python reads as a number (4,300)."""
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")
_GUID = re.compile(r"[0-9a-f]{16}")
_PORT = re.compile(
    r"[1-9][0-9]*/[1-9][0-9]*(/[1-9][0-9]*)?|swp[1-9][0-9]*(s[0-9])?"
    r"|Ethernet(0|[1-9][0-9]*(/[1-9][0-9]*){0,2})"
)
NODE_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"
NodeName = Annotated[str, StringConstraints(pattern=NODE_NAME)]
"""A name as nodes of Kubernetes have one, dots included."""
SwitchSerial = Annotated[str, StringConstraints(pattern=SWITCH_SERIAL)]
MachineId = Annotated[str, StringConstraints(pattern=MACHINE_ID)]
DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
"""A name that Kubernetes, DNS and hostname(1) accept: RFC 1123, at most 63 characters."""
PoolName = Annotated[str, StringConstraints(pattern=POOL_NAME)]
"""The beginning of names that end in a hyphen and up to four digits, 63 characters together."""
MtuBytes = Annotated[int, Field(ge=576, le=9978)]
"""An interface MTU in bytes, without the Ethernet header."""
_ROCE_HEADERS_BYTES: Final = 96
"""GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4: `iboe_get_mtu` in Linux' ib_addr.h."""
_RDMA_MTUS: Final = (4096, 2048, 1024, 512, 256)
"""What RDMA can use; the least MTU of a file, 576, has room for the smallest."""
LARGEST_RDMA_MTU: Final = max(_RDMA_MTUS)
FULL_RDMA_NEEDS_BYTES: Final = LARGEST_RDMA_MTU + _ROCE_HEADERS_BYTES
"""The least MTU of an interface that can carry the largest RDMA MTU."""
VlanId = Annotated[int, Field(ge=1, le=4094)]
Dscp = Annotated[int, Field(ge=0, le=63)]
Kib = Annotated[int, Field(ge=1, le=100_000)]
"""A queue depth in KiB. Other systems take bytes: the drivers convert."""
TcpPort = Annotated[int, Field(ge=1, le=65535)]
IPV4_NET = rf"{IPV4}(/(3[0-2]|[12]?[0-9]|{IPV4}))?"
LoginName = Annotated[str, StringConstraints(pattern=LOGIN)]
"""A user name that SSH servers take; nothing that a shell or an option parser would read."""
ImageName = Annotated[str, StringConstraints(pattern=IMAGE)]
"""A container image as Kubernetes takes it: lower case, without a scheme."""
ResourceName = Annotated[str, StringConstraints(pattern=RESOURCE_NAME)]
"""The name part of a Kubernetes resource, without prefix."""
HttpsAddress = Annotated[str, StringConstraints(pattern=HTTPS)]
EnvironmentName = Annotated[str, StringConstraints(pattern=ENVIRONMENT_NAME)]
"""The name of an environment variable."""
ReleaseText = Annotated[str, StringConstraints(pattern=RELEASE)]
PinnedPackage = Annotated[str, StringConstraints(pattern=PINNED_RPM)]
"""A pinned source of an RPM package."""
PinnedSource = Annotated[str, StringConstraints(pattern=PINNED_SOURCE)]
"""An absolute path on the hosts, or an https address: never plain http."""
RegistryName = Annotated[str, StringConstraints(pattern=REGISTRY)]
"""A registry as `host:port`, without a scheme or a path."""
JumpNames = Annotated[
    tuple[DnsLabel, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DNS_LABEL},
                {"type": "array", "items": {"type": "string", "pattern": DNS_LABEL}},
            ]
        }
    ),
]
"""Names of jump hosts; a single one can be written without a list."""
Sha256 = Annotated[str, StringConstraints(pattern=SHA_256)]
FOLDER = r"^(/\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
FolderPath = Annotated[str, StringConstraints(pattern=FOLDER)]
"""An absolute path of a folder on a node."""


class Frozen(BaseModel):
    """The base of every part of the model: immutable, and unknown keys are errors.

    Validators are built at first use (`defer_build`): most processes read no site file, and those
    that do use a part of the models. Threads may be first: `pyproject.toml` asks for the pydantic
    that holds a lock while it builds (its pull request 13438).
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", str_max_length=LONGEST_TEXT, defer_build=True
    )


def short_form(key: str, example: str) -> BeforeValidator:
    """Read a mapping, or the text of one of its keys; refuse a number, a list and null."""

    def read(value: object) -> object:
        if value is None or isinstance(value, bool | int | float | list):
            kind = "nothing" if value is None else str(cast("object", value))
            kind = "a list" if isinstance(value, list) else kind
            raise ValueError(f"{kind} is neither of the two forms: {example}")
        return {key: value} if isinstance(value, str) else value

    return BeforeValidator(read)


def _ipv4(kind: type[IPv4Address | IPv4Network], example: str) -> BeforeValidator:
    name = "address" if kind is IPv4Address else "network"

    def read(value: object) -> object:
        if isinstance(value, kind):
            return value
        # A number is not an address, although the class of Python takes it.
        text = value if isinstance(value, str) else ""
        try:
            found = IPv4Address(text) if kind is IPv4Address else IPv4Network(text, strict=False)
        except ValueError:
            try:
                IPv6Network(str(value), strict=False)
            except ValueError:
                what = f"{value!r} is not an IPv4 {name}; expected for example '{example}'"
                raise ValueError(what) from None
            raise refuse(
                "Railyard does not support IPv6 on rails, pods and services",  # one problem for all
                f"write a free IPv4 address, such as {example} (only ssh.address may be IPv6).",
            ) from None
        own = str(found.network_address) if isinstance(found, IPv4Network) else text
        if text.partition("/")[0] != own:
            raise ValueError(f"{value} has host bits set")
        return found

    return BeforeValidator(read)


def _of_form(form: re.Pattern[str], what: str, *, lower: bool = False) -> AfterValidator:
    def read(value: str) -> str:
        text = value.lower() if lower else value
        if not form.fullmatch(text):
            raise ValueError(f"{value!r} is not a {what}")
        return text

    return AfterValidator(read)


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
            f"{value!r} is not a port GUID but the mark for a missing one; expected for "
            "example '0c42:a103:00b4:db20'"
        )
    return digits


PciAddress = Annotated[
    str,
    _of_form(_PCI, "PCI address; expected for example '0000:05:00.0'", lower=True),
    form_schema(r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]$"),
]
"""A PCI address in the form domain:bus:device.function, kept in lower case."""
PortName = Annotated[
    str,
    _of_form(_PORT, "switch port; expected for example '1/1', '1/1/2', 'swp1' or 'Ethernet1/1'"),
    form_schema(rf"^({_PORT.pattern})$"),
]
"""A switch port in the vendor's numbering: `1/1` on Onyx, `swp1` or `swp1s0` on Cumulus,
`Ethernet1/1` on EOS, where the second number is the lane, and `Ethernet8` on SONiC, which counts
lanes throughout."""
PortGuid = Annotated[
    str, BeforeValidator(_port_guid), form_schema(r"^(0[xX])?:*([0-9A-Fa-f]:*){16}$")
]
"""GUID of an InfiniBand port: 16 hexadecimal digits, kept in lower case without separators."""


def rdma_mtu(mtu_bytes: int) -> int:
    """The RDMA MTU of a RoCE interface in bytes, by the MTU of the interface."""
    return max(size for size in _RDMA_MTUS if size + _ROCE_HEADERS_BYTES <= mtu_bytes)


Ipv4 = Annotated[IPv4Address, _ipv4(IPv4Address, "10.10.111.1"), form_schema(rf"^{IPV4}$", "ipv4")]
Ipv4Net = Annotated[
    IPv4Network, _ipv4(IPv4Network, "10.10.111.0/24"), form_schema(rf"^{IPV4_NET}$", "ipv4network")
]


def is_floating(image: str) -> bool:
    """Whether this name can change its image: without a digest, and without a tag but `latest`."""
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "@" not in image and tag in {"", "latest"}


PinnedImage = Annotated[
    ImageName,
    only(
        lambda image: not is_floating(image),
        "the image {} is not pinned",
        "add a tag other than latest, or a digest @sha256:….",
    ),
    form_schema(rf"^(?=.*@|.*:(?!latest$)[^/@:]+$){IMAGE.removeprefix('^')}"),
]
"""An image with a tag or digest, and not `latest`: without one every host might run another image,
and no report could say which."""


class SecretRef(Frozen):
    """A secret by reference: its value is in no file of the site.

    One key names its source.
    """

    secret: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    """Key of the stack's encrypted configuration: `switch_password` is
    `railyard:switch_password`."""
    env: EnvironmentName | None = None
    """Name of the environment variable that holds it: `VAULT_SSH_KEY`."""
    command: Annotated[tuple[AnyLine, ...], Field(min_length=1)] | None = None
    """Program and arguments that print it, run once here without a shell, for example `[vault, kv,
    get, -field=key, kv/ssh]`."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("secret", "env", "command") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                f"expected one of secret, env and command, but {' and '.join(given) or 'nothing'} "
                "is given; for example {secret: ssh_private_key}"
            )
        return self

    @property
    def name(self) -> str:
        """Its name in plans, requests and states; no two sources share one.

        It begins with a letter for a configuration key, and with `_` for the other two sources.
        """
        if self.secret is not None:
            return self.secret
        kind, text = ("env", self.env) if self.env else ("command", json.dumps(self.command))
        mark = hashlib.sha256(f"{text}".encode()).hexdigest()[:_MARK_DIGITS]
        return f"_env_{text.lower()}_{mark}" if kind == "env" and text else f"_command_{mark}"


class Ssh(Frozen):
    """The SSH login of one device. The host key is pinned: without it nothing connects."""

    address: SshAddress
    """IPv4 address or DNS name."""
    port: TcpPort = 22
    """Port of the SSH server."""
    user: LoginName = "root"
    """Login name; on hosts root, or a user with `sudo`."""
    password: SecretRef | None = None
    """Secret with the password of a switch or a jump host."""
    private_key: SecretRef | None = None
    """Secret with the private key: the text of the file, not its path."""
    passphrase: SecretRef | None = None
    """Secret with the passphrase of `private_key`; default none."""
    agent: bool = False
    """Log in with the keys of the SSH agent at `SSH_AUTH_SOCK`, in place of `private_key`."""
    host_key: HostKey | None = None
    """One public key line as `ssh-keyscan` prints it, without the host: `ssh-ed25519 AAAA…`.

    An RSA key is checked by SHA-2 signatures."""
    jump: JumpNames | None = None
    """Jump hosts of `jump_hosts` on the way, the nearest first, as in `ProxyJump`; a single one can
    be `jump: bastion`. Default for hosts `host_defaults.jump`, else none."""
    sudo_password: SecretRef | None = None
    """Secret with the password for `sudo`; default none: `sudo` works without. It goes only to
    `sudo -S`, over stdin."""
    enable_password: SecretRef | None = None
    """Secret with the password of `enable` on EOS and Onyx; default none."""
    legacy_algorithms: bool = False
    """Let an old switch use SHA-1 for its host key and its key exchange."""

"""Cloud instances with InfiniBand: brought by the user, or made by us in Crusoe Cloud."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model.reach import OCTET, PublicKey
from components.model.texts import URL_SIGNS, HcaName, PlainName, refuse
from components.model.units import (
    IPV4_NET,
    DnsLabel,
    Frozen,
    Ipv4Net,
    LoginName,
    PoolName,
    SecretRef,
    TcpPort,
)

Role = Literal["control_plane", "worker", "balancer"]
MOST_NODES: Final = 5000
"""Kubernetes, "Considerations for large clusters": no more than 5,000 nodes."""


LOCATION: Final = r"^[a-z]{2}-[a-z]+[0-9]+-[a-z]$"
INSTANCE_IMAGE: Final = r"^[a-z0-9][a-z0-9.-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$"
_ANYWHERE: Final = IPv4Network("0.0.0.0/0")
_LOOPBACK: Final = rf"(localhost|127(\.{OCTET}){{3}})"


def _api_address(text: str) -> str:
    host, scheme = _host_and_scheme(text)
    if not host or not (scheme == "https" or (scheme == "http" and _is_loopback(host))):
        raise refuse(
            f"the API at {text} would not be reached over https",
            "leave endpoint out: the default is https://api.cloud.crusoe.ai/v1.",
        )
    if sign := re.search(rf"[^{URL_SIGNS}]", text):
        raise refuse(f"the API's address has {sign[0]!r} in it", "write it without that.")
    return text


def _host_and_scheme(text: str) -> tuple[str | None, str]:
    try:
        parts = urlsplit(text)
    except ValueError:
        return None, ""
    return parts.hostname, parts.scheme


def _is_loopback(host: str) -> bool:
    try:
        return IPv4Address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _named_network(network: IPv4Network) -> IPv4Network:
    if network == _ANYWHERE:
        raise refuse(
            "the door would be open to everybody, and what the whole internet reaches is attacked "
            "within minutes",
            "write the networks from which it is used, for example 203.0.113.0/24.",
        )
    return network


ApiAddress = Annotated[
    str,
    AfterValidator(_api_address),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^([hH][tT][tT][pP][sS]://(?![/?#])[{URL_SIGNS}]+|[hH][tT][tT][pP]://"
            rf"([A-Za-z0-9._~:%-]*@)?{_LOOPBACK}(:[0-9]*)?([/?#][{URL_SIGNS}]*)?)$",
        }
    ),
]
"""An https address; plain http only on this machine. Requests are signed and not secret: over http
everybody on the way could read and repeat them."""
AllowedNetworks = Annotated[
    tuple[
        Annotated[
            Ipv4Net,
            AfterValidator(_named_network),
            WithJsonSchema(
                {
                    "type": "string",
                    "format": "ipv4network",
                    "pattern": rf"^(?!0\.0\.0\.0/0$){IPV4_NET}$",
                }
            ),
        ],
        ...,
    ],
    Field(min_length=1),
]
"""Networks by which a door of the cloud may be reached, and never everybody."""


class InfiniBandFabric(Frozen):
    """What a worker sees of the cloud's fabric; the names of its HCAs are discovered."""

    hcas: Annotated[int, Field(ge=1, le=16)] = 8
    """InfiniBand HCAs of one worker that NCCL uses."""
    rate_gbit_s: Annotated[int, Field(gt=0)] = 400
    """Rate of one HCA in Gbit/s: NDR is 400."""
    expected_hcas: tuple[HcaName, ...] = ()
    """Names that must be found, for example `mlx5_0`; empty: whatever is found."""


class BringYourOwn(Frozen):
    """Instances made outside Railyard: `hosts` says how they are reached."""

    kind: Literal["bring_your_own"]
    """Who makes the instances."""


class InstancePool(Frozen):
    """Equal instances; they are named `<name>-0`, `<name>-1` and so on."""

    name: PoolName
    role: Role
    """What the instances become."""
    type: PlainName
    """Instance type, for example `h100-80gb-sxm-ib.8x`: components/catalogue/instance_types.py."""
    image: Annotated[str, Field(pattern=INSTANCE_IMAGE)]
    """Image, for example `ubuntu22.04-nvidia-sxm-docker:latest`; resolved once and pinned."""
    count: Annotated[int, Field(ge=0, le=MOST_NODES)]


class CrusoeProvision(Frozen):
    """Instances, network, firewall and IB partition made through Crusoe's REST API."""

    kind: Literal["crusoe"]
    """Who makes the instances."""
    endpoint: ApiAddress = "https://api.cloud.crusoe.ai/v1"
    """Address of the API."""
    project: PlainName
    """Id of the project."""
    location: Annotated[str, Field(pattern=LOCATION)]
    """Location of all objects, for example `us-east1-a`."""
    access_key: SecretRef = SecretRef(secret="crusoe_access_key")  # noqa: S106 - a name
    """Secret with the id of the access key."""
    secret_key: SecretRef = SecretRef(secret="crusoe_secret_key")  # noqa: S106 - a name
    """Secret with the secret key."""
    ssh_user: LoginName = "ubuntu"
    """User of the images."""
    ssh_port: TcpPort = 22
    """Port of the images' SSH server."""
    ssh_public_key: PublicKey
    """Public key line that every instance takes."""
    ssh_private_key: SecretRef = SecretRef(secret="ssh_private_key")  # noqa: S106 - a name
    """Secret with the private key that belongs to `ssh_public_key`."""
    vpc_cidr: Ipv4Net
    """Addresses of the network that is made."""
    subnet_cidr: Ipv4Net
    """Addresses of the instances: a part of `vpc_cidr`."""
    ib_partition: DnsLabel | None = None
    """Name of the IB partition that is made for the workers; types on InfiniBand need one."""
    pools: tuple[InstancePool, ...]
    """The instances."""

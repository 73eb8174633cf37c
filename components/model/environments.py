"""The machines of a site: own machines, ESXi hypervisors, or cloud instances with InfiniBand."""

import re
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema

from components.model import units
from components.model.reach import OCTET, PublicKey
from components.model.texts import URL_SIGNS, HcaName, PlainName, form_schema, only, refuse

Role = Literal["control_plane", "worker", "balancer"]
MOST_NODES: Final = 5000
"""Kubernetes, "Considerations for large clusters": no more than 5,000 nodes."""
LOCATION: Final = r"^[a-z]{2}-[a-z]+[0-9]+-[a-z]$"
INSTANCE_IMAGE: Final = r"^[a-z0-9][a-z0-9.-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$"
_ANYWHERE: Final = IPv4Network("0.0.0.0/0")
_LOOPBACK: Final = rf"(localhost|127(\.{OCTET}){{3}})"
AllowedNetworks = Annotated[
    tuple[
        Annotated[
            units.Ipv4Net,
            only(
                lambda network: network != _ANYWHERE,
                "every address on the internet could connect, and open ports are attacked within "
                "minutes",
                "write the networks from which it is used, for example 203.0.113.0/24.",
            ),
            form_schema(rf"^(?!0\.0\.0\.0/0$){units.IPV4_NET}$", "ipv4network"),
        ],
        ...,
    ],
    Field(min_length=1),
]
"""Networks that can reach an open port of the cloud, never the whole internet."""
ESXI_RELEASE: Final = r"^[0-9]{1,2}\.[0-9](\.[0-9]|U[0-9][a-z]?)?$"
"""`7.0.2` is `7.0U2` in the words of `esxcli system version get`."""
_WINDOWS_GIB: Final = tuple(1 << power for power in range(5, 23))
"""Powers of two. Fewer than 32 GiB hold no data-centre GPU: the T4's 16 GiB, doubled
(sources.md#esxi). An address of x86-64 has 52 bits: 4 PiB."""
MmioWindow = Annotated[
    int,
    only(
        _WINDOWS_GIB.__contains__,
        "a machine cannot have a 64-bit window of {} GiB",
        f"write a power of two of at least {_WINDOWS_GIB[0]}: twice the GPUs' memory, rounded "
        "up; 128 for one 40 or 64 GB GPU.",
    ),
    WithJsonSchema({"type": "integer", "enum": list(_WINDOWS_GIB)}),
]
"""It holds the BARs of the devices; a GPU does not start if the window is too small."""


def _api_address(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    host = parts.hostname or ""
    is_here = parts.scheme == "http" and re.fullmatch(_LOOPBACK, host)
    if not host or not (parts.scheme == "https" or is_here):
        raise refuse(
            f"the API at {text} would not be reached over https",
            "leave endpoint out: the default is https://api.cloud.crusoe.ai/v1.",
        )
    if sign := re.search(rf"[^{URL_SIGNS}]", text):
        raise refuse(f"the API's address has {sign[0]!r} in it", "write it without that.")
    return text


ApiAddress = Annotated[
    str,
    AfterValidator(_api_address),
    form_schema(
        rf"^([hH][tT][tT][pP][sS]://(?![/?#])[{URL_SIGNS}]+|[hH][tT][tT][pP]://"
        rf"([A-Za-z0-9._~:%-]*@)?{_LOOPBACK}(:[0-9]*)?([/?#][{URL_SIGNS}]*)?)$"
    ),
]
"""An https address; plain http only on this machine. Requests are signed but not secret: over http
everyone on the path could read and repeat them."""


class InfiniBandFabric(units.Frozen):
    """A worker's view of the cloud's fabric; the names of its HCAs are discovered."""

    hcas: Annotated[int, Field(ge=1, le=16)] = 8
    """InfiniBand HCAs of one worker that NCCL uses."""
    rate_gbit_s: Annotated[int, Field(gt=0)] = 400
    """Rate of one HCA in Gbit/s: NDR is 400."""
    expected_hcas: tuple[HcaName, ...] = ()
    """Expected HCA names, for example `mlx5_0`; empty accepts any."""


class BringYourOwn(units.Frozen):
    """Instances made outside Railyard: `hosts` has their logins."""

    kind: Literal["bring_your_own"]
    """Who makes the instances."""


class InstancePool(units.Frozen):
    """Equal instances; they are named `<name>-0`, `<name>-1` and so on."""

    name: units.PoolName
    role: Role
    """The role of the instances."""
    type: PlainName
    """Instance type, for example `h100-80gb-sxm-ib.8x`: components/catalogue/environments.py."""
    image: Annotated[str, Field(pattern=INSTANCE_IMAGE)]
    """Image, for example `ubuntu22.04-nvidia-sxm-docker:latest`; resolved once and pinned."""
    count: Annotated[int, Field(ge=0, le=MOST_NODES)]


class CrusoeProvision(units.Frozen):
    """Instances, network, firewall and IB partition made through Crusoe's REST API."""

    kind: Literal["crusoe"]
    """Who makes the instances."""
    endpoint: ApiAddress = "https://api.cloud.crusoe.ai/v1"
    """Address of the API."""
    project: PlainName
    """Id of the project."""
    location: Annotated[str, Field(pattern=LOCATION)]
    """Location of all objects, for example `us-east1-a`."""
    access_key: units.SecretRef = units.SecretRef(secret="crusoe_access_key")  # noqa: S106 - a name
    """Secret with the id of the access key."""
    secret_key: units.SecretRef = units.SecretRef(secret="crusoe_secret_key")  # noqa: S106 - a name
    """Secret with the secret key."""
    ssh_user: units.LoginName = "ubuntu"
    """User of the images."""
    ssh_port: units.TcpPort = 22
    """Port of the images' SSH server."""
    ssh_public_key: PublicKey
    """Public key line that every instance takes."""
    ssh_private_key: units.SecretRef = units.SecretRef(
        secret="ssh_private_key"  # noqa: S106 - a name
    )
    """Secret with the private key of `ssh_public_key`."""
    vpc_cidr: units.Ipv4Net
    """Addresses of the new network."""
    subnet_cidr: units.Ipv4Net
    """Addresses of the instances: a part of `vpc_cidr`."""
    ib_partition: units.DnsLabel | None = None
    """IB partition of the workers; types on InfiniBand need one."""
    pools: tuple[InstancePool, ...]
    """The instances."""


class OnPrem(units.Frozen):
    """Own switches, own Linux hosts."""

    kind: Literal["onprem"]
    """The kind of site."""


class VirtualMachine(units.Frozen):
    """One virtual machine with a GPU and an RDMA card passed through."""

    name: units.DnsLabel
    """Its name in `vim-cmd vmsvc/getallvms`, and the name of the host in `hosts`."""
    gpu: units.PciAddress
    """The GPU on the ESXi host, as hex SBDF: it becomes `pciPassthruN.cfg.gpu-pci-id`."""
    nic: units.PciAddress
    """The RDMA card on the ESXi host; on the GPU's NUMA node."""
    memory_mib: Annotated[int, Field(ge=4096, multiple_of=4)]
    """Memory in MiB, fully reserved: passthrough pins it. ESXi takes multiples of 4 MiB (vSphere
    virtual machine administration)."""
    mmio_gib: MmioWindow = 128
    """64-bit MMIO window in GiB; the sum of the GPUs' BARs, rounded up to a power of two."""


class Hypervisor(units.Frozen):
    """One ESXi host, reached by SSH."""

    name: units.DnsLabel
    release: Annotated[str, Field(pattern=ESXI_RELEASE)]
    """Running release, for example `7.0U2`: it decides about `atsSupport`."""
    ssh: units.Ssh
    vms: Annotated[tuple[VirtualMachine, ...], Field(min_length=1)]
    """Its virtual machines, in the order in which they are powered on again."""
    power_off: Literal["guest", "hard"] = "guest"
    """How to stop a machine: by its VMware Tools; after `shutdown_s` `guest` gives up, and `hard`
    cuts its power."""
    shutdown_s: Annotated[int, Field(ge=10, le=3600)] = 300
    """Seconds for the shutdown of one guest."""


class Esxi(units.Frozen):
    """Own switches, and GPU virtual machines on ESXi hypervisors."""

    kind: Literal["esxi"]
    """The kind of site."""
    hypervisors: tuple[Hypervisor, ...]
    """The ESXi hosts; one after the other is put into maintenance mode, in this order."""


class CloudIb(units.Frozen):
    """Instances of a cloud that owns the InfiniBand fabric: Railyard manages no switches."""

    kind: Literal["cloud_ib"]
    """The kind of site."""
    instances: Annotated[BringYourOwn | CrusoeProvision, Field(discriminator="kind")]
    """Who makes the instances: you (`hosts` lists them), or this stack."""
    fabric: InfiniBandFabric = InfiniBandFabric()
    """The cloud's InfiniBand that every worker must have."""
    api_allowed: AllowedNetworks
    """Networks that may reach the Kubernetes API."""
    ssh_allowed: AllowedNetworks
    """Networks that may reach SSH."""


Environment = Annotated[OnPrem | Esxi | CloudIb, Field(discriminator="kind")]
"""A union by `kind`: the keys of one kind are unknown to the others."""

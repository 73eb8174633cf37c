"""Cloud instances with InfiniBand: brought by the user, or made by us in Crusoe Cloud."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from components.model.units import (
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


class InfiniBandFabric(Frozen):
    """What a worker sees of the cloud's fabric; the names of its HCAs are discovered."""

    hcas: Annotated[int, Field(ge=1, le=16)] = 8
    """InfiniBand HCAs of one worker that NCCL uses."""
    rate_gbit_s: Annotated[int, Field(gt=0)] = 400
    """Rate of one HCA in Gbit/s: NDR is 400."""
    expected_hcas: tuple[str, ...] = ()
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
    type: str
    """Instance type, for example `h100-80gb-sxm-ib.8x`: components/catalogue/instance_types.py."""
    image: str
    """Image, for example `ubuntu22.04-nvidia-sxm-docker:latest`; resolved once and pinned."""
    count: Annotated[int, Field(ge=0, le=MOST_NODES)]


class CrusoeProvision(Frozen):
    """Instances, network, firewall and IB partition made through Crusoe's REST API."""

    kind: Literal["crusoe"]
    """Who makes the instances."""
    endpoint: str = "https://api.cloud.crusoe.ai/v1"
    """Address of the API."""
    project: str
    """Id of the project."""
    location: str
    """Location of all objects, for example `us-east1-a`."""
    access_key: SecretRef = SecretRef(secret="crusoe_access_key")  # noqa: S106 - a name
    """Secret with the id of the access key."""
    secret_key: SecretRef = SecretRef(secret="crusoe_secret_key")  # noqa: S106 - a name
    """Secret with the secret key."""
    ssh_user: LoginName = "ubuntu"
    """User of the images."""
    ssh_port: TcpPort = 22
    """Port of the images' SSH server."""
    ssh_public_key: str
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

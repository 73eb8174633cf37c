"""The control plane: installed by us, or there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, StringConstraints

from components.model.units import (
    K3S_RELEASE,
    DnsLabel,
    Frozen,
    Ipv4Net,
    PinnedSource,
    RegistryName,
    SecretRef,
    Sha256,
    TcpPort,
)


class K3sSource(Frozen):
    """Where the K3s binary and install script come from: a pinned mirror or local path."""

    binary: PinnedSource
    """Absolute path on the hosts, or an https URL."""
    binary_sha256: Sha256
    """Checksum of `binary`."""
    install_script: PinnedSource
    """Absolute path on the hosts, or an https URL, of K3s' install script."""
    install_script_sha256: Sha256
    """Checksum of `install_script`."""


class Plane(Frozen):
    """What every control plane has."""

    version: str
    """For example `v1.36.3+k3s1`."""
    api_port: TcpPort = 6443
    """Port of the Kubernetes API."""
    pod_cidr: Ipv4Net = Field(default="10.42.0.0/16", validate_default=True)
    """Addresses of pods on the cluster's own network; K3s' default."""
    service_cidr: Ipv4Net = Field(default="10.43.0.0/16", validate_default=True)
    """Addresses of services; K3s' default."""
    registry_mirror: RegistryName | None = None
    """Registry of the site's images, for example `192.168.100.10:5000` (plain HTTP)."""


class K3sPlane(Plane):
    """K3s on the hosts of the site."""

    plane: Literal["k3s"]
    """What installs the control plane."""
    version: Annotated[str, StringConstraints(pattern=K3S_RELEASE)]
    """An exact release of K3s, for example `v1.36.3+k3s1`."""
    source: K3sSource
    """Pinned binary and install script."""
    token: SecretRef = SecretRef(secret="k3s_token")  # noqa: S106 - the name of a secret, not one
    """Join token of the cluster."""
    container_runtime: Literal["containerd", "docker"] = "containerd"
    """K3s' own containerd, or the hosts' docker; either gets `nvidia` as its default runtime."""


class ExistingPlane(Plane):
    """An existing cluster; Railyard installs no node of it."""

    plane: Literal["existing"]
    """What installs the control plane."""
    kubeconfig: SecretRef = SecretRef(secret="kubeconfig")  # noqa: S106 - the name of a secret
    """Secret with the text of the kubeconfig."""
    context: DnsLabel | None = None
    """Context of the kubeconfig; default its current one."""


def _with_plane(value: object) -> object:
    """A file that names no plane means K3s."""
    if not isinstance(value, Mapping):
        return value
    return {"plane": "k3s"} | cast("dict[str, object]", value)


Kubernetes = Annotated[
    K3sPlane | ExistingPlane, Field(discriminator="plane"), BeforeValidator(_with_plane)
]
"""A union by `plane`; default `k3s`."""

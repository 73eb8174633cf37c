"""Where everything that a site brings comes from: upstream, a mirror, a registry, or a bundle."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from components.catalogue import upstream
from components.model.jobs import RegistryLogin
from components.model.texts import LocalPath
from components.model.units import Frozen, PinnedImage

HTTPS_ADDRESS = r"^https://[A-Za-z0-9._~:/&+,=%-]+$"
REGISTRY_ADDRESS = r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
PEM_CERTIFICATES = (
    r"^\s*(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+$"
)
LONGEST_PEM = 16_000
"""Characters: some eight certificates."""

MirrorAddress = Annotated[str, StringConstraints(pattern=HTTPS_ADDRESS)]
"""An https address without a login, a query or a fragment in it."""
RegistryAddress = Annotated[str, StringConstraints(pattern=REGISTRY_ADDRESS)]
"""A registry as `host:port`, with a path where images go below one; without a scheme."""
Pem = Annotated[str, StringConstraints(pattern=PEM_CERTIFICATES, max_length=LONGEST_PEM)]
"""Certificates in PEM form, `|` and then the lines: they are public."""


class Mirror(Frozen):
    """A web server of the site's own that serves upstream's files and charts.

    The address of a file there is `url`, then upstream's host and path: a bundle's folder `files`
    is laid out so, and can be served by any web server.
    """

    url: MirrorAddress
    """For example `https://mirror.site1.example/railyard`."""
    ca: Pem | None = None
    """Certificates that its own is signed by; default those that this machine trusts. With it, or
    with `login`, files reach the hosts through this machine, which checks them on the way."""
    login: RegistryLogin | None = None
    """Login by HTTP basic authentication."""


class Registry(Frozen):
    """A registry of the site's own that has all images.

    The name of an image there is `address`, then its whole upstream name:
    `registry.site1.example/ghcr.io/k8snetworkplumbingwg/multus-cni`.
    """

    address: RegistryAddress
    """For example `registry.site1.example:5000/railyard`."""
    ca: Pem | None = None
    """Certificates that its own is signed by; default those that the hosts trust."""
    login: RegistryLogin | None = None
    """Login of nodes and pods, which only pull."""
    insecure: bool = False
    """Plain HTTP: whoever is on the way may change what is run."""


class Images(Frozen):
    """The images that Railyard itself brings, by what they are for; a site may name others."""

    multus: PinnedImage = upstream.MULTUS
    """Multus, thin."""
    whereabouts: PinnedImage = upstream.WHEREABOUTS
    """The address management of pods."""
    nv_ipam: PinnedImage = upstream.NV_IPAM
    """The same by blocks of nodes (`ipam: nv-ipam`), where no network operator brings it."""
    sriov_cni: PinnedImage = upstream.SRIOV_CNI
    """The CNI plugin that moves a VF into a pod."""
    ib_sriov_cni: PinnedImage = upstream.IB_SRIOV_CNI
    """The same for VFs of InfiniBand."""
    ipoib_cni: PinnedImage = upstream.IPOIB_CNI
    """The CNI plugin that makes IPoIB interfaces on shared HCAs."""
    rdma_cni: PinnedImage = upstream.RDMA_CNI
    """The CNI plugin that moves a VF's RDMA device into its pod (`rdma_isolation`)."""
    sriov_device_plugin: PinnedImage = upstream.SRIOV_DEVICE_PLUGIN
    """The device plugin that publishes VFs."""
    cni_plugins: PinnedImage = upstream.CNI_PLUGINS
    """The reference plugins: macvlan, tuning, sbr, static and dhcp are used."""
    mpi_operator: PinnedImage = upstream.MPI_OPERATOR_IMAGE
    """The MPI operator."""


class Sources(Frozen):
    """Where everything that a site brings comes from; default upstream itself."""

    mirror: Mirror | None = None
    """A web server for files and charts."""
    registry: Registry | None = None
    """A registry for all images."""
    bundle: LocalPath | None = None
    """Folder that `railyard bundle` made, relative to the project: files and charts come from it,
    and files reach the hosts over SSH. Images come from `registry`."""
    images: Images = Images()
    """The images that Railyard itself brings."""

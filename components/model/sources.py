"""Sources of all files, and the way to them: mirrors, registries, proxies, jump hosts."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from components.catalogue import upstream
from components.model.jobs import RegistryLogin
from components.model.texts import LocalPath, refuse
from components.model.units import FOLDER, DnsLabel, Frozen, PinnedImage, SecretRef, Ssh

PROXY_URL = r"^https?://([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/?$"
NO_PROXY = (
    r"^(\*|(\*?\.)?[A-Za-z0-9_][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[0-9.]+)?"
    r"|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]?(:[0-9]{1,5})?(/[0-9]{1,3})?)$"
)
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
"""A registry as `host:port`, with a path if images are below one; without a scheme."""
BUCKET = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9][A-Za-z0-9._=-]*)*"
EVIDENCE_STORE = rf"^({BUCKET}|oci://{REGISTRY_ADDRESS[1:-1]}|{FOLDER[1:-1]})$"
S3_REGION = r"^[a-z0-9]+(-[a-z0-9]+)*$"
MINISIGN_KEY = r"^RW[A-Za-z0-9+/]{54}$"
Pem = Annotated[str, StringConstraints(pattern=PEM_CERTIFICATES, max_length=LONGEST_PEM)]
"""Certificates in PEM form, `|` and then the lines: they are public."""


class JumpHost(Frozen):
    """An SSH server that only forwards; Railyard changes nothing on it."""

    name: DnsLabel
    """Its name in `jump`."""
    ssh: Ssh
    """Its own SSH login: it can be behind another jump host, and its host key is pinned too."""


class ReachedSsh(Ssh):
    """The `ssh` of a device with its jump hosts looked up; files never contain this."""

    hops: tuple[JumpHost, ...] = ()
    """The jump hosts to it, the first one to reach at the beginning."""


class Proxy(Frozen):
    """The HTTP proxy by which hosts download; proxies with a login are not supported.

    The plan adds the site's networks and addresses and the cluster's names to `no_proxy`.
    """

    http: Annotated[str, StringConstraints(pattern=PROXY_URL)] | None = None
    """Address for `http://` downloads, without a login: `http://proxy.example.com:3128`."""
    https: Annotated[str, StringConstraints(pattern=PROXY_URL)] | None = None
    """Address for `https://` downloads; default `http`. It usually begins with `http://` too."""
    no_proxy: tuple[Annotated[str, StringConstraints(pattern=NO_PROXY)], ...] = ()
    """More names, addresses and networks to reach directly."""


class JumpError(ValueError):
    """An impossible way: an unknown jump host, or a circle."""


def hops_of(names: tuple[str, ...], known: Mapping[str, JumpHost]) -> tuple[JumpHost, ...]:
    """Return the jump hosts of a way in order, each after those that lead to it; or JumpError."""
    found: dict[str, JumpHost] = {}
    for name in names:
        found.update({hop.name: hop for hop in _way_to(name, known, ())})
    return tuple(found.values())


def _way_to(
    name: str, known: Mapping[str, JumpHost], behind: tuple[str, ...]
) -> Iterator[JumpHost]:
    if name in behind:
        raise JumpError(f"{' lies behind '.join((*behind, name))}, which is a circle")
    hop = known.get(name)
    if hop is None:
        raise JumpError(f"jump_hosts lacks the jump host {name}")
    for before in hop.ssh.jump or ():
        yield from _way_to(before, known, (*behind, name))
    yield hop


def with_way(ssh: Ssh, default: tuple[str, ...], known: Mapping[str, JumpHost]) -> Ssh:
    """Return the `ssh` with its jump hosts looked up, unchanged if there are none; or JumpError."""
    names = default if ssh.jump is None else ssh.jump
    if not names:
        return ssh
    return ReachedSsh.model_construct(**dict(ssh), hops=hops_of(names, known))


class Mirror(Frozen):
    """The site's own web server with upstream's files and charts.

    The address of a file there is `url`, then upstream's host and path: a bundle's folder `files`
    has this layout, and any web server can serve it.
    """

    url: MirrorAddress
    """For example `https://mirror.site1.example/railyard`."""
    ca: Pem | None = None
    """Certificates that sign its own; default those that this machine trusts. With it, or with
    `login`, files reach the hosts through this machine."""
    login: RegistryLogin | None = None
    """Login by HTTP basic authentication."""


class Registry(Frozen):
    """The site's own registry with all images.

    The name of an image there is `address`, then its whole upstream name:
    `registry.site1.example/ghcr.io/k8snetworkplumbingwg/multus-cni`.
    """

    address: RegistryAddress
    """For example `registry.site1.example:5000/railyard`."""
    ca: Pem | None = None
    """Certificates that sign its own; default those that the hosts trust."""
    login: RegistryLogin | None = None
    """Login of nodes and pods, which only pull."""
    insecure: bool = False
    """Plain HTTP: anyone on the network path can change the software that runs."""


class Images(Frozen):
    """The images that Railyard itself brings, by purpose; a site can name others."""

    multus: PinnedImage = upstream.MULTUS
    """Multus, thin."""
    whereabouts: PinnedImage = upstream.WHEREABOUTS
    """The address management of pods."""
    nv_ipam: PinnedImage = upstream.NV_IPAM
    """Address management by blocks of nodes (`ipam: nv-ipam`), if no network operator brings it."""
    sriov_cni: PinnedImage = upstream.SRIOV_CNI
    """The CNI plugin for VFs."""
    ib_sriov_cni: PinnedImage = upstream.IB_SRIOV_CNI
    """The CNI plugin for VFs of InfiniBand."""
    ipoib_cni: PinnedImage = upstream.IPOIB_CNI
    """The CNI plugin for IPoIB on shared HCAs."""
    rdma_cni: PinnedImage = upstream.RDMA_CNI
    """The CNI plugin for VFs' RDMA devices (`rdma_isolation`)."""
    sriov_device_plugin: PinnedImage = upstream.SRIOV_DEVICE_PLUGIN
    """The device plugin that publishes VFs."""
    cni_plugins: PinnedImage = upstream.CNI_PLUGINS
    """The reference plugins: macvlan, tuning, sbr, static and dhcp are used."""
    mpi_operator: PinnedImage = upstream.MPI_OPERATOR_IMAGE
    """The MPI operator."""


class Sources(Frozen):
    """Sources of everything that a site installs; default upstream itself."""

    mirror: Mirror | None = None
    """A web server for files and charts."""
    registry: Registry | None = None
    """A registry for all images."""
    bundle: LocalPath | None = None
    """Folder that `railyard bundle` made, relative to the project: files and charts come from it,
    and files reach the hosts over SSH. Images come from `registry`."""
    images: Images = Images()
    """The images that Railyard itself brings."""


class EvidenceStore(Frozen):
    """A place for evidence that several machines share.

    Each run is signed in minisign's format; the gate and `railyard report` count only those that a
    trusted key signed.
    """

    address: Annotated[str, StringConstraints(pattern=EVIDENCE_STORE, max_length=500)]
    """A bucket (`s3://proofs/rack7`), a repository of a registry
    (`oci://registry.site1.example:5000/proofs`), or the absolute path of a shared folder."""
    region: Annotated[str, StringConstraints(pattern=S3_REGION)] = "us-east-1"
    """Region of the bucket."""
    endpoint: MirrorAddress | None = None
    """S3 server of the bucket, such as `https://s3.site1.example`; default Amazon's."""
    ca: Pem | None = None
    """Certificates that sign the server's own; default those that this machine trusts."""
    login: RegistryLogin | None = None
    """User and password of the registry; access key and secret key of the bucket. Default those of
    `docker login`, or AWS_ACCESS_KEY_ID and its like, or ~/.aws/credentials."""
    signing_key: SecretRef
    """Secret with a key of `minisign -G -W`; only machines that prove need it."""
    trusted_keys: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=MINISIGN_KEY)], ...], Field(min_length=1)
    ]
    """Public keys, each the second line of a `.pub` file: any of them may sign."""

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if self.endpoint and not self.address.startswith("s3://"):
            raise refuse("`endpoint` is for buckets alone", "remove it, or write s3://BUCKET.")
        if self.login and self.address.startswith("/"):
            raise refuse("a folder has no `login`", "remove it: the system's permissions count.")
        if self.address.startswith("oci://") and "/" not in self.address[6:]:
            fix = f"add it, for example {self.address}/proofs."
            raise refuse("the address lacks the repository", fix)
        return self

    @property
    def secrets(self) -> tuple[SecretRef, ...]:
        """The secrets that readers need."""
        return (self.login.password,) if self.login else ()

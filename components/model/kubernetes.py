"""The control plane: installed by Railyard, or an existing one with parts that others can own."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from components.catalogue.cluster_parts import Distribution
from components.model import units
from components.model.texts import LabelValue, LocalPath, QualifiedName, form_schema, only, refuse

Owner = Literal["ours", "theirs", "none"]
"""`ours`: Railyard installs it, and refuses if another one exists. `theirs`: it exists; Railyard
installs nothing, and reports if it does not meet the site's needs. `none`: the site does not need
it."""
KUBERNETES_VERSION: Final = r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?([+-][0-9A-Za-z.+-]+)?$"
CRON: Final = r"^[0-9*/,-]+( [0-9*/,-]+){4}$"
"""Five fields of numbers, ranges, lists and steps."""
_MAX_SERVICE_BITS: Final = 12
"""kube-apiserver refuses a service range of more than 20 host bits: at least /12."""
_MIN_SERVICE_BITS: Final = 28
"""K3s gives its DNS the tenth address of the range."""
_NODE_PORTS: Final = range(30000, 32768)
_TAKEN: Final = {
    2379: "etcd's clients",
    2380: "etcd's members",
    6444: "K3s' own API server behind the port",
    10250: "the kubelet",
    10257: "the controller manager",
    10259: "the scheduler",
}
"""Ports of a K3s server and who has them (lab/sources.md#k3s)."""
ServiceNet = Annotated[
    units.Ipv4Net,
    only(
        lambda network: network.prefixlen >= _MAX_SERVICE_BITS,
        "the service network {} is larger than Kubernetes allows",
        "use a /12 or smaller; /16 is usual.",
    ),
    only(
        lambda network: network.prefixlen <= _MIN_SERVICE_BITS,
        "the service network {} is too small for K3s' own services",
        "use a /28 or larger; /16 is usual.",
    ),
    form_schema(rf"^(?=.*/(1[2-9]|2[0-8]|[0-9.]{{7,}})$){units.IPV4_NET}$", "ipv4network"),
]
"""The addresses of services: a /12 to a /28."""
CPU_LIST: Final = r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"
"""As Linux writes sets of CPUs: `0-1,64-65`."""
CpuList = Annotated[str, StringConstraints(pattern=CPU_LIST)]
TopologyPolicy = Literal["best-effort", "restricted", "single-numa-node"]
KUBERNETES_RELEASE: Final = r"^v1\.[0-9]+\.[0-9]+$"
KUBESPRAY_TAG: Final = r"^v[0-9]+\.[0-9]+\.[0-9]+$"
COMMIT: Final = r"^[0-9a-f]{40}$"
GIT_ADDRESS: Final = r"^https://[A-Za-z0-9._~:/&+,=%-]+$"
VARIABLE: Final = r"^[a-z][a-z0-9_]*$"
KubesprayRelease = Annotated[str, StringConstraints(pattern=KUBERNETES_RELEASE)]
"""An exact release of upstream Kubernetes."""
ClusterMtu = Annotated[int, Field(ge=1280, le=9216)]
"""Bytes. Less than 1280 carries no IPv6; 9216 is the most that switches carry."""
NodePrefix = Annotated[int, Field(ge=20, le=28)]
"""From /28 with 14 pods of a node to /20 with 4,094."""
Variable = Annotated[str, StringConstraints(pattern=VARIABLE)]


class ClusterParts(units.Frozen):
    """The owner of each part of an existing cluster.

    By default Railyard brings those that the site needs. If others run the network operator, they
    also own the device plugin for the pod network's mode.
    """

    multus: Owner | None = None
    """Multus and the definition of its attachments."""
    attachments: Owner | None = None
    """The attachments of jobs, named by each rail's `network`; Railyard always owns those of
    probes."""
    whereabouts: Owner | None = None
    """The address management of pods, with `ipam: whereabouts`."""
    nv_ipam: Owner | None = None
    """The address management of pods, with `ipam: nv-ipam`."""
    sriov_cni: Owner | None = None
    """The CNI plugin for VFs."""
    ib_sriov_cni: Owner | None = None
    """CNI plugin for VFs of InfiniBand."""
    ipoib_cni: Owner | None = None
    """The CNI plugin for IPoIB."""
    rdma_cni: Owner | None = None
    """The CNI plugin for VFs' RDMA devices."""
    cni_plugins: Owner | None = None
    """The reference programs that the site needs."""
    sriov_device_plugin: Owner | None = None
    """The device plugin that publishes VFs, or whole HCAs."""
    shared_device_plugin: Owner | None = None
    """The device plugin that publishes shared cards."""
    gpu_device_plugin: Owner | None = None
    """The device plugin that publishes GPUs (`operators.gpu_device_plugin`)."""
    gpu_operator: Owner | None = None
    """The GPU operator (`operators.gpu`)."""
    network_operator: Owner | None = None
    """The network operator (`operators.network`)."""
    mpi_operator: Owner | None = None
    """The MPI operator."""
    trainer: Owner | None = None
    """Kubeflow Trainer, which Railyard never installs; `theirs` for jobs of the form `trainjob`."""


def _server_port(port: int) -> int:
    taken = _TAKEN.get(port)
    if port in _NODE_PORTS:
        taken = f"node ports ({_NODE_PORTS.start} to {_NODE_PORTS.stop - 1})"
    if taken is not None:
        raise refuse(
            f"port {port} of a server belongs to {taken}", "use 6443, or another free port."
        )
    return port


ServerPort = Annotated[
    units.TcpPort,
    AfterValidator(_server_port),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "exclusiveMaximum": _NODE_PORTS.start},
                {"type": "integer", "minimum": _NODE_PORTS.stop, "maximum": 65535},
            ],
            "not": {"enum": sorted(_TAKEN)},
        }
    ),
]
"""A port that neither K3s itself nor node ports need."""


class K3sSource(units.Frozen):
    """Sources of K3s' files: paths on the hosts or https URLs; by default K3s' own release.

    A missing checksum comes from the site's lock, which `railyard pin` writes.
    """

    binary: units.PinnedSource | None = None
    """The program `k3s`."""
    binary_sha256: units.Sha256 | None = None
    """Checksum of `binary`."""
    binary_arm64: units.PinnedSource | None = None
    """`binary` for hosts with `architecture: arm64`."""
    binary_arm64_sha256: units.Sha256 | None = None
    """Checksum of `binary_arm64`."""
    install_script: units.PinnedSource | None = None
    """K3s' install script."""
    install_script_sha256: units.Sha256 | None = None
    """Checksum of `install_script`."""
    images: units.PinnedSource | None = None
    """The archive with the images that K3s itself runs, for nodes that reach no registry; with
    `sources.bundle` default K3s' own."""
    images_sha256: units.Sha256 | None = None
    """Checksum of `images`."""
    images_arm64: units.PinnedSource | None = None
    """`images` for hosts with `architecture: arm64`."""
    images_arm64_sha256: units.Sha256 | None = None
    """Checksum of `images_arm64`."""
    selinux_policy: units.PinnedPackage | None = None
    """K3s' SELinux policy as an RPM package for the hosts' release: nodes with SELinux get it
    before K3s, by `dnf`, with container-selinux from their distribution. Default: not installed."""
    selinux_policy_sha256: units.Sha256 | None = None
    """Checksum of `selinux_policy`."""


class Alignment(units.Frozen):
    """Kubelet's topology manager and its static CPU manager on all workers.

    Pods of jobs get exclusive CPUs near their GPUs and cards. A change on a running cluster drains
    each worker.
    """

    policy: TopologyPolicy = "best-effort"
    """`best-effort` accepts a pod whose parts cannot be near each other, such as all GPUs of two
    NUMA nodes; the others refuse it."""
    scope: Literal["container", "pod"] = "container"
    """What is aligned; kubelet's default."""
    reserved_cpus: CpuList
    """CPUs of every worker that no pod gets exclusively, for the system and all other pods: without
    any, kubelet's static policy does not start. Both threads of a core, and some of each NUMA node:
    `0-1,64-65`."""
    job_cpus: Annotated[int, Field(ge=1)]
    """CPUs that each pod of a job asks for."""
    job_memory_gib: Annotated[int, Field(ge=1)]
    """Memory that each pod of a job asks for, in GiB: a pod gets exclusive CPUs only if it requests
    both."""


class Plane(units.Frozen):
    """Settings of every control plane."""

    version: Annotated[str, StringConstraints(pattern=KUBERNETES_VERSION)]
    """For example `v1.36.3+k3s1`."""
    api_port: units.TcpPort = 6443
    """Port of the Kubernetes API."""
    pod_cidr: units.Ipv4Net = Field(default="10.42.0.0/16", validate_default=True)
    """Addresses of pods; K3s' default."""
    service_cidr: ServiceNet = Field(default="10.43.0.0/16", validate_default=True)
    """Addresses of services; K3s' default."""
    registry_mirror: units.RegistryName | None = None
    """Registry of the site's own images, by plain HTTP: `192.168.100.10:5000`. `sources.registry`
    has TLS, a login and all images."""
    alignment: Alignment | None = None
    """GPUs, cards and CPUs of a pod from one NUMA node; default off."""


class Snapshots(units.Frozen):
    """Snapshots of etcd on every server, by K3s' own schedule."""

    schedule: Annotated[str, StringConstraints(pattern=CRON)] = "0 */12 * * *"
    """When, as five fields of cron in the server's time zone; K3s' default is twice a day."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 5
    """How many snapshots each server keeps; K3s' default."""
    folder: units.FolderPath | None = None
    """Folder of the servers; default K3s' own, `/var/lib/rancher/k3s/server/db/snapshots`, which is
    lost with the server's data."""


class VirtualAddress(units.Frozen):
    """The API's address on one of two balancers; the other takes it over if the first fails."""

    address: units.Ipv4
    """A free address of the network that both balancers are in."""
    router_id: Annotated[int, Field(ge=1, le=255)] = 51
    """Number of the virtual router (VRRP), unique in that network; 51 is keepalived's own
    example."""


class K3sPlane(Plane):
    """K3s on the hosts of the site."""

    plane: Literal["k3s"]
    """What installs the control plane."""
    api_port: ServerPort = 6443
    """Port of the Kubernetes API."""
    version: Annotated[str, StringConstraints(pattern=units.K3S_RELEASE)]
    """An exact release of K3s, for example `v1.36.3+k3s1`."""
    source: K3sSource = K3sSource()
    """Binary and install script; default K3s' own release of `version`."""
    token: units.SecretRef = units.SecretRef(secret="k3s_token")  # noqa: S106 - a name
    """Join token of the cluster."""
    agent_token: units.SecretRef | None = None
    """Join token of workers alone; choose it before the first install: later it is refused.
    Default: workers join with `token`."""
    api_from: tuple[units.Ipv4Net, ...] = ()
    """Networks that can reach the API: those of all nodes and of the machine that runs Railyard. On
    servers and balancer nftables drops other packets to that port. Default: left to the site's
    network."""
    snapshots: Snapshots | None = None
    """Snapshots of etcd; default K3s' own schedule, number and folder."""
    virtual_address: VirtualAddress | None = None
    """The one address of two balancers; default none, with one balancer at its own address."""
    secrets_encryption: bool = False
    """Encrypt Secrets in etcd; choose it before the first install: later it is refused."""
    reset: Literal["allow", "deny"] = "deny"
    """Whether an update or `destroy` may uninstall the last server, and with it all data of the
    cluster. The last update's value counts."""
    container_runtime: Literal["containerd", "docker"] = "containerd"
    """K3s' own containerd, or the hosts' docker; `nvidia` becomes the default runtime."""


def _no_templates(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for place, text in _texts(values, ""):
        if mark := next((each for each in ("{{", "{%", "{#") if each in text), None):
            raise refuse(
                f"{place} has {mark!r}: Ansible would run it as a Jinja template on this machine, "
                "next to the keys of all nodes",
                "write the value itself; templates belong into a role of yours.",
            )
    return values


def _texts(value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
    """Each text in a value, and each key, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{place}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"the key {place}.{key}".replace(" .", " "), key
            yield from _texts(item, f"{place}.{key}".strip("."))


ExtraVars = Annotated[dict[Variable, JsonValue], AfterValidator(_no_templates)]
"""Plain values, lists and mappings, as in JSON: Ansible must not have to guess."""


class KubespraySource(units.Frozen):
    """Source of kubespray: a folder, an archive or a git repository, and its release."""

    release: Annotated[str, StringConstraints(pattern=KUBESPRAY_TAG)]
    """The release, for example `v2.31.0`: the tag in `git`, and the version in the tree itself."""
    path: LocalPath | None = None
    """Folder with the tree, relative to the project; with `tree_sha256`."""
    tree_sha256: units.Sha256 | None = None
    """Checksum over all files of `path`; the error for a wrong one prints the right one."""
    archive: units.PinnedSource | None = None
    """Absolute path on this machine, or an https URL, of a `.tar.gz` with the tree; with
    `archive_sha256`."""
    archive_sha256: units.Sha256 | None = None
    """Checksum of `archive`."""
    git: Annotated[str, StringConstraints(pattern=GIT_ADDRESS)] | None = None
    """An https address of the repository; with `commit`."""
    commit: Annotated[str, StringConstraints(pattern=COMMIT)] | None = None
    """The commit of the tag `release`: a moved tag is refused."""

    @model_validator(mode="after")
    def _one_pinned_place(self) -> Self:
        pairs = (("path", "tree_sha256"), ("archive", "archive_sha256"), ("git", "commit"))
        given = {pair: [key for key in pair if getattr(self, key) is not None] for pair in pairs}
        named = [pair for pair, keys in given.items() if keys]
        if len(named) != 1:
            raise refuse(
                f"kubespray comes from {len(named)} places" if named else "no kubespray is named",
                "give one of path, archive and git, with its checksum or commit.",
            )
        if len(given[named[0]]) == 1:
            what = f"{given[named[0]][0]} of kubespray is there without the other"
            raise refuse(what, f"give {' and '.join(named[0])} together.")
        return self

    @property
    def pin(self) -> str:
        """The checksum or commit that pins the tree."""
        return self.tree_sha256 or self.archive_sha256 or self.commit or ""


class KubesprayPlane(Plane):
    """Kubernetes by kubespray on the hosts of the site: kubeadm, etcd, containerd and a CNI."""

    plane: Literal["kubespray"]
    """What installs the control plane."""
    api_port: ServerPort = 6443
    """Port of the Kubernetes API."""
    version: KubesprayRelease
    """An exact release of Kubernetes that the tree knows, for example `v1.35.4`."""
    source: KubespraySource
    """The pinned release of kubespray."""
    requirements: LocalPath
    """File with kubespray's Python requirements, each with its hashes, relative to the project:
    `pip-compile --generate-hashes requirements.txt` or `uv pip compile --generate-hashes` writes it
    from the tree's own file, which lacks hashes."""
    python: LocalPath = "python3"
    """The Python on this machine for kubespray's environment. The Ansible of v2.31 takes 3.11 to
    3.13."""
    container_runtime: Literal["containerd"] = "containerd"
    """The container runtime."""
    cni: Literal["calico", "flannel"] = "calico"
    """The cluster's own pod network. Calico takes each node's own address, and flannel the
    interface of the default route: rails are left alone."""
    mtu_bytes: ClusterMtu | None = None
    """MTU of pods on the cluster's own network with Calico; default: Calico detects it. The nodes'
    own must be larger by 50 bytes, for VXLAN."""
    pod_cidr: units.Ipv4Net = Field(default="10.233.64.0/18", validate_default=True)
    """Addresses of pods; kubespray's default."""
    service_cidr: ServiceNet = Field(default="10.233.0.0/18", validate_default=True)
    """Addresses of services; kubespray's default."""
    node_prefix: NodePrefix = 24
    """Length of each node's block of `pod_cidr`; kubespray's default."""
    extra_vars: ExtraVars = Field(default_factory=dict)
    """More variables of kubespray; those that follow from this file are refused."""
    reset: Literal["allow", "deny"] = "deny"
    """Whether `destroy` runs kubespray's `reset.yml`, which deletes all data, or ends there."""


class CniFolders(units.Frozen):
    """Folders in which kubelet of an existing cluster looks for CNI."""

    net_d: units.FolderPath
    """Folder of CNI configurations on every node, for example `/etc/cni/net.d`."""
    bin: units.FolderPath
    """Folder of CNI programs on every node, for example `/opt/cni/bin`."""


class Toleration(units.Frozen):
    """One taint of the nodes that Railyard's pods tolerate, in the words of Kubernetes."""

    key: QualifiedName | None = None
    """Key of the taint; `operator: Exists` without a key tolerates all taints."""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    """Value of the taint, with `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; default any."""


class ExistingPlane(Plane):
    """An existing cluster; Railyard does not install its nodes."""

    plane: Literal["existing"]
    """What installs the control plane."""
    kubeconfig: units.SecretRef = units.SecretRef(secret="kubeconfig")  # noqa: S106 - a name
    """Secret with the text of the kubeconfig."""
    context: units.DnsLabel | None = None
    """Context of the kubeconfig; default its current one."""
    distribution: Distribution | None = None
    """The kind of cluster, for its CNI folders. Default by the suffix of `version`, `+k3s1` or
    `+rke2r1`; without one containerd's folders."""
    cni: CniFolders | None = None
    """The CNI folders, if they differ from those of the distribution."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of the workers that the pods of jobs, probes and operators tolerate."""
    runtime_class: units.DnsLabel | None = None
    """RuntimeClass of pods with GPUs, for example `nvidia`, if the nodes' default runtime hides
    GPUs from containers; default none."""
    components: ClusterParts = ClusterParts()
    """The owner of each part: `{multus: theirs, gpu_operator: theirs}`."""


Kubernetes = Annotated[
    K3sPlane | KubesprayPlane | ExistingPlane,
    Field(discriminator="plane"),
    BeforeValidator(
        lambda value: (
            {"plane": "k3s", **cast("dict[str, object]", value)}
            if isinstance(value, Mapping)
            else value
        )
    ),
]
"""A union by `plane`; default `k3s`."""


def cpus_of(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list, in its order; a range that goes down is empty."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)

"""The hosts: names, logins and RDMA cards."""

import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, PrivateAttr, model_validator

from components.catalogue.cards import CardModel, find_card
from components.catalogue.upstream import Architecture
from components.core.errors import Bug
from components.model import cards, units
from components.model.kernel import KernelSettings
from components.model.reach import CardAddress, NodeAddress
from components.model.switch_models import DescribedNic
from components.model.texts import ModelName, form_schema, only

_USER: Final = r"[a-z][a-z0-9_-]{0,31}"
_SYSTEM_USERS: Final = ("root", "daemon", "bin", "sys", "nobody", "sshd", "www-data")
_NETDEV: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}"
"""Linux' IFNAMSIZ is 16 with the closing zero; udev's names use these characters."""
_RESERVED_HOSTS: Final = ("localhost", "kubernetes")


_USER_FIX: Final = "use lower-case letters, digits, - and _, at most 32, for example nvidia."
UserName = Annotated[
    str,
    only(lambda name: name not in _SYSTEM_USERS, '"{}" belongs to the system', _USER_FIX),
    only(lambda name: re.fullmatch(_USER, name), '"{}" is not a Linux user name', _USER_FIX),
    form_schema(rf"^(?!({'|'.join(_SYSTEM_USERS)})$){_USER}$"),
]
"""A name that useradd accepts and that is not a system account."""
NetdevName = Annotated[
    str,
    only(
        lambda name: re.fullmatch(_NETDEV, name),
        '"{}" cannot be the name of a network device',
        "write the name that `ip link` shows, for example enp5s0.",
    ),
    form_schema(rf"^{_NETDEV}$"),
]
"""A name that a network device of Linux can have: at most 15 characters."""
DOMAIN_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
DomainName = Annotated[str, Field(pattern=DOMAIN_NAME)]
HostName = Annotated[
    units.DnsLabel,
    only(
        lambda name: name not in _RESERVED_HOSTS,
        "a host cannot be called {}: the name belongs to the machine itself or to the cluster",
        "choose another name, for example gpu01.",
    ),
    form_schema(rf"^(?!({'|'.join(_RESERVED_HOSTS)})$){units.DNS_LABEL.removeprefix('^')}"),
]
"""A DNS label that no hosts file uses for something else."""
HostRole = Literal["control_plane", "worker", "balancer", "storage", "login"]
OUTSIDE: Final = frozenset({"storage", "login"})
"""Roles of hosts on the rails but outside of the cluster."""


def _netdev_of(data: dict[str, Any]) -> str:
    """The name by path of systemd.net-naming-scheme(7), without a port's suffix.

    The address does not show whether the first function of a card is called `f0`, or whether the
    kernel adds `np0`: in these cases the file must give the name.
    """
    domain, bus, rest = str(data["pci"]).split(":")
    slot, _, function = rest.partition(".")
    name = f"en{f'P{int(domain, 16)}' if int(domain, 16) else ''}p{int(bus, 16)}s{int(slot, 16)}"
    return name if function == "0" else f"{name}f{function}"


class Nic(units.Frozen):
    """One port (PF) of an RDMA card."""

    rail: units.DnsLabel
    """The rail that this card is cabled to."""
    pci: units.PciAddress
    """PCI address, for example `"0000:05:00.0"`."""
    serial: cards.CardSerial | None = None
    """The board's serial number; with it, a card that moved to another slot is reported."""
    netdev: NetdevName = Field(default_factory=_netdev_of, validate_default=True)
    """Name of the PF's network device; default by the PCI address, as systemd derives it, for
    example `enp5s0`. A host with another name is refused."""
    rdma: NetdevName | None = None
    """Name for the PF's RDMA device, with `host_defaults.rail_names`; default the driver's or
    rdma-core's."""
    model: ModelName = "ConnectX-5"
    """Card model; describe NVIDIA's others in `nic_models`."""
    speed_gbit_s: Annotated[int, Field(gt=0)] = 100
    """Line rate in Gbit/s."""
    vfs: Annotated[int, Field(ge=0)] = 8
    """Virtual functions to create on this PF."""
    mtu_bytes: units.MtuBytes | None = None
    """MTU of the PF in bytes; default `rdma.mtu_bytes`."""
    vf_mtu_bytes: units.MtuBytes | None = None
    """MTU of the VFs in bytes; default the PF's."""
    sriov: cards.Sriov = cards.Sriov()
    """Settings of each VF, and the mode of the card's embedded switch."""
    numa: Annotated[int, Field(ge=-1)] = 0
    """NUMA node of the card's PCIe slot; -1: unknown."""
    address: CardAddress | None = None
    """IPv4 address of the PF on its rail, for containers in the host's network."""
    pod_address: CardAddress | None = None
    """For a card on a routed switch port: IPv4 address of the one pod that uses the card's VF. The
    port gets the other address of the /31. Needs `vfs: 1` and `ipam: nv-ipam`."""
    link_gt_s: cards.LinkGtS | None = None
    """PCIe speed of a lane that the card must run at; default that of card and slot."""
    link_width: cards.LinkWidth | None = None
    """PCIe lanes that the card must run with; default the most of card and slot."""
    lanes: cards.PortLanes | None = None
    """SerDes lanes that the port must run with, 4 for `100 Gb/sec (4X EDR)`; default any."""
    gpu_pci: tuple[units.PciAddress, ...] = ()
    """PCI addresses of the GPUs that send through this card, as `railyard discover` finds them."""
    gpu_path: cards.GpuPath | None = None
    """The longest allowed path to these GPUs, in words of `nvidia-smi topo -m`."""

    _described: DescribedNic | None = PrivateAttr(default=None)
    """The model as `nic_models` in the file describes it."""

    def describe(self, described: DescribedNic) -> None:
        """Take the file's description of its model; only the site calls this, once it is read."""
        self._described = described

    @property
    def is_described(self) -> bool:
        """Whether the file describes its model."""
        return self._described is not None

    @property
    def card(self) -> CardModel | None:
        """Its model in the catalogue; None if the catalogue lacks it."""
        return None if self._described else find_card(self.model)

    @property
    def pf_device(self) -> str | None:
        """PCI device id of the card; None if unknown."""
        return self.card.pf_device if self.card else self._fact("pci_id")

    @property
    def vf_device(self) -> str | None:
        """PCI device id of its VFs; None if unknown."""
        return self.card.vf_device if self.card else self._fact("vf_pci_id")

    @property
    def vf_limit(self) -> int | None:
        """Number of VFs that a port of the model supports; None if unknown."""
        return self.card.max_vfs if self.card else self._fact("vf_limit")

    @property
    def fastest_gbit_s(self) -> int | None:
        """The highest rate of a port of the model; None if unknown."""
        return self.card.fastest_gbit_s if self.card else self._fact("speed_gbit_s")

    @property
    def is_too_fast(self) -> bool:
        """Whether the file gives it a rate that no port of its model has."""
        return self.fastest_gbit_s is not None and self.speed_gbit_s > self.fastest_gbit_s

    def _fact(self, key: str) -> Any:  # noqa: ANN401 - a text or a number, by the key
        return getattr(self._described, key, None)

    @property
    def passes_vfs(self) -> bool:
        """Whether virtual machines use its VFs."""
        return self.vfs > 0 and self.sriov.autoprobe is False


class User(units.Frozen):
    """The one user that exists with the same uid on every host, as in the DeepOps guide."""

    name: UserName = "nvidia"
    """Login name."""
    uid: Annotated[int, Field(ge=1000, le=60000)] = 1000
    """User id on all hosts."""


class Host(units.Frozen):
    """One Linux host."""

    name: HostName
    role: HostRole
    """`worker` runs jobs; `balancer` forwards to the API of several control-plane hosts. `storage`
    and `login` hosts get their user, kernel, driver and rails, but no part of the cluster, of jobs
    or of GPUs."""
    ssh: units.Ssh | None = None
    """SSH login of the host; leave it out only with `login: none`."""
    login: Literal["ssh", "none"] = "ssh"
    """`none` for a worker of an existing cluster, such as AKS, EKS or OKE: Railyard sets and reads
    nothing there, and proves only what pods can show."""
    group: units.DnsLabel | None = None
    """Its group in `host_groups`, whose settings win over `host_defaults`."""
    node_ip: NodeAddress | None = None
    """Address of the Kubernetes node; default the SSH address, or with `login: none` unknown."""
    node_name: units.NodeName | None = None
    """Name of its Kubernetes node, if it differs from `name`, such as `gpu01.dc1.example.com`. With
    it, a renamed host keeps its node."""
    machine_id: units.MachineId | None = None
    """Content of its `/etc/machine-id`. Railyard refuses another machine; after a replacement,
    write the new id. Default: the one that the last update read."""
    domain: DomainName | None = None
    """Hosts that fail together, such as a rack: hosts of different domains are never down together
    under `disruption.max_unavailable`. Hosts without one are one domain."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of the host."""
    gpu_model: ModelName | None = None
    """GPU model, for example `H100`: workers with other GPUs are another kind for jobs."""
    nics: tuple[Nic, ...] = ()
    """RDMA cards, one on each rail of the host. Other network devices are left alone."""
    hcas: Annotated[int, Field(ge=0, le=16)] = 0
    """InfiniBand HCAs, whose names are discovered; Railyard sets only the ports under
    `hca_sriov`."""
    hca_sriov: tuple[cards.HcaPf, ...] = ()
    """InfiniBand ports by address: those with VFs, and those whose firmware is set."""
    hca_guids: tuple[units.PortGuid, ...] = ()
    """Port GUIDs of the HCAs, in the order in which switch ports count them; partitions need them.

    `cat /sys/class/infiniband/*/ports/1/gids/0` shows them in its last four groups.
    """

    @model_validator(mode="before")
    @classmethod
    def _no_vfs_outside(cls, data: object) -> object:
        """Default to 0 VFs on a host outside of the cluster, or without a login."""
        values = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        role, nics = cast("object", values.get("role")), cast("object", values.get("nics"))
        bare = (isinstance(role, str) and role in OUTSIDE) or values.get("login") == "none"
        if not bare or not isinstance(nics, list | tuple):
            return cast("object", data)
        rows = [
            {"vfs": 0} | cast("dict[str, object]", row) if isinstance(row, dict) else row
            for row in cast("list[object]", nics)
        ]
        return cast("object", values | {"nics": rows})

    @property
    def is_outside(self) -> bool:
        """Whether the host is on the rails but outside of the cluster."""
        return self.role in OUTSIDE

    @property
    def node(self) -> str:
        """The name of its node in the cluster."""
        return self.node_name or self.name

    @property
    def address(self) -> str:
        """The node's address in the cluster; empty if neither the file nor a login has one."""
        return self.node_ip or (self.ssh.address if self.ssh else "")

    @property
    def way(self) -> units.Ssh:
        """The SSH login of the host; Bug if it has none, since the caller must leave it out."""
        if self.ssh is None:
            raise Bug(f"{self.name} needs a login, but lacks ssh")
        return self.ssh


class Manage(units.Frozen):
    """Parts of a host that Railyard can take over; it leaves the others to the site's own tools."""

    hostname: bool = False
    """Write `/etc/hostname`, and set the running name, to the host's `name`."""
    etc_hosts: bool = False
    """Keep names and addresses in a marked block of `/etc/hosts`: of the host itself and of all
    hosts but workers; with `containers` of all hosts."""
    network_manager: bool = True
    """Hide the cards in `nics` and their VFs from NetworkManager, which would run DHCP on them and
    remove addresses."""


class HostDefaults(units.Frozen):
    """Settings that all hosts of the site share."""

    user: User | None = None
    """A common user that Railyard makes on every host; default none."""
    manage: Manage = Manage()
    """Parts of a host's identity and network that Railyard can take over."""
    jump: units.JumpNames = ()
    """Jump hosts to hosts whose `ssh` has no `jump`; default none."""
    architecture: Architecture = "amd64"
    """Processor of the hosts: `arm64` gets the programs for it (Grace, for example)."""
    driver: cards.DriverPackage = cards.DriverPackage()
    """The RDMA driver."""
    memlock: Literal["unlimited"] = "unlimited"
    """Locked-memory limit of pods (a `LimitMEMLOCK` drop-in of K3s' unit, and of Docker's under
    K3s) and of the common user's logins (limits.d)."""
    peermem: bool = True
    """The short form of `gpu_direct`: true is `peermem`, false is `none`."""
    gpu_direct: cards.GpuDirect | None = None
    """How cards reach GPU memory: `peermem` loads `nvidia_peermem`; `dma_buf` needs no module, but
    Linux 5.12 and the open GPU kernel modules; `none` copies through the host. Default by
    `peermem`. `nv_peer_mem` is the module for GPU drivers before 470."""
    gpu_driver: Literal["operator", "host"] | None = None
    """Who owns the GPU driver; default `operators.gpu.driver`. Hosts bring their own driver."""
    gpu_driver_version: cards.GpuDriverVersion | None = None
    """Version of a GPU driver that the host owns, for example `580.126.20`; it is verified."""
    rail_names: bool = False
    """Write the names of `nics[].netdev` and `nics[].rdma`, by PCI address: a systemd `.link` file
    and a udev rule for each card, applied at the next boot. Without it the file needs the hosts'
    names."""
    toolkit: cards.ContainerToolkit | None = None
    """NVIDIA's container toolkit. Default: the operator's own with the GPU operator's driver; with
    Docker, installed from the hosts' repositories; else `present`."""
    qos: cards.HostQos = cards.HostQos()
    """RoCE settings that a host chooses itself."""
    firmware: cards.Firmware = cards.Firmware()
    """Settings for the cards' firmware."""
    docker: bool = False
    """Docker and the NVIDIA container toolkit, for containers without Kubernetes."""
    kernel: KernelSettings = KernelSettings()
    """Kernel settings, huge pages, ACS, IOMMU and routes of the rails."""

    @property
    def gpu_path(self) -> cards.GpuDirect:
        """How cards reach GPU memory, from either form in the file."""
        return self.gpu_direct or ("peermem" if self.peermem else "none")


class HostGroup(units.Frozen):
    """Hosts that differ from `host_defaults`; omitted keys keep those values."""

    name: units.DnsLabel
    architecture: Architecture | None = None
    """Processor of this group's hosts."""
    driver: cards.DriverPackage | None = None
    """The RDMA driver of this group."""
    firmware: cards.Firmware | None = None
    """Settings for the firmware of this group's cards."""
    peermem: bool | None = None
    """The short form of `gpu_direct` for this group."""
    gpu_direct: cards.GpuDirect | None = None
    """How cards reach GPU memory on this group."""
    gpu_driver_version: cards.GpuDriverVersion | None = None
    """Version of the GPU driver that this group's hosts own."""
    qos: cards.HostQos | None = None
    """RoCE settings of this group; replaces the whole block."""
    kernel: KernelSettings | None = None
    """Kernel settings of this group; replaces the whole block."""

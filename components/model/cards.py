"""Settings of cards (VFs, firmware, queues) and of the drivers of the hosts."""

import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from components.catalogue.cards import CardName, find_card
from components.model.texts import form_schema, only, refuse
from components.model.units import DnsLabel, Frozen, PciAddress, PortGuid, ReleaseText, Sha256

BufferBytes = Annotated[int, Field(ge=0, le=100_000_000)]
BufferNumber = Annotated[int, Field(ge=0, le=7)]
EIGHT = 8
"""Priorities and receive buffers of a port (IEEE 802.1Q; mlnx_qos 1.2)."""
PCIE_GT_S = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
"""Speeds of a lane in GT/s, generations 1 to 6 of PCI Express (the kernel's pcie_link_speed)."""
LinkWidth = Literal[1, 2, 4, 8, 16]
"""Lanes of a PCIe link."""
PortLanes = Literal[1, 2, 4, 8]
"""SerDes lanes of a network port."""
GpuPath = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
"""How data gets from a GPU to a card, in the words of `nvidia-smi topo -m`, nearest first."""
FIRMWARE_VERSION: Final = r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,5}$"
FirmwareVersion = Annotated[str, StringConstraints(pattern=FIRMWARE_VERSION)]
"""A firmware release as `ibv_devinfo` shows it: family, branch and build."""
MbitPerSecond = Annotated[int, Field(ge=0, le=999_999)]
"""A rate as `ip link set … max_tx_rate` takes it; 0 means unlimited."""
CARD_SERIAL: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
CardSerial = Annotated[str, Field(pattern=CARD_SERIAL)]
"""A board's serial number as `lspci -vv` shows it: `[SN] Serial number: MT2012X12345`."""
LinkGtS = Annotated[
    float,
    Field(gt=0),
    only(
        PCIE_GT_S.__contains__,
        "{:g} GT/s is not a PCI Express speed; expected one of "
        + ", ".join(f"{speed:g}" for speed in PCIE_GT_S),
        "write it in the form shown above.",
    ),
    WithJsonSchema({"type": "number", "enum": list(PCIE_GT_S)}),
]
"""Speed of one PCIe lane in GT/s: 8 is generation 3, 16 is 4, 32 is 5."""
GpuDirect: TypeAlias = Literal["peermem", "dma_buf", "none", "nv_peer_mem"]
"""How a card reaches GPU memory."""
GPU_DRIVER: Final = r"^[0-9]{3}\.[0-9]+(\.[0-9]+)?$"
GpuDriverVersion = Annotated[str, StringConstraints(pattern=GPU_DRIVER)]
"""A GPU driver's version as `modinfo -F version nvidia` shows it: branch and release."""
TOOLKIT_VERSION = r"^[0-9]+(\.[0-9]+)+(-[0-9]+)?$"
ToolkitVersion = Annotated[str, StringConstraints(pattern=TOOLKIT_VERSION)]
"""A version as apt and dnf have it, without an epoch."""
PACKAGE_NAME: Final = r"^[a-z0-9][a-z0-9.+-]*$"
PackageName = Annotated[str, StringConstraints(pattern=PACKAGE_NAME)]
"""A package as apt and dnf take it, without a version: the repository holds one."""
_ADDRESS: Final = r"(/|https://)[A-Za-z0-9._:/@,+-]+"
"""Addresses that the scripts accept: no characters special to a shell or apt."""
_NO_SIGN: Final = re.compile(r"[^A-Za-z0-9._:/@,+-]")


class ReceiveBuffers(Frozen):
    """The receive buffers of a port; by default the driver computes them from PFC and MTU.

    The driver keeps sizes that were set manually until it is reloaded.
    """

    size_bytes: Annotated[tuple[BufferBytes, ...], Field(min_length=EIGHT, max_length=EIGHT)]
    """Sizes of buffers 0 to 7 in bytes, as `mlnx_qos --buffer_size` takes them."""
    priorities: Annotated[tuple[BufferNumber, ...], Field(min_length=EIGHT, max_length=EIGHT)]
    """The buffer of each priority 0 to 7, as `mlnx_qos --prio2buffer` takes it."""


class HostQos(Frozen):
    """RoCE settings that a host chooses itself; the rest follows `rdma`."""

    cable_length_m: Annotated[int, Field(ge=1, le=999)] | None = None
    """Length of the cable in metres, from which the driver computes when to send PFC pauses;
    default the driver's (7)."""
    buffers: ReceiveBuffers | None = None
    """Receive buffers; default the driver's."""


class FirmwareFloor(Frozen):
    """The oldest firmware that cards of one model may run."""

    model: CardName
    version: FirmwareVersion
    """For example `28.43.1014`; its first number is that of the model's family."""


class Firmware(Frozen):
    """The cards' firmware settings (`mlxconfig`); Railyard sets only those of this block.

    They take effect after a reboot, a power cycle or a reset of the card; a preview says which.
    """

    manage: bool = False
    """Set SR-IOV and its number of VFs as `nics[].vfs` asks, and on cards with switchable ports the
    link type as `rdma.transport` asks. On InfiniBand it sets only the ports under `hca_sriov`."""
    num_of_vfs: Annotated[int, Field(ge=1, le=127)] | None = None
    """VFs that every port offers (`NUM_OF_VFS`), with `manage`; default the greatest `vfs` of the
    card's ports, which share the setting."""
    ats: bool = False
    """Set `ATS_ENABLED`: GPUDirect RDMA in virtual machines."""
    relaxed_ordering: bool = False
    """Set `PCI_WR_ORDERING` to `force_relax`, for all memory keys, together with
    `ADVANCED_PCI_SETTINGS`. If the card shows the first only after a start with the second, it
    takes two starts."""
    min_versions: tuple[FirmwareFloor, ...] = ()
    """Oldest allowed releases; at least the ones that Railyard needs for a model, if known."""

    @property
    def sets_anything(self) -> bool:
        """Whether Railyard writes firmware settings on these hosts."""
        return self.manage or self.ats or self.relaxed_ordering

    def floor_of(self, model: str) -> str | None:
        """The oldest release that a card may run; None without a requirement."""
        floors = [each.version for each in self.min_versions if each.model == model]
        card = find_card(model)
        needed = card.firmware_floor if card else None
        if self.sets_anything and needed is not None:
            floors.append(needed)
        return max(floors, key=version_number, default=None)


def version_number(version: str) -> tuple[int, ...]:
    """A firmware release as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))


class Sriov(Frozen):
    """Settings of every VF of one Ethernet port; Railyard leaves omitted ones alone.

    With `pod_network.mode: sriov` the network attachment owns VLAN, rates, trust and spoof check:
    then write only `eswitch`.
    """

    eswitch: Literal["legacy", "switchdev"] | None = None
    """Mode of the card's embedded switch: Railyard sets it and recreates the VFs. Without it
    Railyard refuses a card in switchdev mode."""
    autoprobe: bool | None = None
    """Whether the kernel binds a driver to new VFs; set false if virtual machines use them."""
    min_rate_mbit_s: MbitPerSecond | None = None
    """Guaranteed bandwidth of each VF, in Mbit/s; 0 guarantees nothing."""
    max_rate_mbit_s: MbitPerSecond | None = None
    """Largest bandwidth of each VF, in Mbit/s; 0 means unlimited."""
    vlan: Annotated[int, Field(ge=0, le=4094)] | None = None
    """VLAN that the card adds to the frames of each VF; 0 adds none."""
    trust: bool | None = None
    """Whether a VF may change its MAC address and hear all multicast."""
    spoofchk: bool | None = None
    """Whether the card drops frames of a VF with another source address than its own."""


class HcaPf(Frozen):
    """One InfiniBand port (PF) that has VFs, or firmware settings or a rail (`vfs: 0`)."""

    pci: PciAddress
    """PCI address, for example `"0000:18:00.0"`."""
    rail: DnsLabel | None = None
    """The rail of `infiniband.rails` that this port is; default none."""
    serial: CardSerial | None = None
    """The board's serial number; with it, a card that moved to another slot is reported."""
    vfs: Annotated[int, Field(ge=0, le=127)] = 8
    """Virtual functions to create on this PF."""
    guids: tuple[PortGuid, ...] = ()
    """GUIDs of the VFs, node and port alike; by default derived from the names of site and host,
    the PCI address and the VF's number."""


def _address(text: str) -> str:
    if re.fullmatch(_ADDRESS, text):
        return text
    sign = _NO_SIGN.search(text.removeprefix("https://"))
    if text.startswith(("/", "https://")) and sign:
        raise refuse(
            f'{text} has a "{sign[0]}" in it, which no host takes',
            "offer the file at a path or an address of letters, digits and ._:/@,+- alone, "
            "without a query.",
        )
    raise refuse(
        f"{text} is neither an absolute path nor https",
        "use an https address, or a path on the hosts that begins with /.",
    )


DriverAddress = Annotated[str, AfterValidator(_address), form_schema(rf"^{_ADDRESS}$")]
"""An absolute path on the hosts, or an https address."""


class DriverRepository(Frozen):
    """The site's own apt or dnf repository with the driver."""

    url: DriverAddress
    """https address, or an absolute path on the hosts, of a flat apt or a dnf repository."""
    key: DriverAddress
    """https address, or an absolute path on the hosts, of the key that signs it."""
    key_sha256: Sha256
    """Checksum of the file at `key`."""


class DriverPackage(Frozen):
    """The RDMA driver of the hosts."""

    kind: Literal["inbox", "present", "doca_ofed", "mlnx_ofed"] = "inbox"
    """`inbox` is the kernel's own driver, and `present` one that the hosts have, as DGX OS and
    clouds' images do: Railyard only verifies it. It installs the others from `source` or
    `repository`."""
    flavour: Literal["ofed", "doca", "inbox", "any"] = "ofed"
    """What `present` must be: `ofed` is MLNX_OFED or DOCA-OFED; with `any` the plan uses only
    features of the kernel's own driver."""
    at_least: ReleaseText | None = None
    """Oldest version that `present` may have, in the form of `version`."""
    version: ReleaseText | None = None
    """Version that must be installed, as `ofed_info -s` says it (`24.10-1.1.4.0`,
    `MLNX_OFED_LINUX-5.4-1.0.3.0`, `OFED-internal-25.10-1.7.1.413`), or a DOCA release (`3.2.0`)."""
    source: DriverAddress | None = None
    """Absolute path on the host, or an https URL, of the package; with `sha256`."""
    sha256: Sha256 | None = None
    """Checksum of the package at `source`."""
    repository: DriverRepository | None = None
    """A repository with the driver, in place of `source`."""
    packages: tuple[PackageName, ...] = ()
    """Packages to install from `repository`; default `doca-ofed`, or `mlnx-ofed-all`."""
    rebuild: bool = True
    """Rebuild the driver's modules for a running or next kernel that lacks them; else a kernel
    upgrade falls back to the inbox driver."""
    add_kernel_support: bool = False
    """Pass `--add-kernel-support` to the MLNX_OFED installer; only with a `.tgz`."""

    @property
    def is_installed(self) -> bool:
        """Whether Railyard installs it: a package of NVIDIA's, not the hosts' own driver."""
        return self.kind in {"doca_ofed", "mlnx_ofed"}

    @property
    def is_ofed(self) -> bool:
        """Whether it is NVIDIA's driver, with features that the kernel's own lacks.

        These are `ecn/` below each network device, the traffic class of a device, and the parts of
        ib_core that nvidia_peermem needs.
        """
        return self.is_installed or (self.kind == "present" and self.flavour in {"ofed", "doca"})

    @property
    def shown(self) -> str:
        """The driver that the file asks for, in a word or two."""
        return f"present ({self.flavour})" if self.kind == "present" else self.kind


class ContainerToolkit(Frozen):
    """NVIDIA's container toolkit, whose runtime shows GPUs to containers."""

    kind: Literal["present", "host", "operator"] = "present"
    """`present`: the hosts have it, as DGX OS does; Railyard verifies it. `host`: Railyard installs
    it from `repository`, or `version` from the hosts' own repositories. `operator`: the GPU
    operator brings its own."""
    repository: DriverRepository | None = None
    """A repository with nvidia-container-toolkit: NVIDIA's or a mirror."""
    version: ToolkitVersion | None = None
    """Version of the package: `1.17.8-1`; default the repository's choice."""

"""The RDMA card models that Railyard knows, and parts of other makers that it refuses by name.

Every other table of card models derives from this one, or a test proves it equal.

It sets up cards by mlx5's tools and files, and GPUs by NVIDIA's operators. The names are written
after the makers' product pages (lab/sources.md#parts-of-other-makers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

CardName = Literal[
    "ConnectX-5",
    "ConnectX-6",
    "ConnectX-6 Dx",
    "ConnectX-7",
    "ConnectX-8",
    "BlueField-3",
    "ConnectX-9",
]
"""What `hosts[].nics[].model` may be."""


@dataclass(frozen=True, slots=True)
class CardModel:
    """One card model.

    Sources, all in lab/sources.md#hosts: ids from pci.ids and the list of NVIDIA's
    SR-IOV operator, mst numbers from mstflint, speeds and link types from the DOCA and WinOF-2
    release notes, VF limits from the firmware release notes of each family.
    """

    name: CardName
    pf_device: str
    """PCI device id of the PF, four hex digits of vendor 15b3."""
    vf_device: str
    """PCI device id of its VFs; 101e is shared by all models since ConnectX-6 Dx."""
    mst_number: int
    """The number in its mst name (`mt4119_pciconf0`): the PF's id in decimal."""
    firmware_family: int
    """First number of its firmware's versions."""
    fastest_gbit_s: int
    """The fastest rate of any port of this model, in Gbit/s."""
    max_vfs: int | None
    """VFs of a port that its firmware can be set to; None: no release notes state a limit."""
    vpi: bool
    """Some cards of this model have ports for InfiniBand or Ethernet (`LINK_TYPE_P1`)."""
    also: tuple[tuple[str, int], ...] = ()
    """Further PCI ids with their mst numbers: variants without special needs."""
    ports: int = 2
    """Ports of its largest card: each is one function of the PCI device, from 0 on."""
    firmware_floor: str | None = None
    """Oldest firmware whose parameters can be relied on; None: no release notes name one, and the
    card's own list of parameters decides."""


_MODELS: Final = (
    CardModel(
        "ConnectX-5", "1017", "1018", 4119, 16, 100, 127, vpi=True, also=(("1019", 4121),)
    ),  # 1019 is ConnectX-5 Ex
    CardModel("ConnectX-6", "101b", "101c", 4123, 20, 200, 127, vpi=True),
    CardModel("ConnectX-6 Dx", "101d", "101e", 4125, 22, 200, 127, vpi=False),
    # Four ports: cards for Ethernet alone (ConnectX-7 user manual, Introduction).
    CardModel("ConnectX-7", "1021", "101e", 4129, 28, 400, 127, vpi=True, ports=4),
    # No list of all its cards is known, so it is taken as the one before.
    CardModel("ConnectX-8", "1023", "101e", 4131, 40, 800, 127, vpi=True, ports=4),
    # 126 is what a host may ask for (DOCA, BlueField SR-IOV); 32.38.1002 changed how NIC mode is
    # configured, and is not compatible with older firmware (its release notes).
    CardModel(
        "BlueField-3", "a2dc", "101e", 41692, 32, 400, 126, vpi=True, firmware_floor="32.38.1002"
    ),
    CardModel("ConnectX-9", "1025", "101e", 4133, 82, 800, None, vpi=True, ports=4),
)
CARDS: Final[Mapping[CardName, CardModel]] = {card.name: card for card in _MODELS}
"""Card model by name, in the order in which they came out."""


def find_card(name: str) -> CardModel | None:
    """The model with that name, or None."""
    return next((card for card in _MODELS if card.name == name), None)


IB_PORTS: Final = 2
"""Ports of the largest card that can be InfiniBand; cards with more are Ethernet alone."""


_NICS: Final = {
    "Broadcom": r"broadcom|netxtreme|thor ?[0-9]?|bcm ?5[0-9]+|[pn][0-9]{4}g\w*",
    "AMD Pensando": r"amd|pensando|pollara|vulcano|salina|elba|dsc[0-9-].*",
    "Intel": r"intel|e[128][0-9]{2,3}(-\w+)?|xx?v?7[0-9]{2}|ipu|irdma",
    "Amazon": r"efa|ena|amazon",
    "Cornelis": r"cornelis|omni-?path|cn5000",
    "Marvell": r"marvell|fastlinq|qlogic|ql4[0-9]+",
    "Chelsio": r"chelsio|t6[0-9]+",
}
_GPUS: Final = {
    "AMD": r"amd|instinct|mi[0-9]{2,3}[a-z]*|radeon|rocm",
    "Intel": r"intel|gaudi ?[0-9]?|hl-?[0-9]+|ponte|max ?1[0-9]{3}",
    "Google": r"tpu",
    "Amazon": r"trainium ?[0-9]?|trn[0-9]|inferentia ?[0-9]?",
}
_SOFTWARE: Final = {
    "AMD": r"(^|[/.@_-])(rocm|amd|amdgpu)([/.@:_-]|$)",
    "Intel": r"(^|[/.@_-])(habana|gaudi|habanalabs)([/.@:_-]|$)",
}
_PREFIXES: Final = {
    "amd.com": "AMD",
    "habana.ai": "Intel",
    "gpu.intel.com": "Intel",
    "broadcom.com": "Broadcom",
    "aws.amazon.com": "Amazon",
}
"""Prefixes of extended resources. `intel.com` is that of the SR-IOV device plugin itself."""
_WORD: Final = re.compile(r"[\s_/(),]+")


def nic_vendor(model: str) -> str | None:
    """The maker of another vendor's card, by its name; None if no other maker is known for it."""
    return _maker(model, _NICS)


def gpu_vendor(model: str) -> str | None:
    """The maker of another vendor's GPU, by its name."""
    return _maker(model, _GPUS)


def software_vendor(address: str) -> str | None:
    """The GPU maker of a chart or image, by its address."""
    found = (each for each, form in _SOFTWARE.items() if re.search(form, address, re.IGNORECASE))
    return next(found, None)


def prefix_vendor(prefix: str) -> str | None:
    """The maker of the plugin with a resource prefix."""
    return _PREFIXES.get(prefix)


def _maker(name: str, table: Mapping[str, str]) -> str | None:
    words = [*filter(None, _WORD.split(name)), name]
    for vendor, form in table.items():
        if any(re.fullmatch(form, word, re.IGNORECASE) for word in words):
            return vendor
    return None


_UNMANAGED: Final = "runs no system for logins: its subnet manager runs elsewhere"
_NVOS: Final = (
    "runs NVOS, which has no partitions to set, and on Quantum-X800 no subnet manager either: its "
    "`nv set ib sm` is refused there"
)
_UFM: Final = (
    "write it in infiniband.switches, which are not logged in to, set infiniband.subnet_manager to "
    "external, and say in infiniband.ufm how UFM is reached, which then gets the partitions."
)
_SAND: Final = (
    "has virtual output queues, which EOS sets by `tx-queue`; Railyard sets the `uc-tx-queue` of "
    "Trident and Tomahawk"
)
UNPLANNED: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (re.compile(r"QM(87|97)90"), _UNMANAGED, _UFM),
    (re.compile(r"Q3[24]\d\d(-\w+)?"), _NVOS, _UFM),
    (
        re.compile(r"(DCS-)?7(28\d|5\d\d|8\d\d)R\w*(-.*)?"),
        _SAND,
        "leave the switch out of the file and configure it yourself, or use a 7050X or 7060X.",
    ),
)
"""Pattern of names, why it is not planned, and what to do; sources.md#switch-models."""


def why_unplanned(name: str) -> tuple[str, str] | None:
    """Why a model is not planned, and what to do; None if we know no reason."""
    for pattern, why, fix in UNPLANNED:
        if pattern.fullmatch(name):
            return why, fix
    return None

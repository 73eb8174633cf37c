"""The RDMA card models that Railyard knows, and parts of other makers that it refuses by name.

Every other table of card models derives from this one, or a test proves it equal.

It sets up cards by mlx5's tools and files, and GPUs by NVIDIA's operators. The names are written
after the makers' product pages (lab/sources.md#parts-of-other-makers).
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from components.core.templates import typed_table

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
IB_PORTS: Final = 2
"""Ports of the largest card that can be InfiniBand; cards with more are Ethernet alone."""
_Makers = dict[str, str]
"""Maker to the expression of its names."""
_NICS: Final = typed_table(_Makers, __file__, "nics")
_GPUS: Final = typed_table(_Makers, __file__, "gpus")
_SOFTWARE: Final = typed_table(_Makers, __file__, "software")
_PREFIXES: Final = typed_table(dict[str, str], __file__, "prefixes")
"""Prefix of extended resources to the maker."""
_WORD: Final = re.compile(r"[\s_/(),]+")
UNPLANNED: Final = typed_table(tuple[tuple[str, str, str], ...], __file__, "unplanned")
"""Expression of names, why it is not planned, and what to do; sources.md#switch-models."""


class CardModel(NamedTuple):
    """One card model.

    Sources, all in lab/sources.md#hosts: ids from pci.ids and the list of NVIDIA's SR-IOV operator,
    speeds and link types from the DOCA and WinOF-2 release notes, VF limits from the firmware
    release notes of each family.
    """

    name: CardName
    pf_device: str
    """PCI device id of the PF, four hex digits of vendor 15b3."""
    vf_device: str
    """PCI device id of its VFs; 101e is shared by all models since ConnectX-6 Dx."""
    firmware_family: int
    """First number of its firmware's versions."""
    fastest_gbit_s: int
    """The fastest rate of any port of this model, in Gbit/s."""
    max_vfs: int | None
    """VFs of a port that its firmware can be set to; None: no release notes state a limit."""
    vpi: bool
    """Some cards of this model have ports for InfiniBand or Ethernet (`LINK_TYPE_P1`)."""
    also: tuple[str, ...] = ()
    """Further PCI ids: variants without special needs."""
    ports: int = 2
    """Ports of its largest card: each is one function of the PCI device, from 0 on."""
    firmware_floor: str | None = None
    """Oldest firmware whose parameters can be relied on; None: no release notes name one, and the
    card's own list of parameters decides."""


_MODELS: Final = typed_table(tuple[CardModel, ...], __file__, "models")
CARDS: Final[Mapping[CardName, CardModel]] = {card.name: card for card in _MODELS}
"""Card model by name, in the order in which they came out."""


def find_card(name: str) -> CardModel | None:
    """The model with that name, or None."""
    return next((card for card in _MODELS if card.name == name), None)


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


def why_unplanned(name: str) -> tuple[str, str] | None:
    """Why a model is not planned, and what to do; None if we know no reason."""
    for pattern, why, fix in UNPLANNED:
        if re.fullmatch(pattern, name):
            return why, fix
    return None

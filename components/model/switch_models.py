"""Models of switches and cards that the file describes itself: the catalogue does not know them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from components.catalogue.switches.model_file import Mode, read_split
from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.model.units import Frozen

_WIDE_GBIT_S: Final = 400
"""From this speed on a port has eight lanes, unless the file says otherwise."""
UNCHECKED: Final = (
    "whether the system runs on it and from which release on, its names of ports, its buffer, and "
    "for which cables it has headroom"
)
"""What no rule can look at where the file describes a model."""


class DescribedSwitch(Frozen):
    """What the file says of a switch model that is not in the catalogue."""

    ports: Annotated[int, Field(ge=1, le=1024)]
    """Number of whole ports. Their names are those of the switch's system, from the first on."""
    speeds_gbit_s: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]
    """Speeds of a whole port in Gbit/s."""
    breakouts: tuple[Mode, ...] = ()
    """How a port may be split, and the speed of each part: `[2x400, 4x200]`; default not at all."""
    mtu_bytes: Annotated[int, Field(ge=1500, le=65535)] | None = None
    """The largest MTU of a port in bytes; default the system's."""
    lossless_priorities: Annotated[int, Field(ge=0, le=8)] = 1
    """Priorities that can be lossless at once; 0: the model has no PFC."""
    lanes: Annotated[int, Field(ge=1, le=16)] | None = None
    """Electrical lanes of a port, by which EOS and SONiC name its parts; default 8 from 400 Gbit/s
    on, else 4."""

    def as_model(self, name: str, system: str) -> SwitchModel:
        """The same facts as the catalogue holds them, for one switch system."""
        lanes = self.lanes or (8 if max(self.speeds_gbit_s) >= _WIDE_GBIT_S else 4)
        infiniband = SWITCH_SYSTEMS[system].carries == "infiniband"
        return SwitchModel(
            name=name,
            ports={system: tuple(SWITCH_SYSTEMS[system].ports.names(self.ports, lanes))},
            port_speeds_gbit_s=self.speeds_gbit_s,
            max_lossless_priorities=0 if infiniband else self.lossless_priorities,
            lanes=lanes,
            splits=tuple(read_split(mode) for mode in self.breakouts),
            most_mtu_bytes=self.mtu_bytes,
        )


PCI_ID = r"^[0-9a-f]{4}$"
PciId = Annotated[str, StringConstraints(pattern=PCI_ID)]
"""A PCI device id of vendor 15b3 in four hex digits: `"101f"`."""


class DescribedNic(Frozen):
    """What the file says of a card model of NVIDIA; what it leaves out is not checked."""

    pci_id: PciId | None = None
    """PCI device id of the card, as `lspci -n` shows it after `15b3:`."""
    vf_pci_id: PciId | None = None
    """PCI device id of its VFs; without it the device plugin selects VFs by the PF's name alone."""
    vf_limit: Annotated[int, Field(ge=1)] | None = None
    """VFs of a port that its firmware can be set to."""
    speed_gbit_s: Annotated[int, Field(gt=0)] | None = None
    """The fastest rate of a port in Gbit/s."""

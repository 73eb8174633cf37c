"""Settings of switch ports, and models of switches and cards that the file describes itself."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from components.catalogue.switches.switch_model import Mode, Split, SwitchModel, SystemFacts
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.model.units import Frozen, Kib

Percent = Annotated[int, Field(ge=1, le=100)]
TrafficClass = Annotated[int, Field(ge=0, le=7)]
Gbit = Annotated[int, Field(ge=1, le=1600)]
"""Speed of a port in Gbit/s."""
Fec = Literal["rs", "fc", "none"]
"""Forward error correction: Reed-Solomon, Fire code (BASE-R), or none."""
_WIDE_GBIT_S: Final = 400
"""From this speed on a port has eight lanes, unless the file says otherwise."""
UNCHECKED: Final = (
    "whether the system runs on it and from which release on, its names of ports, its buffer, and "
    "for which cables it has headroom"
)
"""Facts that no rule can check if the file describes a model."""
PCI_ID = r"^[0-9a-f]{4}$"
PciId = Annotated[str, StringConstraints(pattern=PCI_ID)]
"""A PCI device id of vendor 15b3 in four hex digits: `"101f"`."""


class Marking(Frozen):
    """ECN of the RoCE class on ports of one speed."""

    min_kib: Kib
    """Queue depth in KiB at which marking starts."""
    max_kib: Kib
    """Queue depth in KiB above which most packets are marked."""
    mark_percent: Percent = 100
    """How many packets are marked there, in percent. Default 100, as on NVIDIA's switches."""


class Schedule(Frozen):
    """How the classes of a port share it when all of them have packets to send."""

    shares: dict[TrafficClass, Percent]
    """Class to its percent of the port, 100 together. Include RoCE's class and class 0, which
    carries unmarked traffic and must not starve."""
    strict: tuple[TrafficClass, ...] = ()
    """Classes served before all shares, besides that of the congestion notifications."""


class WatchdogTimes(Frozen):
    """How long the PFC watchdog waits, in milliseconds."""

    detect: Annotated[int, Field(ge=100, le=5000)]
    """How long a class is held up before its packets are dropped. 100 to 5000: sonic-pfcwd.yang."""
    restore: Annotated[int, Field(ge=100, le=60_000)]
    """For how long its packets are then dropped."""


class LinkSettings(Frozen):
    """Speed, error correction and auto-negotiation of `ports`; by default left to the switch."""

    speed_gbit_s: Gbit | None = None
    """Speed in Gbit/s: 400. By default the switch takes the module's speed or the port's
    highest."""
    fec: Fec | None = None
    """`rs`, `fc` (BASE-R, for lanes of up to 25 Gbit/s) or `none`. Lanes of 50 Gbit/s and more have
    no link without `rs` (IEEE 802.3bs and 802.3cd)."""
    autoneg: bool | None = None
    """Whether to negotiate speed and more with the other end; with a speed, only that one is
    offered. EOS sets both in one command, so it also needs a speed."""


class DescribedSwitch(Frozen):
    """The file's description of a switch model that the catalogue lacks."""

    ports: Annotated[int, Field(ge=1, le=1024)]
    """Number of whole ports. Their names are those of the switch's system, from the first on."""
    speeds_gbit_s: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]
    """Speeds of a whole port in Gbit/s."""
    breakouts: tuple[Mode, ...] = ()
    """How a port can be split, and the speed of each part: `[2x400, 4x200]`; default: not at
    all."""
    mtu_bytes: Annotated[int, Field(ge=1500, le=65535)] | None = None
    """The largest MTU of a port in bytes; default the system's."""
    lossless_priorities: Annotated[int, Field(ge=0, le=8)] = 1
    """Priorities that can be lossless at once; 0: the model lacks PFC."""
    lanes: Annotated[int, Field(ge=1, le=16)] | None = None
    """Electrical lanes of a port, by which EOS and SONiC name its parts; default 8 from 400 Gbit/s
    on, else 4."""

    def as_model(self, name: str, system: str) -> SwitchModel:
        """The same facts in the catalogue's form, for one switch system."""
        lanes = self.lanes or (8 if max(self.speeds_gbit_s) >= _WIDE_GBIT_S else 4)
        infiniband = SWITCH_SYSTEMS[system].carries == "infiniband"
        return SwitchModel.model_construct(
            name=name,
            systems={system: SystemFacts()},
            count=self.ports,
            port_speeds_gbit_s=self.speeds_gbit_s,
            max_lossless_priorities=0 if infiniband else self.lossless_priorities,
            lanes=lanes,
            splits=tuple(Split(mode=mode) for mode in self.breakouts),
            most_mtu_bytes=self.mtu_bytes,
        )


class DescribedNic(Frozen):
    """The file's description of a card model of NVIDIA; omitted facts are not checked."""

    pci_id: PciId | None = None
    """PCI device id of the card, as `lspci -n` shows it after `15b3:`."""
    vf_pci_id: PciId | None = None
    """PCI device id of its VFs; without it the device plugin selects VFs by the PF's name alone."""
    vf_limit: Annotated[int, Field(ge=1)] | None = None
    """Largest number of VFs of a port that its firmware accepts."""
    speed_gbit_s: Annotated[int, Field(gt=0)] | None = None
    """The highest rate of a port in Gbit/s."""

"""Switch models that the file describes itself, for those that the catalogue does not know."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.model.units import Frozen

BREAKOUT: Final = r"^[2-8]x[1-9][0-9]{0,4}$"
Breakout = Annotated[str, StringConstraints(pattern=BREAKOUT)]
"""Parts of a split port and the speed of each in Gbit/s: `2x400`."""
_WIDE_GBIT_S: Final = 400
"""From this speed on a port has eight lanes, unless the file says otherwise."""
_NAMES: Final = {
    "onyx": "1/{number}",
    "mlnxos": "1/{number}",
    "cumulus": "swp{number}",
    "eos": "Ethernet{number}/1",
    "sonic": "Ethernet{lane}",
}
"""How a system calls port `number` from 1 on, whose first lane is `lane`, counted from 0."""
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
    breakouts: tuple[Breakout, ...] = ()
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
        form = _NAMES[system]
        splits = (breakout.split("x") for breakout in self.breakouts)
        return SwitchModel(
            name=name,
            ports={
                system: tuple(
                    form.format(number=number, lane=lanes * (number - 1))
                    for number in range(1, self.ports + 1)
                )
            },
            port_speeds_gbit_s=self.speeds_gbit_s,
            traffic_classes=0 if infiniband else 8,
            max_lossless_priorities=0 if infiniband else self.lossless_priorities,
            lanes=lanes,
            breakouts={int(parts): int(speed) for parts, speed in splits},
            most_mtu_bytes=self.mtu_bytes,
            sources={system: "switch_models of this file"},
        )

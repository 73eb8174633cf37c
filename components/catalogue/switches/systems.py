"""The switch systems that a file may name, their names of ports, and when a queue marks.

Everything else about a system is in its folder, `components/fabric/systems/<name>/`, which is found
by this name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from components.core.templates import typed_table

Transport = Literal["roce", "infiniband"]
FOREIGN_SYSTEMS: Final = frozenset(
    {"dnos", "enterprise-sonic", "enterprise_sonic", "exos", "ios", "nvos", "nx-os", "nxos", "onos"}
)
"""Systems that Railyard does not set and whose names look like a slip of one of the above."""
FOREIGN_RELEASES: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "sonic": (
        re.compile(r"((Enterprise_)?SONiC[-_](OS[-_])?)?\d\.\d+(\.\d+)?([-_].*)?", re.IGNORECASE),
        "Enterprise SONiC of Dell or Broadcom, which has other commands and is not set here",
    )
}
"""System to the release form of another edition, and the name of that edition.

Images of Enterprise SONiC are called `SONiC-OS-4.4.0-Enterprise_Base` and
`Enterprise_SONiC_OS_4.1.1_Cloud_Advanced`; those of the community by their branch: 202405.
"""


class PortPlace(NamedTuple):
    """Where a port is on the front panel."""

    whole: str
    """Name of the front panel port that it is, or is a part of."""
    parts: int
    """The least number of parts of that port if this part exists; 1 for a whole port."""


class PortNaming(NamedTuple):
    """The names of one system.

    Parts of a split port are counted and have their own names (`first_part`), or a port and its
    parts are called by their first lane, counted in each port or through the whole switch.
    """

    pattern: re.Pattern[str]
    """The names of its ports and parts. Group `whole` is the port and group `part` the suffix of a
    split; or group `head` comes before the number of a lane, group `lane`."""
    form: str
    """The name of port `{}`, from 1 on; with lanes of the switch, of its first lane, from 0 on."""
    first_part: str = ""
    """The suffix of the first part, if parts are counted; a whole port has no part's name then."""
    of_switch: bool = False
    """Lanes are counted through the whole switch, from 0 on; else in each port, from 1 on."""
    span: str = "{first} to {last}"
    """The names of a switch, for people; `{second}` is its second port."""
    split: str = ""
    """The names of parts, after those; `{first}` is the first port."""

    def names(self, count: int, lanes: int) -> Iterator[str]:
        """The names of so many whole ports, from the first on, of so many lanes each."""
        numbers = range(0, count * lanes, lanes) if self.of_switch else range(1, count + 1)
        return map(self.form.format, numbers)

    def parts(self, whole: str, count: int, lanes: int) -> tuple[str, ...]:
        """The names of the `count` parts of a split port with so many lanes."""
        found = self.pattern.fullmatch(whole)
        if self.first_part:
            head, first, step = f"{whole}{self.first_part[0]}", int(self.first_part[1:]), 1
        else:
            head = found["head"] if found else whole
            first, step = int(found["lane"]) if found else 0, lanes // count
        return tuple(f"{head}{first + step * number}" for number in range(count))

    def place(self, name: str, lanes: int) -> PortPlace | None:
        """Where a port is on a model whose ports have so many lanes; None: not a port's name."""
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        if self.first_part:
            part = found["part"] or self.first_part
            return PortPlace(found["whole"], int(part[1:]) - int(self.first_part[1:]) + 1)
        first = 0 if self.of_switch else 1
        lane = int(found["lane"]) - first
        if lane >= lanes and not self.of_switch:
            return None
        beyond = lane % lanes
        # The least number of equal parts such that one begins at this lane.
        return PortPlace(f"{found['head']}{first + lane - beyond}", lanes // gcd(lanes, beyond))

    def describe(self, ports: Sequence[str], *, split: bool) -> str:
        """The names of a switch with these ports, for people."""
        text = self.span + (self.split if split else "")
        return text.format(first=ports[0], second=ports[min(1, len(ports) - 1)], last=ports[-1])


class SystemEntry(NamedTuple):
    """The facts about a system that the model of a file and the switch models need."""

    carries: Transport
    """The transport of its ports."""
    ports: PortNaming
    """How it calls a port, and a part of a split one."""
    mtu_range_bytes: tuple[int, int]
    """The least and the largest MTU of a port."""
    mtu_source: str = "lab/sources.md"
    """Who states it."""


SWITCH_SYSTEMS: Final = typed_table(dict[str, SystemEntry], __file__, "systems")
"""By the name that the site file uses, in the order in which refusals list them."""

if TYPE_CHECKING:
    SystemName = str
else:
    SystemName = Literal[tuple(SWITCH_SYSTEMS)]
"""The type of `os` in the file: one of the names above, which the schema lists."""

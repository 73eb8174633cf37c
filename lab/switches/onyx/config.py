"""The state of an emulated Onyx switch: its configuration, saved and running, and its counters.

Factory values: MTU 1500 (below 3.9.2110), access VLAN 1, trust L2 (onyx_qos.py), eight DSCPs per
priority (fixture show_qos_interface_ethernet.cfg), PFC off, ECN off, ETS weights 12 and 13 in turn
(fixture of `show dcb ets interface`). `show roce` prints the classes of priorities 3 and 6 (capture
C1); for the others, priority n in traffic class n is a guess.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Generic, Literal, NamedTuple, Self, TypeVar

from lab.switches import stored
from lab.switches.command_line import CliError, Command, Grammar
from lab.switches.front import front_of
from lab.switches.stored import Part
from lab.switches.text import collapse, expand, numbers

Mode = Literal["access", "trunk", "hybrid"]
Trust = Literal["L2", "L3", "both", "port"]
RoceMode = Literal["none", "lossless", "semi-lossless", "lossy"]

FACTORY_MTU_BYTES = 1500
FACTORY_VLAN = 1
VLANS = range(1, 4095)
"""IEEE 802.1Q."""
TRAFFIC_CLASSES = range(8)
FACTORY_WEIGHTS = {tc: 12 + tc % 2 for tc in TRAFFIC_CLASSES}


_SPAN: Final = r"\d+/\d+(/\d+)?(-\d+/\d+(/\d+)?)?"
_HELP: Final = '\nType "?" for help.'
UNKNOWN: Final = f'% Unrecognized command "{{}}".{_HELP}'
"""TMS base, and MLNX-OS 3.6.8012 in capture C16."""
GRAMMAR: Final = Grammar(
    places={
        "<ports>": re.compile(rf"{_SPAN}(,{_SPAN})*"),
        "<vlans>": re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*"),
        "<int>": re.compile(r"\d+"),
        "<word>": re.compile(r"\S+"),
    },
    unknown=UNKNOWN,
    incomplete=f"% Incomplete command.{_HELP}",  # the prefix that tools check (capture C12)
    ambiguous=f'% Ambiguous command "{{}}".{_HELP}',  # guess
)
_SINCE: Final = {
    "roce": (3, 8, 2000),
    "traffic-class": (3, 6, 5000),
    "trust": (3, 6, 5000),
    "congestion-control": (3, 6, 5000),
}
"""Word of a command to its first release: Onyx user manual, "RoCE Commands".

Also a public recipe for 3.7.1102, which 3.6.4114 refused.
"""


def of_release(commands: Iterable[Command], release: str) -> tuple[Command, ...]:
    """The commands of a release."""
    held = numbers(release)
    return tuple(
        command
        for command in commands
        if all(_SINCE.get(word, ()) <= held for word in command.pattern)
    )


@lru_cache(maxsize=1000)  # a driver asks the same of each port, again and again
def split_words(line: str) -> tuple[str, ...]:
    """Split a line at blanks outside double quotes; a CliError if a quote stays open."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise CliError(f"% {error}") from error


def expand_ports(text: str, known: Iterable[str]) -> list[str]:
    """Expand `1/1-1/3,1/7` into ports of the switch, in its order.

    Raises:
        CliError: A port does not exist (the wording is a guess).
    """
    order = list(known)
    ports: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        for end in (first, last or first):
            if end not in order:
                raise CliError(f"% Interface ethernet {end} does not exist")  # guess
        ports += order[order.index(first) : order.index(last or first) + 1]
    return ports


def expand_vlans(text: str) -> list[int]:
    """Expand `10,111-112`; a CliError if a VLAN is outside 1-4094 (the wording is a guess)."""
    vlans = [*expand(text)]
    if not {*vlans} <= {*VLANS}:
        raise CliError("% Please enter an integer between 1 and 4094.")  # guess, after netmiko #394
    return vlans


def collapse_ports(ports: Iterable[str], order: list[str]) -> str:
    """Write ports as `1/1-1/3,1/7`, in the switch's order."""
    return collapse(map(order.index, ports), order.__getitem__)


class Congestion(NamedTuple):
    """Marking or dropping thresholds of one traffic class: KB if absolute, else percent.

    Onyx writes KB and means 1024 bytes: the 150/1500 KB of `roce` are used as KiB.
    """

    kind: str
    unit: str
    minimum: int
    maximum: int


ONE_SHOT_ECN: Final = Congestion("ecn", "absolute", 150, 1500)


class PortConfig(Part):
    """One Ethernet port, as configured."""

    admin_up: bool = True
    mtu_bytes: int = FACTORY_MTU_BYTES
    description: str = ""
    routed: bool = False
    """A router port: in no VLAN (`no switchport force`)."""
    mode: Mode = "access"
    access_vlan: int = FACTORY_VLAN
    allowed_vlans: Literal["all"] | list[int] = []
    trust: Trust = "L2"
    rewrite: list[str] = []
    dscp_map: dict[int, int] = {}
    """DSCP to switch priority, if it differs from the factory's DSCP / 8."""
    congestion: dict[int, Congestion] = {}
    ets: dict[int, int | None] = {}
    """Traffic class to WRR weight, if it differs from the factory's; None: strict."""
    pfc: bool = False

    def set_mode(self, mode: Mode, *, routed: bool = False) -> None:
        """Change the switchport mode; the VLANs become that mode's defaults (a guess)."""
        if (self.mode, self.routed) != (mode, routed):
            self.mode, self.routed, self.access_vlan = mode, routed, FACTORY_VLAN
            self.allowed_vlans = "all" if mode == "trunk" else []

    def priority_of(self, dscp: int) -> int:
        """The switch priority of a DSCP."""
        return self.dscp_map.get(dscp, dscp // 8)

    @property
    def carried(self) -> set[int]:
        """The VLANs that a trunk or hybrid port allows."""
        return {*(VLANS if self.allowed_vlans == "all" else self.allowed_vlans)}

    def carries(self, vlan: int) -> bool:
        """Whether a trunk or hybrid port allows a VLAN."""
        return self.allowed_vlans == "all" or vlan in self.allowed_vlans


class CliConfig(Part):
    """The settings in every configuration of Onyx and MLNX-OS."""

    hostname: str
    paging: bool = True


ConfigT = TypeVar("ConfigT", bound=CliConfig)


class SavedAndRunning(stored.Stored, Generic[ConfigT]):
    """The state that one switch keeps on disk in the lab."""

    running: ConfigT
    saved: ConfigT

    @classmethod
    def untouched(cls, factory: ConfigT) -> Self:
        """The state of a new switch."""
        return cls(running=factory, saved=factory.model_copy(deep=True))


class Config(CliConfig):
    """A whole configuration: the running one, or the one that the next boot will load."""

    model: str = ""
    vlans: dict[int, str] = {FACTORY_VLAN: "default"}
    ports: dict[str, PortConfig]
    pfc_enabled: bool = False
    pfc_priorities: list[int] = []
    roce: RoceMode = "none"
    lldp: bool = False

    def add_vlans(self, text: str) -> None:
        """Make VLANs; an existing one keeps its name."""
        self.vlans = dict(sorted((dict.fromkeys(expand_vlans(text), "") | self.vlans).items()))

    def name_vlan(self, vlan: str, name: str = "") -> None:
        """Name a VLAN, and make it if it is missing."""
        self.add_vlans(vlan)
        self.vlans[int(vlan)] = name

    def remove_vlans(self, text: str) -> None:
        """Remove VLANs, also from ports; a CliError for a missing one, or the factory's."""
        vlans = expand_vlans(text)
        missing = [vlan for vlan in vlans if vlan not in self.vlans]
        if FACTORY_VLAN in vlans or missing:
            raise CliError(f"% VLAN {(missing or [FACTORY_VLAN])[0]} cannot be deleted")  # guess
        self.vlans = {key: name for key, name in self.vlans.items() if key not in vlans}
        for port in self.ports.values():
            if port.access_vlan in vlans:
                port.access_vlan = FACTORY_VLAN
            if port.allowed_vlans != "all":
                port.allowed_vlans = sorted(port.carried - {*vlans})

    def reset_ports(self, text: str) -> None:
        """Reset ports to factory values."""
        for name in expand_ports(text, self.ports):
            self.ports[name] = PortConfig()


Stored = SavedAndRunning[Config]


def factory_config(hostname: str, model: str) -> Config:
    """The configuration in factory state; a UsageError if the lab does not know the model."""
    ports = {f"1/{n + 1}": PortConfig() for n in range(front_of(model, "onyx").ports)}
    return Config(hostname=hostname, model=model, ports=ports)


def apply_roce(config: Config, mode: RoceMode) -> None:
    """Change every port as the one-shot `roce` command does (manual "RoCE Commands")."""
    config.roce = mode
    config.lldp = on = mode != "none"
    config.pfc_enabled = mode in {"lossless", "semi-lossless"}
    config.pfc_priorities = [3] if config.pfc_enabled else []
    for port in config.ports.values():
        port.trust = "L3" if on else "L2"
        port.congestion = {3: ONE_SHOT_ECN} if on else {}
        port.ets = {3: 50, 6: None} if on else {}


_MODULES: Final = {"qsfp": 1, "qsfp-split-2": 2, "qsfp-split-4": 4, "qsfp-split-8": 8}


def split(stored: Stored, ports: str, module: str) -> None:
    """Replace a port with its parts, and drop its settings (manual, "Ethernet Interfaces").

    Public guides say that it must be shut; the wording of the refusals is a guess.
    """
    config, parts = stored.running, _MODULES.get(module, 0)
    for name in expand_ports(ports, config.ports):
        slot, number = name.split("/")[:2]
        whole = f"{slot}/{number}"
        front = front_of(config.model, "onyx") if config.model else None
        form = front.split(int(number), parts, "onyx") if front else None
        if not parts or (parts > 1 and (form is None or name != whole)):
            raise CliError(f"% Module type {module} is not supported on this port")
        held = {each for each in config.ports if f"{each}/".startswith(f"{whole}/")}
        if any(config.ports[each].admin_up for each in held):
            raise CliError("% Interface must be shut down to change its module type")
        names = [f"{whole}/{part}" for part in range(1, parts + 1)] if parts > 1 else [whole]
        rest = {each: port for each, port in config.ports.items() if each not in held}
        rest |= {each: PortConfig() for each in names}
        config.ports = dict(sorted(rest.items(), key=lambda item: numbers(item[0])))

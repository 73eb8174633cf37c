"""Split ports of an emulated Onyx switch; sources.md#onyx-splits."""

from __future__ import annotations

import re
from typing import Final

from lab.switches.front import front_of
from lab.switches.onyx.config import PortConfig, Stored
from lab.switches.onyx.grammar import CliError, expand_ports

_MODULE: Final = re.compile(r"qsfp(?:-split-(?P<parts>[248]))?")


def ask_split(stored: Stored, values: list[str]) -> None:
    """Without `force` the switch asks (public captures), and a session here cannot answer."""
    names = " ".join(expand_ports(values[0], stored.running.ports))
    raise CliError(
        f"the following interfaces will be unmapped: {names}\nType 'yes' to confirm split:"
    )


def split(stored: Stored, values: list[str]) -> None:
    """A port becomes its parts, and what it had is gone (manual, "Ethernet Interfaces").

    That it has to be shut is in public guides; the wording of the refusals is a guess.
    """
    config, found = stored.running, _MODULE.fullmatch(values[1])
    parts = int(found["parts"] or 1) if found else 0
    for name in expand_ports(values[0], config.ports):
        front = front_of(config.model, "onyx") if config.model else None
        whole = "/".join(name.split("/")[:2])
        form = front.split(int(whole.split("/")[1]), parts, "onyx") if front else None
        if not found or (parts > 1 and (form is None or name != whole)):
            raise CliError(f"% Module type {values[1]} is not supported on this port")
        held = [each for each in config.ports if each == whole or each.startswith(f"{whole}/")]
        if any(config.ports[each].admin_up for each in held):
            raise CliError("% Interface must be shut down to change its module type")
        names = [f"{whole}/{part}" for part in range(1, parts + 1)] if parts > 1 else [whole]
        rest = {each: port for each, port in config.ports.items() if each not in held}
        rest |= {each: PortConfig() for each in names}
        config.ports = dict(sorted(rest.items(), key=lambda item: port_order(item[0])))


def port_order(name: str) -> tuple[int, ...]:
    """Ports by number, not by letter."""
    return tuple(int(part) for part in name.split("/"))

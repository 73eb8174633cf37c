"""The real lldpd of switches and hosts: how it is configured, and what it has heard."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, TypeAdapter

from lab.routing.space import Space
from lab.switches.neighbours import Told

SCRIPT: Final = "/usr/sbin/lldpd"
"""It returns once it answers."""
CONFIG_FILE: Final = "lldpd.conf"
_COMMON: Final = "configure system hostname {}\nconfigure lldp tx-interval 1\n"
"""Every second, where Cumulus has 30 and lldpd too: a lab has no minute for a cable."""


def switch_config(name: str) -> str:
    """A switch tells the names of its front ports, and speaks at no other interface.

    SONiC's lldpmgrd has a port's alias told, and its name as the description: here it is the name.
    """
    ports = "configure system interface pattern swp*,Ethernet*\n"
    return f"{_COMMON.format(name)}configure lldp portidsubtype ifname\n{ports}"


def host_config(name: str) -> str:
    """A host tells what lldpd tells by default: the MAC address, and the device's name."""
    return _COMMON.format(name)


class _Value(BaseModel):
    type: str = ""
    value: str = ""


class _Chassis(BaseModel):
    name: list[_Value] = []


class _Port(BaseModel):
    id: list[_Value] = []
    descr: list[_Value] = []


class _Interface(BaseModel):
    name: str
    chassis: list[_Chassis] = []
    port: list[_Port] = []


class _Table(BaseModel):
    interfaces: list[_Interface] = Field(alias="interface", default=[])


class _Answer(BaseModel):
    lldp: list[_Table] = []


_ANSWER: Final = TypeAdapter(_Answer)


def parse_neighbours(text: str) -> dict[str, tuple[str, Told]]:
    """Port to (system, what it tells) of `lldpcli -f json0 show neighbors`."""
    found: dict[str, tuple[str, Told]] = {}
    for table in _ANSWER.validate_json(text).lldp:
        for each in table.interfaces:
            systems = [name.value for chassis in each.chassis for name in chassis.name]
            ids = [value for port in each.port for value in port.id]
            words = [value.value for port in each.port for value in port.descr]
            if systems and ids:
                is_switch = ids[0].type == "ifname"
                told = Told(ids[0].value, (words or [""])[0], is_switch=is_switch)
                found[each.name] = (systems[0], told)
    return found


def heard_in(space: Space) -> dict[str, tuple[str, Told]]:
    """What the lldpd of a namespace has heard; nothing where it is gone."""
    done = space.run("/usr/sbin/lldpcli", "-f", "json0", "show", "neighbors")
    return {} if done.returncode else parse_neighbours(done.stdout)

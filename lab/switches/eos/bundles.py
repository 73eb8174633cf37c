"""Lines of bundles and of the pair: what each does to the configuration that is being edited.

Lines: aristanetworks/avd, Arista's manual "Multi-Chassis Link Aggregation", captures of vEOS
(sources.md#eos). Refusals whose words no source shows are marked as guesses.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Final, cast

from lab.switches.eos.config import ChannelMode, Mlag, Port
from lab.switches.eos.configure import PORT, Place
from lab.switches.eos.grammar import INVALID, EosError, Handler, expand, table, within

_MAX_GROUP: Final = 2000
"""Numbers of channel groups, and of MLAG (the schema of aristanetworks/avd)."""


def _bundle(place: Place, text: str) -> str:
    number = within(re.sub(r"\D", "", text), 1, _MAX_GROUP)
    place.config.bundles.setdefault(number, Port())
    place.bundle, place.port, place.queue, place.vlans = number, None, None, ()
    return ""


def _bundle_by_number(place: Place, number: str) -> str:
    return _bundle(place, f"Port-Channel{number}")


def _no_bundle(place: Place, text: str) -> str:
    """Its ports leave it too: a guess, on which the driver does not depend."""
    number = int(re.sub(r"\D", "", text))
    place.config.bundles.pop(number, None)
    for port in place.config.ports.values():
        if port.group is not None and port.group[0] == number:
            port.group = None
    return ""


def _tree(*, on: bool) -> Handler:
    def answer(place: Place, text: str) -> str:
        named, held = {*expand(text)}, {*place.config.no_tree}
        place.config.no_tree = sorted(held - named if on else held | named)
        return ""

    return answer


def _mlag(place: Place) -> str:
    place.config.mlag = place.config.mlag or Mlag()
    place.mlag = True
    return ""


def _no_mlag(place: Place) -> str:
    place.config.mlag = None
    return ""


def _group(place: Place, number: str, mode: str) -> str:
    """A port joins; its bundle is made with it, as every example of the manual has it."""
    wanted = within(number, 1, _MAX_GROUP), cast("ChannelMode", mode)
    others = [
        port.group[1]
        for name, port in place.config.ports.items()
        if name != place.port and port.group is not None and port.group[0] == wanted[0]
    ]
    if any((each == "on") != (wanted[1] == "on") for each in others):  # words: a guess
        raise EosError("% Static and LACP members cannot be in one channel group")
    place.held().group = wanted
    place.config.bundles.setdefault(wanted[0], Port())
    return ""


def _no_group(place: Place) -> str:
    place.held().group = None
    return ""


def _number(place: Place, text: str) -> str:
    """The number of a bundle in the pair, which no other one on the switch has."""
    number = within(text, 1, _MAX_GROUP)
    taken = [n for n, each in place.config.bundles.items() if each.mlag == number]
    if taken and taken != [place.bundle]:  # words: a guess
        raise EosError(f"% MLAG {number} is already configured on Port-Channel{taken[0]}")
    place.held().mlag = number
    return ""


def _no_number(place: Place, _text: str = "") -> str:
    place.held().mlag = None
    return ""


def _trunk_group(place: Place, group: str) -> str:
    held = place.held()
    held.trunk_groups = sorted({*held.trunk_groups, group})
    return ""


def _no_trunk_group(place: Place, group: str) -> str:
    held = place.held()
    held.trunk_groups = [each for each in held.trunk_groups if each != group]
    return ""


def _vlan_group(place: Place, group: str) -> str:
    for vlan in place.vlans:
        held = place.config.vlan_groups.get(vlan, [])
        place.config.vlan_groups[vlan] = sorted({*held, group})
    return ""


def _no_vlan_group(place: Place, group: str) -> str:
    for vlan in place.vlans:
        held = [each for each in place.config.vlan_groups.pop(vlan, []) if each != group]
        place.config.vlan_groups |= {vlan: held} if held else {}
    return ""


def _of_pair(place: Place) -> Mlag:
    if place.config.mlag is None:
        raise EosError(INVALID)
    return place.config.mlag


def _say(**values: object) -> Handler:
    def answer(place: Place, _text: str = "") -> str:
        for key, value in values.items():
            setattr(_of_pair(place), key, value)
        return ""

    return answer


def _word(key: str, *, is_address: bool = False) -> Handler:
    def answer(place: Place, text: str) -> str:
        if is_address:
            try:
                IPv4Address(text)
            except ValueError:
                raise EosError(INVALID) from None
        return _say(**{key: text})(place)

    return answer


def _local(place: Place, text: str) -> str:
    return _say(local_interface=text.capitalize())(place)


def _link(place: Place, text: str) -> str:
    """An Ethernet port can be the link too; the lab has bundles only."""
    number = within(re.sub(r"\D", "", text), 1, _MAX_GROUP)
    return _say(peer_link=f"Port-Channel{number}")(place)


def _delay(place: Place, kind: str, text: str) -> str:
    _of_pair(place).reload_delay[kind] = within(text, 0, 86400)
    return ""


def _no_delay(place: Place, kind: str) -> str:
    _of_pair(place).reload_delay.pop(kind, None)
    return ""


GLOBAL: Final = table(
    (
        ("interface <bundle>", _bundle),
        ("interface port-channel <int>", _bundle_by_number),
        ("no interface <bundle>", _no_bundle),
        ("no spanning-tree vlan-id <vlans>", _tree(on=False)),
        ("spanning-tree vlan-id <vlans>", _tree(on=True)),
        ("mlag configuration", _mlag),
        ("no mlag configuration", _no_mlag),
    )
)
MEMBER: Final = table(
    (
        ("channel-group <int> mode active|passive|on", _group),
        ("no channel-group", _no_group),
    )
)
"""Of a port alone."""
BUNDLE: Final = (
    *PORT,
    *table(
        (
            ("mlag <int>", _number),
            ("no mlag", _no_number),
            ("no mlag <int>", _no_number),
        )
    ),
)
SWITCHPORT: Final = table(
    (
        ("switchport trunk group <word>", _trunk_group),
        ("no switchport trunk group <word>", _no_trunk_group),
    )
)
"""Of a port and a bundle."""
VLAN_GROUP: Final = table(
    (
        ("trunk group <word>", _vlan_group),
        ("no trunk group <word>", _no_vlan_group),
    )
)
MLAG: Final = table(
    (
        ("domain-id <word>", _word("domain")),
        ("no domain-id", _say(domain=None)),
        ("local-interface <svi>", _local),
        ("no local-interface", _say(local_interface=None)),
        ("peer-address <word>", _word("peer_address", is_address=True)),
        ("no peer-address", _say(peer_address=None)),
        ("peer-address heartbeat <word>", _word("heartbeat", is_address=True)),
        ("no peer-address heartbeat", _say(heartbeat=None)),
        ("peer-link <bundle>", _link),
        ("no peer-link", _say(peer_link=None)),
        ("reload-delay mlag|non-mlag <int>", _delay),
        ("no reload-delay mlag|non-mlag", _no_delay),
        ("shutdown", _say(shutdown=True)),
        ("no shutdown", _say(shutdown=False)),
    )
)

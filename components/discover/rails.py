"""Choose the rail of each card by the file, LLDP and addresses, then by PCI order. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Interface, IPv4Network
from typing import Final

from components.core.problem import Json
from components.hosts.look import CardFact, HostLook

_PREFIX: Final = re.compile(r"^(?:Ethernet|Eth)(?=\d+/)", re.IGNORECASE)
"""Onyx announces its port 1/31 as `Eth1/31`."""


@dataclass(frozen=True, slots=True)
class SiteRails:
    """The site's rails and the devices cabled to them."""

    names: tuple[str, ...] = ()
    subnets: Mapping[str, IPv4Network] = field(default_factory=dict[str, IPv4Network])
    ports: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """(Switch, port) to `host/rail`, or to `switch:port`."""


@dataclass(frozen=True, slots=True)
class ChosenRails:
    """The rail of each card, and the evidence for it."""

    rails: Mapping[str, str]
    """PCI address to rail."""
    cabled: Mapping[str, tuple[str, str]]
    """PCI address to rail and evidence, from a cable or an address. If the file gives that port to
    another card, the rail is shown as `gpu02/rail-1`."""
    notes: tuple[str, ...]


def site_rails(site: Mapping[str, Json]) -> SiteRails:
    """Read the rails of a file; `railyard check` reports malformed ones."""
    rails = [rail for rail in _mappings(site.get("rails")) if isinstance(rail.get("name"), str)]
    subnets: dict[str, IPv4Network] = {}
    for rail in rails:
        try:
            subnets[str(rail["name"])] = IPv4Network(str(rail.get("subnet")))
        except ValueError:
            continue
    ports: dict[tuple[str, str], str] = {}
    for switch in _mappings(site.get("switches")):
        plugged = switch.get("ports")
        for port, target in plugged.items() if isinstance(plugged, dict) else ():
            to = target.get("to") if isinstance(target, dict) else target
            if isinstance(to, str):
                ports[str(switch.get("name")), port] = to
    return SiteRails(tuple(str(rail["name"]) for rail in rails), subnets, ports)


def _mappings(value: Json) -> Iterator[dict[str, Json]]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield each


def choose_rails(
    host: Mapping[str, Json],
    written: Sequence[tuple[str, Mapping[str, Json]]],
    look: HostLook,
    site: SiteRails,
) -> ChosenRails:
    """Give each Ethernet card a rail.

    A rail in the file wins. Otherwise a cable by LLDP decides, or an address in a rail's subnet.
    The remaining cards get the remaining rails in the order of PCI addresses, so card k of each
    host is on rail k. If cards outnumber rails, cards with a link go first. A card is only reported
    if no rail is left for it, or if its cable contradicts the file. If the host lacks a card of the
    file, no card gets a rail by its order, because it may be the missing one.

    `written` has the host's cards in the file, each with its PCI address; empty if it is unknown.
    """
    rails = _written_rails(written)
    cabled = {card.pci: found for card in look.cards if (found := _cabled(host, card, site))}
    notes: list[str] = []
    left: list[CardFact] = []
    for card in [each for each in look.cards if each.pci not in rails]:
        rail, source = cabled.get(card.pci, ("", ""))
        if reason := _no_rail_card(host, card, look):
            notes.append(f"{card.pci} {reason}")
        elif reason := _contradiction(rail, rails):
            notes.append(f"{card.pci} ({card.netdev}) is not written ({source}): {reason}")
        elif rail:
            rails[card.pci] = rail
        else:
            left.append(card)
    # A new site has no rails yet; the user may change these names.
    names = site.names or tuple(f"rail-{number}" for number in range(len(look.cards)))
    free = [name for name in names if name not in rails.values()]
    missing = [pci or "one without pci" for pci, _ in written if look.card(pci) is None]
    rails |= _rails_by_order(left, [] if missing else free)
    notes += _unplaced([card for card in left if card.pci not in rails], missing)
    if not site.names and rails:
        notes.append(f"the file lacks rails: write {', '.join(sorted(set(rails.values())))}")
    return ChosenRails(rails, cabled, tuple(notes))


def _unplaced(cards: Sequence[CardFact], missing: Sequence[str]) -> Iterator[str]:
    why = "no rail of the file is left for it"
    if missing:
        why = f"it may be a card of the file which the host lacks ({', '.join(missing)})"
    for card in cards:
        yield f"{card.pci} ({card.netdev}) is not written: {why}"


def _rails_by_order(cards: Sequence[CardFact], free: Sequence[str]) -> dict[str, str]:
    # The first port of each card comes before any second port.
    first = sorted(cards, key=lambda card: (not card.up, card.pci.rpartition(".")[2], card.pci))
    first = first[: len(free)]
    return dict(zip(sorted(card.pci for card in first), free, strict=False))


def _written_rails(written: Sequence[tuple[str, Mapping[str, Json]]]) -> dict[str, str]:
    return {
        pci or f"nics[{number}]": rail
        for number, (pci, card) in enumerate(written)
        if isinstance(rail := card.get("rail"), str)
    }


def _no_rail_card(host: Mapping[str, Json], card: CardFact, look: HostLook) -> str:
    """Return why a card cannot be on a rail; empty if it can."""
    ssh = host.get("ssh")
    own = {str(host.get("node_ip", ""))}
    own |= {str(ssh.get("address", ""))} if isinstance(ssh, dict) else set()
    if card.link_layer == "InfiniBand":
        return "is an InfiniBand adapter: it is counted in hcas"
    if not card.netdev:
        where = "it is in another network namespace" if card.rdma else "no driver is bound to it"
        return f"lacks a network device: {where}"
    if card.netdev in look.uplink or own & {each.split("/")[0] for each in card.addresses}:
        return f"({card.netdev}) carries the host's own traffic: it is left alone"
    return ""


def _contradiction(rail: str, rails: Mapping[str, str]) -> str:
    """Return why a card cannot have the rail of its cable; empty if it can."""
    if "/" in rail or ":" in rail:
        return f"that is {rail} in the file; are cables swapped?"
    holder = next((pci for pci, each in rails.items() if rail and each == rail), None)
    return f"that is {rail}, which {holder} has" if holder is not None else ""


def _cabled(host: Mapping[str, Json], card: CardFact, site: SiteRails) -> tuple[str, str] | None:
    for port in card.switch_ports:
        for name in (port, _PREFIX.sub("", port)):
            target = site.ports.get((card.switch.partition(".")[0], name), "")
            if target:
                rail = target.removeprefix(f"{host.get('name')}/")
                return rail, f"LLDP: it is plugged into {card.switch} {port}"
    for cidr in card.addresses:
        try:
            address = IPv4Interface(cidr)
        except (AddressValueError, ValueError):
            continue
        for rail, subnet in site.subnets.items():
            if address.ip in subnet:
                return rail, f"its address is {cidr}"
    return None

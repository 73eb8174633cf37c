"""Propose rails and additions to a host's entry in the file, and report contradictions. Pure.

Values in the file are never changed: if the host contradicts one, the report shows its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Interface, IPv4Network
from typing import Final, TypeAlias

from components.catalogue.cards import CARDS, CardName
from components.core.errors import UsageError
from components.core.problem import Finding, Json, Place, SpecPath, render_path
from components.core.record import field, record
from components.core.templates import fault_text
from components.hosts.look import (
    CardFact,
    Distance,
    HostLook,
    Pair,
    assign_gpus,
    gpus_of,
    without_node,
)
from components.reading.wording import show_value

Keys: TypeAlias = Mapping[str, Json]
"""A mapping of the file, or a part of one."""
_KNOWN: Final[Mapping[str, CardName]] = {
    device: card.name for card in CARDS.values() for device in (card.pf_device, *card.also)
}
_OTHERS: Final[Mapping[str, str]] = {
    "1013": "ConnectX-4",
    "1015": "ConnectX-4 Lx",
    "101f": "ConnectX-6 Lx",
    "a2d6": "BlueField-2",
}
"""Cards of vendor 15b3 (pci.ids) without a model in the catalogue: named, but not configured."""
_GONE: Final = "no RDMA card is there"
_PREFIX: Final = re.compile(r"^(?:Ethernet|Eth)(?=\d+/)", re.IGNORECASE)
"""Onyx announces its port 1/31 as `Eth1/31`."""


def card_name(device: str) -> str:
    """Return the card's model name for people, or its PCI id if it is unknown."""
    return _KNOWN.get(device) or _OTHERS.get(device, f"15b3:{device}")


def _differs(path: SpecPath, written: Json, found: Json, note: str = "") -> Finding:
    """Report a value of the file that the host contradicts; without `found`, the note says why."""
    actual = "" if found is None else _shown(found)
    words = f"found {actual} ({note})" if note and actual else note or f"found {actual}"
    return Finding(words, (Place(path, _shown(written)),), rule="differs", actual=actual)


def _shown(value: Json) -> str:
    if isinstance(value, list):
        return f"[{', '.join(show_value(each) for each in value)}]"
    return show_value(value)


@record
class Proposal:
    """Proposed additions for one host, and its differences from the file."""

    path: SpecPath
    look: HostLook
    pairs: tuple[Pair, ...] = ()
    rails: Mapping[str, str] = field(default_factory=dict[str, str])
    """PCI address to rail, for each card that the file has or will get."""
    card_keys: Mapping[int, Keys] = field(default_factory=dict[int, Keys])
    """Number of a card in the file to the keys that it lacks there."""
    new_cards: tuple[Keys, ...] = ()
    host_keys: Keys = field(default_factory=dict[str, Json])
    differences: tuple[Finding, ...] = ()
    """Values of the file that the host contradicts."""
    notes: tuple[str, ...] = ()
    """Facts for a person that the file does not need."""

    @property
    def changes(self) -> bool:
        """Whether the proposal changes the file."""
        return bool(self.host_keys or self.new_cards or any(self.card_keys.values()))


def propose(host: Keys, path: SpecPath, look: HostLook, site: SiteRails) -> Proposal:
    """Compare a host's entry with its hardware; raise UsageError if `nics` is no list of cards."""
    cards, written = host.get("nics", []), list[Keys](_mappings(host.get("nics", [])))
    if not isinstance(cards, list) or len(written) != len(cards):
        place = render_path((*path, "nics"))
        raise UsageError(fault_text(__file__, "not-cards", place=place))
    placed = [(_pci(card, look), card) for card in written]
    known = dict(placed)
    rails, cabled, notes = choose_rails(host, placed, look, site)
    pairs = assign_gpus(look, rails)
    found = {
        x.pci: _without_taken(known.get(x.pci, {}), _values(x, rails[x.pci], pairs), written)
        for x in look.cards
        if x.pci in rails
    }
    adapters = [card for card in look.cards if card.pci not in known]
    hcas = sum(card.link_layer == "InfiniBand" for card in adapters)
    counts = {"gpus": len(look.gpus), "hcas": hcas}
    keys, differences = _compare_cards(written, path, look, found)
    for key, count in counts.items():
        if key in host and host[key] != count:
            differences.append(_differs((*path, key), host[key], count))
    for number, (pci, card) in enumerate(placed):
        rail, source = cabled.get(pci, ("", ""))
        if rail and card.get("rail") not in (None, rail):
            place = (*path, "nics", number, "rail")
            differences.append(_differs(place, card.get("rail"), rail, source))
    return Proposal(
        path=path,
        look=look,
        pairs=pairs,
        rails=rails,
        card_keys=keys,
        new_cards=tuple(values for pci, values in found.items() if pci not in known),
        host_keys={key: count for key, count in counts.items() if count and key not in host},
        differences=tuple(differences),
        notes=(*notes, *_notes(look, rails, pairs)),
    )


def _pci(card: Keys, look: HostLook) -> str:
    """Return a card's address: the written one if it exists, else that of the card's name."""
    pci = str(card.get("pci", "")).lower()
    return pci if look.card(pci) is not None else _named(card, look) or pci


def _named(card: Keys, look: HostLook) -> str:
    """Return the address of the card with the written card's device name; empty without one."""
    name = card.get("netdev")
    return next((each.pci for each in look.cards if each.netdev and each.netdev == name), "")


def _without_taken(card: Keys, values: Keys, written: Sequence[Keys]) -> Keys:
    """Return the values found for a card, without GPUs that the file gives to other cards."""
    own = values.get("gpu_pci")
    if "gpu_pci" in card or not isinstance(own, list):
        return values
    lists = [gpus for each in written if isinstance(gpus := each.get("gpu_pci"), list)]
    taken = {str(gpu).lower() for gpus in lists for gpu in gpus}
    if left := [gpu for gpu in own if str(gpu).lower() not in taken]:
        return {**values, "gpu_pci": left}
    return {key: value for key, value in values.items() if key not in ("gpu_pci", "gpu_path")}


def _values(card: CardFact, rail: str, pairs: Sequence[Pair]) -> dict[str, Json]:
    """Return a card's values in the order of the file; for the link the best of card and slot."""
    own = gpus_of(pairs, card.pci)
    longest = max((pair.distance for pair in pairs if pair.gpu in own), default=None)
    values: dict[str, Json] = {
        "rail": rail,
        "pci": card.pci,
        "netdev": card.netdev or None,
        "model": _KNOWN.get(card.device),
        "speed_gbit_s": card.speed_gbit_s,
        "numa": card.numa,
        "link_gt_s": card.possible.gt_s or card.link.gt_s,
        "link_width": card.possible.width or card.link.width,
        "lanes": card.lanes,
        "gpu_pci": list(own) or None,
        "gpu_path": longest.name if longest is not None else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def _compare_cards(
    written: Sequence[Keys], path: SpecPath, look: HostLook, found: Mapping[str, Keys]
) -> tuple[dict[int, dict[str, Json]], list[Finding]]:
    keys: dict[int, dict[str, Json]] = {}
    differences: list[Finding] = []
    for number, card in enumerate(written):
        place = (*path, "nics", number)
        fact = look.card(str(card.get("pci") or _pci(card, look)).lower())
        if fact is None:
            moved = _named(card, look)
            note = f"{card.get('netdev')} is the card at {moved}" if moved else _GONE
            differences.append(_differs((*place, "pci"), card.get("pci"), None, note))
            continue
        serial = card.get("serial")  # the user wrote it to notice a swap; it is never proposed
        if serial and fact.serial and str(serial) != fact.serial:
            there = next((each.pci for each in look.cards if each.serial == str(serial)), None)
            note = f"the card with serial {serial} is at {there}" if there else ""
            differences.append(_differs((*place, "serial"), serial, fact.serial, note))
        for key, value in found.get(fact.pci, {}).items():
            if key not in card:
                if key != "gpu_path" or "gpu_pci" not in card:  # it depends on the GPUs
                    keys.setdefault(number, {})[key] = value
            elif not _agrees(key, card[key], value, fact):
                differences.append(_differs((*place, key), card[key], value))
    return keys, differences


def _agrees(key: str, written: Json, found: Json, card: CardFact) -> bool:
    if key == "rail":  # the cable decides about rails
        return True
    if key in ("link_gt_s", "link_width"):
        # A lower value means that the user accepts the trained link.
        return written in (found, card.link.gt_s if key == "link_gt_s" else card.link.width)
    if key == "gpu_path" and isinstance(written, str) and isinstance(found, str):
        return written in Distance.__members__ and Distance[written] >= Distance[found]
    if isinstance(written, list) and isinstance(found, list):
        return sorted(str(each).lower() for each in written) == sorted(map(str, found))
    return str(written).lower() == str(found).lower()


def _notes(look: HostLook, rails: Mapping[str, str], pairs: Sequence[Pair]) -> Iterator[str]:
    for card in (each for each in look.cards if each.pci in rails):
        if card.device not in _KNOWN:
            words = {"card": card_name(card.device), "models": ", ".join(CARDS)}
            yield fault_text(__file__, "other-card", pci=card.pci, device=card.device, **words)
        link, can = card.link, card.possible
        ends = (("few-lanes", link.width, can.width), ("slow-link", link.gt_s, can.gt_s))
        for row, has, best in ends:
            if has and best and has < best:
                yield fault_text(__file__, row, pci=card.pci, has=f"{has:g}", best=f"{best:g}")
        if not card.up:
            yield fault_text(__file__, "port-down", pci=card.pci)
    for pair in pairs:
        if pair.distance == Distance.SYS:
            ends = (look.gpu(pair.gpu), look.card(pair.card))
            unknown = without_node(*(each for each in ends if each))
            row = "gpu-unknown" if unknown else "gpu-far"
            yield fault_text(__file__, row, gpu=pair.gpu, unknown=unknown)


@record
class SiteRails:
    """The site's rails and the devices cabled to them."""

    names: tuple[str, ...] = ()
    subnets: Mapping[str, IPv4Network] = field(default_factory=dict[str, IPv4Network])
    ports: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """(Switch, port) to `host/rail`, or to `switch:port`."""


def site_rails(site: Keys) -> SiteRails:
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
    host: Keys, written: Sequence[tuple[str, Keys]], look: HostLook, site: SiteRails
) -> tuple[Mapping[str, str], Mapping[str, tuple[str, str]], list[str]]:
    """Give each Ethernet card a rail: PCI address to rail; to rail and evidence; and notes.

    A rail in the file wins. Otherwise a cable by LLDP decides, or an address in a rail's subnet.
    The remaining cards get the remaining rails in the order of PCI addresses, so card k of each
    host is on rail k. If cards outnumber rails, cards with a link go first. A card is only reported
    if no rail is left for it, or if its cable contradicts the file. If the host lacks a card of the
    file, no card gets a rail by its order, because it may be the missing one.

    `written` has the host's cards in the file, each with its PCI address; empty if it is unknown.
    Evidence is a cable or an address. If the file gives that port to another card, its rail is
    shown as `gpu02/rail-1`.
    """
    of_cards = {pci or f"nics[{number}]": card for number, (pci, card) in enumerate(written)}
    written_rails = ((pci, card.get("rail")) for pci, card in of_cards.items())
    rails = {pci: rail for pci, rail in written_rails if isinstance(rail, str)}
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
    why = "no rail of the file is left for it"
    if missing := [pci or "one without pci" for pci, _ in written if look.card(pci) is None]:
        free, why = [], f"it may be a card of the file which the host lacks ({', '.join(missing)})"
    # The first port of each card comes before any second port.
    first = sorted(left, key=lambda card: (not card.up, card.pci.rpartition(".")[2], card.pci))
    rails |= zip(sorted(card.pci for card in first[: len(free)]), free, strict=False)
    unplaced = [card for card in left if card.pci not in rails]
    notes += [f"{card.pci} ({card.netdev}) is not written: {why}" for card in unplaced]
    if not site.names and rails:
        notes.append(f"the file lacks rails: write {', '.join(sorted(set(rails.values())))}")
    return rails, cabled, notes


def _no_rail_card(host: Keys, card: CardFact, look: HostLook) -> str:
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


def _cabled(host: Keys, card: CardFact, site: SiteRails) -> tuple[str, str] | None:
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

"""What the rules of a network let in: a custom VPC starts without any, and is closed.

Where a connection comes from is not asked: in the lab all come from 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

from pydantic import JsonValue

from lab.cloud.crusoe.instances import address_of
from lab.cloud.crusoe.model import Document, documents_of


def lets_in(rules: Iterable[Document], instance: Document, port: int) -> bool:
    """Whether some rule lets TCP in to a port of an instance; deny rules are not played.

    Ingress rules match the private address (Crusoe's documentation of firewall rules).
    """
    cards = documents_of(instance.get("network_interfaces"))
    places = (card.get(key) for card in cards for key in ("network", "subnet"))
    own = {str(identity) for identity in (instance["id"], *places)}
    private = address_of(instance, "private")
    return any(
        rule["direction"] == "ingress"
        and rule["action"] == "allow"
        and str(rule["vpc_network_id"]) in own
        and "tcp" in _texts(rule["protocols"])
        and any(_holds(text, port) for text in _texts(rule["destination_ports"]))
        and any(_is_meant(end, own, private) for end in documents_of(rule["destinations"]))
        for rule in rules
    )


def _texts(value: JsonValue) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _holds(ports: str, port: int) -> bool:
    low, _, high = ports.partition("-")
    return low.isdecimal() and int(low) <= port <= int(high or low)


def _is_meant(end: Document, own: set[str], private: str) -> bool:
    if str(end.get("resource_id")) in own:
        return True
    return "cidr" in end and IPv4Address(private) in IPv4Network(str(end["cidr"]))

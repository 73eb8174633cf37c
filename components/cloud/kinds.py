"""The kinds of objects in Crusoe Cloud: the path of each list, and settings as flat texts.

The body of a POST and an item of a list are read into the same flat form. So one comparison serves
adoption, repair and drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from pydantic import JsonValue

from components.cloud.crusoe_api import CloudError, CrusoeApi, Document
from components.core.errors import DeviceError
from components.core.record import record
from components.core.templates import fault_text

ObjectKind = Literal["network", "subnet", "firewall-rule", "ib-partition", "instance"]
RUNNING: Final = "STATE_RUNNING"
STOPPED: Final = frozenset({"STATE_STOPPED", "STATE_SHUTOFF"})
_GONE: Final = frozenset({400, 404})
"""The API documents no 404 for GET of one instance or partition, so 400 counts as "not found" too.

An object is gone only if a list lacks it as well.
"""
Settings = Mapping[str, str]


@record
class Item:
    """One object that exists."""

    id: str
    name: str
    settings: Settings


@record
class Kind:
    """How to reach and compare the objects of one kind."""

    words: str
    """The name that reports use."""
    path: str
    """Below the project."""
    wrapper: str
    """Key of the object in the POST answer; empty: the answer itself is the object."""
    read: Callable[[Document], Settings]
    """Reads the settings of a POST body or of a listed object."""
    fixed: frozenset[str]
    """Settings that the API cannot change: another value needs another object."""


def _text(value: JsonValue | None) -> str:
    return "" if value is None else str(value)


def texts_of(value: JsonValue | None) -> list[str]:
    """The texts of a list; empty for another value."""
    return [str(item) for item in value] if isinstance(value, list) else []


def documents_of(value: JsonValue | None) -> list[Document]:
    """The objects of a list; empty for another value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _join(values: Iterable[str]) -> str:
    return ",".join(sorted({value for value in values if value}))


def _firewall_rule(body: Document) -> Settings:
    ends = {  # networks, or the ids of resources
        key: _join(_text(x.get("cidr") or x.get("resource_id")) for x in documents_of(ends))
        for key, ends in ((key, body.get(key)) for key in ("sources", "destinations"))
    }
    return {
        "action": _text(body.get("action")).lower(),
        "direction": _text(body.get("direction")).lower(),
        "network": _text(body.get("vpc_network_id")),
        **ends,
        "protocols": _join(texts_of(body.get("protocols"))),
        "ports": _join(texts_of(body.get("destination_ports"))),
    }


def _instance(body: Document) -> Settings:
    """The settings of an instance; those that a POST body cannot have are left out if empty."""
    adapters = documents_of(body.get("host_channel_adapters"))
    cards = documents_of(body.get("network_interfaces"))
    addresses = documents_of(cards[0].get("ips")) if cards else []
    first: Document = addresses[0] if addresses else {}
    sides = (first.get(f"{side}_ipv4") for side in ("public", "private"))
    public, private = (each if isinstance(each, dict) else {} for each in sides)
    made = {
        "state": _text(body.get("state")),
        "public_ip": _text(public.get("address")),
        "private_ip": _text(private.get("address")),
        "guids": ",".join(_text(item.get("guid")) for item in adapters if item.get("guid")),
        "pod": _text(body.get("pod_id")),
    }
    return {
        "type": _text(body.get("type")),
        "location": _text(body.get("location")),
        "subnet": _text(cards[0].get("subnet")) if cards else "",
        "partition": _join(
            _text(item.get("transport_partition_id")) or _text(item.get("ib_partition_id"))
            for item in adapters
        ),
        "address_type": _text(public.get("type")),
    } | {key: value for key, value in made.items() if value}


def _reader(**keys: str) -> Callable[[Document], Settings]:
    """Read each setting as the text at its key."""
    return lambda body: {name: _text(body.get(key)) for name, key in keys.items()}


KINDS: Final[Mapping[ObjectKind, Kind]] = {
    "network": Kind(
        "VPC network", "networking/vpc-networks", "network",
        _reader(cidr="cidr"), frozenset({"cidr"}),
    ),
    "subnet": Kind(
        "subnet", "networking/vpc-subnets", "subnet",
        _reader(cidr="cidr", location="location", network="vpc_network_id"),
        frozenset({"cidr", "location", "network"}),
    ),
    "firewall-rule": Kind(
        "firewall rule", "networking/vpc-firewall-rules", "",
        _firewall_rule, frozenset({"action", "direction", "network"}),
    ),
    "ib-partition": Kind(
        "IB partition", "networking/ib-partitions", "",
        # Only an existing one has a network: the step chooses it, the site file does not.
        lambda body: {"network": str(known)} if (known := body.get("ib_network_id")) else {},
        frozenset[str](),
    ),
    "instance": Kind(
        "instance", "compute/vms/instances", "",
        _instance, frozenset({"type", "location", "subnet", "partition"}),
    ),
}  # fmt: skip


def _parse_item(kind: Kind, document: Document) -> Item:
    """Read one object of an answer; CloudError if it has no id or no name."""
    identity, name = _text(document.get("id")), _text(document.get("name"))
    if not identity or not name:
        raise CloudError(f"the cloud's API lists a {kind.words} without an id or a name")
    return Item(identity, name, kind.read(document))


def list_kind(api: CrusoeApi, kind: Kind, name: str = "") -> tuple[Item, ...]:
    """All objects of a kind, or those with one name."""
    query = [("names", name)] if name and kind.path.endswith("/instances") else []
    found = (_parse_item(kind, each) for each in api.list_items(path_of(api, kind), query))
    return tuple(item for item in found if name in ("", item.name))


def find(api: CrusoeApi, kind: Kind, name: str, known_id: str = "") -> Item | None:
    """The object with that id, else the one with that name, else None.

    If the id is known, None needs two answers: a list without it, and "not found" for the id. A
    CloudError proves nothing about the object. DeviceError: several objects have the name, and
    none has the known id.
    """
    items = list_kind(api, kind, name)
    own = next((item for item in items if item.id == known_id), None)
    if own is not None:
        return own
    if known_id and (still := get_by_id(api, kind, known_id)) is not None:
        return still
    if len(items) > 1:
        ids = ", ".join(item.id for item in items)
        words = {"count": len(items), "kind": kind, "name": name, "ids": ids}
        raise DeviceError(fault_text(__file__, "several", **words))
    return items[0] if items else None


def get_by_id(api: CrusoeApi, kind: Kind, identity: str) -> Item | None:
    """The object with that id, or None if a list lacks it too."""
    try:
        return _parse_item(kind, api.get(path_of(api, kind, identity)))
    except CloudError as error:
        if error.status not in _GONE:
            raise
    return next((item for item in list_kind(api, kind) if item.id == identity), None)


def path_of(api: CrusoeApi, kind: Kind, identity: str = "") -> str:
    """The path of a kind's list, or of one object."""
    return api.below_project(f"{kind.path}/{identity}" if identity else kind.path)


def differing(kind: Kind, item: Item, body: Document) -> tuple[tuple[str, str, str], ...]:
    """(setting, actual, wanted) for each wanted setting that the object does not have."""
    return tuple(
        (key, item.settings.get(key, ""), value)
        for key, value in sorted(kind.read(body).items())
        if item.settings.get(key, "") != value
    )

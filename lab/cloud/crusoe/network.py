"""Networks, subnets, firewall rules and IB partitions of the emulated cloud."""

from __future__ import annotations

from ipaddress import IPv4Network

from pydantic import JsonValue

from lab.cloud.crusoe.instances import Instances
from lab.cloud.crusoe.model import (
    ApiError,
    CloudState,
    CrusoeConfig,
    Document,
    bad_request,
    documents_of,
    new_id,
    not_found,
    text_of,
)

IB_NETWORK = "ib-network-1"
RULE_LISTS = ("protocols", "source_ports", "destination_ports")


def make_network(state: CloudState, body: Document) -> Document:
    """POST a VPC network."""
    network: Document = {
        "id": new_id(),
        "name": text_of(body, "name"),
        "cidr": _cidr(text_of(body, "cidr")),
        "gateway": new_id(),
    }
    state.networks[str(network["id"])] = network
    return {"network": network}


def make_subnet(state: CloudState, config: CrusoeConfig, body: Document) -> Document:
    """POST a subnet of a network."""
    network = state.networks.get(text_of(body, "vpc_network_id"))
    if network is None:
        raise bad_request(f"VPC network {body.get('vpc_network_id')} does not exist")
    if text_of(body, "location") != config.location:
        raise bad_request(f"unknown location {body.get('location')}")
    cidr = IPv4Network(_cidr(text_of(body, "cidr")))
    if not cidr.subnet_of(IPv4Network(str(network["cidr"]))):
        raise bad_request(f"{cidr} is not in {network['cidr']}")
    if "nat_gateway_enabled" not in body:
        raise bad_request("nat_gateway_enabled is required")
    subnet: Document = {
        "id": new_id(),
        "name": text_of(body, "name"),
        "cidr": str(cidr),
        "location": config.location,
        "vpc_network_id": network["id"],
    }
    state.subnets[str(subnet["id"])] = subnet
    return {"subnet": subnet}


def make_rule(state: CloudState, body: Document) -> Document:
    """POST a firewall rule: an operation whose metadata names the rule."""
    network = text_of(body, "vpc_network_id")
    if network not in state.networks:
        raise bad_request(f"VPC network {network} does not exist")
    if body.get("action") not in {"allow", "deny"}:
        raise bad_request("action must be allow or deny")
    if body.get("direction") not in {"ingress", "egress"}:
        raise bad_request("direction must be ingress or egress")
    rule: Document = {
        "id": new_id(),
        "name": text_of(body, "name"),
        "action": body["action"],
        "direction": body["direction"],
        "vpc_network_id": network,
        "state": "active",
    }
    rule |= {key: _ends(state, body.get(key)) for key in ("sources", "destinations")}
    rule |= {key: _list(body.get(key, [])) for key in RULE_LISTS}
    state.rules[str(rule["id"])] = rule
    return done_operation(state, str(rule["id"]))


def change_rule(state: CloudState, identity: str, body: Document) -> Document:
    """PATCH a firewall rule; network, direction and action stay."""
    rule = state.rules.get(identity)
    if rule is None:
        raise not_found("firewall rule", identity)
    unknown = {*body} - {"name", "sources", "destinations", *RULE_LISTS}
    if unknown:
        raise bad_request(f"{sorted(unknown)} cannot be changed")
    for key in ("sources", "destinations"):
        if key in body:
            rule[key] = _ends(state, body[key])
    rule |= {key: _list(body[key]) for key in RULE_LISTS if key in body}
    return done_operation(state, identity)


def make_partition(state: CloudState, body: Document) -> Document:
    """POST an IB partition: synchronous."""
    if text_of(body, "ib_network_id") != IB_NETWORK:
        raise bad_request(f"IB network {body.get('ib_network_id')} does not exist")
    partition: Document = {
        "id": new_id(),
        "name": text_of(body, "name"),
        "ib_network_id": IB_NETWORK,
    }
    state.partitions[str(partition["id"])] = partition
    return partition


def list_ib_networks(config: CrusoeConfig, instances: Instances) -> JsonValue:
    """The one IB network, with what is free of it."""
    free = config.ib_slices - instances.used_slices()
    slices = [kind.name for kind in config.types if kind.gpus]
    capacities: JsonValue = [{"slice_type": name, "quantity": free} for name in slices]
    network: Document = {
        "id": IB_NETWORK,
        "name": IB_NETWORK,
        "location": config.location,
        "capacities": capacities,
    }
    return [network]


def delete_network_object(state: CloudState, kind: str, identity: str) -> Document:
    """DELETE a network, subnet, rule or partition; refused while something uses it.

    Raises:
        ApiError: 404, or 400 while it is used (that status is a guess).
    """
    table = table_of(state, kind)
    if identity not in table:
        raise not_found(kind, identity)
    user = _user_of(state, kind, identity)
    if user:
        raise ApiError(400, "bad_request", f"{kind} {identity} is in use by {user}")
    del table[identity]
    return {} if kind == "ib-partitions" else done_operation(state, identity)


def table_of(state: CloudState, kind: str) -> dict[str, Document]:
    """The objects behind one path."""
    return {
        "vpc-networks": state.networks,
        "vpc-subnets": state.subnets,
        "vpc-firewall-rules": state.rules,
        "ib-partitions": state.partitions,
    }[kind]


def _user_of(state: CloudState, kind: str, identity: str) -> str:
    users: list[Document] = []
    if kind == "vpc-networks":
        users = [*state.subnets.values(), *state.rules.values()]
        users = [item for item in users if item["vpc_network_id"] == identity]
    elif kind == "vpc-subnets":
        users = [item for item in state.instances.values() if identity in _subnets(item)]
    elif kind == "ib-partitions":
        users = [item for item in state.instances.values() if identity in _partitions(item)]
    return str(users[0]["name"]) if users else ""


def _subnets(instance: Document) -> list[JsonValue]:
    return [card.get("subnet") for card in documents_of(instance["network_interfaces"])]


def _partitions(instance: Document) -> list[JsonValue]:
    adapters = documents_of(instance["host_channel_adapters"])
    return [item.get("transport_partition_id") for item in adapters]


def done_operation(state: CloudState, identity: str) -> Document:
    """An operation that is over when it is first read."""
    operation: Document = {
        "operation_id": new_id(),
        "state": "SUCCEEDED",
        "metadata": {"id": identity},
        "started_at": "",
        "completed_at": "",
    }
    state.operations[str(operation["operation_id"])] = operation
    return {"operation": operation}


def _ends(state: CloudState, value: JsonValue) -> JsonValue:
    """Sources or destinations: a network, or the id of a network, subnet or instance."""
    ends = documents_of(value)
    if not ends:
        raise bad_request("sources and destinations are required")
    for end in ends:
        if end.get("cidr"):
            end["cidr"] = _cidr(str(end["cidr"]))
        elif end.get("resource_id") not in {*state.networks, *state.subnets, *state.instances}:
            raise bad_request(f"resource {end.get('resource_id')} does not exist")
    kept: list[JsonValue] = [*ends]
    return kept


def _list(value: JsonValue) -> JsonValue:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise bad_request("ports and protocols are lists of texts")
    return value


def _cidr(text: str) -> str:
    try:
        return str(IPv4Network(text))
    except ValueError as error:
        raise bad_request(f"{text} is no network: {error}") from error

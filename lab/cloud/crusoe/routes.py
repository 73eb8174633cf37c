"""Which request of the emulated API does what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

from pydantic import JsonValue

from components.core.record import record
from lab.cloud.crusoe import network
from lab.cloud.crusoe.faults import Faults
from lab.cloud.crusoe.instances import Event, Instances, seen_operation
from lab.cloud.crusoe.model import (
    ApiError,
    CloudState,
    CrusoeConfig,
    Document,
    bad_request,
    not_found,
)

ROOT: Final = "/v1"
_FILTERS: Final = {
    "names": "name",
    "ids": "id",
    "types": "type",
    "locations": "location",
    "states": "state",
}
"""Query of the list of instances to the field that it filters by."""
_SECRET_FIELDS: Final = frozenset({"image", "ssh_public_key"})
"""Fields of ours that InstanceV1 does not show."""


@record
class Request:
    """One request as it arrived."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    timestamp: str
    authorization: str
    body: bytes

    def document(self) -> Document:
        """The body.

        Raises:
            ApiError: It is no JSON object.
        """
        try:
            value = cast("JsonValue", json.loads(self.body or b"{}"))
        except ValueError as error:
            raise bad_request(f"the body is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise bad_request("the body is no JSON object")
        return value


class Routes:
    """All paths that the emulator knows."""

    def __init__(self, config: CrusoeConfig, state: CloudState, faults: Faults) -> None:
        self._config, self._state = config, state
        self._instances = Instances(config, state, faults)

    def tick(self) -> list[Event]:
        """Let time pass for what is being made or deleted."""
        return self._instances.tick()

    def answer(self, request: Request) -> Document:
        """Do what a request asks for.

        Raises:
            ApiError: It cannot be done, or the path is unknown.
        """
        words = [word for word in request.path.removeprefix(ROOT).split("/") if word]
        match words:
            case ["projects", project, *rest] if project == self._config.project:
                return self._in_project(request, rest)
            case ["projects", project, *_]:
                raise ApiError(403, "unauthorized", f"no access to project {project}")
            case _ if request.method == "GET":
                return self._catalogue(request, words)
            case _:
                raise self._unmodelled(request)

    def _unmodelled(self, request: Request) -> ApiError:
        self._state.unmodelled.append(f"{request.method} {request.path}")
        return not_found("path", request.path)

    def _catalogue(self, request: Request, words: Sequence[str]) -> Document:
        match words:
            case ["locations"]:
                return {"items": [self._config.location]}
            case ["capacities"]:
                return {"items": self._capacities(request)}
            case ["compute", "images"]:
                return {"items": self._images()}
            case _:
                raise self._unmodelled(request)

    def _images(self) -> JsonValue:
        return [
            {
                "id": f"image-{name}-{tag}",
                "name": name,
                "description": name,
                "tags": ["latest", tag],
                "created_at": f"{tag}T00:00:00Z",
                "locations": [self._config.location],
            }
            for name, tag in self._config.images
        ]

    def _capacities(self, request: Request) -> JsonValue:
        wanted = {value for key, value in request.query if key == "product_name"}
        return [
            {
                "type": kind.name,
                "location": self._config.location,
                "quantity": max(kind.quantity - self._instances.count(kind.name), 0),
                "num_slices": max(kind.gpus, 1),
                "quota_type": kind.quota_type,
            }
            for kind in self._config.types
            if not wanted or kind.name in wanted
        ]

    def _in_project(self, request: Request, words: Sequence[str]) -> Document:
        match words:
            case ["quotas"] if request.method == "GET":
                return {"quotas": self._quotas()}
            case ["compute", "vms", "types"] if request.method == "GET":
                return {"items": [_shown_type(kind.name, kind.gpus) for kind in self._config.types]}
            case ["compute", "vms", "instances", *rest]:
                return self._on_instances(request, rest)
            case ["networking", "ib-networks"] if request.method == "GET":
                return {"items": network.list_ib_networks(self._config, self._instances)}
            case ["networking", kind, *rest] if kind in _NETWORK_KINDS:
                return self._on_network(request, kind, rest)
            case _:
                raise self._unmodelled(request)

    def _quotas(self) -> JsonValue:
        entries: list[JsonValue] = []
        for name, maximum in self._config.quotas:
            used = self._instances.used_quota(name)
            entries.append(
                {
                    "type": name,
                    "programmatic_name": name.lower(),
                    "max": maximum,
                    "used": used,
                    "available": maximum - used,
                }
            )
        return entries

    def _on_instances(self, request: Request, rest: Sequence[str]) -> Document:
        match (request.method, rest):
            case ("GET", []):
                return self._list_instances(request)
            case ("POST", []):
                return self._instances.make(request.document())
            case ("GET", ["operations", identity]):
                return self._operation(identity)
            case ("GET", [identity]):
                return _shown(self._instances.get(identity))
            case ("PATCH", [identity]):
                return self._instances.change(identity, request.document())
            case ("DELETE", [identity]):
                return self._instances.delete(identity)
            case _:
                raise self._unmodelled(request)

    def _list_instances(self, request: Request) -> Document:
        found = list(self._state.instances.values())
        for key, field in _FILTERS.items():
            values = [value for name, value in request.query if name == key]
            if values:
                wanted = {part for value in values for part in value.split(",")}
                found = [item for item in found if str(item[field]) in wanted]
        asked = dict(request.query)
        size = min(int(asked.get("limit", self._config.page_size)), self._config.page_size)
        start = int(asked.get("next_token", 0))
        page: list[JsonValue] = [_shown(item) for item in found[start : start + size]]
        following = str(start + size) if start + size < len(found) else ""
        return {"items": page, "next_page_token": following, "prev_page_token": ""}

    def _operation(self, identity: str) -> Document:
        found = self._state.operations.get(identity)
        if found is None:
            raise not_found("operation", identity)
        return seen_operation(found)

    def _on_network(self, request: Request, kind: str, rest: Sequence[str]) -> Document:
        table = network.table_of(self._state, kind)
        match (request.method, rest):
            case ("GET", []):
                items: list[JsonValue] = [*table.values()]
                return {"items": items}
            case ("POST", []):
                return self._make(kind, request.document())
            case ("GET", ["operations", identity]):
                return self._operation(identity)
            case ("GET", [identity]):
                if identity not in table:
                    raise not_found(kind, identity)
                return table[identity]
            case ("PATCH", [identity]) if kind == "vpc-firewall-rules":
                return network.change_rule(self._state, identity, request.document())
            case ("DELETE", [identity]):
                return network.delete_network_object(self._state, kind, identity)
            case _:
                raise self._unmodelled(request)

    def _make(self, kind: str, body: Document) -> Document:
        match kind:
            case "vpc-networks":
                return network.make_network(self._state, body)
            case "vpc-subnets":
                return network.make_subnet(self._state, self._config, body)
            case "vpc-firewall-rules":
                return network.make_rule(self._state, body)
            case _:
                return network.make_partition(self._state, body)


_NETWORK_KINDS: Final = ("vpc-networks", "vpc-subnets", "vpc-firewall-rules", "ib-partitions")


def _shown(instance: Document) -> Document:
    return {key: value for key, value in instance.items() if key not in _SECRET_FIELDS}


def _shown_type(name: str, gpus: int) -> Document:
    return {"product_name": name, "description": name, "num_gpu": gpus}

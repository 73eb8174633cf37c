"""The emulated cloud's configuration, state and errors.

Sources: gateway v1's Swagger 2.0 file for paths, forms and enumerations; the vendor's Go client
for signing; dstack's client for the code `out_of_stock`. What neither says is marked a guess.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from components.core.record import record

Document = dict[str, JsonValue]
HCAS_OF_ENTRY: Final = 8
"""The API makes 8 HCAs of one partition entry (terraform-provider-crusoe PR 15)."""


@record
class VmType:
    """One instance type of the emulated location."""

    name: str
    gpus: int
    quota_type: str
    quantity: int
    """Instances that the location has to give."""


@record
class CrusoeConfig:
    """One emulated cloud."""

    address: str
    """Loopback address."""
    port: int
    """0: any free port."""
    project: str
    location: str
    access_key: str
    secret_key: str
    """Base64 for URLs, without padding, as the vendor shows it."""
    public_ips: tuple[str, ...]
    """Addresses that are given to instances; each a loopback address of this lab."""
    private_ips: tuple[str, ...]
    reserved: tuple[tuple[str, str], ...] = ()
    """(instance name, address): both its addresses, so that the lab knows its host beforehand."""
    guids: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(instance name, GUIDs) of instances whose host has them in its sysfs; others get any."""
    types: tuple[VmType, ...] = (
        VmType("c1a.2x", 0, "QUOTA_C1A", 20),
        VmType("c1a.8x", 0, "QUOTA_C1A", 20),
        VmType("h100-80gb-sxm-ib.8x", 8, "QUOTA_H100", 4),
    )
    quotas: tuple[tuple[str, int], ...] = (("QUOTA_C1A", 40), ("QUOTA_H100", 32))
    images: tuple[tuple[str, str], ...] = (
        ("ubuntu22.04", "2026-08-01"),
        ("ubuntu22.04-nvidia-sxm-docker", "2026-08-01"),
    )
    """(name, tag); each is `latest` too."""
    ib_slices: int = 32
    """Free slices of the one IB network of the location: 8 an instance."""
    polls: int = 2
    """Times that an operation is read before it is done."""
    page_size: int = 50


class ApiError(Exception):
    """An answer that is no success, in the vendor's form `{code, message}`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Keep the parts of the answer."""
        super().__init__(f"{status} {code} {message}")
        self.status = status
        self.body: Document = {"code": code, "message": message}


def not_found(what: str, identity: str) -> ApiError:
    """404 as the API words it (definition notFoundError)."""
    return ApiError(404, "not_found", f"{what} {identity} not found")


def bad_request(message: str) -> ApiError:
    """400 as the API words it (definition badReqError)."""
    return ApiError(400, "bad_request", message)


@dataclass(slots=True)
class CloudState:
    """All that the cloud holds; one JSON document."""

    networks: dict[str, Document] = field(default_factory=dict[str, Document])
    subnets: dict[str, Document] = field(default_factory=dict[str, Document])
    rules: dict[str, Document] = field(default_factory=dict[str, Document])
    partitions: dict[str, Document] = field(default_factory=dict[str, Document])
    instances: dict[str, Document] = field(default_factory=dict[str, Document])
    operations: dict[str, Document] = field(default_factory=dict[str, Document])
    requests: int = 0
    unmodelled: list[str] = field(default_factory=list[str])


def new_id() -> str:
    """An id in the form of the API's."""
    return str(uuid.uuid4())


def text_of(body: Document, key: str) -> str:
    """A required text of a request.

    Raises:
        ApiError: It is missing.
    """
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise bad_request(f"{key} is required")
    return value


def documents_of(value: JsonValue | None) -> list[Document]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

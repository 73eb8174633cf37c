"""Instances of the emulated cloud: made and deleted by operations that take a while."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

from components.core.record import record
from lab.cloud.crusoe.faults import Faults
from lab.cloud.crusoe.model import (
    HCAS_OF_ENTRY,
    ApiError,
    CloudState,
    CrusoeConfig,
    Document,
    VmType,
    bad_request,
    documents_of,
    new_id,
    not_found,
    text_of,
)

RUNNING = "STATE_RUNNING"
STOPPED = "STATE_STOPPED"
STARTING = "STATE_STARTING"
DELETING = "STATE_DELETING"
"""The Swagger file lists no states: the first two are in the vendor's clients, two are guesses."""


@record
class MadeInstance:
    """What the lab needs to know to play an instance."""

    name: str
    id: str
    type: str
    image: str
    public_ip: str
    private_ip: str
    ssh_public_key: str
    guids: tuple[str, ...]


@record
class Event:
    """An instance that began to run, was stopped and keeps its disk, or went."""

    what: Literal["created", "stopped", "deleted"]
    instance: MadeInstance


_FABRIC = "-ib."
"""In the name of every type with adapters (Crusoe's documentation of virtual machines)."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
"""What a name may be of (its reference of `crusoe compute vms create`)."""
_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/]+={0,2}( .*)?")
"""What the vendor's provider takes for a key."""


def check_wish(body: Document) -> None:
    """Refuse a name or a key that the API does not take; both texts are guesses.

    Raises:
        ApiError: One of them.
    """
    if not _NAME.fullmatch(text_of(body, "name")):
        raise bad_request(f"the name {body['name']} has other than letters, digits, _ and -")
    if not _KEY.fullmatch(text_of(body, "ssh_public_key").strip()):
        raise bad_request("ssh_public_key is no public key of RSA, ECDSA or ed25519")


class Instances:
    """The instances and their operations."""

    def __init__(self, config: CrusoeConfig, state: CloudState, faults: Faults) -> None:
        self._config, self._state, self._faults = config, state, faults

    def vm_type(self, name: str) -> VmType | None:
        """The type of that name."""
        return next((kind for kind in self._config.types if kind.name == name), None)

    def count(self, kind: str) -> int:
        """Instances of a type, also those that are being made or deleted."""
        return sum(1 for item in self._state.instances.values() if item["type"] == kind)

    def used_quota(self, quota: str) -> int:
        """What is used of a quota: a GPU each, or one for an instance without."""
        kinds = [kind for kind in self._config.types if kind.quota_type == quota]
        return sum(self.count(kind.name) * max(kind.gpus, 1) for kind in kinds)

    def used_slices(self) -> int:
        """Slices of the IB network that instances hold."""
        items = self._state.instances.values()
        return sum(len(documents_of(item["host_channel_adapters"])) for item in items)

    def make(self, body: Document) -> Document:
        """POST: the operation whose metadata names the instance.

        Names need not be unique: whether the real API demands it is not known.

        Raises:
            ApiError: The request is wrong, or the quota is used up.
        """
        kind = self._check(body)
        identity = new_id()
        partition = self._partition(body)
        instance: Document = {
            "id": identity,
            "project_id": self._config.project,
            "name": text_of(body, "name"),
            "type": kind.name,
            "image": text_of(body, "image"),
            "ssh_public_key": text_of(body, "ssh_public_key"),
            "state": STARTING,
            "location": text_of(body, "location"),
            "created_at": datetime.now(tz=UTC).isoformat(),
            "updated_at": datetime.now(tz=UTC).isoformat(),
            "disks": [{"id": new_id(), "attachment_type": "os", "mode": "read-write"}],
            "network_interfaces": [self._card(body)],
            "host_channel_adapters": self._adapters(text_of(body, "name"), identity, partition),
            "maintenance_policy": "unspecified",
            "pod_id": "leaf-1/pod-1" if partition else "",
        }
        # Refused before anything exists: a failed operation leaves no instance behind (a guess).
        failed = self.count(kind.name) >= kind.quantity or bool(
            self._faults.take(["out_of_stock"], "POST")
        )
        self._state.instances[identity] = instance
        return self._operation(identity, "FAILED" if failed else RUNNING)

    def _check(self, body: Document) -> VmType:
        kind = self.vm_type(text_of(body, "type"))
        if kind is None:
            raise bad_request(f"unknown product {body.get('type')}")
        if text_of(body, "location") != self._config.location:
            raise bad_request(f"unknown location {body.get('location')}")
        name, _, tag = text_of(body, "image").partition(":")
        if not any(
            name == known and tag in {each, "latest"} for known, each in self._config.images
        ):
            raise bad_request(f"unknown image {body.get('image')}")
        check_wish(body)
        maximum = dict(self._config.quotas).get(kind.quota_type, 0)
        over = self.used_quota(kind.quota_type) + max(kind.gpus, 1) > maximum
        if over or self._faults.take(["quota_exceeded"], "POST"):
            raise ApiError(403, "quota_exceeded", f"quota {kind.quota_type} is used up")
        return kind

    def _partition(self, body: Document) -> str:
        entries = documents_of(body.get("host_channel_adapters"))
        if not entries:
            return ""
        if _FABRIC not in text_of(body, "type"):
            raise bad_request(f"{body.get('type')} has no host channel adapters")
        # The older key is still read; the newer one is preferred (PartialHostChannelAdapter).
        entry = entries[-1]
        identity = str(entry.get("transport_partition_id") or entry.get("ib_partition_id") or "")
        if identity not in self._state.partitions:
            raise bad_request(f"IB partition {identity} does not exist")
        if self.used_slices() + HCAS_OF_ENTRY > self._config.ib_slices:
            raise bad_request("the IB network has no capacity left")
        return identity

    def _card(self, body: Document) -> Document:
        cards = documents_of(body.get("network_interfaces"))
        subnet = str(cards[0].get("subnet", "")) if cards else ""
        if subnet not in self._state.subnets:
            raise bad_request(f"subnet {subnet} does not exist")
        wanted = documents_of(cards[0].get("ips"))
        public = wanted[0].get("public_ipv4") if wanted else None
        kind = public.get("type", "dynamic") if isinstance(public, dict) else "dynamic"
        name = text_of(body, "name")
        return {
            "id": new_id(),
            "subnet": subnet,
            "network": self._state.subnets[subnet]["vpc_network_id"],
            "ips": [
                {
                    "private_ipv4": {"address": self._free(name, "private")},
                    "public_ipv4": {
                        "id": new_id(),
                        "address": self._free(name, "public"),
                        "type": kind,
                    },
                }
            ],
        }

    def _free(self, name: str, side: str) -> str:
        reserved = dict(self._config.reserved)
        if name in reserved:
            return reserved[name]
        pool = self._config.public_ips if side == "public" else self._config.private_ips
        taken = {address_of(item, side) for item in self._state.instances.values()}
        free = [each for each in pool if each not in {*taken, *reserved.values()}]
        if not free:
            raise bad_request(f"no {side} address is left")
        return free[0]

    def _readdress(self, instance: Document) -> None:
        """A public address that is not static is another one after a stop and a start."""
        for card in documents_of(instance["network_interfaces"]):
            for address in documents_of(card["ips"]):
                public = address["public_ipv4"]
                if isinstance(public, dict) and public["type"] != "static":
                    public["address"] = self._free("", "public")

    def _adapters(self, name: str, identity: str, partition: str) -> JsonValue:
        """Eight HCAs of one entry, each with a GUID of its own."""
        mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
        any_guids = (f"58a2:e103:{mark[:4]}:{mark[4:6]}{n:02x}" for n in range(HCAS_OF_ENTRY))
        guids = dict(self._config.guids).get(name) or tuple(any_guids)
        return [
            {
                "type": "infiniband",
                "guid": guid,
                "ib_network_id": "",
                "ib_partition_id": partition,
                "transport_network_id": "",
                "transport_partition_id": partition,
            }
            for guid in (guids if partition else ())
        ]

    def change(self, identity: str, body: Document) -> Document:
        """PATCH: start, stop or reset.

        Raises:
            ApiError: There is no such instance, or no such action.
        """
        self.get(identity)
        targets = {"START": RUNNING, "RESET": RUNNING, "STOP": STOPPED}
        target = targets.get(str(body.get("action")))
        if target is None:
            raise bad_request(f"action {body.get('action')} is not possible here")
        return self._operation(identity, target)

    def delete(self, identity: str) -> Document:
        """DELETE: the operation that removes it."""
        self.get(identity)["state"] = DELETING
        return self._operation(identity, "deleted")

    def get(self, identity: str) -> Document:
        """One instance.

        Raises:
            ApiError: 404; that the real API answers so is not documented.
        """
        found = self._state.instances.get(identity)
        if found is None:
            raise not_found("instance", identity)
        return found

    def _operation(self, identity: str, target: str) -> Document:
        operation: Document = {
            "operation_id": new_id(),
            "state": "IN_PROGRESS",
            "metadata": {"id": identity},
            "started_at": datetime.now(tz=UTC).isoformat(),
            "completed_at": "",
            "remaining": self._config.polls,
            "target": target,
        }
        self._state.operations[str(operation["operation_id"])] = operation
        return {"operation": seen_operation(operation)}

    def tick(self) -> list[Event]:
        """One request's worth of time: what is due is done."""
        events: list[Event] = []
        for operation in self._state.operations.values():
            remaining = operation.get("remaining", 0)
            if operation["state"] != "IN_PROGRESS" or not isinstance(remaining, int):
                continue
            operation["remaining"] = remaining - 1
            if remaining <= 1:
                events += self._finish(operation)
        return events

    def _finish(self, operation: Document) -> list[Event]:
        metadata = operation["metadata"]
        identity = str(metadata.get("id")) if isinstance(metadata, dict) else ""
        operation["completed_at"] = datetime.now(tz=UTC).isoformat()
        target = operation["target"]
        operation["state"] = "FAILED" if target == "FAILED" else "SUCCEEDED"
        if target == "FAILED":
            operation["result"] = {
                "code": "out_of_stock",
                "message": "the requested resource is out of stock",
            }
            self._state.instances.pop(identity, None)
            return []
        instance = self._state.instances.get(identity)
        if instance is None:
            return []
        if target == "deleted":
            del self._state.instances[identity]
            return [Event("deleted", made_instance(instance))]
        came = instance["state"] != RUNNING and target == RUNNING
        if instance["state"] == STOPPED and came:
            self._readdress(instance)
        left = instance["state"] == RUNNING and target == STOPPED
        instance["state"] = target
        if came or left:
            return [Event("created" if came else "stopped", made_instance(instance))]
        return []


def seen_operation(operation: Document) -> Document:
    """An operation as the API shows it."""
    return {key: value for key, value in operation.items() if key not in {"remaining", "target"}}


def address_of(instance: Document, side: str) -> str:
    """The private or public address of an instance."""
    cards = documents_of(instance.get("network_interfaces"))
    ips = documents_of(cards[0].get("ips")) if cards else []
    part = ips[0].get(f"{side}_ipv4") if ips else None
    return str(part.get("address", "")) if isinstance(part, dict) else ""


def made_instance(instance: Document) -> MadeInstance:
    """What the lab plays."""
    adapters = documents_of(instance.get("host_channel_adapters"))
    return MadeInstance(
        name=str(instance["name"]),
        id=str(instance["id"]),
        type=str(instance["type"]),
        image=str(instance["image"]),
        public_ip=address_of(instance, "public"),
        private_ip=address_of(instance, "private"),
        ssh_public_key=str(instance["ssh_public_key"]),
        guids=tuple(str(item["guid"]) for item in adapters),
    )

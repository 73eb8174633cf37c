"""`railyard cloud ensure` and `remove`: make sure that one object exists, or is gone.

The API has no key that makes a POST safe to repeat. So this module lists by name, then POSTs once.
If the answer is lost, it lists until the object appears, and never POSTs again in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from components.cloud import kinds
from components.cloud.crusoe_api import (
    AmbiguousError,
    CloudError,
    CrusoeApi,
    Document,
    NotFoundError,
)
from components.cloud.request import ObjectRequest, Printed
from components.core.errors import DeviceError
from components.core.templates import fault_text

_IN_USE: Final = frozenset({400, 409})
"""Status of a refusal to delete an object that another object still uses."""
OUT_OF_STOCK: Final = frozenset({"out_of_stock", "quota_exceeded"})
"""Codes of a failed operation; the API's clients have the first, the second is a guess."""
_RULE_KEYS: Final = frozenset({"sources", "destinations", "protocols", "destination_ports"})
"""The keys that a PATCH of a firewall rule takes (VPCFirewallRulesPatchRequest)."""


def ensure(api: CrusoeApi, request: ObjectRequest, previous: Printed) -> Printed:
    """Make an object if it is missing; otherwise adopt it, and repair it if it is a firewall rule.

    Prints `id`, `name`, `did` (`made`, `adopted`, `mended`, `unchanged`), and for an instance the
    `operation` that makes it, because this step does not wait for an instance.
    """
    kind = kinds.KINDS[request.kind]
    found = kinds.find(api, kind, request.name, previous.get("id", ""))
    if found is None:
        return _make(api, kind, request)
    differences = kinds.differing(kind, found, request.body)
    fixed = [each for each in differences if each[0] in kind.fixed]
    if fixed:
        words = "; ".join(f"{key} is {there}, want {wanted}" for key, there, wanted in fixed)
        what = {"kind": kind, "name": request.name, "found": found, "words": words}
        raise DeviceError(fault_text(__file__, "other-settings", **what))
    same = found.id == previous.get("id")
    operation = previous.get("operation", "") if same else ""
    if not differences or request.kind != "firewall-rule":
        return _printed(request, found.id, "unchanged" if same else "adopted", operation)
    mutable = {key: value for key, value in request.body.items() if key in _RULE_KEYS}
    answer = api.change("PATCH", kinds.path_of(api, kind, found.id), mutable)
    _finish(api, kind, request, _operation(answer))
    return _printed(request, found.id, "mended", operation)


def _make(api: CrusoeApi, kind: kinds.Kind, request: ObjectRequest) -> Printed:
    body: Document = request.body
    if request.kind == "ib-partition":
        free = ib_capacity(api, request.api.location, request.slice_type)
        if not free:
            raise DeviceError(fault_text(__file__, "no-network", request=request))
        body = {**body, "ib_network_id": max(free, key=lambda each: (free[each], each))}
    try:
        answer = api.change("POST", api.below_project(kind.path), body)
    except AmbiguousError as error:
        return _printed(request, _settle(api, kind, request, error).id, "adopted", "")
    operation = _operation(answer)
    identity = _identity(kind, answer) or _settle(api, kind, request, None).id
    if request.kind != "instance":
        _finish(api, kind, request, operation)
        operation = ""
    return _printed(request, identity, "made", operation)


def _printed(request: ObjectRequest, identity: str, did: str, operation: str) -> Printed:
    return {"id": identity, "name": request.name, "did": did, "operation": operation}


def _settle(
    api: CrusoeApi, kind: kinds.Kind, request: ObjectRequest, lost: AmbiguousError | None
) -> kinds.Item:
    """Find the object after a POST whose answer was lost or had no id."""
    deadline = api.patience.until(api.patience.settle_s)
    while True:
        try:
            found = kinds.find(api, kind, request.name)
        except AmbiguousError:
            found = None
        if found is not None:
            return found
        if deadline.passed:
            words = {"kind": kind, "name": request.name, "lost": lost, "api": api}
            raise CloudError(fault_text(__file__, "lost-answer", **words))
        deadline.pause()


def _finish(api: CrusoeApi, kind: kinds.Kind, request: ObjectRequest, operation: str) -> None:
    """Wait for an operation on a network object; `await` does it for instances."""
    deadline = api.patience.until(api.patience.operation_s)
    while operation:
        state, said = operation_state(api, kind, operation)
        if state == "SUCCEEDED":
            return
        if state == "FAILED":
            raise DeviceError(f"{kind.words} {request.name}: the cloud gave up: {said}")
        if deadline.passed:
            words = {"kind": kind, "name": request.name, "operation": operation, "state": state}
            raise CloudError(fault_text(__file__, "slow-operation", api=api, **words))
        deadline.pause()


def operation_state(api: CrusoeApi, kind: kinds.Kind, operation: str) -> tuple[str, str]:
    """The state of an operation, and the reason if it failed."""
    answer = api.get(f"{api.below_project(kind.path)}/operations/{operation}")
    result = answer.get("result")
    words = ""
    if isinstance(result, Mapping):
        words = " ".join(str(result[key]) for key in ("code", "message") if result.get(key))
    return str(answer.get("state", "")), words


def give_up(name: str, said: str) -> DeviceError:
    """The error for an instance that the cloud could not make."""
    if any(code in said for code in OUT_OF_STOCK):
        return DeviceError(fault_text(__file__, "out-of-stock", name=name, said=said))
    return DeviceError(f"instance {name}: the cloud gave up making it: {said or 'without a word'}")


def _operation(answer: Document) -> str:
    operation = answer.get("operation")
    return str(operation.get("operation_id", "")) if isinstance(operation, dict) else ""


def _identity(kind: kinds.Kind, answer: Document) -> str:
    """The new object's id: in the object, or in the operation's metadata."""
    inner = answer.get(kind.wrapper) if kind.wrapper else answer
    if isinstance(inner, Mapping) and inner.get("id"):
        return str(inner["id"])
    operation = answer.get("operation")
    metadata: JsonValue = operation.get("metadata") if isinstance(operation, dict) else None
    return str(metadata.get("id", "")) if isinstance(metadata, dict) else ""


def ib_capacity(api: CrusoeApi, location: str, slice_type: str) -> dict[str, int]:
    """IB network to its free slices of a type, in one location."""
    return {
        str(network.get("id")): int(str(entry.get("quantity", 0)))
        for network in api.list_items(api.below_project("networking/ib-networks"))
        if network.get("location") == location
        for entry in kinds.documents_of(network.get("capacities"))
        if entry.get("slice_type") == slice_type
    }


def remove(api: CrusoeApi, request: ObjectRequest, previous: Printed) -> Printed:
    """Delete the object that this step made, and wait until it is gone."""
    kind = kinds.KINDS[request.kind]
    identity = previous.get("id", "")
    if not identity:
        found = kinds.find(api, kind, request.name)
        if found is None or any(
            each[0] in kind.fixed for each in kinds.differing(kind, found, request.body)
        ):
            return {"name": request.name, "did": "absent"}
        identity = found.id
    return {"name": request.name, "did": delete(api, kind, request.name, identity)}


def delete(api: CrusoeApi, kind: kinds.Kind, name: str, identity: str) -> str:
    """Delete by id until the object is gone: `removed`, or `absent` if it was gone already.

    If another object still uses a partition or network, its deletion is tried again until the
    deadline, because the deletion of an instance takes some time.
    """
    deadline = api.patience.until(api.patience.operation_s)
    why, operation, asked = "", "", False
    while kinds.get_by_id(api, kind, identity) is not None:
        if deadline.passed:
            words = {"kind": kind, "name": name, "id": identity, "why": f": {why}" if why else ""}
            raise CloudError(fault_text(__file__, "still-there", api=api, **words))
        if not operation:
            asked = True
            try:
                answer = api.change("DELETE", kinds.path_of(api, kind, identity))
                operation, why = _operation(answer), ""
            except CloudError as error:
                is_lost = isinstance(error, NotFoundError | AmbiguousError)
                if not is_lost and error.status not in _IN_USE:
                    raise
                why = str(error)
        else:
            state, said = operation_state(api, kind, operation)
            operation, why = ("", said) if state == "FAILED" else (operation, why)
        deadline.pause()
    return "removed" if asked else "absent"

"""`railyard cloud await` for instances, and their export as a site that brings its own instances.

The API offers no host key. So the first contact pins the key that the instance presents, prints it,
and keeps it in the stack's state; every later contact demands that key.

With the export, another stack can install on the instances without any key of the cloud:
`instances: {kind: bring_your_own}` and the hosts, with addresses and pinned host keys.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

from components.cloud.crusoe_api import CloudError, CrusoeApi, Deadline
from components.cloud.ensure import give_up, operation_state
from components.cloud.kinds import KINDS, RUNNING, STOPPED, Item, Settings, get_by_id, path_of
from components.cloud.request import Printed, ReadyRequest
from components.core.errors import DeviceError, HostKeyError, UnreachableError, UsageError
from components.core.plain_text import Facts, fill
from components.core.problem import Json
from components.core.templates import fault_text
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import crusoe_of, with_instances
from components.remote.ssh_library import asyncssh

_KIND = KINDS["instance"]
_KEY_TYPE = "ssh-ed25519"
"""The images make such a key at first boot; the command provider cannot check RSA keys."""
_KEY_TIMEOUT_S = 10.0


def await_instance(api: CrusoeApi, request: ReadyRequest, previous: Printed) -> Printed:
    """Wait for an instance; start it if it is stopped.

    Prints `name`, `id`, `public_ip`, `private_ip`, `host_key`, `image_id`, `pod` and `guids`: the
    InfiniBand GUIDs that the API names, with commas. HostKeyError: the same instance presents
    another host key than the pinned one.
    """
    deadline = api.patience.until(api.patience.boot_s)
    settings = _await_running(api, request, deadline)
    guids, partitions = settings.get("guids", ""), settings.get("partition", "")
    hcas = len(list(filter(None, guids.split(","))))
    if hcas != request.hcas or (hcas and partitions != request.partition):
        words = {"hcas": hcas, "there": partitions or "none", "wanted": request.partition or "none"}
        raise DeviceError(fault_text(__file__, "wrong-hcas", request=request, **words))
    pinned = previous.get("host_key", "") if previous.get("id") == request.id else ""
    host_key = _fetch_key(api, request, settings["public_ip"], deadline)
    if pinned and host_key != pinned:
        words = {"address": settings["public_ip"], "pinned": pinned, "host_key": host_key}
        raise HostKeyError(fault_text(__file__, "other-key", request=request, **words))
    if not pinned:
        # Only this line shows the key that all later contacts rely on.
        print(f"{request.name}: pinned on first contact: {host_key}", file=sys.stderr)  # noqa: T201
    return {
        "name": request.name,
        "id": request.id,
        "host_key": host_key,
        "image_id": request.image_id,
        **{key: settings.get(key, "") for key in ("public_ip", "private_ip", "guids", "pod")},
    }


def _await_running(api: CrusoeApi, request: ReadyRequest, deadline: Deadline) -> Settings:
    state, started = "not there yet", False
    while not deadline.passed:
        item = get_by_id(api, _KIND, request.id)
        _check_operation(api, request, item)
        if item is not None:
            state = item.settings.get("state", "without a state")
            if state == RUNNING and {"public_ip", "private_ip"} <= item.settings.keys():
                return item.settings
            if state in STOPPED and not started:
                api.change("PATCH", path_of(api, _KIND, request.id), {"action": "START"})
                started = True
        deadline.pause()
    raise CloudError(fault_text(__file__, "not-running", request=request, api=api, state=state))


def _check_operation(api: CrusoeApi, request: ReadyRequest, item: Item | None) -> None:
    """Refuse at once an instance that will never run."""
    if item is not None and item.settings.get("state") == RUNNING:
        return
    if request.operation:
        state, said = operation_state(api, _KIND, request.operation)
        if state == "FAILED":
            raise give_up(request.name, said)
        if state != "SUCCEEDED":
            return
    if item is None:
        raise DeviceError(fault_text(__file__, "gone", request=request))


def _fetch_key(api: CrusoeApi, request: ReadyRequest, address: str, deadline: Deadline) -> str:
    why = "no answer"
    while not deadline.passed:
        try:
            asked = asyncssh.get_server_host_key(
                address, request.port, server_host_key_algs=[_KEY_TYPE], config=None
            )
            key = asyncio.run(asyncio.wait_for(asked, _KEY_TIMEOUT_S))
        except (OSError, asyncssh.Error) as error:
            why = str(error) or type(error).__name__
        else:
            if key is not None:
                return key.export_public_key("openssh").decode().strip()
            why = f"it lacks a {_KEY_TYPE} host key"
        deadline.pause()
    words = {"request": request, "address": address, "api": api, "why": why}
    raise UnreachableError(fault_text(__file__, "no-ssh", **words))


def export_bring_your_own(spec: ClusterSpec, facts: Facts) -> dict[str, Json]:
    """The site with its instances as hosts, as plain data for YAML."""
    provision = crusoe_of(spec)
    if provision is None:
        raise UsageError("the site does not make cloud instances, so nothing can be exported.")
    whole = with_instances(spec)
    wanted = {"public_ip", "private_ip", "host_key"}
    known = {name: {key for key, text in each.items() if text} for name, each in facts.items()}
    missing = [host.name for host in whole.hosts if not wanted <= known.get(host.name, set())]
    if missing:
        raise UsageError(fault_text(__file__, "not-known", names=", ".join(missing)))
    text = fill(whole.model_dump_json(exclude_defaults=True), facts)
    document = cast("dict[str, Json]", json.loads(text))
    environment = cast("dict[str, Json]", document["environment"])
    environment["instances"] = {"kind": "bring_your_own"}
    return document

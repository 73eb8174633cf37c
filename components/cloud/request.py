"""The stdin of `railyard cloud …`, and the client that a request opens.

The request is JSON in clear; the keys of the API come by name through the environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, TypeVar, cast

from pydantic import JsonValue

from components.cloud.crusoe_api import CrusoeApi, Patience
from components.cloud.kinds import ObjectKind
from components.core.errors import UsageError
from components.core.record import field, record
from components.core.templates import fault_text
from components.remote.lines import read_request
from components.remote.one_run import hold_lock

PREVIOUS_OUTPUT: Final = "PULUMI_COMMAND_STDOUT"
"""The command provider puts the step's last output here, if it is asked to."""
LOCK_DEADLINE_S: Final = 60.0
"""A run that was killed may still wait for one answer of the API."""
Printed = Mapping[str, str]
"""The output of a step: one flat JSON object of texts, which can fill placeholders."""
T = TypeVar("T")


@record
class CloudApi:
    """The address of the API, and the names of the secrets that open it."""

    endpoint: str
    project: str
    location: str
    access_key: str
    secret_key: str


@record
class ObjectRequest:
    """One object: `ensure` and `remove`."""

    api: CloudApi
    kind: ObjectKind
    name: str
    body: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The body of the POST if the object is missing."""
    slice_type: str = ""
    """For an IB partition: the instance type that its IB network must serve."""
    generation: int = 0
    """How often the object was found gone; another number makes another object."""
    repair: str = ""
    """Why this step runs although the plan is the same; only shown."""


@record
class ReadyRequest:
    """One instance to wait for: `await`."""

    api: CloudApi
    name: str
    id: str
    operation: str = ""
    """The operation that makes it; empty if it existed before."""
    port: int = 22
    hcas: int = 0
    """Number of HCAs that the instance must have."""
    partition: str = ""
    """Id of the partition that all HCAs must be in."""
    image_id: str = ""
    repair: str = ""


@record
class ImageRequest:
    """One image whose tag is resolved: `image`."""

    api: CloudApi
    image: str


@record
class Claim:
    """One planned object: `preflight` claims it, and `sweep` finds it again."""

    kind: ObjectKind
    name: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    """Settings that prove the object is this stack's; only those known before it is made."""


@record
class PreflightRequest:
    """The planned objects before any exists: `preflight`, `claim` and `sweep`."""

    api: CloudApi
    claims: tuple[Claim, ...]
    images: dict[str, str] = field(default_factory=dict[str, str])
    """Image to the instance type that uses it."""
    partition: str = ""
    slices: int = 0
    """Slices of `slice_type` that each worker takes of the IB network; 0: no InfiniBand."""
    slice_type: str = ""


def parse_request(kind: type[T], text: str) -> T:
    """Read a request from stdin; UsageError names the first fault."""
    return read_request(kind, text, "cloud request")


def open_api(api: CloudApi, secrets: Mapping[str, str], patience: Patience | None) -> CrusoeApi:
    """A client for the project of a request; without `patience` it waits as for the real cloud."""
    missing = [name for name in (api.access_key, api.secret_key) if not secrets.get(name)]
    if missing:
        words = {"names": f"{'s' if missing[1:] else ''} {', '.join(missing)}", "first": missing[0]}
        raise UsageError(fault_text(__file__, "no-secret", **words))
    keys = (secrets[api.access_key], secrets[api.secret_key])
    return CrusoeApi(api.endpoint, api.project, keys, patience)


def previous_of(text: str) -> Printed:
    """Read the output of a step; empty if it is not a JSON object."""
    try:
        value = cast("JsonValue", json.loads(text)) if text.strip() else {}
    except ValueError:
        return {}
    return {key: str(each) for key, each in value.items()} if isinstance(value, dict) else {}


def render_printed(values: Printed) -> str:
    """Render a step's output, one setting a line."""
    return json.dumps(dict(values), indent=1, sort_keys=True) + "\n"


def only_one(api: CloudApi, kind: str, name: str) -> AbstractContextManager[None]:
    """Allow only one run at a time for one object on this machine.

    Without this, the next run could list the objects before the API answers the POST of a killed
    run, and make the object twice.
    """
    mark = hashlib.sha256(f"{api.endpoint} {api.project} {kind} {name}".encode()).hexdigest()[:16]
    busy = f"{name}: another Railyard run has been working on this {kind}"
    return hold_lock(f"cloud-{mark}", busy, LOCK_DEADLINE_S)

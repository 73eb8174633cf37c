"""The requests that create and change objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from standins.kubernetes.await_ready import Awaiter
from standins.kubernetes.client import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    ApiError,
    Client,
    NoMatchError,
    ServedKind,
)
from standins.kubernetes.diff import merge_patch, prune
from standins.kubernetes.identity import (
    ANNOTATION_PATCH_FORCE,
    annotation,
    name_of,
    namespace_of,
    parse_gvk,
    set_namespace,
)
from standins.kubernetes.managers import (
    CREATE_MANAGER,
    has_create_manager,
    keep_ignored,
    plan_takeover,
)
from standins.kubernetes.settings import Settings
from standins.kubernetes.values import JsonMap, as_map, copy_map, dig

CREATE_RETRIES = 5
FIRST_RETRY_S = 1.0  # doubled each time: 31 s in all, as in the real plugin


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one existing object."""

    served: ServedKind
    path: str
    inputs: JsonMap
    manager: str
    ignored: Sequence[str]
    preview: bool


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes objects of one cluster on behalf of one resource."""

    client: Client
    settings: Settings
    awaiter: Awaiter
    patches: bool

    def create(self, inputs: JsonMap, manager: str, *, preview: bool) -> tuple[ServedKind, JsonMap]:
        """Creates an object; tries again while its kind, or its namespace, is not there yet.

        Raises:
            ApiError: The server refused it.
            NoMatchError: The kind did not appear in time.
        """
        pause_s = FIRST_RETRY_S
        for attempt in range(CREATE_RETRIES + 1):
            try:
                served = self.client.served(parse_gvk(inputs))
                return served, self._create_once(served, inputs, manager, preview=preview)
            except (NoMatchError, ApiError) as error:
                transient = isinstance(error, NoMatchError) or error.is_not_found
                over = preview or attempt == CREATE_RETRIES or self.awaiter.cancelled.is_set()
                if over or not transient:
                    raise
                text = f"Retry #{attempt}; creation failed: {error}"
                self.awaiter.log.info(self.awaiter.urn, text, ephemeral=True)
            self.awaiter.cancelled.wait(pause_s)
            pause_s *= 2
        raise AssertionError("the last attempt either returns or raises")

    def _create_once(
        self, served: ServedKind, inputs: JsonMap, manager: str, *, preview: bool
    ) -> JsonMap:
        body = copy_map(inputs)
        if not served.namespaced:
            set_namespace(body, "")  # Check had to guess the scope of a kind not yet defined
        namespace, name = namespace_of(body), name_of(body)
        query = {"dryRun": "All" if preview else ""}
        if self.patches:
            self.client.request("GET", served.path(namespace, name))
        if self.patches or (self.settings.upsert_existing and self.settings.server_side_apply):
            force = self._forces(inputs) or preview
            query |= {"fieldManager": manager, "force": "true" if force else "false"}
            path = served.path(namespace, name)
            return self.client.request(
                "PATCH", path, query=query, body=body, content_type=APPLY_PATCH
            )
        query["fieldManager"] = CREATE_MANAGER
        return self.client.request("POST", served.path(namespace), query=query, body=body)

    def update(self, change: Change, live: JsonMap) -> JsonMap:
        """Writes a change: by PUT for a CRD, else by server-side apply (or a merge patch).

        Raises:
            ApiError: The server refused it.
        """
        served, path, inputs = change.served, change.path, change.inputs
        manager, preview = change.manager, change.preview
        body = copy_map(inputs)
        if not served.namespaced:
            set_namespace(body, "")
        query = {"fieldManager": manager, "dryRun": "All" if preview else ""}
        if served.gvk.kind == "CustomResourceDefinition":
            version = dig(live, "metadata", "resourceVersion")
            body["metadata"] = {**as_map(body.get("metadata")), "resourceVersion": version}
            return self.client.request("PUT", path, query=query, body=body)
        if not self.settings.server_side_apply:
            query["fieldManager"] = CREATE_MANAGER
            patch = merge_patch(prune(live, inputs), inputs)
            return self.client.request(
                "PATCH", path, query=query, body=patch, content_type=MERGE_PATCH
            )
        force = self._forces(inputs) or (preview and has_create_manager(live))
        takeover = None if preview or self.patches else plan_takeover(live, manager)
        if takeover is not None:
            live = self.client.request("PATCH", path, body=takeover, content_type=JSON_PATCH)
        body = keep_ignored(body, live, change.ignored, manager)
        query["force"] = "true" if force else "false"
        return self.client.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)

    def _forces(self, inputs: JsonMap) -> bool:
        return self.settings.patch_force or annotation(inputs, ANNOTATION_PATCH_FORCE) == "true"

    def relinquish(self, path: str, live: JsonMap, manager: str) -> None:
        """Gives up every field that a Patch resource set; the object itself stays."""
        empty: JsonMap = {
            "apiVersion": live.get("apiVersion"),
            "kind": live.get("kind"),
            "metadata": {"name": name_of(live)},
        }
        query = {"fieldManager": manager, "force": "true"}
        self.client.request("PATCH", path, query=query, body=empty, content_type=APPLY_PATCH)

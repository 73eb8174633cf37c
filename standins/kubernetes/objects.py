"""Create, Update, Read and Delete of Kubernetes objects."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from standins.kubernetes import readiness
from standins.kubernetes.await_ready import Awaiter, InitError
from standins.kubernetes.client import ApiError, Client, NoMatchError, ServedKind
from standins.kubernetes.diff import normalize, prune
from standins.kubernetes.identity import (
    ANNOTATION_PROPAGATION,
    ANNOTATION_SKIP_AWAIT,
    annotation,
    field_manager_of,
    id_of,
    name_of,
    namespace_of,
    parse_gvk,
    timeout_s_of,
)
from standins.kubernetes.settings import Settings
from standins.kubernetes.state import (
    InitFailedError,
    api_version_of,
    make_checkpoint,
    open_checkpoint,
)
from standins.kubernetes.values import (
    JsonMap,
    annotate_secrets,
    as_map,
    as_text,
    copy_map,
    to_dashed,
)
from standins.kubernetes.wait_for import WaitForError
from standins.kubernetes.writing import Change, Writer
from standins.serve import EngineLog
from standins.values import reveal

CONFLICT_HELP = (
    "server-side apply field conflict detected; change the field where it is owned, or set the "
    'annotation pulumi.com/patchForce: "true" to take it over'
)
EXISTS_HELP = (
    "the resource already exists in the cluster. Give a renamed resource an alias, use a Patch "
    "resource for an object that is not yours, adopt it with `pulumi import`, or set "
    "upsertExistingObjects on the provider"
)
HTTP_CONFLICT = 409
HTTP_FORBIDDEN = 403


class ObjectError(Exception):
    """The cluster refused an object; nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Created:
    """A created object: its id (empty in a preview) and the state to record."""

    resource_id: str
    state: JsonMap


@dataclass(frozen=True, slots=True)
class ReadBack:
    """An object as it is now: state and the inputs that would declare it so."""

    resource_id: str
    state: JsonMap
    inputs: JsonMap


@dataclass(frozen=True, slots=True)
class Objects:
    """Works on the objects of one cluster on behalf of one resource."""

    client: Client
    settings: Settings
    cancelled: threading.Event
    log: EngineLog
    urn: str
    patches: bool = False

    @property
    def _writer(self) -> Writer:
        awaiter = self._awaiter
        return Writer(self.client, self.settings, awaiter, patches=self.patches)

    @property
    def _awaiter(self) -> Awaiter:
        return Awaiter(self.client, self.cancelled, self.log, self.urn)

    def create(self, properties: JsonMap, *, preview: bool, timeout_s: float) -> Created:
        """Creates an object and waits until it is ready.

        Raises:
            ObjectError: The cluster refused it.
            InitFailedError: It was created but did not become ready.
        """
        inputs = as_map(to_dashed(reveal(properties)))
        manager = field_manager_of(inputs, {})
        try:
            served, live = self._writer.create(inputs, manager, preview=preview)
        except (ApiError, NoMatchError) as error:
            if preview and _is_silent_in_preview(error):
                return Created("", properties)
            raise ObjectError(self._create_failure(error)) from error
        if preview:
            live.pop("status", None)
            return Created("", self._state(inputs, live, properties, manager))
        if served.gvk.kind == "CustomResourceDefinition":
            self.client.forget_kinds()
        resource_id = id_of(namespace_of(live), name_of(live))
        try:
            wait_s = timeout_s_of(inputs, timeout_s)
            live = self._awaiter.until_ready(served, inputs, live, wait_s)
        except (InitError, WaitForError) as error:
            last = error.live if isinstance(error, InitError) else live
            raise InitFailedError(
                f'resource "{self.urn}" was successfully created, but the Kubernetes API server '
                f"reported that it failed to fully initialize or become live: {error}",
                resource_id,
                self._state(inputs, last, properties, manager),
                error.reasons if isinstance(error, InitError) else [],
            ) from error
        return Created(resource_id, self._state(inputs, live, properties, manager))

    def update(
        self,
        olds: JsonMap,
        news: JsonMap,
        ignored: Sequence[str],
        *,
        preview: bool,
        timeout_s: float,
    ) -> JsonMap:
        """Changes an object in place and returns the state to record.

        Raises:
            ObjectError: The cluster does not know the kind, or the object is gone.
            InitFailedError: The change was refused or the object did not become ready.
        """
        checkpoint = open_checkpoint(olds)
        inputs = normalize(as_map(to_dashed(reveal(news))))
        manager = field_manager_of(inputs, checkpoint.raw)
        served = self._served(inputs)
        path = served.path(namespace_of(checkpoint.live), name_of(checkpoint.live))
        api_version = api_version_of(checkpoint)
        live = checkpoint.live
        try:
            live = self.client.request("GET", path)
            change = Change(served, path, inputs, manager, ignored, preview)
            live = self._writer.update(change, live)
            if not preview:
                wait_s = timeout_s_of(inputs, timeout_s)
                live = self._awaiter.until_ready(served, inputs, live, wait_s)
        except (ApiError, InitError, WaitForError) as error:
            if preview and isinstance(error, ApiError) and error.code == HTTP_FORBIDDEN:
                return news
            resource_id = id_of(namespace_of(live), name_of(live))
            raise InitFailedError(
                f'the Kubernetes API server reported that "{resource_id}" failed to fully '
                f"initialize or become live: {_explain(error)}",
                resource_id,
                make_checkpoint(inputs, self._last_live(path, error), news, manager, api_version),
                error.reasons if isinstance(error, InitError) else [],
            ) from error
        return make_checkpoint(inputs, live, news, manager, api_version)

    def read(self, resource_id: str, olds: JsonMap, old_inputs: JsonMap) -> ReadBack | None:
        """Reads an object; None where it is gone.

        Raises:
            InitFailedError: It is there, but it is not ready.
        """
        checkpoint = open_checkpoint(olds)
        inputs = normalize(as_map(to_dashed(reveal(old_inputs))))
        namespace, _, name = resource_id.rpartition("/")
        gvk = parse_gvk(inputs or checkpoint.live, self.urn.split("::")[2].rsplit("$", 1)[-1])
        try:
            served = self.client.served(gvk)
            live = self.client.request("GET", served.path(namespace, name))
        except NoMatchError:
            return None
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        inputs_now = prune(live, inputs) if inputs else _importable(live)
        state = make_checkpoint(
            inputs_now,
            live,
            old_inputs,
            field_manager_of(inputs, checkpoint.raw),
            api_version_of(checkpoint) or served.gvk.api_version,
        )
        shown = copy_map(inputs_now)
        annotate_secrets(shown, old_inputs)
        if inputs:
            self._judge_again(served, inputs, live, resource_id, state, shown)
        return ReadBack(resource_id, state, shown)

    def delete(self, resource_id: str, olds: JsonMap, timeout_s: float) -> None:
        """Deletes an object (its dependents first) and waits until it is gone.

        Raises:
            ObjectError: The cluster refused.
            InitFailedError: It still exists when the time is over.
        """
        checkpoint = open_checkpoint(olds)
        try:
            served = self.client.served(parse_gvk(checkpoint.live or checkpoint.inputs))
        except NoMatchError:
            return  # the CRD is gone, and with it every object of its kind
        namespace, _, name = resource_id.rpartition("/")
        path = served.path(namespace, name)
        manager = field_manager_of(checkpoint.inputs, checkpoint.raw)
        try:
            if self.patches:
                self._writer.relinquish(path, checkpoint.live, manager)
                return
            policy = annotation(checkpoint.inputs, ANNOTATION_PROPAGATION).capitalize()
            body: JsonMap = {"propagationPolicy": policy or "Foreground"}
            self.client.request("DELETE", path, body=body)
        except ApiError as error:
            if error.is_not_found:
                return
            raise ObjectError(str(error)) from error
        if served.gvk.kind == "CustomResourceDefinition":
            self.client.forget_kinds()
        skips = annotation(checkpoint.inputs, ANNOTATION_SKIP_AWAIT) == "true"
        if skips and (served.gvk.group, served.gvk.kind) in readiness.SKIPS_DELETE_AWAIT:
            return
        try:
            wait_s = timeout_s_of(checkpoint.inputs, timeout_s)
            self._awaiter.until_gone(served, checkpoint.live, wait_s)
        except InitError as error:
            state = make_checkpoint(checkpoint.inputs, error.live, olds, manager, "")
            raise InitFailedError(str(error), resource_id, state, error.reasons) from error

    def _served(self, inputs: JsonMap) -> ServedKind:
        try:
            return self.client.served(parse_gvk(inputs))
        except NoMatchError as error:
            raise ObjectError(
                f'update of resource "{self.urn}" failed because the Kubernetes API server '
                "reported that the apiVersion for this resource does not exist. "
                f"Verify that any required CRDs have been created: {error}"
            ) from error

    def _create_failure(self, error: ApiError | NoMatchError) -> str:
        if isinstance(error, NoMatchError):
            return (
                f'creation of resource "{self.urn}" failed because the Kubernetes API server '
                "reported that the apiVersion for this resource does not exist. "
                f"Verify that any required CRDs have been created: {error}"
            )
        text = (
            f'resource "{self.urn}" was not successfully created by the Kubernetes API server: '
            f"{error}"
        )
        return f"{text}\n\n{EXISTS_HELP}" if error.reason == "AlreadyExists" else text

    def _judge_again(
        self,
        served: ServedKind,
        inputs: JsonMap,
        live: JsonMap,
        resource_id: str,
        state: JsonMap,
        shown: JsonMap,
    ) -> None:
        watched = (served.gvk.group, served.gvk.kind) in readiness.READ_AGAIN
        if not watched or annotation(inputs, ANNOTATION_SKIP_AWAIT) == "true":
            return
        now = self._awaiter.judge(served, live)
        if now.done:
            return
        reasons = self._awaiter.complaints(served, live)
        message = f"Resource '{name_of(live)}' was created but failed to initialize"
        raise InitFailedError(message, resource_id, state, reasons, shown)

    def _last_live(self, path: str, error: ApiError | InitError | WaitForError) -> JsonMap:
        if isinstance(error, InitError):
            return error.live
        try:
            return self.client.request("GET", path)
        except ApiError as gone:
            raise ObjectError(f'update of resource "{self.urn}" failed: {error}') from gone

    def _state(self, inputs: JsonMap, live: JsonMap, properties: JsonMap, manager: str) -> JsonMap:
        api_version = as_text(inputs.get("apiVersion"))
        return make_checkpoint(inputs, live, properties, manager, api_version)


def _is_silent_in_preview(error: ApiError | NoMatchError) -> bool:
    if isinstance(error, NoMatchError):
        return True
    exists = error.reason == "AlreadyExists"
    return error.code == HTTP_FORBIDDEN or error.is_missing_namespace or exists


def _explain(error: ApiError | InitError | WaitForError) -> str:
    if isinstance(error, ApiError) and error.code == HTTP_CONFLICT:
        return f"{CONFLICT_HELP}: {error}"
    return str(error)


def _importable(live: JsonMap) -> JsonMap:
    """Returns what an imported object's inputs are: all that is not the cluster's own."""
    return {key: item for key, item in normalize(live).items() if key != "status"}

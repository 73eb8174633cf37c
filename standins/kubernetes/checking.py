"""Check and Diff of Kubernetes objects: names, namespaces, and what a change means."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pulumi.runtime.proto import provider_pb2

from standins.kubernetes.client import NoMatchError, ServedKind, UnreachableError
from standins.kubernetes.diff import (
    FieldDiff,
    diff_fields,
    normalize,
    prune,
    without_ignored,
)
from standins.kubernetes.force_new import IDENTITY, force_new_fields
from standins.kubernetes.identity import (
    Gvk,
    is_autonamed,
    is_named,
    name_of,
    namespace_of,
    parse_gvk,
    parse_urn,
    set_autoname,
    set_namespace,
    unique_name,
)
from standins.kubernetes.settings import Cluster
from standins.kubernetes.state import open_checkpoint
from standins.kubernetes.values import (
    JsonMap,
    annotate_secrets,
    as_map,
    as_text,
    copy_map,
    dig,
    from_struct,
    to_dashed,
    to_struct,
)
from standins.values import reveal

MANAGED_BY = "app.kubernetes.io/managed-by"


class InputError(Exception):
    """Inputs that cannot become an object."""


@dataclass(slots=True)
class ScopeBook:
    """Which kinds have a namespace, as far as the program itself defines them by CRDs."""

    _namespaced: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self, crd: JsonMap) -> None:
        """Notes the scope of the kind that a CustomResourceDefinition defines."""
        group = as_text(dig(crd, "spec", "group"))
        kind = as_text(dig(crd, "spec", "names", "kind"))
        scope = as_text(dig(crd, "spec", "scope"))
        if group and kind and scope:
            with self._lock:
                self._namespaced[(group, kind)] = scope == "Namespaced"

    def look_up(self, gvk: Gvk) -> bool | None:
        """Returns what is known about a kind; None where nothing is."""
        with self._lock:
            return self._namespaced.get((gvk.group, gvk.kind))


def is_patch(type_token: str, inputs: JsonMap) -> bool:
    """Says whether a resource only patches an object that belongs to someone else."""
    kind = type_token.rsplit(":", 1)[-1]
    return kind.endswith("Patch") and as_text(inputs.get("kind")) != kind


@dataclass(frozen=True, slots=True)
class Checker:
    """Answers Check and Diff for one configured cluster."""

    cluster: Cluster
    scopes: ScopeBook

    def served(self, gvk: Gvk) -> ServedKind | None:
        """Looks up how the cluster serves a kind; None where it does not, or cannot be asked."""
        if self.cluster.client is None:
            return None
        try:
            return self.cluster.client.served(gvk)
        except (NoMatchError, UnreachableError):
            return None

    def is_namespaced(self, gvk: Gvk) -> bool:
        """Says whether a kind has a namespace; an unknown kind is taken to have one."""
        served = self.served(gvk)
        if served is not None:
            return served.namespaced
        known = self.scopes.look_up(gvk)
        if known is not None:
            return known
        return not gvk.is_built_in_cluster_kind

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """Completes a resource's inputs.

        Raises:
            InputError: The inputs ask for something that the plugin does not do.
        """
        urn = parse_urn(request.urn)
        news = from_struct(request.news)
        old = as_map(reveal(from_struct(request.olds)))
        new = normalize(as_map(to_dashed(reveal(news))))
        self._check_patch(urn.type_token, new)
        if old:
            if not is_named(new) and is_autonamed(old):
                set_autoname(new, name_of(old))
        elif not is_named(new):
            set_autoname(new, _autoname(request, f"{urn.name}-"))
        if not old or dig(old, "metadata", "labels", MANAGED_BY) == "pulumi":
            self._label(new, was_labelled=bool(old))
        gvk = parse_gvk(new, urn.type_token)
        if not namespace_of(new) and self.is_namespaced(gvk):
            set_namespace(new, self.cluster.namespace)
        if gvk.kind == "CustomResourceDefinition":
            self.scopes.learn(new)
        checked = copy_map(new)
        annotate_secrets(checked, news)
        return provider_pb2.CheckResponse(inputs=to_struct(checked))

    def _check_patch(self, type_token: str, new: JsonMap) -> None:
        if is_patch(type_token, new):
            if not self.cluster.settings.server_side_apply:
                raise InputError(
                    "patch resources require Server-Side Apply mode, which is enabled using the "
                    "`enableServerSideApply` Provider config"
                )
            if not is_named(new):
                raise InputError("patch resources require the `.metadata.name` field to be set")
        if as_text(dig(new, "metadata", "generateName")) and not is_named(new):
            raise InputError(
                "the `.metadata.generateName` field is not supported in Server-Side Apply mode"
            )

    def _label(self, new: JsonMap, *, was_labelled: bool) -> None:
        # Server-side apply records its managers itself; only client-side apply needs a label.
        if self.cluster.settings.server_side_apply and not was_labelled:
            return
        metadata = as_map(new.get("metadata"))
        labels = {**as_map(metadata.get("labels")), MANAGED_BY: "pulumi"}
        new["metadata"] = {**metadata, "labels": labels}

    def diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """Compares new inputs with the live state of the last run, as far as it was declared."""
        type_token = parse_urn(request.urn).type_token
        checkpoint = open_checkpoint(from_struct(request.olds))
        new = normalize(as_map(to_dashed(reveal(from_struct(request.news)))))
        gvk = parse_gvk(new, type_token)
        old = prune(normalize(checkpoint.live), normalize(checkpoint.inputs))
        self._align(gvk, old, new, checkpoint.live)
        fields = without_ignored(
            diff_fields(
                old, new, force_new=self._force_new(type_token, gvk, new), built_in=gvk.is_built_in
            ),
            list(request.ignoreChanges),
        )
        same_name = name_of(new) == name_of(checkpoint.live)
        same_namespace = namespace_of(new) == namespace_of(checkpoint.live)
        return diff_response(
            fields,
            delete_before_replace=bool(name_of(new))
            and not is_autonamed(new)
            and same_name
            and same_namespace,
        )

    def _align(self, gvk: Gvk, old: JsonMap, new: JsonMap, live: JsonMap) -> None:
        """Takes away differences in place that only come from how an object was written."""
        if self.is_namespaced(gvk):
            set_namespace(old, namespace_of(old) or "default")
            set_namespace(new, namespace_of(new) or "default")
        else:
            set_namespace(old, "")
            set_namespace(new, "")
        old.setdefault("apiVersion", gvk.api_version)
        old.setdefault("kind", gvk.kind)
        if name_of(new):
            old["metadata"] = {**as_map(old.get("metadata")), "name": name_of(live)}

    def _force_new(self, type_token: str, gvk: Gvk, new: JsonMap) -> tuple[str, ...]:
        if is_patch(type_token, new):
            return IDENTITY
        settings = self.cluster.settings
        return force_new_fields(
            gvk,
            new,
            mutable_config_maps=settings.mutable_config_maps,
            mutable_secrets=settings.mutable_secrets,
        )


def diff_response(
    fields: list[FieldDiff], *, delete_before_replace: bool
) -> provider_pb2.DiffResponse:
    """Writes field differences as the engine's answer."""
    replaces = [one.text for one in fields if one.replaces]
    kinds = {
        ("add", False): provider_pb2.PropertyDiff.ADD,
        ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
        ("delete", False): provider_pb2.PropertyDiff.DELETE,
        ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
        ("update", False): provider_pb2.PropertyDiff.UPDATE,
        ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
    }
    detailed = {
        one.text: provider_pb2.PropertyDiff(
            kind=kinds[(one.change, one.replaces)], inputDiff=one.change == "delete"
        )
        for one in fields
    }
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if fields else none,
        replaces=replaces,
        deleteBeforeReplace=bool(replaces) and delete_before_replace,
        diffs=sorted({str(one.path[0]) for one in fields}),
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )


def _autoname(request: provider_pb2.CheckRequest, prefix: str) -> str:
    options = request.autonaming
    if request.HasField("autonaming"):
        if options.mode == provider_pb2.CheckRequest.AutonamingOptions.DISABLE:
            raise InputError(
                "autonaming is disabled, resource requires the .metadata.name field to be set"
            )
        if options.proposed_name:
            return options.proposed_name
    return unique_name(prefix, request.randomSeed)

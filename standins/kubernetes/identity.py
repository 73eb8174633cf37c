"""Who an object is: its URN, kind, name, id, and the annotations that steer the plugin."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from standins.kubernetes.values import JsonMap, as_map, as_text, dig
from standins.values import is_unknown

ANNOTATION_AUTONAMED = "pulumi.com/autonamed"
ANNOTATION_SKIP_AWAIT = "pulumi.com/skipAwait"
ANNOTATION_WAIT_FOR = "pulumi.com/waitFor"
ANNOTATION_TIMEOUT_S = "pulumi.com/timeoutSeconds"
ANNOTATION_PATCH_FORCE = "pulumi.com/patchForce"
ANNOTATION_FIELD_MANAGER = "pulumi.com/patchFieldManager"
ANNOTATION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
RELEASE_TYPE = "kubernetes:helm.sh/v3:Release"

_RANDOM_HEX_DIGITS = 8  # Pulumi's default length of a random suffix

# Kinds of the built-in groups without a namespace; used only where discovery cannot be asked.
_BUILT_IN_CLUSTER_KINDS = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "FlowSchema",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)


@dataclass(frozen=True, slots=True)
class Urn:
    """The two parts of a resource's URN that the plugin uses."""

    type_token: str
    name: str


@dataclass(frozen=True, slots=True)
class Gvk:
    """Group, version and kind of an object; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_built_in(self) -> bool:
        """Says whether the kind ships with Kubernetes itself."""
        return "." not in self.group or self.group.endswith(".k8s.io")

    @property
    def is_built_in_cluster_kind(self) -> bool:
        """Says whether the kind is a built-in one without a namespace."""
        return self.is_built_in and self.kind in _BUILT_IN_CLUSTER_KINDS


def parse_urn(urn: str) -> Urn:
    """Parses `urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`."""
    parts = urn.split("::", 3)
    types = parts[2] if len(parts) > 3 else ""  # noqa: PLR2004 - a URN has four parts
    return Urn(types.rsplit("$", 1)[-1], parts[-1])


def parse_gvk(obj: JsonMap, type_token: str = "") -> Gvk:
    """Reads the kind of an object, or of its type token where the object does not name one."""
    api_version, kind = as_text(obj.get("apiVersion")), as_text(obj.get("kind"))
    if not (api_version and kind):
        _, api_version, kind = type_token.split(":", 2)
    group, _, version = api_version.rpartition("/")
    return Gvk("" if group == "core" else group, version, kind)


def name_of(obj: JsonMap) -> str:
    """Returns `metadata.name` where it is known, else an empty string."""
    return as_text(dig(obj, "metadata", "name"))


def namespace_of(obj: JsonMap) -> str:
    """Returns `metadata.namespace`, or an empty string."""
    return as_text(dig(obj, "metadata", "namespace"))


def set_namespace(obj: JsonMap, namespace: str) -> None:
    """Sets `metadata.namespace` in place; an empty namespace removes it."""
    metadata = as_map(obj.get("metadata"))
    if namespace:
        obj["metadata"] = {**metadata, "namespace": namespace}
    elif "namespace" in metadata:
        obj["metadata"] = {key: item for key, item in metadata.items() if key != "namespace"}


def id_of(namespace: str, name: str) -> str:
    """Returns the resource id: `namespace/name`, or the name of a cluster-scoped object."""
    return f"{namespace}/{name}" if namespace else name


def parse_id(resource_id: str) -> tuple[str, str]:
    """Parses a resource id into namespace (empty where there is none) and name."""
    namespace, _, name = resource_id.rpartition("/")
    return namespace, name


def annotation(obj: JsonMap, key: str) -> str:
    """Returns the value of an annotation, or an empty string."""
    return as_text(dig(obj, "metadata", "annotations", key))


def is_autonamed(obj: JsonMap) -> bool:
    """Says whether the object carries the mark of a name that the plugin chose."""
    return annotation(obj, ANNOTATION_AUTONAMED) == "true"


def is_named(obj: JsonMap) -> bool:
    """Says whether the object has a name, known or still unknown."""
    metadata = obj.get("metadata")
    return is_unknown(metadata) or bool(name_of(obj))


def set_autoname(obj: JsonMap, name: str) -> None:
    """Names the object in place and marks it as named by the plugin."""
    metadata = as_map(obj.get("metadata"))
    annotations = metadata.get("annotations")
    if not is_unknown(annotations):
        annotations = {**as_map(annotations), ANNOTATION_AUTONAMED: "true"}
    obj["metadata"] = {**metadata, "name": name, "annotations": annotations}


def unique_name(prefix: str, seed: bytes) -> str:
    """Returns `prefix` and eight hexadecimal digits; the same ones for the same seed."""
    if not seed:
        return prefix + secrets.token_hex(_RANDOM_HEX_DIGITS // 2)
    digest = hashlib.sha256(seed + prefix.encode()).hexdigest()
    return prefix + digest[:_RANDOM_HEX_DIGITS]


def field_manager_of(obj: JsonMap, state: JsonMap) -> str:
    """Returns the field manager: the object's annotation, else the state's, else a new one."""
    chosen = annotation(obj, ANNOTATION_FIELD_MANAGER) or as_text(state.get("__fieldManager"))
    return chosen or unique_name("pulumi-kubernetes-", b"")


def timeout_s_of(obj: JsonMap, custom_s: float, default_s: float = 600.0) -> float:
    """Returns the time to wait for an object, in seconds.

    The resource's custom timeout wins over `pulumi.com/timeoutSeconds`, and that over the
    default of ten minutes (Pulumi's documentation of await logic).
    """
    if custom_s > 0:
        return custom_s
    text = annotation(obj, ANNOTATION_TIMEOUT_S)
    return float(text) if text.isdigit() else default_s

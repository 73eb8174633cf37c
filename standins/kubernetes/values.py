"""Reading and reshaping property values as Kubernetes objects.

The wire format itself (secrets, unknowns) is `standins.values`; here are the parts that only
Kubernetes needs.
"""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from google.protobuf import struct_pb2

from standins.values import Properties, Value, decode, encode, has_secret, is_secret, seal

Json: TypeAlias = Value
JsonMap: TypeAlias = Properties

_DASHED_PREFIX = "x-kubernetes-"
_UNDERSCORED_PREFIX = "x_kubernetes_"
_RENAMED = {"_ref": "$ref", "_schema": "$schema"}


def as_map(value: Json) -> JsonMap:
    """Returns the value if it is a map, else an empty map."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Returns the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def as_text(value: Json) -> str:
    """Returns the value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def as_int(value: Json) -> int:
    """Returns the value as an integer, or 0 where it is no number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(cast("float", value)) if is_number else 0


def dig(value: Json, *path: str) -> Json:
    """Returns what lies at a path of map keys, or None where the path ends early."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def parse_json(text: str | bytes) -> Json:
    """Parses JSON text into a typed value."""
    return cast("Json", json.loads(text))


def _integral(value: Json) -> Json:
    """Turns 3.0 into 3: the wire format has floats only, Kubernetes wants integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return value


def from_struct(struct: struct_pb2.Struct) -> JsonMap:
    """Reads a protobuf struct as a JSON map with integers where numbers are integral."""
    return as_map(_integral(decode(struct)))


def to_struct(value: JsonMap) -> struct_pb2.Struct:
    """Writes a JSON map as a protobuf struct."""
    return encode(value)


def copy_map(value: JsonMap) -> JsonMap:
    """Returns a deep copy."""
    return as_map(parse_json(json.dumps(value)))


def annotate_secrets(outs: JsonMap, ins: JsonMap) -> None:
    """Marks in place what was secret in the inputs as secret in the outputs.

    Maps are walked, so that one secret leaf does not hide its whole object; a list with a secret
    is hidden whole, because servers may reorder it. `data` and `stringData` of a Secret always are
    secret.
    """
    if outs.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in outs:
                outs[key] = seal(outs[key])
        return
    for key, value in ins.items():
        out = outs.get(key)
        if key not in outs or is_secret(out):
            continue
        if isinstance(out, dict) and isinstance(value, dict) and not is_secret(value):
            annotate_secrets(out, value)
        elif has_secret(value):
            outs[key] = seal(out)


def to_dashed(value: Json) -> Json:
    """Gives CRD schema keys their Kubernetes spelling (`x_kubernetes_…` to `x-kubernetes-…`)."""
    if isinstance(value, dict):
        return {_dashed(key): to_dashed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_dashed(item) for item in value]
    return value


def to_underscored(value: Json) -> Json:
    """Gives CRD schema keys the spelling of the typed SDKs, the reverse of `to_dashed`."""
    if isinstance(value, dict):
        return {_underscored(key): to_underscored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_underscored(item) for item in value]
    return value


def _dashed(key: str) -> str:
    if key.startswith(_UNDERSCORED_PREFIX):
        return key.replace("_", "-")
    return _RENAMED.get(key, key)


def _underscored(key: str) -> str:
    if key.startswith(_DASHED_PREFIX):
        return key.replace("-", "_")
    return next((ours for ours, theirs in _RENAMED.items() if theirs == key), key)

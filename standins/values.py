"""Property values as they travel between engine and provider: secrets, unknowns, plain JSON.

The signatures are the engine's own (sdk/go/common/resource/sig, plugin.Unknown*Value).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

from google.protobuf import json_format, struct_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

Value: TypeAlias = "bool | float | str | list[Value] | dict[str, Value] | None"
Properties: TypeAlias = "dict[str, Value]"

SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a public marker
ASSET_SIGNATURE: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE_SIGNATURE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWNS: Final = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string, and what the SDKs send for any type
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def decode(struct: struct_pb2.Struct) -> Properties:
    """Return a message's properties as plain Python values, secrets still wrapped."""
    return {key: _decode_value(value) for key, value in struct.fields.items()}


def encode(properties: Mapping[str, Value]) -> struct_pb2.Struct:
    """Return properties as the message that the engine reads."""
    struct = struct_pb2.Struct()
    json_format.ParseDict(dict(properties), struct)
    return struct


def is_secret(value: Value) -> bool:
    """Return whether this very value is wrapped as a secret."""
    return isinstance(value, dict) and value.get(SIGNATURE_KEY) == SECRET_SIGNATURE


def is_unknown(value: Value) -> bool:
    """Return whether this very value is not known yet."""
    return isinstance(value, str) and value in UNKNOWNS


def seal(value: Value) -> Value:
    """Wrap a value as a secret, once."""
    if is_secret(value):
        return value
    return {SIGNATURE_KEY: SECRET_SIGNATURE, "value": value}


def reveal(value: Value) -> Value:
    """Return the value with every secret wrapper, at any depth, taken off."""
    if isinstance(value, dict):
        if is_secret(value):
            return reveal(value.get("value"))
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def has_secret(value: Value) -> bool:
    """Return whether a secret is in the value, at any depth."""
    if is_secret(value):
        return True
    if isinstance(value, dict):
        return any(has_secret(item) for item in value.values())
    return isinstance(value, list) and any(has_secret(item) for item in value)


def has_unknown(value: Value) -> bool:
    """Return whether an unknown is in the value, at any depth."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return is_unknown(value)


def _decode_value(value: struct_pb2.Value) -> Value:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return decode(value.struct_value)
    if kind == "list_value":
        return [_decode_value(item) for item in value.list_value.values]
    if kind is None or kind == "null_value":
        return None
    return cast("bool | float | str", getattr(value, kind))

"""Upstream manifests that ride along: packed once from a pinned release, read at plan time.

`python -m components.kubernetes.vendored RELEASE.yaml TARGET.json.gz` packs one: comments go, and
so do the descriptions of CRDs, three quarters of them, which validate nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, cast

import yaml
from pydantic import JsonValue, TypeAdapter

from components.kubernetes.manifest import Body

_TEXTS: Final = frozenset({"description"})


def without_texts(value: JsonValue, *, in_properties: bool = False) -> JsonValue:
    """The same schema without its descriptions; a property that is called `description` stays."""
    if isinstance(value, list):
        return [without_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_texts(item, in_properties=key == "properties" and not in_properties)
        for key, item in value.items()
        if in_properties or key not in _TEXTS
    }


_BODIES: Final = TypeAdapter(list[Body])


@cache
def _packed(package: str, name: str) -> bytes:
    return resources.files(package).joinpath("vendor", name).read_bytes()


def load_vendored(package: str, name: str) -> list[Body]:
    """Read the objects of one packed release, in their order.

    Args:
        package: The room that owns it, for example `components.jobs`.
        name: File below its `vendor` folder, ending in `.json.gz`.
    """
    return _BODIES.validate_json(gzip.decompress(_packed(package, name)))


def pack(text: str) -> bytes:
    """Pack the objects of a multi-document YAML; the same text gives the same bytes."""
    bodies = _BODIES.validate_python([body for body in yaml.safe_load_all(text) if body])
    plain = [
        cast("Body", without_texts(body)) if body["kind"] == "CustomResourceDefinition" else body
        for body in bodies
    ]
    packed = json.dumps(plain, separators=(",", ":"), sort_keys=True).encode()
    return gzip.compress(packed, mtime=0)


def main() -> None:
    """Pack one file, named by the arguments."""
    source, target = (Path(argument) for argument in sys.argv[1:3])
    target.write_bytes(pack(source.read_text("utf-8")))


if __name__ == "__main__":
    main()

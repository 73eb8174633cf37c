"""A Helm release as its secret has it: the objects that it rendered, and its chart's definitions.

Source: Helm's storage driver for secrets (`pkg/storage/driver/secrets.go`): type
`helm.sh/release.v1`, the record in base64 of gzipped JSON; the API adds a base64 of its own.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import yaml

from components.core.errors import DeviceError
from components.kubernetes.manifest import Body

DEPLOYED: Final = "deployed"
_DEFINITION: Final = "CustomResourceDefinition"
_DEFINITIONS: Final = "crds/"
"""Helm makes the files of this folder of a chart at the first install, and never again."""


@dataclass(frozen=True, slots=True)
class ReleaseRef:
    """Which release."""

    name: str
    namespace: str

    @property
    def secrets(self) -> str:
        """The path of its secrets in the API."""
        selector = f"labelSelector=owner%3Dhelm,name%3D{self.name}"
        return f"/api/v1/namespaces/{self.namespace}/secrets?{selector}"


@dataclass(frozen=True, slots=True)
class Release:
    """What Helm recorded of the newest revision that counts."""

    status: str
    """`deployed`, or what Helm says of the newest revision."""
    revision: int
    objects: tuple[Body, ...] = field(default=(), repr=False)
    """In the order in which Helm makes them; hooks are none of them."""
    definitions: tuple[Body, ...] = field(default=(), repr=False)
    """Of the chart's own folder `crds`; a chart within it keeps its own to itself."""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a date is a text, and so is `10:30`, which is no base 60."""


_INT: Final = "tag:yaml.org,2002:int"
_OTHERWISE: Final = frozenset({"tag:yaml.org,2002:timestamp", _INT})
_Resolvers: TypeAlias = dict[str, list[tuple[str, re.Pattern[str]]]]
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in each if tag not in _OTHERWISE]
    for first, each in cast("_Resolvers", yaml.CSafeLoader.yaml_implicit_resolvers).items()
}
_WHOLE: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
for _first in "-+0123456789":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).append((_INT, _WHOLE))


def choose_release(secrets: Iterable[Body], ref: ReleaseRef) -> Release | None:
    """The release that is deployed, else the newest revision with its status; None without any.

    Raises:
        DeviceError: The record cannot be read.
    """
    by_number = sorted(secrets, key=_number, reverse=True)
    deployed = [each for each in by_number if _labels(each).get("status") == DEPLOYED]
    newest = [each for each in by_number if _labels(each).get("status") != "superseded"]
    if not (chosen := (*newest[:1], *deployed[:1])):
        return None
    release = _parse(chosen[-1], ref)
    status = str(_labels(chosen[0]).get("status"))
    return Release(status, _number(chosen[0]), release.objects, release.definitions)


def _labels(secret: Body) -> dict[str, Any]:
    return cast("dict[str, Any]", cast("Any", secret["metadata"]).get("labels") or {})


def _number(secret: Body) -> int:
    return int(_labels(secret).get("version", 0))


def _parse(secret: Body, ref: ReleaseRef) -> Release:
    try:
        packed = base64.b64decode(base64.b64decode(cast("Any", secret["data"])["release"]))
        record = json.loads(gzip.decompress(packed))
        objects = tuple(_documents(record["manifest"]))
        definitions = [each for text in _definitions(record) for each in _documents(text)]
    except (KeyError, TypeError, ValueError, OSError, yaml.YAMLError) as error:
        raise DeviceError(
            f"the record of the Helm release {ref.namespace}/{ref.name} cannot be read: {error}.\n"
            f"  fix    look at it: helm status {ref.name} --namespace {ref.namespace}"
        ) from error
    crds = tuple(each for each in definitions if each.get("kind") == _DEFINITION)
    return Release(DEPLOYED, 0, objects, crds)


def _definitions(record: Any) -> Iterator[str]:  # noqa: ANN401 - a JSON document
    files = cast("list[dict[str, str]]", record.get("chart", {}).get("files") or [])
    for each in files:
        if each["name"].startswith(_DEFINITIONS):
            yield base64.b64decode(each["data"]).decode()


def _documents(text: str) -> Iterator[Body]:
    load = cast("Callable[..., Iterable[Any]]", yaml.load_all)
    for document in load(text, Loader=_Loader):
        if not isinstance(document, dict):
            continue
        body = cast("Body", document)
        items = body.get("items")
        if str(body.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from cast("list[Body]", items)
        elif "kind" in body:
            yield body

"""Reading objects of any kind, and the record of a Helm release. Read-only.

The API says which path serves a kind. A release consists of the objects that it rendered and its
chart's definitions, as its secret records them. Source: Helm's storage driver for secrets
(`pkg/storage/driver/secrets.go`): type `helm.sh/release.v1`, the record in base64 of gzipped JSON;
the API adds a second base64.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

import yaml

from components.core.errors import DeviceError, UnreachableError
from components.core.record import record
from components.core.templates import fault_text
from components.kubernetes.client import Answer, Calls
from components.kubernetes.manifest import Body, map_at, name_of

AT_ONCE: Final = 8
"""Number of concurrent requests."""
DEADLINE_S: Final = 60.0
"""Seconds for all reads of one cluster."""
MANY: Final = 4
"""More objects of a kind in a namespace are read faster by one list than one by one."""
PAGE: Final = 500
"""Objects in one page of a list, as kubectl asks for."""
_FOUND: Final = 200
_NOT_FOUND: Final = 404
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
DEPLOYED: Final = "deployed"
_DEFINITION: Final = "CustomResourceDefinition"
_DEFINITIONS: Final = "crds/"
"""Helm creates the files of this chart folder at the first install, and never again."""
_INT: Final = "tag:yaml.org,2002:int"
_OTHERWISE: Final = frozenset({"tag:yaml.org,2002:timestamp", _INT})
_Resolvers: TypeAlias = dict[str, list[tuple[str, re.Pattern[str]]]]
_WHOLE: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")


@record
class Key:
    """The name of an object in a cluster."""

    api_version: str
    kind: str
    namespace: str
    """Empty for a cluster-wide object, once its kind is known to be cluster-wide."""
    name: str

    def __str__(self) -> str:
        """The name in reports: `DaemonSet kube-system/multus`."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


@record
class Served:
    """The path that serves the objects of one kind."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of the list of all."""
        group = "/apis" if "/" in self.api_version else "/api"
        place = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{group}/{self.api_version}{place}/{self.plural}{f'/{name}' if name else ''}"


@record
class Live:
    """Wanted objects, each with its live object."""

    objects: tuple[tuple[Key, Body, Body | None], ...] = ()
    """Name, wanted, live; None if it does not exist."""


@dataclass(slots=True)
class Reader:
    """One read of a cluster, with one deadline; a DeviceError says what the API refused."""

    calls: Calls
    clock: Callable[[], float] = time.monotonic
    _ends: float = field(init=False)
    _served: dict[str, Mapping[str, Served]] = field(init=False, default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Start the deadline now."""
        self._ends = self.clock() + DEADLINE_S

    def learn(self, bodies: Iterable[Body]) -> None:
        """Ask the API which path serves each of the kinds."""
        versions = {str(body["apiVersion"]) for body in bodies} - self._served.keys()

        def discover(version: str) -> Mapping[str, Served]:
            answer = self._get(f"{'/apis' if '/' in version else '/api'}/{version}")
            return {
                str(each["kind"]): Served(version, each["name"], bool(each["namespaced"]))
                for each in cast("list[Any]", answer.body.get("resources") or [])
                if "/" not in each["name"]
            }

        self._served |= self.each(discover, sorted(versions))

    def served(self, body: Body) -> Served | None:
        """The path that serves the kind of an object; None if the cluster does not know it."""
        return self._served.get(str(body["apiVersion"]), {}).get(str(body["kind"]))

    def key(self, body: Body, namespace: str = "default") -> Key:
        """The key of an object, in this namespace if it names none and its kind is known."""
        served, metadata = self.served(body), cast("Body", body["metadata"])
        own = metadata.get("namespace") or ("" if served is None else namespace)
        whole = served is not None and not served.namespaced
        name = str(metadata["name"])
        return Key(str(body["apiVersion"]), str(body["kind"]), "" if whole else str(own), name)

    def read(self, bodies: Sequence[Body], namespace: str = "default") -> Live:
        """The live objects of these names; `namespace` is that of objects that do not name one."""
        self.learn(bodies)
        places: dict[tuple[Served, str], set[Key]] = {}
        keys = [self.key(body, namespace) for body in bodies]
        for key, body in zip(keys, bodies, strict=True):
            if (served := self.served(body)) is not None:
                places.setdefault((served, key.namespace), set()).add(key)
        # Few objects of a kind are read one by one, and many by a list.
        singly: dict[str, Key] = {}
        lists: dict[str, set[Key]] = {}
        for (served, place), wanted in places.items():
            if len(wanted) > MANY:
                lists[served.path(place)] = wanted
            else:
                singly |= {served.path(place, key.name): key for key in wanted}
        answers = self.each(self._get, sorted(singly))
        found = ((singly[path], answer) for path, answer in answers.items())
        there = {key: dict(answer.body) for key, answer in found if answer.status == _FOUND}
        for path, listed in self.each(self.list, sorted(lists)).items():
            by_name = {name_of(body): body for body in listed}
            there |= {key: by_name[key.name] for key in lists[path] if key.name in by_name}
        pairs = zip(keys, bodies, strict=True)
        return Live(tuple((key, body, there.get(key)) for key, body in pairs))

    def list(self, path: str) -> list[Body]:
        """All objects of a list, page by page; empty if the kind is not served."""
        found, sign, following = list[Body](), "&" if "?" in path else "?", ""
        while True:
            body = self._get(f"{path}{sign}limit={PAGE}{following}").body
            found += cast("list[Body]", body.get("items") or [])
            token: object = cast("Body", body.get("metadata") or {}).get("continue")
            if not token:
                return found
            following = f"&continue={token}"

    def each(self, ask: Callable[[_Item], _Result], items: Sequence[_Item]) -> dict[_Item, _Result]:
        """Send several requests in parallel, within the deadline of this reader."""
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            answers = pool.map(ask, items, timeout=max(0.0, self._ends - self.clock()))
            return dict(zip(items, answers, strict=True))
        except LateError as error:
            words = f"the cluster did not answer all requests within {DEADLINE_S:.0f} s"
            raise UnreachableError(words) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _get(self, path: str) -> Answer:
        """The answer: an object, or status 404."""
        answer = self.calls.call("GET", path)
        if answer.status not in {_FOUND, _NOT_FOUND}:
            raise DeviceError(f"the cluster refused GET {path}: {answer.status} {answer.words}")
        return answer


@record
class ReleaseRef:
    """Which release."""

    name: str
    namespace: str

    def __str__(self) -> str:
        """The name in reports: `Helm release gpu-operator/gpu-operator`."""
        return f"Helm release {self.namespace}/{self.name}"

    @property
    def secrets(self) -> str:
        """The path of its secrets in the API."""
        selector = f"labelSelector=owner%3Dhelm,name%3D{self.name}"
        return f"/api/v1/namespaces/{self.namespace}/secrets?{selector}"


@record
class Release:
    """Helm's record of the deployed revision, else of the newest."""

    status: str
    """`deployed`, or Helm's status of the newest revision."""
    revision: int
    objects: tuple[Body, ...] = field(default=(), repr=False)
    """In the order in which Helm makes them; without hooks."""
    definitions: tuple[Body, ...] = field(default=(), repr=False)
    """Of the chart's own folder `crds`, without those of charts within it."""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a date is a text, and so is `10:30`, not a base-60 number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in each if tag not in _OTHERWISE]
    for first, each in cast("_Resolvers", yaml.CSafeLoader.yaml_implicit_resolvers).items()
}
for _first in "-+0123456789":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).append((_INT, _WHOLE))


def choose_release(secrets: Iterable[Body], ref: ReleaseRef) -> Release | None:
    """The deployed release, else the newest revision with its status; None without any."""
    rows = [({"version": 0, **map_at(each, "metadata", "labels")}, each) for each in secrets]
    rows.sort(key=lambda row: int(row[0]["version"]), reverse=True)
    newest = next((row for row in rows if row[0].get("status") != "superseded"), None)
    deployed = next((row for row in rows if row[0].get("status") == DEPLOYED), None)
    if (first := newest or deployed) is None:
        return None
    secret = (deployed or first)[1]
    try:
        packed = base64.b64decode(base64.b64decode(cast("Any", secret["data"])["release"]))
        record = json.loads(gzip.decompress(packed))
        objects = tuple(_documents(record["manifest"]))
        files = cast("list[dict[str, str]]", record.get("chart", {}).get("files") or [])
        texts = [each["data"] for each in files if each["name"].startswith(_DEFINITIONS)]
        bodies = [each for text in texts for each in _documents(base64.b64decode(text).decode())]
    except (KeyError, TypeError, ValueError, OSError, yaml.YAMLError) as error:
        words = {"namespace": ref.namespace, "name": ref.name, "error": error}
        raise DeviceError(fault_text(__file__, "release-record", **words)) from error
    definitions = tuple(each for each in bodies if each.get("kind") == _DEFINITION)
    return Release(str(first[0].get("status")), int(first[0]["version"]), objects, definitions)


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

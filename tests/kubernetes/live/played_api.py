"""A small API server in memory: it serves kinds, keeps objects, and merges patches."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

from components.core.errors import UnreachableError
from components.kubernetes.client import Answer, Body

CLUSTER_WIDE: Final = {
    "Namespace",
    "Node",
    "ClusterRole",
    "CustomResourceDefinition",
    "ClusterPolicy",
}
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": ("Namespace", "Node", "ConfigMap", "ServiceAccount", "Secret", "ResourceQuota"),
    "apps/v1": ("Deployment", "DaemonSet"),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
}
PLURALS: Final = {"NetworkPolicy": "networkpolicies", "ClusterPolicy": "clusterpolicies"}


def load(text: str) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", each) for each in yaml.safe_load_all(text)]


def release_secret(
    manifest: str, *, status: str = "deployed", version: int = 1, **files: str
) -> dict[str, Any]:
    """A release as Helm stores it, packed by hand: gzip, Helm's base64, the API's base64."""
    chart = {
        "metadata": {"name": "gpu-operator"},
        "files": [
            {"name": f"crds/{name}.yaml", "data": base64.b64encode(text.encode()).decode()}
            for name, text in files.items()
        ],
    }
    record = {"name": "gpu-operator", "version": version, "manifest": manifest, "chart": chart}
    packed = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    name = f"sh.helm.release.v1.gpu-operator.v{version}"
    labels = {"owner": "helm", "name": "gpu-operator", "status": status, "version": str(version)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "gpu-operator", "labels": labels},
        "data": {"release": base64.b64encode(packed).decode()},
    }


@dataclass
class PlayedApi:
    """`Calls` over objects in memory."""

    kinds: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(KINDS))
    objects: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By path."""
    asked: list[str] = field(default_factory=list[str])
    refuses: str = ""
    """A part of the paths that answer 403."""
    silent: bool = False
    page: int = 500

    def put(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.objects[self.path(body)] = body

    def path(self, body: Mapping[str, Any]) -> str:
        version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
        place = (
            "" if kind in CLUSTER_WIDE else f"/namespaces/{metadata.get('namespace', 'default')}"
        )
        root = f"/api{'s' if '/' in version else ''}/{version}"
        return f"{root}{place}/{plural(kind)}/{metadata['name']}"

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        self.asked.append(f"{method} {path}")
        if self.silent:
            raise UnreachableError(f"the cluster did not answer {method} {path}: refused")
        if self.refuses and self.refuses in path:
            return Answer(403, json.dumps({"message": f"may not read {self.refuses}"}))
        if method == "POST":
            return self._made(path, dict(body or {}))
        place, _, query = path.partition("?")
        if method == "PATCH":
            merge(self.objects[place], body or {})
        version = place.removeprefix("/apis/").removeprefix("/api/")
        if version in self.kinds:
            resources = [
                {"name": plural(kind), "kind": kind, "namespaced": kind not in CLUSTER_WIDE}
                for kind in self.kinds[version]
            ]
            status = {"name": "nodes/status", "kind": "Node", "namespaced": False}
            return answer({"resources": [*resources, status]})
        if place in self.objects:
            return answer(self.objects[place])
        if query or place.endswith("/nodes"):
            return self._listed(place, dict(part.split("=", 1) for part in query.split("&")))
        return Answer(404, json.dumps({"message": f"{place} not found"}))

    def _made(self, path: str, body: dict[str, Any]) -> Answer:
        if body["kind"] == "CustomResourceDefinition":
            spec = body["spec"]
            self.kinds[f"{spec['group']}/v1"] = (spec["names"]["kind"],)
        self.objects[f"{path}/{body['metadata']['name']}"] = body
        return Answer(201, json.dumps(body))

    def _listed(self, place: str, query: Mapping[str, str]) -> Answer:
        items = [
            body
            for path, body in sorted(self.objects.items())
            if path.rpartition("/")[0] == place and _selected(body, query.get("labelSelector", ""))
        ]
        begin = int(query.get("continue", 0))
        more = {"continue": str(begin + self.page)} if len(items) > begin + self.page else {}
        return answer({"items": items[begin : begin + self.page], "metadata": more})


def _selected(body: Mapping[str, Any], selector: str) -> bool:
    labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
    pairs = [part.split("%3D") for part in selector.split(",") if part]
    return all(labels.get(key) == value for key, value in pairs)


def plural(kind: str) -> str:
    return PLURALS.get(kind, f"{kind.lower()}s")


def merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], cast("Mapping[str, Any]", value))
        else:
            target[key] = value


def answer(body: object) -> Answer:
    return Answer(200, json.dumps(body))

"""What manifests say of pods, wherever in an object a pod is: the images, and who may pull them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final, cast

from pydantic import JsonValue

from components.artefacts.resolve import PULL_SECRET
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec

_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def pods_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every pod in an object: what has a list of containers."""
    if isinstance(value, list):
        for item in value:
            yield from pods_in(item)
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for item in value.values():
            yield from pods_in(item)


def containers_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every container of every pod in an object."""
    for pod in pods_in(value):
        for key in _LISTS:
            for item in cast("list[JsonValue]", pod.get(key) or []):
                if isinstance(item, dict):
                    yield item


def with_image(body: Body, image: str) -> Body:
    """The same object with another image in all its containers."""
    changed = copy.deepcopy(body)
    for container in containers_in(changed):
        container["image"] = image
    return changed


def pulling(spec: ClusterSpec, body: Body) -> Body:
    """The same object, whose pods pull with the registry's login where the site has one.

    The login is a Secret of their namespace: `components/kubernetes/login.py` makes it.
    """
    registry = spec.sources.registry
    if registry is None or registry.login is None:
        return body
    changed = copy.deepcopy(body)
    for pod in pods_in(changed):
        pod["imagePullSecrets"] = [{"name": PULL_SECRET}]
    return changed

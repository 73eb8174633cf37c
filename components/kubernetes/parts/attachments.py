"""An attachment of others against the one that we would make: what decides over the path. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from components.kubernetes.fields import list_at, map_at
from components.kubernetes.manifest import Body

RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
"""The annotation by which Multus takes a device of a resource."""
_DECIDING: Final = ("type", "vlan", "master", "pkey")
"""Keys of a CNI configuration that put a pod onto another network when they differ."""


def attachment_differences(want: Body, live: Body | None) -> tuple[str, ...]:
    """Where an attachment does not lead onto the rail; addresses are their owner's matter."""
    if live is None:
        return ()
    return tuple(_differences(want, live))


def _differences(want: Body, live: Body) -> Iterator[str]:
    asked, found = _resource(want), _resource(live)
    if asked != found:
        yield f"{RESOURCE} is {found or 'absent'}, want {asked or 'none'}"
    ours, theirs = _main_plugin(want), _main_plugin(live)
    if theirs is None:
        yield "its configuration is no JSON"
        return
    for key in _DECIDING:
        value = (ours or {}).get(key)
        if theirs.get(key) != value:
            wanted = "none" if value is None else value
            yield f"{key} is {theirs.get(key, 'absent')}, want {wanted}"
    mtu, least = _mtu(live), _mtu(want)
    if mtu and least and mtu < least:
        yield f"mtu is {mtu}, want {least}"


def _resource(body: Body) -> str:
    return str(map_at(body, "metadata", "annotations").get(RESOURCE, ""))


def _plugins(body: Body) -> list[Mapping[str, Any]] | None:
    text = map_at(body, "spec").get("config") or ""
    try:
        document: object = json.loads(text)
    except ValueError:
        return None
    return list_at(document, "plugins") or [map_at(document)]


def _main_plugin(body: Body) -> Mapping[str, Any] | None:
    plugins = _plugins(body)
    return plugins[0] if plugins else None


def _mtu(body: Body) -> int:
    return max((int(each["mtu"]) for each in _plugins(body) or [] if each.get("mtu")), default=0)

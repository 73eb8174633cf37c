"""`/etc/rancher/k3s/registries.yaml`: where a node's containerd pulls from.

Source: K3s' documentation, "Private Registry Configuration" (sources.md#k3s).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from components.artefacts.listing import artefacts_of
from components.artefacts.naming import parse_image, registry_host, registry_path
from components.model.cluster import ClusterSpec
from components.model.jobs import DOCKER_HUB
from components.model.sources import Registry

CA_FILE: Final = "registry-ca.crt"
PASSWORD_MARK: Final = "@registry-password@"  # noqa: S105 - the place of a secret, not one
"""`scripts/registry.sh` puts the password there."""
_PLAIN: Final = re.compile(r"[a-z_]+")
_UPSTREAM: Final = (DOCKER_HUB, "ghcr.io", "nvcr.io", "quay.io", "registry.k8s.io")
"""Whatever a chart or K3s itself names is asked of the site's registry too."""


def render_registries(spec: ClusterSpec) -> str:
    """The file of every node; empty where nothing differs from upstream."""
    plane, registry = spec.k3s, spec.sources.registry
    short = plane.registry_mirror if plane else None
    mirrors: dict[str, object] = {}
    if short is not None:
        mirrors[short] = {"endpoint": [f"http://{short}"]}
    if registry is None:
        return "" if short is None else _render({"mirrors": mirrors})
    host = registry_host(registry)
    scheme = "http" if registry.insecure else "https"
    for name in sorted(upstream_registries(spec) - {host, short}):
        below = f"{registry_path(registry)}{name.replace(':', '_')}"
        mirrors[name] = {
            "endpoint": [f"{scheme}://{host}"],
            "rewrite": {"^(.*)$": f"{below}/$1"},
        }
    mirrors[host] = {"endpoint": [f"{scheme}://{host}"]}
    configs = _config(registry)
    return _render(
        {"configs": {host: configs}, "mirrors": mirrors} if configs else {"mirrors": mirrors}
    )


def upstream_registries(spec: ClusterSpec) -> set[str]:
    """The registries that images of the site are named in, and those that charts may name."""
    return {*_UPSTREAM} | {
        parse_image(each.address).registry for each in artefacts_of(spec) if each.kind == "image"
    }


def _config(registry: Registry) -> dict[str, object]:
    found: dict[str, object] = {}
    if registry.login is not None:
        found["auth"] = {"username": registry.login.user, "password": PASSWORD_MARK}
    if registry.ca is not None:
        found["tls"] = {"ca_file": f"/etc/rancher/k3s/{CA_FILE}"}
    return found


def _render(value: Mapping[str, object]) -> str:
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    """Every text in double quotes, which YAML 1.1 and 1.2 read alike; keys where they need it."""
    if isinstance(value, Mapping):
        for key, item in sorted(cast("Mapping[str, object]", value).items()):
            name = key if _PLAIN.fullmatch(key) else json.dumps(key)
            if isinstance(item, str):
                yield f"{name}: {json.dumps(item)}"
            else:
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(item))
    else:
        for item in cast("list[object]", value):
            yield f"- {json.dumps(item)}"

"""Helm charts as `.tgz`, made for tests, with values of the form that NVIDIA's have."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import yaml

GPU_VALUES: dict[str, object] = {
    "nfd": {"enabled": True},
    "operator": {"repository": "nvcr.io/nvidia", "image": "gpu-operator"},
    "driver": {
        "enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07",
    },
    "devicePlugin": {
        "enabled": True, "repository": "nvcr.io/nvidia", "image": "k8s-device-plugin",
        "version": "v0.19.3", "imagePullSecrets": list[str](),
    },
    "dcgm": {"enabled": False, "repository": "nvcr.io/nvidia", "image": "dcgm", "version": "4"},
}  # fmt: skip
NFD_VALUES = {"image": {"repository": "registry.k8s.io/nfd/node-feature-discovery"}}


def make_chart(name: str, version: str, values: object, note: str = "") -> bytes:
    """A chart with one sub-chart; the same input gives the same bytes."""
    nfd = {"name": "node-feature-discovery", "version": "0.18.2", "condition": "nfd.enabled"}
    chart = {
        "apiVersion": "v2", "name": name, "version": version, "appVersion": version,
        "description": note, "dependencies": [nfd],
    }  # fmt: skip
    below = {"apiVersion": "v2", "name": nfd["name"], "version": "0.18.2", "appVersion": "v0.18.2"}
    files = {
        "Chart.yaml": chart,
        "values.yaml": values,
        "charts/node-feature-discovery/Chart.yaml": below,
        "charts/node-feature-discovery/values.yaml": {
            "image": {**NFD_VALUES["image"], "tag": None}
        },
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            body = yaml.safe_dump(content).encode()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return gzip.compress(packed.getvalue(), mtime=0)


def make_index(address: str, charts: dict[tuple[str, str], bytes]) -> bytes:
    """The index of a repository; addresses are absolute, as NVIDIA's are."""
    entries: dict[str, list[dict[str, object]]] = {}
    for (name, version), body in charts.items():
        listed: dict[str, object] = {
            "name": name, "version": version, "digest": hashlib.sha256(body).hexdigest(),
            "urls": [f"{address}/charts/{name}-{version}.tgz"],
        }  # fmt: skip
        entries.setdefault(name, []).append(listed)
    return yaml.safe_dump({"apiVersion": "v1", "entries": entries}).encode()

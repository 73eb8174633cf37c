"""The images of charts: what their values name, and what the lock makes of that."""

from __future__ import annotations

from datetime import date

from components.artefacts.lock import Entry, Lock
from components.artefacts.pin import images_of_chart
from components.artefacts.resolve import resolved
from components.model.cluster import ClusterSpec
from components.model.sources import Registry, Sources
from tests.artefacts.charts import GPU_VALUES, make_chart
from tests.golden.site import load_example

OPERATOR = "nvcr.io/nvidia/gpu-operator:v26.7.0"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"
NFD = "registry.k8s.io/nfd/node-feature-discovery:v0.18.2"
IMAGES = {
    "operator#image": OPERATOR,
    "devicePlugin#image": PLUGIN,
    "node-feature-discovery.image#tag": NFD,
}


def test_a_driver_whose_tag_hosts_complete_is_no_image_yet() -> None:
    archive = make_chart("gpu-operator", "v26.7.0", GPU_VALUES)
    assert images_of_chart(archive, "gpu-operator", {}) == IMAGES


def test_the_device_plugin_has_a_v_before_its_release() -> None:
    values = {"image": {"repository": "nvcr.io/nvidia/k8s-device-plugin", "tag": ""}}
    for name, tag in (("nvidia-device-plugin", "v0.19.3"), ("another", "0.19.3")):
        archive = make_chart(name, "0.19.3", values | {"nfd": {"enabled": False}})
        found = images_of_chart(archive, name, {})
        assert found == {"image#tag": f"nvcr.io/nvidia/k8s-device-plugin:{tag}"}


def entry(name: str, kind: str, address: str, version: str, sha256: str) -> Entry:
    return Entry.model_validate(
        {
            "name": name,
            "kind": kind,
            "address": address,
            "version": version,
            "sha256": sha256,
            "size": 1,
            "pinned": date(2026, 1, 2),
        }
    )


def chart_values(spec: ClusterSpec) -> object:
    """The values of the GPU operator with a lock of its chart and images."""
    address = "https://helm.ngc.nvidia.com/nvidia/gpu-operator"
    chart = entry("gpu-operator", "chart", address, "v26.7.0", "cc" * 32)
    entries = [chart.model_copy(update={"images": IMAGES})]
    for image, digit in ((OPERATOR, "a"), (PLUGIN, "b"), (NFD, "d")):
        entries.append(entry(image, "image", image, image.rpartition(":")[2], digit * 64))
    gpu = resolved(spec, Lock({each.key: each for each in entries}, exists=True)).operators.gpu
    assert gpu is not None
    return gpu.values


def test_charts_run_the_images_of_the_lock() -> None:
    operator = f"v26.7.0@sha256:{'a' * 64}"
    assert chart_values(load_example("dgx-roce")) == {
        "operator": {"repository": "nvcr.io/nvidia", "version": operator, "tag": operator},
        "devicePlugin": {"repository": "nvcr.io/nvidia", "version": f"v0.19.3@sha256:{'b' * 64}"},
        "node-feature-discovery": {
            "image": {
                "repository": "registry.k8s.io/nfd/node-feature-discovery",
                "tag": f"v0.18.2@sha256:{'d' * 64}",
            }
        },
    }


def test_charts_pull_from_a_registry_with_its_login() -> None:
    login = {"user": "puller", "password": {"secret": "registry_password"}}
    registry = Registry.model_validate({"address": "r.example:5000", "login": login})
    spec = load_example("dgx-roce")
    found = chart_values(spec.model_copy(update={"sources": Sources(registry=registry)}))
    operator = f"v26.7.0@sha256:{'a' * 64}"
    assert found == {
        "operator": {
            "repository": "r.example:5000/nvcr.io/nvidia",
            "version": operator,
            "tag": operator,
            "imagePullSecrets": ["railyard-registry"],
        },
        "devicePlugin": {
            "repository": "r.example:5000/nvcr.io/nvidia",
            "version": f"v0.19.3@sha256:{'b' * 64}",
            "imagePullSecrets": ["railyard-registry"],
        },
        "node-feature-discovery": {
            "imagePullSecrets": [{"name": "railyard-registry"}],
            "image": {
                "repository": "r.example:5000/registry.k8s.io/nfd/node-feature-discovery",
                "tag": f"v0.18.2@sha256:{'d' * 64}",
            },
        },
    }

"""The YAML of a rendered chart, as the API server reads it."""

from __future__ import annotations

from components.kubernetes.live.read import ReleaseRef, choose_release
from tests.kubernetes.live.played_api import release_secret

TEXT = """
kind: List
items:
- kind: X
  metadata: {name: x}
  spec:
    day: 2026-01-01
    clock: 10:30
    mode: 0644
    count: -7
    ratio: 0.5
    large: 1_000
    switch: on
    nothing: ~
    hex: 0x1F
    version: 1.2.3
"""


def test_scalars_are_what_the_api_server_takes_them_for() -> None:
    """Source: sigs.k8s.io/yaml, which Helm reads manifests with."""
    found = choose_release([release_secret(TEXT)], ReleaseRef("gpu-operator", "gpu-operator"))
    assert found is not None
    (body,) = found.objects
    assert body["spec"] == {
        "day": "2026-01-01",
        "clock": "10:30",
        "mode": 420,
        "count": -7,
        "ratio": 0.5,
        "large": 1000,
        "switch": True,
        "nothing": None,
        "hex": 31,
        "version": "1.2.3",
    }

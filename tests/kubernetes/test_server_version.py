"""The version of an existing cluster, read from a real API."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from components.core.errors import DeviceError, UnreachableError
from components.kubernetes.planes.base import KubernetesPlan
from components.model.kubernetes import ExistingPlane
from components.update.cluster import minor_of, open_existing
from lab.cluster.plane import ControlPlane
from tests.golden.site import changed_spec, load_example
from tests.kubernetes.plans import planned

SECRET = "kubeconfig"


def plan_of(version: str) -> KubernetesPlan:
    plane = ExistingPlane(plane="existing", version=version)
    return planned(changed_spec(load_example("dgx-roce"), kubernetes=plane))


@pytest.mark.cluster
def test_the_same_minor_is_taken_and_another_is_refused(plane: ControlPlane) -> None:
    secret = plane.kubeconfig.read_text()
    open_existing(plan_of("v1.36.0"), {SECRET: secret})
    with pytest.raises(DeviceError, match=r"runs Kubernetes v1\.36\.\S+, the file says v1\.35\.2"):
        open_existing(plan_of("v1.35.2"), {SECRET: secret})


@pytest.mark.cluster
def test_a_refused_credential_is_named(plane: ControlPlane) -> None:
    document = json.loads(plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": "nobody"}
    with pytest.raises(DeviceError, match="refuses the kubeconfig"):
        open_existing(plan_of("v1.36.0"), {SECRET: json.dumps(document)})


def test_nobody_there_is_unreachable() -> None:
    text = (
        "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:9'"
        "}}]\nusers: [{name: a, user: {token: x}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
    )
    with pytest.raises(UnreachableError):
        open_existing(plan_of("v1.36.0"), {SECRET: text})


def test_a_plan_of_our_own_is_left_alone() -> None:
    assert open_existing(replace(plan_of("v1.36.0"), existing=None), {SECRET: ""}) is None


@pytest.mark.parametrize(
    ("text", "minor"), [("v1.36.3+k3s1", (1, 36)), ("1.30", (1, 30)), ("newest", None)]
)
def test_minors(text: str, minor: tuple[int, int] | None) -> None:
    assert minor_of(text) == minor

"""A release with holes is put back from its own record; what cannot be is said."""

from __future__ import annotations

import itertools

import pytest

from components.core.errors import DeviceError
from components.kubernetes.live.look import judge_look, read_cluster
from components.operators.restore import restore_release
from tests.kubernetes.live.played_api import PlayedApi, release_secret
from tests.kubernetes.live.test_look import (
    ASKED,
    CHART,
    CRD_PATH,
    OPERATOR_PATH,
    POLICY_PATH,
    RELEASE,
    api,
)

__all__ = ["api"]


def restored(api: PlayedApi) -> list[str]:
    ticks = itertools.count()
    return [str(key) for key in restore_release(api, RELEASE, lambda: float(next(ticks)))]


def test_nothing_is_written_where_nothing_differs(api: PlayedApi) -> None:
    assert restored(api) == []
    assert not [each for each in api.asked if not each.startswith("GET ")]


def test_a_definition_is_made_before_the_object_that_went_with_it(api: PlayedApi) -> None:
    del api.objects[CRD_PATH], api.objects[POLICY_PATH], api.kinds["nvidia.com/v1"]
    del api.objects[OPERATOR_PATH]
    assert restored(api) == [
        "CustomResourceDefinition clusterpolicies.nvidia.com",
        "Deployment gpu-operator/gpu-operator",
        "ClusterPolicy cluster-policy",
    ]
    assert judge_look(read_cluster(api, ASKED)).lines == ()


def test_an_edited_object_is_patched_and_keeps_what_others_put_on_it(api: PlayedApi) -> None:
    api.objects[POLICY_PATH]["spec"]["driver"]["version"] = "470"
    api.objects[POLICY_PATH]["metadata"]["annotations"] = {"of": "another"}
    assert restored(api) == ["ClusterPolicy cluster-policy"]
    assert api.objects[POLICY_PATH]["spec"] == {"driver": {"enabled": False, "version": "580"}}
    assert api.objects[POLICY_PATH]["metadata"]["annotations"] == {"of": "another"}


def test_a_release_that_is_gone_is_the_engines(api: PlayedApi) -> None:
    del api.objects[api.path(release_secret(CHART))]
    assert restored(api) == []


def test_a_definition_that_the_chart_does_not_bring_is_named(api: PlayedApi) -> None:
    api.put(release_secret(CHART))
    del api.objects[CRD_PATH], api.objects[POLICY_PATH], api.kinds["nvidia.com/v1"]
    with pytest.raises(
        DeviceError, match="ClusterPolicy cluster-policy: the cluster does not serve"
    ):
        restored(api)


def test_an_object_that_is_changed_again_at_once_is_named(
    api: PlayedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.objects[POLICY_PATH]["spec"]["driver"]["version"] = "470"

    def keep(target: object, patch: object) -> None:
        """A controller of another kind writes its own value back before the next look."""
        del target, patch

    monkeypatch.setattr("tests.kubernetes.live.played_api.merge", keep)
    with pytest.raises(DeviceError, match=r"was put back, and spec\.driver\.version is"):
        restored(api)

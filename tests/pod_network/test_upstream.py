"""No plugin may do more in the cluster, or see more of a node, than its own release asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.disruption.node import PLUGIN_SOCKETS
from components.model.cluster import ClusterSpec
from components.pod_network.manifests import rule
from components.pod_network.pod_network_plan import plan_pod_network
from tests.pod_network.sites import make_site

UPSTREAM: Final = yaml.safe_load((Path(__file__).parent / "upstream.yaml").read_text("utf-8"))


def site(plugin: str) -> ClusterSpec:
    """A site of an existing cluster, whose CNI folders have upstream's names."""
    return make_site("macvlan" if plugin == "rdma-shared-dp-ds" else "sriov", "roce", "existing")


def bodies(plugin: str, kind: str) -> list[Any]:
    found: list[Any] = [
        each.body for each in plan_pod_network(site(plugin)).manifests if each.kind == kind
    ]
    return [body for body in found if body["metadata"]["name"] == plugin]


def rights(rules: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
    for each in rules:
        yield from product(each["apiGroups"], each["resources"], each["verbs"])


@pytest.mark.parametrize("plugin", UPSTREAM)
def test_a_plugin_has_no_right_that_its_release_does_not_ask_for(plugin: str) -> None:
    rules: list[Any] = [rule(*each) for each in UPSTREAM[plugin]["rights"]]
    asked = set(rights(rules))
    given = {right for body in bodies(plugin, "ClusterRole") for right in rights(body["rules"])}
    assert given <= asked
    assert bool(given) == bool(asked)


@pytest.mark.parametrize("plugin", UPSTREAM)
def test_a_plugin_sees_of_a_node_what_its_release_mounts(plugin: str) -> None:
    (body,) = bodies(plugin, "DaemonSet")
    volumes = body["spec"]["template"]["spec"]["volumes"]
    folders = [each["hostPath"]["path"] for each in volumes if "hostPath" in each]
    assert sorted(folders) == sorted(UPSTREAM[plugin]["sees"])


@pytest.mark.parametrize("plugin", ["sriov-device-plugin", "rdma-shared-dp-ds"])
def test_a_host_in_service_again_restarts_its_device_plugins(plugin: str) -> None:
    """It finds them by the folder of their sockets."""
    (body,) = bodies(plugin, "DaemonSet")
    volumes = body["spec"]["template"]["spec"]["volumes"]
    assert PLUGIN_SOCKETS in [each["hostPath"]["path"] for each in volumes if "hostPath" in each]

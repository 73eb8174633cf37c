"""The provider itself: its configuration, and clusters that do not answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from standins.kubernetes.values import JsonMap, as_map, dig
from standins.values import UNKNOWN, Properties
from tests.standins.kubernetes.protocol import Handle, PluginError, PluginProcess, Resource

pytestmark = pytest.mark.cluster  # helm comes with the cluster's binaries
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RELEASE = "kubernetes:helm.sh/v3:Release"


def kubeconfig_for(server: str, user: str = "t") -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": user}}],
    }
    return yaml.safe_dump(document)


NOWHERE = kubeconfig_for("https://127.0.0.1:9")


def config_map(value: str) -> JsonMap:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": "default"},
        "data": {"a": value},
    }


@pytest.fixture
def recorded() -> Resource:
    """State as an earlier run left it."""
    inputs = config_map("1")
    metadata = {**as_map(inputs["metadata"]), "uid": "u-1"}
    state: Properties = {**inputs, "metadata": metadata, "__inputs": inputs}
    return Resource("default/cm", {**state, "__fieldManager": "pulumi-kubernetes-1"}, inputs)


@pytest.fixture(scope="module")
def lost(start: Callable[[], PluginProcess]) -> PluginProcess:
    process = start()
    process.configure({"kubeconfig": NOWHERE})
    return process


def test_previews_of_an_unreachable_cluster_work_from_state(
    lost: PluginProcess, recorded: Resource
) -> None:
    handle = Handle(lost, CONFIG_MAP)
    assert dig(handle.preview(config_map("1")), "data", "a") == "1"
    assert not handle.diff(recorded, config_map("1")).changed
    found = handle.diff(recorded, config_map("2"))
    assert list(found.kinds) == ["data.a"]
    assert handle.update(recorded, config_map("2"), preview=True).state["data"] == {"a": "2"}


def test_changes_on_an_unreachable_cluster_are_errors(
    lost: PluginProcess, recorded: Resource
) -> None:
    handle = Handle(lost, CONFIG_MAP)
    for action in (
        lambda: handle.create(config_map("1")),
        lambda: handle.update(recorded, config_map("2")),
        lambda: handle.refresh(recorded),
        lambda: handle.delete(recorded),
    ):
        with pytest.raises(PluginError, match="unreachable"):
            action()


def test_delete_unreachable_drops_objects_but_not_releases(
    start: Callable[[], PluginProcess], recorded: Resource
) -> None:
    process = start()
    process.configure({"kubeconfig": NOWHERE, "deleteUnreachable": "true"})
    handle = Handle(process, CONFIG_MAP)
    assert handle.refresh(recorded) is None
    handle.delete(recorded)
    with pytest.raises(PluginError, match="unreachable"):
        Handle(process, RELEASE).delete(Resource("default/x", {"name": "x"}))


def test_skip_update_unreachable_hides_changes(
    start: Callable[[], PluginProcess], recorded: Resource
) -> None:
    process = start()
    process.configure({"kubeconfig": NOWHERE, "skipUpdateUnreachable": "true"})
    handle = Handle(process, CONFIG_MAP)
    assert not handle.diff(recorded, config_map("2")).changed
    refreshed = handle.refresh(recorded)
    assert refreshed is not None
    assert refreshed.state == recorded.state


def test_an_unusable_kubeconfig_is_an_unreachable_cluster(
    start: Callable[[], PluginProcess],
) -> None:
    process = start()
    process.configure({"kubeconfig": "no such file and no map"})
    with pytest.raises(PluginError, match="unreachable"):
        Handle(process, CONFIG_MAP).create(config_map("1"))


def test_a_namespace_of_the_provider_is_the_default(
    start: Callable[[], PluginProcess],
) -> None:
    process = start()
    process.configure({"kubeconfig": NOWHERE, "namespace": "team"})
    bare: JsonMap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}}
    assert dig(Handle(process, CONFIG_MAP).check(bare), "metadata", "namespace") == "team"
    role: JsonMap = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
    }
    token = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
    assert dig(Handle(process, token).check(role), "metadata", "namespace") is None


def test_another_server_replaces_unless_the_cluster_identifier_stays(
    lost: PluginProcess,
) -> None:
    other = kubeconfig_for("https://127.0.0.1:8")
    _, replaces = lost.diff_config({"kubeconfig": NOWHERE}, {"kubeconfig": other})
    assert replaces == ["kubeconfig"]
    named: JsonMap = {"kubeconfig": NOWHERE, "clusterIdentifier": "dev"}
    assert lost.diff_config(named, {**named, "kubeconfig": other}) == (["kubeconfig"], [])
    assert lost.diff_config(named, {**named, "kubeconfig": UNKNOWN}) == (["kubeconfig"], [])
    _, replaces = lost.diff_config(named, {**named, "clusterIdentifier": "prod"})
    assert replaces == ["clusterIdentifier"]
    _, replaces = lost.diff_config({"kubeconfig": NOWHERE}, named)
    assert replaces == []


def test_other_credentials_for_the_same_server_do_not_replace(lost: PluginProcess) -> None:
    rotated = kubeconfig_for("https://127.0.0.1:9", user="u")
    diffs, replaces = lost.diff_config({"kubeconfig": NOWHERE}, {"kubeconfig": rotated})
    assert (diffs, replaces) == (["kubeconfig"], [])


def test_an_unknown_kubeconfig_replaces(lost: PluginProcess) -> None:
    _, replaces = lost.diff_config({"kubeconfig": NOWHERE}, {"kubeconfig": UNKNOWN})
    assert replaces == ["kubeconfig"]

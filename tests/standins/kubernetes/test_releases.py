from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from standins.kubernetes.client import ApiError, Client
from standins.kubernetes.values import Json, JsonMap, dig
from standins.values import UNKNOWN, is_secret, reveal, seal
from tests.standins.kubernetes.protocol import Handle, InitFailed, PluginError, PluginProcess

pytestmark = pytest.mark.cluster
RELEASE = "kubernetes:helm.sh/v3:Release"


def release(chart: Path, namespace: str, **values: Json) -> JsonMap:
    return {
        "chart": str(chart),
        "name": "wid",
        "namespace": namespace,
        "compat": "true",
        "timeout": 60,
        "values": {**values},
    }


def color(cluster: Client, namespace: str) -> Json:
    path = f"/api/v1/namespaces/{namespace}/configmaps/wid-config"
    return dig(cluster.request("GET", path), "data", "color")


def test_install_upgrade_read_and_uninstall(
    plugin: PluginProcess, cluster: Client, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    made = handle.create(release(chart, namespace, color="blue"))
    assert made.id == f"{namespace}/wid"
    assert color(cluster, namespace) == "blue"
    assert dig(made.state, "status", "status") == "deployed"
    assert dig(made.state, "status", "revision") == 1
    assert made.state["version"] == "1.2.3"
    assert dig(made.plain, "resourceNames", "Deployment.apps/apps/v1") == ["wid-app"]
    assert is_secret(made.state["__inputs"])
    refreshed = handle.refresh(made)
    assert refreshed is not None
    assert not handle.diff(refreshed, release(chart, namespace, color="blue")).changed
    assert handle.diff(made, release(chart, namespace, color="green")).kinds == {
        "values.color": "UPDATE"
    }
    after = handle.update(made, release(chart, namespace, color="green"))
    assert color(cluster, namespace) == "green"
    assert dig(after.state, "status", "revision") == 2
    handle.delete(after)
    assert handle.refresh(after) is None
    with pytest.raises(ApiError, match="not found"):
        color(cluster, namespace)


def test_create_namespace_and_the_preview(
    plugin: PluginProcess, cluster: Client, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    wanted = release(chart, f"{namespace}-new", color="red")
    seen = handle.preview(wanted)
    assert seen["status"] == UNKNOWN
    with pytest.raises(PluginError, match="not found"):
        handle.create(wanted)
    made = handle.create({**wanted, "createNamespace": True})
    assert color(cluster, f"{namespace}-new") == "red"
    handle.delete(made)


def test_a_removed_value_and_another_name_are_differences(
    plugin: PluginProcess, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    made = handle.create(release(chart, namespace, color="blue", extra="1"))
    assert handle.diff(made, release(chart, namespace, color="blue")).kinds == {
        "values.extra": "DELETE"
    }
    renamed = {**release(chart, namespace, color="blue", extra="1"), "name": "other"}
    assert handle.diff(made, renamed).replaces == ("name",)
    handle.delete(made)


def test_a_new_chart_version_is_a_difference_and_an_edit_without_one_is_not(
    plugin: PluginProcess, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    wanted = release(chart, namespace)
    made = handle.create(wanted)
    values = chart / "values.yaml"
    values.write_text(values.read_text().replace("red", "yellow"))
    assert not handle.diff(made, wanted).changed
    manifest = chart / "Chart.yaml"
    manifest.write_text(manifest.read_text().replace("1.2.3", "1.2.4"))
    assert handle.diff(made, wanted).kinds == {"version": "UPDATE"}
    after = handle.update(made, wanted)
    assert dig(after.state, "status", "version") == "1.2.4"
    handle.delete(after)


def test_a_failed_install_is_kept_with_a_warning_and_repaired_by_an_update(
    plugin: PluginProcess, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    stuck = {**release(chart, namespace, cpu="100000"), "timeout": 3}
    with pytest.raises(InitFailed, match="failed to initialize completely") as caught:
        handle.create(stuck)
    half = caught.value.resource
    assert dig(half.state, "status", "status") == "failed"
    assert any("has a failed status" in text for text in plugin.engine.messages)
    done = handle.update(half, release(chart, namespace, cpu="1m"))
    assert dig(done.state, "status", "status") == "deployed"
    handle.delete(done)


def test_atomic_installs_leave_nothing_and_atomic_upgrades_roll_back(
    plugin: PluginProcess, cluster: Client, namespace: str, chart: Path
) -> None:
    handle = Handle(plugin, RELEASE)
    stuck = {**release(chart, namespace, cpu="100000"), "timeout": 3, "atomic": True}
    with pytest.raises(PluginError, match="wid") as caught:
        handle.create(stuck)
    assert not isinstance(caught.value, InitFailed)
    made = handle.create(release(chart, namespace, color="blue"))
    worse = {**release(chart, namespace, color="green", cpu="100000"), "atomic": True}
    with pytest.raises(PluginError):
        handle.update(made, {**worse, "timeout": 3})
    assert color(cluster, namespace) == "blue"
    handle.delete(made)


def test_skip_await_does_not_wait(plugin: PluginProcess, namespace: str, chart: Path) -> None:
    handle = Handle(plugin, RELEASE)
    made = handle.create({**release(chart, namespace, cpu="100000"), "skipAwait": True})
    assert dig(made.state, "status", "status") == "deployed"
    handle.delete(made)


def test_a_chart_that_refuses_this_kubernetes_is_refused(
    plugin: PluginProcess, namespace: str, chart: Path
) -> None:
    manifest = chart / "Chart.yaml"
    manifest.write_text(manifest.read_text() + "kubeVersion: '>= 9.0.0'\n")
    with pytest.raises(PluginError, match="kubeVersion"):
        Handle(plugin, RELEASE).create(release(chart, namespace))


def test_a_missing_chart_is_a_failed_check(plugin: PluginProcess, namespace: str) -> None:
    with pytest.raises(PluginError, match="check the chart name"):
        Handle(plugin, RELEASE).check(release(Path("no-such-chart"), namespace))
    unknown = {**release(Path("no-such-chart"), namespace), "version": UNKNOWN}
    assert Handle(plugin, RELEASE).check(unknown)["version"] == UNKNOWN


def test_secret_values_and_value_files(
    plugin: PluginProcess, cluster: Client, namespace: str, chart: Path
) -> None:
    asset: Json = {
        "4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17",
        "text": "color: filed\nreplicas: 0\n",
    }
    wanted = release(chart, namespace, color=seal("hidden"))
    made = Handle(plugin, RELEASE).create({**wanted, "valueYamlFiles": [asset]})
    assert color(cluster, namespace) == "hidden"
    assert is_secret(dig(made.state, "values", "color"))
    assert dig(reveal(made.state), "values", "replicas") == 0
    Handle(plugin, RELEASE).delete(made)


def test_kinds_of_a_chart_are_known_at_preview(
    start: Callable[[], PluginProcess], kubeconfig: str, namespace: str, chart: Path
) -> None:
    process = start()
    process.configure({"kubeconfig": kubeconfig})
    (chart / "crds" / "gadget.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: gadgets.lab.example}\n"
        "spec: {group: lab.example, scope: Cluster, names: {kind: Gadget, plural: gadgets}}\n"
    )
    gadget: JsonMap = {
        "apiVersion": "lab.example/v1",
        "kind": "Gadget",
        "metadata": {"name": "g"},
    }
    custom = Handle(process, "kubernetes:lab.example/v1:Gadget")
    assert dig(custom.check(gadget), "metadata", "namespace") == "default"
    Handle(process, RELEASE).check(release(chart, namespace))
    assert dig(custom.check(gadget), "metadata", "namespace") is None

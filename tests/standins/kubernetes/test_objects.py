from __future__ import annotations

import base64
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from standins.kubernetes.client import ApiError, Client
from standins.kubernetes.values import Json, JsonMap, as_list, as_map, dig
from standins.values import UNKNOWN, is_secret, seal
from tests.standins.kubernetes.protocol import (
    Handle,
    InitFailed,
    PluginError,
    PluginProcess,
)

pytestmark = pytest.mark.cluster
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def config_map(namespace: str, data: dict[str, Json], name: str = "cm") -> JsonMap:
    metadata: JsonMap = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def live(cluster: Client, namespace: str, name: str = "cm") -> JsonMap:
    return cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")


def managers(obj: JsonMap) -> set[tuple[Json, Json]]:
    entries = [as_map(entry) for entry in as_list(dig(obj, "metadata", "managedFields"))]
    return {(entry.get("manager"), entry.get("operation")) for entry in entries}


def test_a_created_object_is_recorded_with_its_live_state(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.create(config_map(namespace, {"a": "1"}))
    assert made.id == f"{namespace}/cm"
    assert dig(made.state, "metadata", "uid")
    assert dig(made.state, "__inputs", "data", "a") == "1"
    assert not handle.diff(made, config_map(namespace, {"a": "1"})).changed


def test_an_existing_object_is_refused_and_left_alone(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    Handle(plugin, CONFIG_MAP, "first").create(config_map(namespace, {"a": "1"}))
    with pytest.raises(PluginError, match="already exists") as caught:
        Handle(plugin, CONFIG_MAP, "second").create(config_map(namespace, {"a": "2"}))
    assert not isinstance(caught.value, InitFailed)
    assert dig(live(cluster, namespace), "data", "a") == "1"


def test_an_update_is_a_server_side_apply_that_removes_dropped_fields(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.create(config_map(namespace, {"a": "1", "b": "2"}))
    path = f"/api/v1/namespaces/{namespace}/configmaps/cm"
    patch: JsonMap = {"data": {"theirs": "x"}}
    cluster.request(
        "PATCH",
        path,
        query={"fieldManager": "someone"},
        body=patch,
        content_type="application/merge-patch+json",
    )
    after = handle.update(made, config_map(namespace, {"a": "9"}))
    now = live(cluster, namespace)
    assert now["data"] == {"a": "9", "theirs": "x"}
    applied = [str(name) for name, operation in managers(now) if operation == "Apply"]
    assert len(applied) == 1
    assert applied[0].startswith("pulumi-kubernetes-")
    again = handle.update(after, config_map(namespace, {"a": "10"}))
    assert dig(again.state, "__fieldManager") == applied[0]


def test_a_field_of_another_manager_is_a_conflict_unless_forced(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.update(
        handle.create(config_map(namespace, {"a": "1"})), config_map(namespace, {"a": "2"})
    )
    theirs: JsonMap = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm"},
        "data": {"a": "theirs"},
    }
    cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/cm",
        query={"fieldManager": "someone", "force": "true"},
        body=theirs,
        content_type="application/apply-patch+yaml",
    )
    with pytest.raises(InitFailed, match="conflict"):
        handle.update(made, config_map(namespace, {"a": "3"}))
    forced = config_map(namespace, {"a": "3"})
    metadata = as_map(forced["metadata"])
    forced["metadata"] = {**metadata, "annotations": {"pulumi.com/patchForce": "true"}}
    handle.update(made, forced)
    assert dig(live(cluster, namespace), "data", "a") == "3"


def test_a_hand_edit_shows_after_a_refresh_and_is_put_back(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    wanted = config_map(namespace, {"a": "1", "b": "2"})
    made = handle.create(wanted)
    cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/cm",
        query={"fieldManager": "kubectl-edit"},
        body={"data": {"a": "edited", "b": None}},
        content_type="application/merge-patch+json",
    )
    refreshed = handle.refresh(made)
    assert refreshed is not None
    found = handle.diff(refreshed, wanted)
    assert found.kinds == {"data.a": "UPDATE", "data.b": "ADD"}
    assert not found.replaces


def test_refresh_of_a_deleted_object_reports_it_gone(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.create(config_map(namespace, {"a": "1"}))
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/cm")
    assert handle.refresh(made) is None
    handle.delete(made)  # deleting what is gone is no error


def test_refresh_without_a_change_makes_no_difference(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, "kubernetes:apps/v1:DaemonSet")
    wanted: JsonMap = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "ds", "namespace": namespace, "labels": {}},
        "spec": {
            "selector": {"matchLabels": {"app": "ds"}},
            "template": {
                "metadata": {"labels": {"app": "ds"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "lab/none:1",
                            "securityContext": {"runAsUser": 0},
                            "resources": {"limits": {"memory": "1024Mi", "cpu": "1000m"}},
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                        }
                    ],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
            },
        },
    }
    made = handle.create(wanted)
    refreshed = handle.refresh(made)
    assert refreshed is not None
    assert handle.diff(refreshed, wanted).kinds == {}
    handle.delete(made)
    assert handle.refresh(made) is None


def test_names_are_given_kept_and_replaced(plugin: PluginProcess, namespace: str) -> None:
    handle = Handle(plugin, CONFIG_MAP, "web")
    unnamed: JsonMap = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace},
        "data": {"a": "1"},
    }
    made = handle.create(unnamed)
    name = str(dig(made.state, "metadata", "name"))
    assert name.startswith("web-")
    assert len(name) > len("web-") + 6
    assert dig(made.state, "metadata", "annotations", "pulumi.com/autonamed") == "true"
    assert not handle.diff(made, unnamed).changed
    renamed = handle.diff(made, config_map(namespace, {"a": "1"}, "fixed"))
    assert "metadata.name" in renamed.replaces
    assert not renamed.delete_first


def test_an_immutable_field_replaces_and_a_fixed_name_deletes_first(
    plugin: PluginProcess, namespace: str
) -> None:
    handle = Handle(plugin, "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding")

    def binding(role: str) -> JsonMap:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "rb", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        }

    found = handle.diff(handle.create(binding("one")), binding("two"))
    assert found.replaces == ("roleRef.name",)
    assert found.delete_first


def test_ignored_changes_stay_as_they_are_on_the_server(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.create(config_map(namespace, {"a": "1", "b": "1"}))
    wanted = config_map(namespace, {"a": "2", "b": "2"})
    assert set(handle.diff(made, wanted, ("data.a",)).kinds) == {"data.b"}
    handle.update(made, wanted, ignore=("data.a",))
    assert live(cluster, namespace)["data"] == {"a": "1", "b": "2"}


def test_the_preview_of_a_create_asks_the_server(plugin: PluginProcess, namespace: str) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:Service")
    service: JsonMap = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "svc", "namespace": namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    seen = handle.preview(service)
    assert dig(seen, "spec", "type") == "ClusterIP"  # a default that only the server knows
    assert "status" not in seen
    spec: JsonMap = {"ports": [{"port": 70000}]}
    with pytest.raises(PluginError, match="70000"):
        handle.preview({**service, "spec": spec})


def test_the_preview_in_a_namespace_to_come_and_of_unknowns_returns_inputs(
    plugin: PluginProcess,
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    wanted = config_map("not-yet", {"a": "1"})
    assert handle.preview(wanted)["data"] == {"a": "1"}
    assert handle.preview(config_map("default", {"a": UNKNOWN}))["data"] == {"a": UNKNOWN}


def test_the_preview_of_an_update_changes_nothing(
    plugin: PluginProcess, cluster: Client, namespace: str
) -> None:
    handle = Handle(plugin, CONFIG_MAP)
    made = handle.create(config_map(namespace, {"a": "1"}))
    seen = handle.update(made, config_map(namespace, {"a": "2"}), preview=True)
    assert dig(seen.state, "data", "a") == "2"
    assert dig(live(cluster, namespace), "data", "a") == "1"


def test_secrets_stay_secret(plugin: PluginProcess, cluster: Client, namespace: str) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:Secret")
    wanted: JsonMap = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": namespace},
        "stringData": {"password": "hunter2"},
    }
    made = handle.create(wanted)
    assert is_secret(made.state["data"])
    assert is_secret(as_map(made.state["__inputs"])["data"])
    assert "hunter2" not in str({k: v for k, v in made.state.items() if not is_secret(v)})
    stored = cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/s")
    assert dig(stored, "data", "password") == base64.b64encode(b"hunter2").decode()
    assert not handle.diff(made, wanted).changed
    changed = handle.diff(made, {**wanted, "stringData": {"password": "other"}})
    assert changed.replaces == ("data.password",)


def test_a_secret_input_of_another_kind_stays_secret(plugin: PluginProcess, namespace: str) -> None:
    wanted = config_map(namespace, {"open": "1", "token": seal("abc")})
    made = Handle(plugin, CONFIG_MAP).create(wanted)
    assert is_secret(dig(made.state, "data", "token"))
    assert dig(made.state, "data", "open") == "1"


def crd(group: str, kind: str, scope: str) -> JsonMap:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x_kubernetes_preserve_unknown_fields": True,
                        }
                    },
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def test_a_custom_resource_waits_for_its_definition(plugin: PluginProcess) -> None:
    group = f"g{uuid.uuid4().hex[:6]}.example.com"
    definition = Handle(plugin, "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
    custom = Handle(plugin, f"kubernetes:{group}/v1:Widget")
    wanted: JsonMap = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 3},
    }
    assert custom.preview(wanted)["spec"] == {"size": 3}  # no error before the definition exists
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(custom.create, wanted)
        crd_made = pool.submit(definition.create, crd(group, "Widget", "Cluster")).result(30)
        made = first.result(45)
    assert made.id == "w"
    assert dig(made.state, "metadata", "namespace") is None
    assert not custom.diff(made, wanted).changed
    assert not definition.diff(crd_made, crd(group, "Widget", "Cluster")).changed
    bigger: JsonMap = {**wanted, "spec": {"size": 4}}
    assert dig(custom.update(made, bigger).state, "spec", "size") == 4
    definition.delete(crd_made)
    assert custom.refresh(made) is None
    custom.delete(made)  # its kind is gone: that counts as deleted


def test_a_patch_resource_owns_only_its_fields(plugin: PluginProcess, cluster: Client) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:NodePatch")
    patch: JsonMap = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"rack": "r1"}},
    }
    made = handle.create(patch)
    node = cluster.request("GET", "/api/v1/nodes/node-1")
    assert dig(node, "metadata", "labels", "rack") == "r1"
    handle.delete(made)
    node = cluster.request("GET", "/api/v1/nodes/node-1")
    assert dig(node, "metadata", "labels", "rack") is None
    with pytest.raises(PluginError, match="name"):
        handle.check({"apiVersion": "v1", "kind": "Node", "metadata": {}})


def test_many_objects_at_once(plugin: PluginProcess, cluster: Client, namespace: str) -> None:
    def make(number: int) -> str:
        handle = Handle(plugin, CONFIG_MAP, f"many-{number}")
        return handle.create(config_map(namespace, {"n": str(number)}, f"many-{number}")).id

    with ThreadPoolExecutor(32) as pool:
        ids = list(pool.map(make, range(64)))
    assert len(set(ids)) == 64
    found = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps")
    assert len(as_list(found["items"])) == 65  # and the cluster's own root certificate


def test_a_deleted_namespace_is_waited_for(plugin: PluginProcess, cluster: Client) -> None:
    handle = Handle(plugin, "kubernetes:core/v1:Namespace")
    name = f"gone-{uuid.uuid4().hex[:6]}"
    made = handle.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    assert made.id == name
    handle.delete(made)
    with pytest.raises(ApiError, match="not found"):
        cluster.request("GET", f"/api/v1/namespaces/{name}")

"""What counts as a difference: pure, without a cluster."""

from __future__ import annotations

import pytest

from standins.kubernetes.diff import (
    diff_fields,
    merge_patch,
    normalize,
    parse_property_path,
    prune,
    without_ignored,
)
from standins.kubernetes.force_new import force_new_fields
from standins.kubernetes.helm import resource_names
from standins.kubernetes.identity import Gvk, parse_gvk, parse_urn, unique_name
from standins.kubernetes.managers import plan_takeover
from standins.kubernetes.quantity import same_quantity
from standins.kubernetes.values import Json, JsonMap, annotate_secrets, dig, to_dashed
from standins.values import UNKNOWN, is_secret, seal


def kinds(old: JsonMap, new: JsonMap, *force_new: str, built_in: bool = True) -> dict[str, str]:
    found = diff_fields(old, new, force_new=force_new, built_in=built_in)
    return {one.text: one.change + ("!" if one.replaces else "") for one in found}


def test_fields_are_named_in_the_engines_spelling() -> None:
    old: JsonMap = {"m": {"a.b": "1", "gone": 1}, "l": [{"x": 1}, {"x": 2}]}
    new: JsonMap = {"m": {"a.b": "2"}, "l": [{"x": 1}, {"x": 3}, {"x": 4}]}
    assert kinds(old, new) == {
        'm["a.b"]': "update",
        "m.gone": "delete",
        "l[1].x": "update",
        "l[2]": "add",
    }


def test_an_unknown_always_differs() -> None:
    assert kinds({"a": "1"}, {"a": UNKNOWN}) == {"a": "update"}
    assert kinds({}, {"a": UNKNOWN}) == {"a": "add"}


def test_true_is_not_one_and_whole_floats_are_integers() -> None:
    assert kinds({"a": 1}, {"a": True}) == {"a": "update"}
    assert kinds({"a": 1}, {"a": 1.0}) == {}


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("1024Mi", "1Gi", True),
        ("1000m", "1", True),
        ("8", 8, True),
        ("1G", "1Gi", False),
        ("abc", "abc", False),
        (None, "1", False),
    ],
)
def test_quantities_are_amounts(left: Json, right: Json, *, same: bool) -> None:
    assert same_quantity(left, right) is same


def test_quantities_count_only_where_kubernetes_has_them() -> None:
    limits: JsonMap = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    as_number: JsonMap = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
    assert kinds(limits, as_number) == {}
    assert kinds({"data": {"limit": "1Gi"}}, {"data": {"limit": "1024Mi"}}) != {}
    assert kinds(limits, as_number, built_in=False) != {}


def test_an_empty_map_is_dropped_by_built_in_kinds_only() -> None:
    assert kinds({}, {"labels": {}}) == {}
    assert kinds({}, {"feature": {}}, built_in=False) == {"feature": "add"}


def test_only_declared_fields_of_the_live_object_are_compared() -> None:
    live: JsonMap = {"spec": {"a": 1, "defaulted": 2, "list": [{"x": 1, "y": 2}]}, "status": {}}
    shape: JsonMap = {"spec": {"a": 0, "list": [{"x": 0}]}}
    assert prune(live, shape) == {"spec": {"a": 1, "list": [{"x": 1}]}}


@pytest.mark.parametrize(
    ("path", "replaces"),
    [
        ({"spec": {"template": {"metadata": {"labels": {"a": "2"}}}}}, True),
        ({"spec": {"backoffLimit": 2}}, False),
        ({"metadata": {"name": "b"}}, True),
        ({"metadata": {"labels": {"a": "b"}}}, False),
    ],
)
def test_a_job_template_replaces(path: JsonMap, *, replaces: bool) -> None:
    fields = force_new_fields(
        Gvk("batch", "v1", "Job"), {}, mutable_config_maps=False, mutable_secrets=False
    )
    old: JsonMap = {"spec": {"template": {"metadata": {}}}, "metadata": {"name": "a"}}
    found = diff_fields(
        old,
        {**old, **path},
        force_new=fields,
        built_in=True,
    )
    assert any(one.replaces for one in found if one.change != "delete") is replaces


def test_a_container_of_a_pod_replaces() -> None:
    pod = force_new_fields(
        Gvk("", "v1", "Pod"), {}, mutable_config_maps=False, mutable_secrets=False
    )
    old: JsonMap = {"spec": {"containers": [{"image": "a", "name": "c"}]}}
    new: JsonMap = {"spec": {"containers": [{"image": "b", "name": "c"}]}}
    assert kinds(old, new, *pod) == {"spec.containers[0].image": "update!"}


def test_config_maps_replace_unless_they_are_mutable() -> None:
    gvk = Gvk("", "v1", "ConfigMap")

    def fields(*, mutable: bool, immutable: bool = False) -> tuple[str, ...]:
        obj: JsonMap = {"immutable": immutable}
        return force_new_fields(gvk, obj, mutable_config_maps=mutable, mutable_secrets=False)

    assert ".data" in fields(mutable=False)
    assert ".data" not in fields(mutable=True)
    assert ".data" in fields(mutable=True, immutable=True)


def test_ignored_paths_cover_what_lies_under_them() -> None:
    old: JsonMap = {"a": {"b": 1, "c": 1}, "l": [{"x": 1}]}
    new: JsonMap = {"a": {"b": 2, "c": 2}, "l": [{"x": 2}]}
    fields = diff_fields(old, new, force_new=(), built_in=True)
    assert [one.text for one in without_ignored(fields, ["a.b", "l[*].x"])] == ["a.c"]
    assert parse_property_path('a["b.c"][0].d') == ("a", "b.c", 0, "d")


def test_string_data_of_a_secret_is_its_data() -> None:
    secret: JsonMap = {"kind": "Secret", "stringData": {"p": "x"}, "data": {"q": "eA=="}}
    assert normalize(secret)["data"] == {"p": "eA==", "q": "eA=="}
    assert "stringData" not in normalize(secret)


def test_a_secret_leaf_does_not_hide_its_object() -> None:
    out: JsonMap = {"spec": {"open": 1, "token": "t"}, "list": ["a", "b"]}
    annotate_secrets(out, {"spec": {"open": 1, "token": seal("t")}, "list": ["a", seal("b")]})
    assert is_secret(dig(out, "spec", "token"))
    assert dig(out, "spec", "open") == 1
    assert is_secret(out["list"])


def test_merge_patches_remove_and_keep() -> None:
    assert merge_patch({"a": 1, "b": {"c": 1, "d": 1}}, {"b": {"c": 2, "d": 1}}) == {
        "a": None,
        "b": {"c": 2},
    }


def test_the_creators_fields_pass_to_the_applying_manager() -> None:
    entries: list[Json] = [
        {
            "manager": "pulumi-kubernetes",
            "operation": "Update",
            "fieldsV1": {"f:data": {"f:a": {}}},
        },
        {"manager": "kcm", "operation": "Update", "fieldsV1": {"f:status": {}}},
    ]
    live: JsonMap = {"metadata": {"managedFields": entries, "resourceVersion": "7"}}
    patch = plan_takeover(live, "pulumi-kubernetes-1")
    assert patch is not None
    value = patch[0]["value"]
    assert value == [
        entries[1],
        {
            "manager": "pulumi-kubernetes-1",
            "operation": "Apply",
            "fieldsV1": {"f:data": {"f:a": {}}},
        },
    ]
    assert patch[1]["value"] == "7"
    metadata: JsonMap = {"managedFields": [entries[1]]}
    assert plan_takeover({"metadata": metadata}, "m") is None


def test_urns_and_kinds() -> None:
    urn = parse_urn("urn:pulumi:dev::railyard::a:b:C$kubernetes:core/v1:ConfigMap::my::name")
    assert (urn.type_token, urn.name) == ("kubernetes:core/v1:ConfigMap", "my::name")
    assert parse_gvk({}, urn.type_token) == Gvk("", "v1", "ConfigMap")
    custom = parse_gvk({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"})
    assert custom == Gvk("nvidia.com", "v1", "ClusterPolicy")
    assert not custom.is_built_in
    assert Gvk("rbac.authorization.k8s.io", "v1", "ClusterRole").is_built_in_cluster_kind


def test_names_follow_the_seed() -> None:
    assert unique_name("web-", b"1") == unique_name("web-", b"1")
    assert unique_name("web-", b"1") != unique_name("web-", b"2")
    assert unique_name("web-", b"") != unique_name("web-", b"")


def test_schema_keys_get_their_kubernetes_spelling() -> None:
    assert to_dashed({"x_kubernetes_map_type": 1, "x_other": 2}) == {
        "x-kubernetes-map-type": 1,
        "x_other": 2,
    }


def test_resource_names_are_grouped_by_kind() -> None:
    manifest = (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: n}\n"
        "---\n# empty\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    )
    assert resource_names(manifest) == {"ConfigMap/v1": ["a", "n/b"]}

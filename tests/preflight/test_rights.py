"""What an account of an existing cluster must be allowed, and the file that grants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from components.checks.site import load_checked_site
from components.cli.group import app
from components.kubernetes.rights import Right
from components.plan.make import make_plan
from components.preflight.cluster import reviews_of, rights_of
from tests.golden.site import EXAMPLES

SITE = EXAMPLES / "shared-rdma/existing.yaml"


def rights(file: Path = SITE) -> tuple[Right, ...]:
    checked = load_checked_site(file)
    spec = checked.spec_or_raise()
    return rights_of(spec, make_plan(spec, "x", checked.lock))


def printed(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["rbac", str(SITE), *words])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def test_no_right_is_of_everything() -> None:
    for each in rights():
        assert "*" not in {each.group, each.resource, *each.verbs, *each.names}
    everywhere = {each.resource for each in rights() if not each.namespace}
    assert "secrets" not in everywhere  # those of users are none of ours


def test_only_the_workers_may_be_changed() -> None:
    (patched,) = [each for each in rights() if each.resource == "nodes" and each.names]
    assert patched == Right("", "", "nodes", ("node03", "node04"), ("patch",))


def test_a_right_is_asked_as_the_api_takes_it() -> None:
    assert [*reviews_of(Right("net", "apps", "daemonsets", (), ("get", "create")))] == [
        {"verb": "get", "group": "apps", "resource": "daemonsets", "namespace": "net"},
        {"verb": "create", "group": "apps", "resource": "daemonsets", "namespace": "net"},
    ]
    assert [*reviews_of(Right("", "", "pods/eviction", (), ("create",)))] == [
        {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"}
    ]
    assert [*reviews_of(Right("", "", "nodes", ("a", "b"), ("patch",)))] == [
        {"verb": "patch", "group": "", "resource": "nodes", "name": "a"},
        {"verb": "patch", "group": "", "resource": "nodes", "name": "b"},
    ]


def test_the_file_is_what_kubectl_takes() -> None:
    found = [(each["kind"], each["metadata"].get("namespace", "")) for each in printed()]
    assert found == [
        ("Namespace", ""),
        ("Namespace", ""),
        ("ServiceAccount", "kube-system"),
        ("ClusterRole", ""),
        ("ClusterRoleBinding", ""),
        ("Role", "default"),
        ("RoleBinding", "default"),
        ("Role", "kube-system"),
        ("RoleBinding", "kube-system"),
        ("Role", "mpi-operator"),
        ("RoleBinding", "mpi-operator"),
        ("Role", "nvidia-device-plugin"),
        ("RoleBinding", "nvidia-device-plugin"),
    ]


def test_a_namespace_whose_pods_use_the_node_says_so_and_no_other() -> None:
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels", {})
        for each in printed()
        if each["kind"] == "Namespace"
    }
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    assert labels["nvidia-device-plugin"] == privileged
    assert "pod-security.kubernetes.io/enforce" not in labels["mpi-operator"]


def test_a_user_gets_them_by_name() -> None:
    (binding,) = [each for each in printed("--user", "ann") if each["kind"] == "ClusterRoleBinding"]
    assert binding["subjects"] == [
        {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    ]


def test_a_site_that_makes_its_cluster_has_nothing_to_grant() -> None:
    done = CliRunner().invoke(app, ["rbac", str(EXAMPLES / "dgx-roce/site.yaml")])
    assert done.exit_code != 0
    assert "the site makes its cluster itself" in str(done.exception)

"""Hands on the cluster: every object of the plan edited, then deleted; named, repaired, proven."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import pytest

from components.plan.make import make_plan
from lab.up import choose_site, load_spec
from tests.site.playground import STACK, Playground

pytestmark = pytest.mark.site

Ops = list[dict[str, Any]]
PLAN: Final = make_plan(load_spec(choose_site([])), STACK)
MANIFESTS: Final = (
    *PLAN.operators.manifests,
    *PLAN.pod_network.manifests,
    *PLAN.jobs.manifests,
)
PROVEN: Final = {"acceptance-evidence", "acceptance-gate"}


def _chart_object(api_version: str, kind: str, place: str) -> dict[str, Any]:
    namespace, _, name = place.rpartition("/")
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


DEFINITION: Final = "CustomResourceDefinition"
ACCOUNT: Final = _chart_object("v1", "ServiceAccount", "gpu-operator/gpu-operator")
OF_CHART: Final = (
    _chart_object(
        "apps/v1", "DaemonSet", "gpu-operator/gpu-operator-node-feature-discovery-worker"
    ),
    _chart_object("apps/v1", "Deployment", "gpu-operator/gpu-operator"),
    _chart_object("nvidia.com/v1", "ClusterPolicy", "cluster-policy"),
)
"""What the lab's chart of the GPU operator makes, as its templates say, in Helm's order.
Its ServiceAccount is a name and no more."""
OF_FOLDER: Final = _chart_object(
    "apiextensions.k8s.io/v1", DEFINITION, "clusterpolicies.nvidia.com"
)
"""What is in the chart's folder `crds`."""
WAIT_S: Final = "60s"


def _other_image(_body: Any) -> Ops:  # noqa: ANN401 - a JSON value
    place = "/spec/template/spec/containers/0/image"
    return [{"op": "replace", "path": place, "value": "registry.example/other:1"}]


def _other_vlan(body: Any) -> Ops:  # noqa: ANN401 - a JSON value
    config = json.loads(body["spec"]["config"]) | {"vlan": 999}
    return [{"op": "replace", "path": "/spec/config", "value": json.dumps(config)}]


def _other_data(body: Any) -> Ops:  # noqa: ANN401 - a JSON value
    key = next(iter(body["data"]))
    return [{"op": "replace", "path": f"/data/{_pointer(key)}", "value": "{}"}]


def _fewer_rules(body: Any) -> Ops:  # noqa: ANN401 - a JSON value
    if "aggregationRule" in body:
        selectors = [{"matchLabels": {"another": "role"}}]
        place = "/aggregationRule/clusterRoleSelectors"
        return [{"op": "replace", "path": place, "value": selectors}]
    return [{"op": "replace", "path": "/rules", "value": []}]


def _other_label(body: Any) -> Ops:  # noqa: ANN401 - a JSON value
    """Nothing where the object is a name and no more: there is nothing to edit in it."""
    labels: dict[str, str] = body["metadata"].get("labels", {})
    return [
        {"op": "replace", "path": f"/metadata/labels/{_pointer(key)}", "value": "other"}
        for key in list(labels)[:1]
        if key != "kubernetes.io/metadata.name"
    ]


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


EDITS: Final[Mapping[str, Callable[[Any], Ops]]] = {
    "ClusterPolicy": lambda _: [
        {"op": "replace", "path": "/metadata/annotations/railyard.dev~1gate", "value": "open"}
    ],
    "CustomResourceDefinition": lambda _: [
        {"op": "replace", "path": "/spec/names/singular", "value": "other"}
    ],
    "ServiceAccount": _other_label,
    "Namespace": _other_label,
    "ClusterRole": _fewer_rules,
    "ClusterRoleBinding": lambda _: [{"op": "replace", "path": "/subjects", "value": []}],
    "ConfigMap": _other_data,
    "DaemonSet": _other_image,
    "Deployment": _other_image,
    "NetworkAttachmentDefinition": _other_vlan,
}
"""How an object of each kind is edited so that something of ours in it is another."""
CHART_EDITS: Final[Mapping[str, Ops]] = {
    "DaemonSet": _other_image({}),
    "Deployment": _other_image({}),
    "ClusterPolicy": [{"op": "replace", "path": "/spec/driver/enabled", "value": True}],
}


def name_of(body: Mapping[str, Any]) -> str:
    metadata = cast("Mapping[str, str]", body["metadata"])
    place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{body['kind']} {place}{metadata['name']}"


def target_of(body: Mapping[str, Any]) -> list[str]:
    """An object as kubectl takes it: `Kind.version.group name --namespace NAMESPACE`."""
    group, _, version = str(body["apiVersion"]).rpartition("/")
    metadata = cast("Mapping[str, str]", body["metadata"])
    kind = f"{body['kind']}.{version}.{group}" if group else str(body["kind"])
    return [kind, metadata["name"], "--namespace", metadata.get("namespace", "default")]


def patch(site: Playground, body: Mapping[str, Any], ops: Ops) -> None:
    target = target_of(body)
    if body.get("immutable"):  # the API refuses an edit: a person deletes it and makes another
        site.kubectl("delete", *target).must()
        made = site.lab / "made-by-hand.json"
        key = next(iter(cast("Mapping[str, str]", body["data"])))
        made.write_text(json.dumps({**body, "data": {key: "{}"}}))
        site.kubectl("create", "--filename", str(made)).must()
    else:
        site.kubectl("patch", *target, "--type", "json", "--patch", json.dumps(ops)).must()


def lines_of(report: str) -> list[str]:
    return [line for line in report.splitlines() if line.startswith("cluster ")]


def is_as_it_was(site: Playground) -> None:
    assert lines_of(site.railyard("drift", STACK).must()) == ["cluster      no drift"]
    assert site.preview().quiet


def test_every_kind_of_the_plan_has_an_edit() -> None:
    assert {str(each.body["kind"]) for each in MANIFESTS} == EDITS.keys()


@pytest.mark.timeout(1200)  # four commands of an engine: minutes where the cores are shared
def test_what_is_not_ours_is_left_and_every_object_edited_or_deleted_is_made_again(
    standing: Playground,
) -> None:
    named_and_left(standing)
    assert standing.preview().changes.keys() == PROVEN, "what could not be proven waits"
    each_edited_object_is_named(standing)

    bodies = [each.body for each in MANIFESTS]
    items = [*bodies, *OF_CHART, ACCOUNT, OF_FOLDER]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    deleted = standing.lab / "deleted.json"
    deleted.write_text(json.dumps(listed))
    standing.kubectl("delete", "--filename", str(deleted), "--ignore-not-found", "--wait=false")
    standing.kubectl("delete", "node", "gpu02").must()
    standing.kubectl("wait", "--for=delete", "namespace/mpi-operator", f"--timeout={WAIT_S}").must()

    report = lines_of(standing.railyard("drift", STACK).must(3))
    assert sorted(report) == sorted(
        f"cluster      {line}"
        for line in (
            *(f"{name} is absent, want there" for name in {*map(name_of, bodies)}),
            *(
                f"{name_of(body)} of Helm release gpu-operator is absent, want there"
                for body in (*OF_CHART, ACCOUNT, OF_FOLDER)
            ),
            "node gpu02 is not in the cluster",
        )
    )
    assert "acceptance passed" in standing.up().must()
    is_as_it_was(standing)


def each_edited_object_is_named(site: Playground) -> None:
    edited = [(each.body, EDITS[str(each.body["kind"])](each.body)) for each in MANIFESTS]
    edited = [(body, ops) for body, ops in edited if ops]
    assert len(edited) > len(MANIFESTS) / 2
    for body in OF_CHART:
        patch(site, body, CHART_EDITS[body["kind"]])
    for body, ops in edited:
        patch(site, body, ops)
    report = lines_of(site.railyard("drift", STACK).must(3))
    for body, _ in edited:
        (line,) = [each for each in report if each.startswith(f"cluster      {name_of(body)}: ")]
        assert ", want " in line
    of_release = [line for line in report if " of Helm release gpu-operator: " in line]
    assert [*map(name_of, OF_CHART)] == [
        line.removeprefix("cluster      ").partition(" of Helm")[0] for line in of_release
    ]
    assert len(report) == len(edited) + len(of_release)

    preview = site.preview()
    assert preview.changes.keys() >= PROVEN
    assert {message for message in preview.messages if message.startswith("cluster: drift: ")} == {
        line.replace("cluster      ", "cluster: drift: ", 1) for line in report
    }


def named_and_left(site: Playground) -> None:
    """What keeps probes out and is not ours; it is taken away at the end by who made it."""
    taint = "team=a:NoSchedule"
    site.kubectl("create", "quota", "none", "--hard=pods=1000").must()
    site.kubectl("taint", "node", "gpu01", taint).must()
    site.kubectl("cordon", "gpu02").must()
    try:
        named = [
            f"node gpu01 is tainted {taint}: kubectl taint node gpu01 {taint}-",
            "node gpu02 is cordoned: kubectl uncordon opens it",
            "ResourceQuota default/none does not belong to the plan, and it may block probes",
        ]
        report = lines_of(site.railyard("drift", STACK).must(3))
        assert report == [f"cluster      {line}" for line in named]
        preview = site.preview()
        assert preview.quiet
        assert {f"cluster: not repaired: {line}" for line in named} <= {*preview.messages}
        verdict = site.railyard("accept", STACK).must(4)  # nothing could be proven
        assert f"tainted: node gpu01 refuses pods ({taint})" in verdict
        assert "cordoned: node gpu02 refuses pods (kubectl uncordon opens it)" in verdict
    finally:
        site.kubectl("delete", "quota", "none").must()
        site.kubectl("taint", "node", "gpu01", f"{taint}-").must()
        site.kubectl("uncordon", "gpu02").must()

"""The same manifests before the real API server, strictly and without making one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.checks.site import load_checked_site
from components.plan.make import make_plan
from components.pod_network.pools import NETWORK_NAMESPACE
from lab.cluster.api import Api, ApiError
from lab.cluster.process import wait_until
from lab.cluster.testing import running_plane
from tests.golden.site import EXAMPLES
from tests.schemas.judge import raw_kinds
from tests.schemas.test_manifests import by_operators, ib_by_operator, rendered

pytestmark = pytest.mark.cluster
SITES = ("dgx-roce/site.yaml", "shared-rdma/site.yaml", "crusoe-k3s/site.yaml")
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLURALS = {
    "NicClusterPolicy": "nicclusterpolicies",
    "IPPool": "ippools",
    "SriovNetworkNodePolicy": "sriovnetworknodepolicies",
    "SriovNetwork": "sriovnetworks",
    "SriovIBNetwork": "sriovibnetworks",
    "NicConfigurationTemplate": "nicconfigurationtemplates",
}


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    """Each object of the sites once, by kind and name; those of one name are alike in kind."""
    found: dict[tuple[str, str], Any] = {}
    for site in SITES:
        plan = make_plan(load_checked_site(EXAMPLES / site).spec_or_raise(), "dev")
        for each in rendered(plan):
            if not each.patch:
                found.setdefault((each.body["kind"], f"{site} {each.name}"), each.body)
    for change, site in ((by_operators, "dgx-roce"), (ib_by_operator, "quantum-ib")):
        spec = load_checked_site(EXAMPLES / site / "site.yaml").spec_or_raise()
        for each in rendered(make_plan(change(spec), "dev")):
            if each.body["kind"] in PLURALS:
                found[each.body["kind"], f"{site} by operators {each.name}"] = each.body
    return found


@pytest.fixture(scope="module")
def api(
    tmp_path_factory: pytest.TempPathFactory, objects: dict[tuple[str, str], Any]
) -> Iterator[Api]:
    with running_plane(tmp_path_factory.mktemp("dry")) as plane:
        _make_definitions(plane.admin, objects)
        for (kind, _), body in objects.items():
            if kind == "Namespace":
                plane.admin.apply(f"/api/v1/namespaces/{body['metadata']['name']}", body)
        operators: Any = {"metadata": {"name": NETWORK_NAMESPACE}, "apiVersion": "v1"}
        path = f"/api/v1/namespaces/{NETWORK_NAMESPACE}"
        plane.admin.apply(path, {**operators, "kind": "Namespace"})
        yield plane.admin


def _make_definitions(api: Api, objects: dict[tuple[str, str], Any]) -> None:
    bodies = {
        body["metadata"]["name"]: body
        for (kind, _), body in objects.items()
        if kind == "CustomResourceDefinition"
    }
    for name, schema in raw_kinds().items():
        version, kind = name.rpartition("/")[2].split(" ")
        if (plural := PLURALS.get(kind)) is not None:
            group = name.partition("/")[0]
            bodies[f"{plural}.{group}"] = _definition(group, version, kind, schema)
    for name, body in bodies.items():
        api.apply(f"{DEFINITIONS}/{name}", body)
    for body in bodies.values():
        spec = body["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_until(path, lambda path=path: api.answers(path), 30)


def _definition(group: str, version: str, kind: str, schema: Any) -> Any:  # noqa: ANN401
    plural = PLURALS[kind]
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster" if kind == "NicClusterPolicy" else "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _resources(api: Api, version: str) -> dict[str, tuple[str, bool]]:
    """Kind to its plural, and whether it lives in a namespace."""
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    listed: Any = api.request("GET", base)["resources"]
    return {
        each["kind"]: (each["name"], each["namespaced"])
        for each in listed
        if "/" not in each["name"]
    }


def _try(api: Api, body: Any) -> None:  # noqa: ANN401 - a Kubernetes object
    version, name = body["apiVersion"], body["metadata"]["name"]
    plural, namespaced = _resources(api, version)[body["kind"]]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if namespaced else ""
    query = {**STRICT, "fieldManager": "test", "force": "true"}
    kind = "application/apply-patch+yaml"
    api.request("PATCH", f"{base}{namespace}/{plural}/{name}", body, kind, query)


def test_the_server_takes_each_of_them(api: Api, objects: dict[tuple[str, str], Any]) -> None:
    refused: list[str] = []
    for (kind, name), body in objects.items():
        try:
            _try(api, body)
        except ApiError as error:
            refused.append(f"{kind} {name}: {error}")
    assert refused == []
    assert len(objects) > 60


def test_the_server_refuses_what_the_schemas_refuse(
    api: Api, objects: dict[tuple[str, str], Any]
) -> None:
    policy = next(body for (kind, _), body in objects.items() if kind == "NicClusterPolicy")
    wrong = {**policy, "spec": {**policy["spec"], "docaDriver": {"image": "doca-driver"}}}
    with pytest.raises(ApiError, match="docaDriver"):
        _try(api, wrong)


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        ("SriovNetworkNodePolicy", "numVf", 8, "numVf"),
        ("SriovNetworkNodePolicy", "linkType", "Ethernet", "Unsupported value"),
        ("SriovNetwork", "spoofchk", "off", "spoofchk"),
        ("IPPool", "perNodeBlockSize", "16", "expected numeric"),
        ("NicConfigurationTemplate", "resetToDefaults", True, "resetToDefaults"),
    ],
)
def test_a_wrong_field_of_an_operators_object_is_refused(
    api: Api, objects: dict[tuple[str, str], Any], kind: str, field: str, value: object, said: str
) -> None:  # fmt: skip
    body = next(body for (each, _), body in objects.items() if each == kind)
    with pytest.raises(ApiError, match=said):
        _try(api, {**body, "spec": {**body["spec"], field: value}})

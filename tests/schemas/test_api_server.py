"""The same manifests before the real API server, strictly and without making one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from components.checks.site import load_checked_site
from components.core.record import record
from components.kubernetes.client import KubernetesCalls
from components.kubernetes.live.look import Asked, ClusterDrift, judge_look, read_cluster
from components.kubernetes.live.read import Reader
from components.kubernetes.manifest import Body
from components.plan.make import make_plan
from components.pod_network.pools import NETWORK_NAMESPACE
from lab.cluster.api import Api, ApiError
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until
from lab.cluster.testing import running_plane
from tests.drift.test_every_object import KINDS, made_objects
from tests.golden.site import EXAMPLES
from tests.schemas.judge import raw_kinds
from tests.schemas.test_manifests import by_operators, ib_by_operator, rendered

pytestmark = pytest.mark.cluster
SITES = ("dgx-roce/site.yaml", "shared-rdma/site.yaml", "crusoe-k3s/site.yaml")
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLURALS = {
    "ClusterPolicy": "clusterpolicies",
    "NicClusterPolicy": "nicclusterpolicies",
    "IPPool": "ippools",
    "SriovNetworkNodePolicy": "sriovnetworknodepolicies",
    "SriovNetwork": "sriovnetworks",
    "SriovIBNetwork": "sriovibnetworks",
    "NicConfigurationTemplate": "nicconfigurationtemplates",
    "Stack": "stacks",
}
WHOLE = {"ClusterPolicy", "NicClusterPolicy"}


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
            if each.body["kind"] in PLURALS and not each.patch:
                found[each.body["kind"], f"{site} by operators {each.name}"] = each.body
    return found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_plane(tmp_path_factory.mktemp("dry")) as running:
        yield running


@pytest.fixture(scope="module")
def api(plane: ControlPlane, objects: dict[tuple[str, str], Any]) -> Api:
    _make_definitions(plane.admin, objects)
    for (kind, _), body in objects.items():
        if kind == "Namespace":
            plane.admin.apply(f"/api/v1/namespaces/{body['metadata']['name']}", body)
    make_namespace(plane.admin, NETWORK_NAMESPACE)
    return plane.admin


def make_namespace(api: Api, name: str) -> None:
    body: Any = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.apply(f"/api/v1/namespaces/{name}", body)


def definitions_of_charts() -> dict[str, Any]:
    """By name; nv-ipam's pools are among them, which a site without the operator defines itself."""
    bodies: dict[str, Any] = {}
    for name, schema in raw_kinds().items():
        version, kind = name.rpartition("/")[2].split(" ")
        if (plural := PLURALS.get(kind)) is not None:
            group = name.partition("/")[0]
            bodies[f"{plural}.{group}"] = _definition(group, version, kind, schema)
    return bodies


def _make_definitions(api: Api, objects: dict[tuple[str, str], Any]) -> None:
    bodies = {
        body["metadata"]["name"]: body
        for (kind, _), body in objects.items()
        if kind == "CustomResourceDefinition"
    }
    define(api, bodies | definitions_of_charts())


def define(api: Api, bodies: dict[str, Any]) -> None:
    """Make definitions, and wait until their kinds are served."""
    for name, body in bodies.items():
        api.apply(f"{DEFINITIONS}/{name}", body)
    for body in bodies.values():
        spec = body["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_until(path, lambda path=path: api.answers(path), 120)


def _definition(group: str, version: str, kind: str, schema: Any) -> Any:  # noqa: ANN401
    plural = PLURALS[kind]
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster" if kind in WHOLE else "Namespaced",
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


def try_on_server(api: Api, body: Any) -> None:  # noqa: ANN401 - a Kubernetes object
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
            try_on_server(api, body)
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
        try_on_server(api, wrong)


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
        try_on_server(api, {**body, "spec": {**body["spec"], field: value}})


OPERATORS = "nvidia-network-operator"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
AT_THE_SITE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Namespace",
    "ServiceAccount",
}
"""Kinds of the dev stack that tests/site/test_cluster_drift.py edits, with the engine's repair."""
UNEDITED = {"PersistentVolumeClaim"}
"""The API server refuses an edit of a claim: it can be deleted alone."""
EDITS: dict[str, tuple[str, Any, str]] = {
    "ClusterPolicy": (
        "cluster-policy",
        {"metadata": {"annotations": {"railyard.dev/gate": "open"}}},
        'metadata.annotations."railyard.dev/gate" is "open", want "ready"',
    ),
    "IPPool": (
        f"{OPERATORS}/sriov111",
        {"spec": {"perNodeBlockSize": 4}},
        "spec.perNodeBlockSize is 4, want 16",
    ),
    "MutatingAdmissionPolicy": (
        "railyard-rdma",
        {"spec": {"failurePolicy": "Ignore"}},
        'spec.failurePolicy is "Ignore", want "Fail"',
    ),
    "MutatingAdmissionPolicyBinding": (
        "railyard-rdma",
        {"spec": {"policyName": "another"}},
        'spec.policyName is "another", want "railyard-rdma"',
    ),
    "NetworkAttachmentDefinition": (
        "default/sriov111",
        {"metadata": {"annotations": {RESOURCE: "intel.com/other"}}},
        f'metadata.annotations."{RESOURCE}" is "intel.com/other", want "intel.com/sriov_111"',
    ),
    "NicClusterPolicy": (
        "nic-cluster-policy",
        {"spec": {"sriovDevicePlugin": {"repository": "registry.example"}}},
        'spec.sriovDevicePlugin.repository is "registry.example", want "nvcr.io/nvidia/mellanox"',
    ),
    "NicConfigurationTemplate": (
        f"{OPERATORS}/1017-dc74f34d",
        {"spec": {"template": {"numVfs": 4}}},
        "spec.template.numVfs is 4, want 8",
    ),
    "Node": (
        "gpu01",
        {"metadata": {"labels": {"pool.railyard.dev/sriov111": None}}},
        'metadata.labels."pool.railyard.dev/sriov111" is absent, want "true"',
    ),
    "PersistentVolume": (
        "training-data-pv",
        {"spec": {"capacity": {"storage": "20Gi"}}},
        'spec.capacity.storage is "20Gi", want "10Gi"',
    ),
    "Secret": (
        "gpu-operator/railyard-registry",
        {"data": {".dockerconfigjson": "e30="}},
        'data.".dockerconfigjson" is another value (a secret, not shown), want the applied one',
    ),
    "Service": (
        "default/tensorboard",
        {"spec": {"selector": {"app.kubernetes.io/name": "other"}}},
        'spec.selector."app.kubernetes.io/name" is "other", want "tensorboard"',
    ),
    "SriovIBNetwork": (
        f"{OPERATORS}/ib0",
        {"spec": {"linkState": "disable"}},
        'spec.linkState is "disable", want "enable"',
    ),
    "SriovNetwork": (
        f"{OPERATORS}/sriov111",
        {"spec": {"vlan": 999}},
        "spec.vlan is 999, want 111",
    ),
    "SriovNetworkNodePolicy": (
        f"{OPERATORS}/rail-0-8-9000",
        {"spec": {"numVfs": 4}},
        "spec.numVfs is 4, want 8",
    ),
}
"""Kind to an object, a merge patch of it, and what drift says of that."""

KEPT = ("Namespace ", "CustomResourceDefinition ")
"""With them all that is within would go."""


@record
class Made:
    """All objects that Railyard makes on any site, one of each name, in a cluster."""

    plane: ControlPlane
    bodies: tuple[Body, ...]

    def look(self) -> ClusterDrift:
        calls = KubernetesCalls(self.plane.kubeconfig.read_text())
        return judge_look(read_cluster(calls, Asked(self.bodies)))

    def paths(self) -> dict[str, str]:
        """An object as reports name it, to its path."""
        reader = Reader(KubernetesCalls(self.plane.kubeconfig.read_text()))
        reader.learn(self.bodies)
        found: dict[str, str] = {}
        for body in self.bodies:
            key, served = reader.key(body), reader.served(body)
            assert served is not None, key
            found[str(key)] = served.path(key.namespace, key.name)
        return found

    def apply(self) -> None:
        """As the provider does: server-side apply with force."""
        for path, body in zip(self.paths().values(), self.bodies, strict=True):
            self.plane.admin.apply(path, cast("Any", body))


@pytest.fixture
def made(api: Api, plane: ControlPlane) -> Made:
    bodies = made_objects()
    definitions = {
        ("CustomResourceDefinition", str(index)): body
        for index, body in enumerate(bodies)
        if body["kind"] == "CustomResourceDefinition"
    }
    _make_definitions(api, definitions)
    places = {cast("Any", each["metadata"]).get("namespace") for each in bodies}
    for namespace in sorted(places - {None}):
        make_namespace(api, namespace)
    made = Made(plane, bodies)
    made.apply()
    return made


def test_every_kind_that_is_made_is_edited_somewhere() -> None:
    assert EDITS.keys() | AT_THE_SITE | UNEDITED == KINDS


def test_every_object_edited_and_deleted_is_named_and_made_again(api: Api, made: Made) -> None:
    assert made.look().lines == (), "what the server writes into an object is no drift"
    paths = made.paths()
    for kind, (name, patch, _) in EDITS.items():
        api.merge(paths[f"{kind} {name}"], patch)
    drift = made.look()
    assert sorted(drift.repaired) == [f"{kind} {n}: {line}" for kind, (n, _, line) in EDITS.items()]
    assert (drift.touched, drift.exit_code, drift.left) == (True, 3, ())
    made.apply()
    assert made.look().lines == ()

    gone = {name: path for name, path in paths.items() if not name.startswith(KEPT)}
    now: Any = {"propagationPolicy": "Background"}
    for path in gone.values():
        api.request("DELETE", path, now)
    absent = sorted(f"{name} is absent, want there" for name in gone)
    wait_until("them to be gone", lambda: sorted(made.look().lines) == absent, 120)
    made.apply()
    assert made.look().lines == ()

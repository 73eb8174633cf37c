"""Every manifest of every site is what the schemas of its release take, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any, cast

import pytest

from components.catalogue import upstream
from components.catalogue.operator_versions import parse_numbers
from components.catalogue.version_pairs import VERSION_SETS
from components.checks.site import load_checked_site
from components.core.record import record
from components.jobs.templates import number_objects
from components.model.cards import Firmware, HcaPf
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbRail
from components.model.operators import NetworkOperator, NetworkOperatorChart
from components.model.pod_network import PodNetwork
from components.plan.make import ClusterPlan, make_plan
from tests.golden.site import EXAMPLES, changed_spec
from tests.schemas.judge import judge, packed_releases, unknown_values

FILES = sorted(file.relative_to(EXAMPLES).as_posix() for file in EXAMPLES.glob("*/[a-z]*.yaml"))


@record
class Rendered:
    """One object, and whether it is a part of one that is there."""

    name: str
    body: Any
    patch: bool = False


def rendered(plan: ClusterPlan) -> Iterator[Rendered]:
    """All that a plan brings into a cluster, acceptance's jobs too."""
    rooms = (plan.operators, plan.pod_network, plan.jobs)
    for manifest in (manifest for room in rooms for manifest in room.manifests):
        patch = manifest.kind.endswith("Patch")
        yield Rendered(manifest.resource_name, manifest.body, patch)
    for probe in (*plan.acceptance.probes, *plan.acceptance.images):
        for body in number_objects(probe.job.objects, 7) if probe.job else ():
            yield Rendered(str(body["kind"]), body)
    for body in number_objects(plan.acceptance.memlock, 7):
        yield Rendered("memlock", body)


def complaints(plan: ClusterPlan) -> list[str]:
    found = [
        f"{each.name}: {what}"
        for each in rendered(plan)
        for what in judge(each.body, patch=each.patch)
    ]
    return found + [
        f"{chart.release}: values.{key}"
        for chart in plan.operators.charts
        for key in unknown_values(chart.release, chart.values)
    ]


@pytest.mark.parametrize(
    ("chart", "default", "packed"),
    [
        ("gpu-operator", upstream.GPU_OPERATOR_RELEASE, "v26.7.0"),
        ("nvidia-device-plugin", upstream.GPU_DEVICE_PLUGIN_RELEASE, "v0.20.0"),
        # The newest tag of the line in the copy of its repository that was read.
        ("network-operator", upstream.NETWORK_OPERATOR_RELEASE, "v26.7.0-rc.2"),
    ],
)
def test_the_line_of_each_default_release_is_packed(chart: str, default: str, packed: str) -> None:
    assert packed in packed_releases(chart)
    assert parse_numbers(default)[:2] == parse_numbers(packed)[:2]
    for chosen in VERSION_SETS.values():
        sets = {
            "gpu-operator": chosen.gpu_operator,
            "network-operator": chosen.network_operator,
            "nvidia-device-plugin": chosen.device_plugin,
        }
        assert parse_numbers(sets[chart])[:2] == parse_numbers(packed)[:2]


def example_site(file: str) -> ClusterSpec:
    return load_checked_site(EXAMPLES / file).spec_or_raise()


def test_pods_of_jobs_and_of_acceptance_decline_service_meshes() -> None:
    seen = 0
    for file in FILES:
        acceptance = make_plan(example_site(file), "dev").acceptance
        jobs = (each.job for each in (*acceptance.probes, *acceptance.images) if each.job)
        bodies = [body for job in jobs for body in job.objects]
        for body in (*bodies, *acceptance.memlock):
            for template in pod_templates(body):
                said = template["metadata"]
                assert said["labels"]["sidecar.istio.io/inject"] == "false", body["kind"]
                assert said["labels"]["istio.io/dataplane-mode"] == "none"
                assert said["annotations"]["linkerd.io/inject"] == "disabled"
                seen += 1
    assert seen > len(FILES)


def pod_templates(value: object) -> Iterator[Any]:
    """Every template of pods inside an object, at any depth."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from pod_templates(item)
    elif isinstance(value, dict):
        body = cast("dict[str, Any]", value)
        if "containers" in (body.get("spec") or {}):
            yield body
        for item in body.values():
            yield from pod_templates(item)


@pytest.mark.parametrize("file", FILES)
def test_an_example(file: str) -> None:
    assert complaints(make_plan(example_site(file), "dev")) == []


def _network_driver(spec: ClusterSpec) -> ClusterSpec:
    network = spec.operators.network
    assert network is not None
    chart = NetworkOperatorChart(version="26.4.1")
    changed = network.model_copy(update={"driver": "operator", "chart": chart})
    return changed_spec(spec, operators=spec.operators.model_copy(update={"network": changed}))


def _gpu_driver(spec: ClusterSpec) -> ClusterSpec:
    assert spec.operators.gpu is not None
    gpu = spec.operators.gpu.model_copy(update={"driver": "operator", "gdrcopy": True})
    return changed_spec(spec, operators=spec.operators.model_copy(update={"gpu": gpu}))


def _network_operator(spec: ClusterSpec) -> ClusterSpec:
    operators = spec.operators.model_copy(update={"network": NetworkOperator()})
    return changed_spec(spec, operators=operators)


def _host_network(spec: ClusterSpec) -> ClusterSpec:
    network = spec.pod_network.model_copy(update={"host_network": True})
    subnets = {rail.name: rail.subnet for rail in spec.rails}
    hosts = [
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"address": str(subnets[nic.rail][number])})
                    for nic in host.nics
                )
            }
        )
        for number, host in enumerate(spec.hosts, 11)
    ]
    return changed_spec(spec, pod_network=network, hosts=tuple(hosts))


def _owners(**owned: str) -> Callable[[ClusterSpec], ClusterSpec]:
    def change(spec: ClusterSpec) -> ClusterSpec:
        network = NetworkOperator.model_validate({"chart": {"version": "26.4.1"}, **owned})
        defaults = spec.host_defaults.model_copy(
            update={"firmware": Firmware(manage=True, ats=True)}
        )
        operators = spec.operators.model_copy(update={"network": network})
        return changed_spec(spec, operators=operators, host_defaults=defaults)

    return change


def _on_infiniband(spec: ClusterSpec) -> ClusterSpec:
    """VFs and partitions of pods by ib-kubernetes, addresses by nv-ipam."""
    network = {"chart": {"version": "26.4.1"}, "ib_kubernetes": {"ufm_secret": "ufm"}}
    fabric = spec.infiniband
    assert fabric is not None
    rail = {
        "name": "rail-0",
        "resource": "ib_0",
        "network": "ib0",
        "subnet": "10.20.0.0/24",
        "partition": "training",
    }
    changed = fabric.model_copy(update={"rails": (IbRail.model_validate(rail),)})
    pods = PodNetwork(mode="sriov", ipam="nv-ipam", multus="operator", rdma_isolation=True)
    operators = spec.operators.model_copy(
        update={"network": NetworkOperator.model_validate(network)}
    )
    return changed_spec(spec, operators=operators, infiniband=changed, pod_network=pods)


def ib_by_operator(spec: ClusterSpec) -> ClusterSpec:
    changed = _on_infiniband(spec)
    network = NetworkOperator.model_validate({"chart": {"version": "26.4.1"}, "vfs": "operator"})
    port = HcaPf.model_validate({"pci": "0000:18:00.0", "rail": "rail-0", "vfs": 8})
    hosts = tuple(
        host.model_copy(update={"hca_sriov": (port,)}) if host.role == "worker" else host
        for host in changed.hosts
    )
    operators = changed.operators.model_copy(update={"network": network})
    return changed_spec(changed, operators=operators, hosts=hosts)


def _nv_ipam_alone(spec: ClusterSpec) -> ClusterSpec:
    pods = spec.pod_network.model_copy(update={"ipam": "nv-ipam", "source_routing": True})
    return changed_spec(spec, pod_network=pods)


def by_operators(spec: ClusterSpec) -> ClusterSpec:
    """VFs, firmware and addresses, all of them the network operator's."""
    return _owners(vfs="operator", firmware="operator")(_nv_ipam_alone(spec))


OTHERS: dict[str, tuple[str, Callable[[ClusterSpec], ClusterSpec]]] = {
    "driver of the network operator": ("quantum-ib", _network_driver),
    "driver of the GPU operator": ("dgx-roce", _gpu_driver),
    "shared cards in the host's network": ("shared-rdma", _host_network),
    "VFs by the network operator": ("dgx-roce", _network_operator),
    "shared cards by the network operator": ("shared-rdma", _network_operator),
    "VFs made by the operator": ("dgx-roce", _owners(vfs="operator")),
    "firmware by the operator": ("dgx-roce", _owners(firmware="operator")),
    "partitions of pods": ("quantum-ib", _on_infiniband),
    "VFs of InfiniBand made by the operator": ("quantum-ib", ib_by_operator),
    "nv-ipam without an operator": ("dgx-roce", _nv_ipam_alone),
    "nv-ipam on several leaves": ("spine-leaf", _nv_ipam_alone),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_no_example_shows(name: str) -> None:
    example, change = OTHERS[name]
    assert complaints(make_plan(change(example_site(f"{example}/site.yaml")), "dev")) == []


@cache
def _objects() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for example in ("dgx-roce", "shared-rdma", "crusoe-k3s"):
        for each in rendered(make_plan(example_site(f"{example}/site.yaml"), "dev")):
            found.setdefault(f"{example} {each.body['kind']}", each.body)
    owned = _owners(vfs="operator", firmware="operator")(
        _nv_ipam_alone(example_site("dgx-roce/site.yaml"))
    )
    for each in rendered(make_plan(owned, "dev")):
        found.setdefault(f"operators {each.body['kind']}", each.body)
    return found


def _in_pod(body: Any, **changes: Any) -> None:  # noqa: ANN401 - fields of Kubernetes
    body["spec"]["template"]["spec"] |= changes


def _in_text(body: Any, change: Callable[[Any], None]) -> None:  # noqa: ANN401
    value = json.loads(body["spec"]["config"])
    change(value)
    body["spec"]["config"] = json.dumps(value)


def _in_policy(body: Any, change: Callable[[Any], None]) -> None:  # noqa: ANN401
    plugin = body["spec"]["sriovDevicePlugin"]
    value = json.loads(plugin["config"])
    change(value["resourceList"][0])
    plugin["config"] = json.dumps(value)


MUTATIONS: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "a field of a pod in other letters": (
        "dgx-roce DaemonSet",
        lambda body: _in_pod(body, hostnetwork=True),
        "'hostnetwork' was unexpected",
    ),
    "a number that is a text": (
        "dgx-roce Job",
        lambda body: body["spec"].update(backoffLimit="0"),
        "'0' is not of type 'integer'",
    ),
    "a container without a name": (
        "dgx-roce DaemonSet",
        lambda body: body["spec"]["template"]["spec"]["containers"][0].pop("name"),
        "'name' is a required property",
    ),
    "an annotation that is no text": (
        "crusoe-k3s NicClusterPolicy",
        lambda body: body["metadata"]["annotations"].update(wait=1800),
        "1800 is not of type 'string'",
    ),
    "the driver under the key of older releases": (
        "crusoe-k3s NicClusterPolicy",
        lambda body: body["spec"].update(docaDriver={"image": "doca-driver"}),
        "'docaDriver' was unexpected",
    ),
    "isRdma beside the selectors": (
        "crusoe-k3s NicClusterPolicy",
        lambda body: _in_policy(body, lambda entry: entry.update(isRdma=True)),
        "'isRdma' was unexpected",
    ),
    "device ids under the key of the other plugin": (
        "crusoe-k3s NicClusterPolicy",
        lambda body: _in_policy(body, lambda entry: entry["selectors"].update(deviceIDs=["101b"])),
        "is not valid under any of the given schemas",
    ),
    "a resource with a hyphen": (
        "crusoe-k3s NicClusterPolicy",
        lambda body: _in_policy(body, lambda entry: entry.update(resourceName="host-dev")),
        "does not match",
    ),
    "spoofchk as the operator's own resource spells it": (
        "dgx-roce NetworkAttachmentDefinition",
        lambda body: _in_text(body, lambda conf: conf.update(spoofChk="off")),
        "'spoofChk' was unexpected",
    ),
    "an attachment that is no JSON": (
        "dgx-roce NetworkAttachmentDefinition",
        lambda body: body["spec"].update(config="{"),
        "no JSON",
    ),
    "a selector of the operator's old documentation, which would take every card": (
        "operators SriovNetworkNodePolicy",
        lambda body: body["spec"]["nicSelector"].update(pfName=["enp5s0"]),
        "'pfName' was unexpected",
    ),
    "a block size that is a text": (
        "operators IPPool",
        lambda body: body["spec"].update(perNodeBlockSize="16"),
        "'16' is not of type 'integer'",
    ),
    "a link type that a template does not have": (
        "operators NicConfigurationTemplate",
        lambda body: body["spec"]["template"].update(linkType="eth"),
        "'eth' is not one of",
    ),
    "a policy that an MPI job does not have": (
        "dgx-roce MPIJob",
        lambda body: body["spec"].update(cleanPodPolicy="Running"),
        "'cleanPodPolicy' was unexpected",
    ),
    "a pod of an MPI job with a wrong field": (
        "dgx-roce MPIJob",
        lambda body: _in_pod({"spec": body["spec"]["mpiReplicaSpecs"]["Worker"]}, memlock=-1),
        "'memlock' was unexpected",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_field_is_found(name: str) -> None:
    kind, change, said = MUTATIONS[name]
    body = deepcopy(_objects()[kind])
    assert judge(body) == []
    change(body)
    (found,) = judge(body)
    assert said in found


def test_a_kind_without_a_schema_is_said() -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    assert judge(body) == ["example.com/v1 Nothing: there is no schema of it in tests/schemas/data"]


@pytest.mark.parametrize(
    ("values", "unknown"),
    [
        ({"driver": {"rdma": {"useHostMofed": True}}}, []),
        ({"driver": {"rdma": {"useHostMOFED": True}}}, ["driver.rdma.useHostMOFED"]),
        ({"mofed": {}}, ["mofed"]),
        ({"daemonsets": {"tolerations": []}}, []),
    ],
)
def test_a_value_that_a_chart_does_not_have_is_found(
    values: dict[str, Any], unknown: list[str]
) -> None:
    assert unknown_values("gpu-operator", values) == unknown

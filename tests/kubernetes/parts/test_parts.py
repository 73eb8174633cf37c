"""What is there already, against what the site says of it: each answer of `judge_parts`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from components.catalogue.cluster_parts import PARTS, Part, part_of_image, version_in
from components.core.problem import Finding
from components.kubernetes.client import Answer
from components.kubernetes.live.parts import (
    PartsAsked,
    PartsLook,
    Workload,
    attachment_differences,
    judge_parts,
    look_at_parts,
)
from components.kubernetes.live.read import Key, Live
from components.kubernetes.manifest import Body
from components.model.kubernetes import Owner

MULTUS = Workload(
    Key("apps/v1", "DaemonSet", "kube-system", "kube-multus-ds"),
    "multus",
    "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.0-thick",
    "",
)
NADS = "network-attachment-definitions.k8s.cni.cncf.io"
READY: dict[str, Any] = {
    "metadata": {"name": "gpu01"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": "8", "nvidia.com/mlnxnics": "8", "cpu": "64"},
    },
}


def asked(owners: Mapping[Part, Owner], **more: Any) -> PartsAsked:  # noqa: ANN401 - its fields
    none: dict[Part, Owner] = dict.fromkeys(PARTS, "none")
    return PartsAsked(owners={**none, **owners}, **more)


def look(**more: Any) -> PartsLook:  # noqa: ANN401 - its fields
    return PartsLook(nodes={"gpu01": READY}, namespaces=frozenset({"default"}), **more)


def causes(found: tuple[Finding, ...]) -> list[str]:
    return [f"{each.rule} {each.severity}" for each in found]


@pytest.mark.parametrize(
    ("image", "part", "version"),
    [
        ("ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0", "multus", "v4.3.0"),
        ("rancher/hardened-multus-cni:v4.2.2-build20250909", "multus", "v4.2.2-build20250909"),
        ("nvcr.io/nvidia/mellanox/multus-cni@sha256:0a", "multus", ""),
        ("registry:5000/nvcr.io/nvidia/gpu-operator:v26.3.3", "gpu_operator", "v26.3.3"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.19.3", "gpu_device_plugin", "v0.19.3"),
        ("mpioperator/mpi-operator:0.8.2", "mpi_operator", "0.8.2"),
        ("docker.io/calico/node:v3.30.0", None, "v3.30.0"),
    ],
)
def test_a_part_is_known_by_its_image(image: str, part: str | None, version: str) -> None:
    assert (part_of_image(image), version_in(image)) == (part, version)


def test_another_multus_beside_ours_is_refused_by_its_name() -> None:
    (found,) = judge_parts(asked({"multus": "ours"}), look(workloads=(MULTUS,)))
    assert found.what == (
        "the file lets Railyard install Multus, but the cluster already runs another one."
    )
    assert found.actual == "DaemonSet kube-system/kube-multus-ds (multus-cni:v4.1.0-thick)"
    assert found.fix == "write kubernetes.components.multus: theirs, or uninstall it first"


def test_what_this_stack_made_is_ours() -> None:
    made = asked({"multus": "ours"}, applied=frozenset({"DaemonSet kube-system/kube-multus-ds"}))
    assert judge_parts(made, look(workloads=(MULTUS,))) == ()
    of_release = replace(MULTUS, release=("net", "multus"))
    released = asked({"multus": "ours"}, releases=frozenset({("net", "multus")}))
    assert judge_parts(released, look(workloads=(of_release,))) == ()
    foreign = asked({"multus": "ours"}, releases=frozenset({("net", "other")}))
    assert causes(judge_parts(foreign, look(workloads=(of_release,)))) == ["multus-foreign error"]


def test_what_our_own_operator_started_is_ours_and_that_of_another_is_not() -> None:
    plugin = replace(
        MULTUS,
        part="sriov_device_plugin",
        image="nvcr.io/nvidia/mellanox/sriov-network-device-plugin:v26",
        owners=frozenset({"NicClusterPolicy"}),
    )
    ours = asked({"sriov_device_plugin": "ours", "network_operator": "ours"})
    assert judge_parts(ours, look(workloads=(plugin,))) == ()
    beside = asked({"sriov_device_plugin": "ours"})
    assert causes(judge_parts(beside, look(workloads=(plugin,)))) == [
        "sriov_device_plugin-foreign error"
    ]


def test_reference_programs_of_others_take_nothing_from_ours() -> None:
    plugins = replace(MULTUS, part="cni_plugins", image="rancher/hardened-cni-plugins:v1.7.1")
    assert judge_parts(asked({"cni_plugins": "ours"}), look(workloads=(plugins,))) == ()


def an_object(manager: str) -> tuple[Body, Live]:
    want: Body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "multus", "namespace": "kube-system"},
    }
    live: Body = {
        **want,
        "metadata": {"name": "multus", "managedFields": [{"manager": manager}]},
    }
    key = Key("apps/v1", "DaemonSet", "kube-system", "multus")
    return want, Live(((key, want, live),))


@pytest.mark.parametrize(
    ("manager", "wanted"),
    [("helm", ["multus-there error"]), ("pulumi-kubernetes-1f2e3d4c", [])],
)
def test_an_object_of_our_name_is_not_written_over(manager: str, wanted: list[str]) -> None:
    """One that an update made, and was killed before it could record it, is taken up again."""
    want, live = an_object(manager)
    found = judge_parts(asked({"multus": "ours"}, objects=(("multus", want),)), look(live=live))
    assert causes(found) == wanted
    assert all(each.actual == "DaemonSet kube-system/multus" for each in found)


def test_an_object_of_no_part_is_not_written_over_either() -> None:
    want, live = an_object("kubectl")
    found = judge_parts(asked({}, objects=((None, want),)), look(live=live))
    assert causes(found) == ["object-there error"]


def test_a_multus_that_is_taken_and_good_is_silent() -> None:
    there = look(workloads=(MULTUS,), definitions={NADS: frozenset({"v1"})})
    assert judge_parts(asked({"multus": "theirs"}), there) == ()


def test_a_part_that_is_not_there_is_named_with_its_definition() -> None:
    absent, definition = judge_parts(asked({"multus": "theirs"}), look())
    assert absent.actual == "no DaemonSet or Deployment of multus-cni or hardened-multus-cni"
    assert definition.actual == f"{NADS} serves nothing"


def test_the_part_that_this_update_removes_is_not_theirs() -> None:
    """From `ours` to `theirs`, and none was installed in between."""
    mine = asked({"multus": "theirs"}, applied=frozenset({"DaemonSet kube-system/kube-multus-ds"}))
    there = look(workloads=(MULTUS,), definitions={NADS: frozenset({"v1"})})
    assert causes(judge_parts(mine, there)) == ["multus-absent error"]


def test_a_program_may_be_on_the_nodes_without_a_pod() -> None:
    (found,) = judge_parts(asked({"sriov_cni": "theirs"}), look())
    assert (found.rule, found.severity) == ("sriov_cni-absent", "warning")
    assert found.actual == "no DaemonSet or Deployment of sriov-cni or hardened-sriov-cni"


def test_a_part_that_is_not_ready_says_why() -> None:
    ill = replace(MULTUS, state="3 of 4 pods are ready", why=("pod a on n: ImagePullBackOff",))
    there = look(workloads=(ill,), definitions={NADS: frozenset({"v1"})})
    (found,) = judge_parts(asked({"multus": "theirs"}), there)
    assert found.actual == (
        "DaemonSet kube-system/kube-multus-ds: 3 of 4 pods are ready (pod a on n: ImagePullBackOff)"
    )


def test_another_major_release_is_a_warning() -> None:
    old = replace(MULTUS, image="docker.io/nfvpe/multus-cni:v3.8.1")
    there = look(workloads=(old,), definitions={NADS: frozenset({"v1"})})
    (found,) = judge_parts(asked({"multus": "theirs"}), there)
    assert (found.rule, found.severity) == ("multus-version", "warning")
    assert (found.actual, found.wanted) == (
        "DaemonSet kube-system/kube-multus-ds: multus-cni:v3.8.1",
        "v4.3.0",
    )


def test_the_mpi_job_of_the_older_training_operator_is_not_ours() -> None:
    """Kubeflow's training operator v1 brings MPIJob v1 under the same name."""
    there = look(definitions={"mpijobs.kubeflow.org": frozenset({"v1"})})
    found = judge_parts(asked({"mpi_operator": "theirs"}), there)
    assert causes(found) == ["mpi_operator-absent error", "mpi_operator-definition error"]
    assert found[1].actual == "mpijobs.kubeflow.org serves v1"
    assert found[1].wanted == "v2beta1"


OPERATOR = replace(
    MULTUS, part="network_operator", image="nvcr.io/nvidia/cloud-native/network-operator:v26.7.1"
)
POLICIES = "nicclusterpolicies.mellanox.com"


@pytest.mark.parametrize(
    ("state", "actual"),
    [
        ("ready", None),
        ("notReady", "NicClusterPolicy nic-cluster-policy: its state is notReady"),
        ("", "no NicClusterPolicy"),
    ],
)
def test_an_operator_of_others_has_done_its_work(state: str, actual: str | None) -> None:
    policy = {
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
        "status": {"state": state},
    }
    there = look(
        workloads=(OPERATOR,),
        definitions={POLICIES: frozenset({"v1alpha1"})},
        states={"network_operator": (policy,) if state else ()},
    )
    found = judge_parts(asked({"network_operator": "theirs"}), there)
    assert [each.actual for each in found] == ([] if actual is None else [actual])


def test_a_resource_that_nobody_publishes_is_named_with_those_that_are() -> None:
    plugin = replace(MULTUS, part="sriov_device_plugin", image="x/sriov-network-device-plugin:v3.1")
    nodes = {"gpu01": {"intel.com/sriov_111": 8, "nvidia.com/mlnxnics": 8}}
    want = asked({"sriov_device_plugin": "theirs"}, nodes=nodes)
    (found,) = judge_parts(want, look(workloads=(plugin,)))
    assert found.rule == "sriov_device_plugin-resource"
    assert found.actual == "none on gpu01; it has nvidia.com/gpu, nvidia.com/mlnxnics"
    assert found.wanted == "intel.com/sriov_111 on each node"
    configured = replace(plugin, publishes=frozenset({"sriov_111"}))
    assert judge_parts(want, look(workloads=(configured,))) == ()  # its VFs come with this update


def test_gpus_are_published_by_the_operator_that_is_there() -> None:
    operator = replace(MULTUS, part="gpu_operator", image="nvcr.io/nvidia/gpu-operator:v26.3.3")
    policy = {"kind": "ClusterPolicy", "metadata": {"name": "p"}, "status": {"state": "ready"}}
    there = look(
        workloads=(operator,),
        definitions={"clusterpolicies.nvidia.com": frozenset({"v1"})},
        states={"gpu_operator": (policy,)},
    )
    want = asked({"gpu_operator": "theirs"}, nodes={"gpu01": {"nvidia.com/gpu": 8}})
    assert judge_parts(want, there) == ()
    status: dict[str, Any] = {**READY["status"], "allocatable": {}}
    bare: dict[str, Any] = {**READY, "status": status}
    (found,) = judge_parts(want, replace(there, nodes={"gpu01": bare}))
    assert found.actual == "none on gpu01; it has nothing"


def test_a_node_of_another_name_is_named_with_those_that_there_are() -> None:
    (found,) = judge_parts(asked({}, nodes={"gpu02": {}}), look())
    assert found.actual == "no gpu02; there are gpu01"
    assert "hosts[].node_name" in found.fix


def test_a_tainted_node_is_a_warning_unless_its_taint_is_tolerated() -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    tainted = {"gpu01": {**READY, "spec": {"taints": [taint]}}}
    want = asked({}, nodes={"gpu01": {}})
    (found,) = judge_parts(want, replace(look(), nodes=tainted))
    assert (found.rule, found.severity) == ("node-closed", "warning")
    tolerant = replace(want, tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},))
    assert judge_parts(tolerant, replace(look(), nodes=tainted)) == ()


def test_namespace_runtime_class_and_policy_are_named() -> None:
    want = asked({}, namespace="training", runtime_class="nvidia")
    there = look(
        runtime_classes=frozenset({"runc"}),
        forbidden={"kube-system": 'violates PodSecurity "baseline:latest": hostPath volumes'},
    )
    namespace, runtime, policy = judge_parts(want, there)
    assert namespace.fix == "kubectl create namespace training"
    assert runtime.actual == "no RuntimeClass nvidia; there are runc"
    assert policy.what == "a policy forbids pods of this site in kube-system."
    assert "pod-security.kubernetes.io/enforce=privileged" in policy.fix


def attachment(config: object, resource: str = "intel.com/sriov_111") -> Body:
    text = config if isinstance(config, str) else json.dumps(config)
    notes: Body = {"k8s.v1.cni.cncf.io/resourceName": resource}
    return {"metadata": {"name": "sriov111", "annotations": notes}, "spec": {"config": text}}


OURS = attachment({"plugins": [{"type": "sriov", "vlan": 111}, {"type": "tuning", "mtu": 9000}]})


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        (attachment({"type": "sriov", "vlan": 111, "mtu": 9000, "ipam": {"type": "x"}}), ()),
        (attachment({"type": "sriov", "vlan": 999}), ("vlan is 999, want 111",)),
        (
            attachment({"type": "macvlan", "master": "eth0"}),
            (
                "type is macvlan, want sriov",
                "vlan is absent, want 111",
                "master is eth0, want none",
            ),
        ),
        (
            attachment({"type": "sriov", "vlan": 111, "mtu": 1500}),
            ("mtu is 1500, want 9000",),
        ),
        (
            attachment({"type": "sriov", "vlan": 111}, "nvidia.com/rail0"),
            ("k8s.v1.cni.cncf.io/resourceName is nvidia.com/rail0, want intel.com/sriov_111",),
        ),
        (attachment("{"), ("its configuration is not JSON",)),
    ],
)
def test_an_attachment_of_others_leads_onto_the_rail(live: Body, wanted: tuple[str, ...]) -> None:
    assert tuple(attachment_differences(OURS, live)) == wanted


def test_an_attachment_of_others_that_is_not_there_is_named() -> None:
    key = Key("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "default", "sriov111")
    (found,) = judge_parts(
        asked({"attachments": "theirs"}), look(attachments=Live(((key, OURS, None),)))
    )
    assert found.rule == "attachments-absent"
    assert found.actual == "no NetworkAttachmentDefinition default/sriov111"


@pytest.mark.parametrize(
    ("runtime", "causes_of"),
    [
        ("containerd://1.7.29", ["runtime-nri error"]),
        ("containerd://2.0.5-k3s1", ["runtime-nri error"]),
        ("cri-o://1.33.4", ["runtime-nri error"]),
        ("containerd://1.7.30", []),
        ("containerd://2.1.4-k3s1", []),
        ("containerd://2.2.0", []),
        ("cri-o://1.34.0", []),
        ("docker://28.1.1", []),
    ],
)
def test_a_runtime_in_which_the_operators_toolkit_does_not_work(
    runtime: str, causes_of: list[str]
) -> None:
    """The ranges of NVIDIA's page on CDI and NRI: containerd 2.0 is in none."""
    status = {**READY["status"], "nodeInfo": {"containerRuntimeVersion": runtime}}
    seen = replace(look(), nodes={"gpu01": {**READY, "status": status}})
    found = judge_parts(asked({}, nri=True, nodes={"gpu01": {}}), seen)
    assert causes(found) == causes_of
    assert all(runtime in each.actual for each in found)
    assert judge_parts(asked({}, nodes={"gpu01": {}}), seen) == ()


def test_a_cilium_that_takes_multus_away_is_named() -> None:
    """It renames 00-multus.conf to .cilium_bak (k8snetworkplumbingwg/multus-cni#972)."""
    exclusive = look(cilium={"cni-exclusive": "true"})
    nad: Body = {"kind": "NetworkAttachmentDefinition", "metadata": {"name": "rail-0"}}
    wanted = asked({}, objects=(("attachments", nad),))
    (found,) = [each for each in judge_parts(wanted, exclusive) if "cilium" in each.rule]
    assert "cni.exclusive: false" in found.fix
    assert judge_parts(asked({}), exclusive) == (), "no pod gets a network by Multus"
    for other in ({"cni-exclusive": "false"}, {"ipam": "kubernetes"}, {}):
        assert "cilium-exclusive error" not in causes(judge_parts(wanted, look(cilium=other)))


class Labelled:
    """A cluster with one namespace that has a label, and nothing else."""

    def __init__(self, label: str) -> None:
        key, _, value = label.partition("=")
        self.namespace = {"metadata": {"name": "default", "labels": {key: value}}}

    def call(self, method: str, path: str, body: object = None) -> Answer:
        assert (method, body) == ("GET", None), "a look changes nothing"
        of_namespaces = path.startswith("/api/v1/namespaces?") or path == "/api/v1/namespaces"
        return Answer(200, json.dumps({"items": [self.namespace] if of_namespaces else []}))


@pytest.mark.parametrize(("word", "on"), [("enabled", 1), ("true", 1), ("yes", 1), ("false", 0)])
def test_kuma_is_seen_by_each_word_that_it_takes_for_yes(word: str, on: int) -> None:
    """`GetBooleanWithDefault` in kumahq/kuma, pkg/plugins/runtime/k8s/metadata/annotations.go."""
    label = f"kuma.io/sidecar-injection={word}"
    seen = look_at_parts(Labelled(label), asked({}, namespace="default"))
    assert dict(seen.meshed) == ({"default": label} if on else {})


def test_a_service_mesh_in_the_namespace_of_jobs_is_named() -> None:
    label = "kuma.io/sidecar-injection=enabled"
    meshed = look(meshed={"default": label, "web": label})
    (found,) = judge_parts(asked({}, namespace="default"), meshed)
    assert found.rule == "service-mesh"
    assert "kubectl label namespace default kuma.io/sidecar-injection-" in found.fix

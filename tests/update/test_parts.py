"""What an update asks an existing cluster for, and how it refuses what it finds."""

from __future__ import annotations

from typing import Any, cast

import pytest

from components.checks.site import load_checked_site
from components.core.errors import UsageError
from components.core.problem import Finding, Severity, on_device
from components.drift.applied import Applied
from components.kubernetes.live.parts import PartsAsked
from components.plan.make import make_plan
from components.update.cluster import asked_of_parts, tried_pods
from stacks.begin import refuse
from tests.golden.site import EXAMPLES

NAD = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "macvlan156", "namespace": "default"},
}


def asked(name: str, applied: Applied, **components: str) -> PartsAsked:
    spec = load_checked_site(EXAMPLES / "shared-rdma" / name).spec_or_raise()
    plane = cast("Any", spec.kubernetes)
    owners = plane.components.model_copy(update=components)
    plane = plane.model_copy(update={"components": owners})
    spec = spec.model_copy(update={"kubernetes": plane})
    return asked_of_parts(spec, make_plan(spec, "x"), applied)


def test_what_this_stack_recorded_is_its_own() -> None:
    release = {"name": "gpu-operator", "namespace": "gpu-operator", "description": ""}
    applied = Applied(
        objects={"rail-0": cast("Any", NAD), "secret": {}}, releases={"gpu": cast("Any", release)}
    )
    found = asked("theirs.yaml", applied)
    assert found.applied == {"NetworkAttachmentDefinition default/macvlan156"}
    assert found.releases == {("gpu-operator", "gpu-operator")}


def test_the_programs_of_the_address_management_are_of_their_part() -> None:
    """Else an nv-ipam of others is told as an object to delete, and not as `nv_ipam: theirs`."""
    spec = load_checked_site(EXAMPLES / "shared-rdma" / "existing.yaml").spec_or_raise()
    network = spec.pod_network.model_copy(update={"ipam": "nv-ipam"})
    plan = make_plan(spec.model_copy(update={"pod_network": network}), "x")
    found = {
        f"{body['kind']} {cast('Any', body['metadata'])['name']}": part
        for part, body in asked_of_parts(spec, plan, Applied()).objects
        if body["kind"] in {"DaemonSet", "Deployment", "CustomResourceDefinition"}
        and "ipam" in str(body["metadata"])
    }
    assert found == {
        "CustomResourceDefinition cidrpools.nv-ipam.nvidia.com": "nv_ipam",
        "CustomResourceDefinition ippools.nv-ipam.nvidia.com": "nv_ipam",
        "DaemonSet nv-ipam-node": "nv_ipam",
        "Deployment nv-ipam-controller": "nv_ipam",
    }


def test_resources_of_others_are_asked_of_each_node_by_its_own_name() -> None:
    found = asked("theirs.yaml", Applied())
    wanted = {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_b": 500, "rdma/hca": 500}
    assert found.nodes == {
        "node03.dc1.example.com": wanted,
        "node04.dc1.example.com": wanted,
    }
    assert asked("existing.yaml", Applied()).nodes == {"node03": {}, "node04": {}}
    assert found.runtime_class == "nvidia"


def test_attachments_of_others_are_compared_with_what_ours_would_be() -> None:
    ours, theirs = (asked("theirs.yaml", Applied(), attachments=who) for who in ("ours", "theirs"))
    assert ours.attachments == ()
    (wanted,) = theirs.attachments
    assert cast("Any", wanted["metadata"])["name"] == "macvlan156"
    made = {cast("Any", body["metadata"])["name"] for _, body in ours.objects}
    kept = {cast("Any", body["metadata"])["name"] for _, body in theirs.objects}
    assert made - kept == {"macvlan156"}  # the probe's own stays ours


def test_of_each_namespace_one_pod_is_tried_that_asks_for_most() -> None:
    spec = load_checked_site(EXAMPLES / "shared-rdma/existing.yaml").spec_or_raise()
    pods = dict(tried_pods(make_plan(spec, "x")))
    assert {*pods} == {"default", "kube-system"}
    assert pods["kube-system"]["hostNetwork"] is True
    assert "serviceAccountName" not in pods["kube-system"]
    assert "IPC_LOCK" in str(pods["default"])


def test_problems_refuse_an_update_and_warnings_do_not() -> None:
    def finding(severity: Severity) -> Finding:
        return on_device("cluster", "multus-foreign", "Two.", "a", "none", "write theirs").rated(
            severity
        )

    refuse((finding("warning"),))
    with pytest.raises(UsageError) as refused:
        refuse((finding("warning"), finding("error")))
    assert str(refused.value) == (
        "multus-foreign: Two.\n  where  cluster  a; wanted: none\n  fix    write theirs\n"
        "Nothing was changed on any device."
    )

"""On a cluster that is there: its own CNI folders, its own Multus, its taints."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.probes.probe_plan import plan_probes
from components.catalogue.cluster_parts import CniPaths
from components.core.to_json import to_json
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ClusterParts, CniFolders, ExistingPlane, Toleration
from components.model.owners import cni_paths
from components.plan.make import make_plan
from components.pod_network.manifests import make
from components.pod_network.pod_network_plan import plan_pod_network
from tests.golden.site import load_example

K3S = "/var/lib/rancher/k3s"
UPSTREAM = ("/etc/cni/net.d", "/opt/cni/bin")
OWN = ("/srv/cni/conf", "/srv/cni/bin")


def existing(version: str = "v1.36.3", **more: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the plane
    spec = load_example("dgx-roce")
    plane = ExistingPlane(plane="existing", version=version, **more)
    hosts = tuple(host for host in spec.hosts if host.role == "worker")
    return spec.model_copy(update={"kubernetes": plane, "hosts": hosts})


def theirs(*parts: str) -> ClusterSpec:
    return existing(components=ClusterParts.model_validate(dict.fromkeys(parts, "theirs")))


def names_of(spec: ClusterSpec) -> list[str]:
    bodies: list[Any] = [each.body for each in plan_pod_network(spec).manifests]
    return [f"{body['kind']}/{body['metadata']['name']}" for body in bodies]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (load_example("dgx-roce"), (f"{K3S}/agent/etc/cni/net.d", f"{K3S}/data/cni")),
        (existing("v1.36.3+k3s1"), (f"{K3S}/agent/etc/cni/net.d", f"{K3S}/data/cni")),
        (existing("v1.33.4+rke2r1"), UPSTREAM),
        (existing("v1.33.4"), UPSTREAM),
        (existing("v1.33.4-eks-99d6cc0"), UPSTREAM),
        (existing(distribution="kubespray"), UPSTREAM),
        (existing(distribution="k3s"), (f"{K3S}/agent/etc/cni/net.d", f"{K3S}/data/cni")),
        (
            existing(distribution="microk8s"),
            (
                "/var/snap/microk8s/current/args/cni-network",
                "/var/snap/microk8s/current/opt/cni/bin",
            ),
        ),
        (existing("v1.36.3+k3s1", cni=CniFolders(net_d=OWN[0], bin=OWN[1])), OWN),
    ],
)
def test_the_folders_are_those_of_the_cluster(spec: ClusterSpec, wanted: tuple[str, str]) -> None:
    assert cni_paths(spec) == CniPaths(*wanted)
    text = json.dumps(to_json(plan_pod_network(spec)))
    for folder in wanted:
        assert folder in text
    for other in {K3S, UPSTREAM[1], OWN[1]}:
        if not any(folder.startswith(other) for folder in wanted):
            # Inside of containers the upstream names stay, behind /host.
            assert f'"path": "{other}' not in text


@pytest.mark.parametrize("version", ["v1.36.3", "v1.36.3+k3s1"])
def test_no_path_is_mounted_twice(version: str) -> None:
    """The API refuses a container whose mountPath is not unique."""
    bodies: list[Any] = [each.body for each in plan_pod_network(existing(version)).manifests]
    sets = [body["spec"]["template"]["spec"] for body in bodies if body["kind"] == "DaemonSet"]
    assert len(sets) == 5
    for pod in sets:
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            paths = [each["mountPath"] for each in container.get("volumeMounts", ())]
            assert len(paths) == len(set(paths)), container["name"]


def test_only_a_foreign_cluster_is_looked_at_and_that_before_anything_is_installed() -> None:
    assert "cni-folders" not in json.dumps(to_json(plan_pod_network(load_example("dgx-roce"))))
    first, *rest = plan_pod_network(existing()).manifests
    assert (first.kind, first.name, first.group) == ("DaemonSet", "cni-folders", 0)
    assert {each.group for each in rest} == {1, 2, 3}


def test_nothing_is_looked_at_where_nothing_of_ours_goes_into_the_folders() -> None:
    names = names_of(theirs("multus", "whereabouts", "sriov_cni", "attachments"))
    assert names == [
        "ServiceAccount/sriov-device-plugin",
        "ConfigMap/sriovdp-config-900e805227",
        "DaemonSet/sriov-device-plugin",
        "NetworkAttachmentDefinition/sriov111-probe",
        "NetworkAttachmentDefinition/sriov112-probe",
    ]


CALICO = """{"name": "k8s-pod-network", "cniVersion": "0.3.1", "plugins": [
  {"type": "calico", "ipam": {"type": "calico-ipam"}, "policy": {"type": "k8s"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
"""
"""As Calico writes 10-calico.conflist, shortened (projectcalico/calico, cni-plugin)."""


def _run(folders: Path) -> subprocess.CompletedProcess[str]:
    paths = CniPaths("/etc/cni/net.d", "/opt/cni/bin")
    script: str = make("cni-folders", image="i", paths=paths)["initContainers"][0]["command"][-1]
    script = script.replace("/host/etc/cni/net.d", str(folders / "net.d"))
    script = script.replace("/host/opt/cni/bin", str(folders / "bin"))
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)


def test_the_look_at_a_node_in_a_real_shell(tmp_path: Path) -> None:
    conf, programs = tmp_path / "net.d", tmp_path / "bin"
    conf.mkdir()
    programs.mkdir()
    empty = _run(tmp_path)
    assert empty.returncode == 1
    assert "no CNI configuration in /etc/cni/net.d of this node" in empty.stderr
    assert "kubernetes.distribution" in empty.stderr
    (conf / "00-multus.conf").write_text(CALICO)
    assert _run(tmp_path).returncode == 1
    (conf / "10-calico.conflist").write_text(CALICO)
    wrong = _run(tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr == (
        "none of the programs of 10-calico.conflist is in /opt/cni/bin of this node: calico"
        " calico-ipam k8s portmap (kubelet reads another folder: write kubernetes.distribution,"
        " or kubernetes.cni with net_d and bin)\n"
    )
    (programs / "calico").touch(0o755)
    assert _run(tmp_path).returncode == 0


def test_a_multus_that_is_there_is_left_alone() -> None:
    with_ours, without = names_of(existing()), names_of(theirs("multus"))
    assert "DaemonSet/multus" in with_ours
    assert sorted(set(with_ours) - set(without)) == [
        "ClusterRole/multus",
        "ClusterRoleBinding/multus",
        "CustomResourceDefinition/network-attachment-definitions.k8s.cni.cncf.io",
        "DaemonSet/multus",
        "ServiceAccount/multus",
    ]


def test_jobs_and_probes_tolerate_what_the_file_says() -> None:
    taint = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
    wanted = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    probes = plan_probes(existing(tolerations=(taint,)))
    bodies = [*probes.memlock, *(body for job in probes.jobs for body in job.objects)]
    assert len(bodies) == 9
    for body in bodies:
        text = json.dumps(body)
        pods = 2 if body["kind"] == "MPIJob" else 1
        assert text.count(json.dumps({"tolerations": [wanted]}).strip("{}")) == pods
    plain = plan_probes(existing())
    assert "tolerations" not in json.dumps([body for job in plain.jobs for body in job.objects])


def test_pods_with_gpus_alone_have_the_runtime_class() -> None:
    probes = plan_probes(existing(runtime_class="nvidia"))
    by_kind: dict[str, list[str]] = {}
    for job in probes.jobs:
        for body in job.objects:
            by_kind.setdefault(job.probe.kind, []).append(json.dumps(body))
    for kind in ("nccl", "node"):
        assert all(text.count('"runtimeClassName": "nvidia"') == 1 for text in by_kind[kind])
    assert not any("runtimeClassName" in text for text in by_kind["perftest"])
    assert "runtimeClassName" not in json.dumps(to_json(plan_pod_network(existing())))


def test_a_node_has_its_own_name_everywhere_in_the_cluster() -> None:
    spec = existing()
    named = spec.hosts[0].model_copy(update={"node_name": "gpu01.dc1.example.com"})
    spec = spec.model_copy(update={"hosts": (named, *spec.hosts[1:])})
    plan = plan_acceptance(spec)
    assert dict(plan.nodes) == {"gpu01": "gpu01.dc1.example.com"}
    jobs = [probe.job for probe in (*plan.probes, *plan.images) if probe.job]
    text = json.dumps([*plan.memlock, *(body for job in jobs for body in job.objects)])
    for key in ('"kubernetes.io/hostname": "gpu01.dc1.example.com"', '"values": ["gpu01.dc1'):
        assert key in text
    assert '"gpu01"' not in text
    (group, _) = make_plan(spec, "dev").reboots
    request = group.steps[0].request
    assert request.node_name == "gpu01.dc1.example.com"
    assert request.group == ("gpu01.dc1.example.com",)
    assert request.cluster is not None
    assert "gpu01.dc1.example.com" in request.workers

"""Operator values, the MPI operator's manifest and the probes of the example."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from ci.pack_manifest import pack
from components.acceptance.probes.probe_job import RAIL_ADDRESS
from components.acceptance.probes.probe_plan import ClusterProbes, plan_probes
from components.jobs.job_plan import plan_jobs
from components.jobs.templates import number_objects
from components.kubernetes.manifest import load_vendored
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import plan_operators
from tests.golden.site import changed_spec, load_example


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


@pytest.fixture
def plan(spec: ClusterSpec) -> ClusterProbes:
    return plan_probes(spec)


def bodies_of(plan: ClusterProbes, probe: int, run: int = 7) -> list[Any]:
    return [*number_objects(plan.jobs[probe].objects, run)]


PAIRS = slice(2, 4)
"""The perftests, after the looks at two nodes; then comes the collective."""


def test_the_gpu_gate_waits_for_the_operators_own_word(spec: ClusterSpec) -> None:
    gate = plan_operators(spec).manifests[0]
    assert gate.kind == "ClusterPolicyPatch"
    metadata: Any = gate.body["metadata"]
    assert metadata["annotations"]["pulumi.com/waitFor"] == "jsonpath={.status.state}=ready"
    assert "namespace" not in metadata


def test_without_a_gpu_operator_nothing_is_installed(spec: ClusterSpec) -> None:
    bare = changed_spec(spec, operators=spec.operators.model_copy(update={"gpu": None}))
    assert plan_operators(bare).charts == ()
    assert plan_operators(bare).manifests == ()


def test_every_rail_and_all_ranks_are_proven(spec: ClusterSpec, plan: ClusterProbes) -> None:
    assert [probe.probe.name for probe in plan.jobs] == [
        "node-gpu01",
        "node-gpu02",
        "perftest-rail-0-gpu01-gpu02",
        "perftest-rail-1-gpu01-gpu02",
        "nccl-all-reduce",
    ]
    assert plan.rounds == (1, 1, 2, 3, 0)
    assert plan.jobs[-1].probe.ranks == sum(host.gpus for host in spec.workers) == 16


def test_one_traffic_class_in_every_probe(spec: ClusterSpec) -> None:
    marked = changed_spec(spec, rdma=spec.rdma.model_copy(update={"dscp": 46}))
    plan = plan_probes(marked)
    for probe in plan.jobs[PAIRS]:
        assert probe.command[probe.command.index("-T") + 1] == "186"
    assert "NCCL_IB_TC=186" in plan.jobs[-1].command
    worker = bodies_of(plan, -1)[0]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert {"name": "NCCL_IB_TC", "value": "186"} in worker["containers"][0]["env"]


def test_the_gid_index_is_set_only_where_the_file_says_so(spec: ClusterSpec) -> None:
    assert "NCCL_IB_GID_INDEX" not in " ".join(plan_probes(spec).jobs[-1].command)
    jobs = spec.jobs.model_copy(update={"gid_index": 5})
    assert "NCCL_IB_GID_INDEX=5" in plan_probes(changed_spec(spec, jobs=jobs)).jobs[-1].command


def test_the_mpi_job_asks_for_what_the_rails_publish(plan: ClusterProbes) -> None:
    body = bodies_of(plan, -1)[0]
    assert body["metadata"]["name"] == "nccl-all-reduce-7"
    assert body["spec"]["slotsPerWorker"] == 8
    assert body["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    template = body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    networks = template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks == "sriov111,sriov112"
    container = template["spec"]["containers"][0]
    assert container["resources"]["limits"] == {
        "intel.com/sriov_111": 1,
        "intel.com/sriov_112": 1,
        "nvidia.com/gpu": 8,
    }
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


def test_the_client_knows_its_servers_address_and_both_run_where_planned(
    plan: ClusterProbes,
) -> None:
    server, client = bodies_of(plan, PAIRS.start)
    assert plan.jobs[PAIRS.start].watched == 1
    texts = [body["spec"]["containers"][0]["command"][2] for body in (server, client)]
    assert RAIL_ADDRESS not in texts[0]
    assert texts[1].count(RAIL_ADDRESS) == 1
    nodes = [body["spec"]["nodeSelector"] for body in (server, client)]
    assert nodes == [{"kubernetes.io/hostname": "gpu02"}, {"kubernetes.io/hostname": "gpu01"}]


def test_every_name_of_a_run_is_numbered_and_fits(plan: ClusterProbes) -> None:
    for index in range(len(plan.jobs)):
        for body in bodies_of(plan, index, run=12345):
            assert body["metadata"]["name"].endswith("-12345")
            assert len(body["metadata"]["name"]) <= 63
            assert "RUN-NUMBER" not in json.dumps(body)


@pytest.mark.parametrize("length", [18, 40, 63])
def test_jobs_of_hosts_with_long_names_fit_and_differ(spec: ClusterSpec, length: int) -> None:
    """A Job's name may have 63 characters: it becomes a label; a pod's name fits a host name."""
    hosts = tuple(
        host.model_copy(update={"name": host.name.ljust(length, "x")}) for host in spec.hosts
    )
    plan = plan_probes(changed_spec(spec, hosts=hosts))
    jobs = (*plan.memlock, *(body for job in plan.jobs for body in job.objects))
    bodies: list[Any] = [*number_objects(jobs, 1_234_567_890)]
    names = [body["metadata"]["name"] for body in bodies if body["kind"] == "Pod"]
    assert len(names) == len(set(names)) == 2 * len(spec.workers) + 2 * 2
    assert max(map(len, names)) <= 63


def test_workers_of_a_kind_with_a_long_name_have_names_that_are_dns_labels(
    spec: ClusterSpec,
) -> None:
    """`validateMPIJobName` of mpi-operator: NAME-worker-LAST must be a label of 63 characters."""
    first, *others = (
        host.model_copy(update={"name": host.name.ljust(63, "x")}) for host in spec.workers
    )
    odd = first.model_copy(update={"name": "odd".ljust(63, "y"), "gpus": 4})
    more = odd.model_copy(update={"name": "odd".ljust(63, "z")})
    spec = changed_spec(spec, hosts=(*spec.hosts[:1], first, *others, odd, more))
    jobs = [job for job in plan_probes(spec).jobs if job.probe.kind == "nccl"]
    objects = tuple(body for job in jobs for body in job.objects)
    bodies: list[Any] = [*number_objects(objects, 1_234_567_890)]
    names = [body["metadata"]["name"] for body in bodies]
    assert len(set(names)) == 2
    assert max(len(f"{name}-worker-1") for name in names) <= 63


@pytest.mark.parametrize("which", [0, 1])
def test_the_pods_scripts_parse(plan: ClusterProbes, which: int) -> None:
    body = bodies_of(plan, PAIRS.start)[which]
    script = body["spec"]["containers"][0]["command"][2]
    assert script.splitlines()[-1].startswith("run ib_write_bw -R ")
    done = subprocess.run(
        ["/bin/sh", "-n"], input=script, capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == 0, done.stderr


def test_without_the_mpi_operator_no_all_reduce_is_planned(spec: ClusterSpec) -> None:
    jobs = spec.jobs.model_copy(update={"mpi_operator": False})
    changed = changed_spec(spec, jobs=jobs)
    assert plan_jobs(changed).manifests == ()
    plan = plan_probes(changed)
    assert {probe.probe.kind for probe in plan.jobs} == {"node", "perftest"}


def test_the_mpi_operators_objects_come_in_order(spec: ClusterSpec) -> None:
    plan = plan_jobs(spec)
    kinds = [manifest.kind for manifest in plan.manifests]
    assert kinds[0] == "Namespace"
    assert kinds[-1] == "Deployment"
    assert [m.group for m in plan.manifests] == sorted(m.group for m in plan.manifests)
    crd: Any = next(m.body for m in plan.manifests if m.kind == "CustomResourceDefinition")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(schema["properties"]) >= {"slotsPerWorker", "launcherCreationPolicy", "runPolicy"}


def test_packing_drops_prose_and_keeps_a_property_called_description() -> None:
    text = """
kind: CustomResourceDefinition
spec:
  schema:
    description: prose
    properties:
      description: {type: string, description: prose}
"""
    import gzip  # noqa: PLC0415 - needed here alone

    packed = json.loads(gzip.decompress(pack(text)))
    assert packed[0]["spec"]["schema"] == {"properties": {"description": {"type": "string"}}}
    assert pack(text) == pack(text)


def test_vendored_files_hold_what_their_names_say() -> None:
    operator: Any = load_vendored("components.jobs", "mpi-operator-v0.8.2.json.gz")[-1]
    image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "mpioperator/mpi-operator:0.8.2"

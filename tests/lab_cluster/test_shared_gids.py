"""What a pod on a shared card sees of others' GIDs, and how DeepSpeed's ranks find their cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from components.acceptance.probes.probe_plan import plan_probes
from components.jobs.templates import job_script
from lab.cluster.document import Doc
from lab.cluster.launcher import JOB_NAME, JOB_ROLE, run_launcher
from lab.cluster.pod_probe import World, container_of, probe_pod
from lab.cluster.pod_shell import run_script
from lab.cluster.pod_start import why_not_started
from lab.cluster.pod_view import NETWORK_STATUS, NETWORKS, NodeState, Pod
from tests.lab_cluster.test_pod_devices import (
    SHARED,
    Physics,
    attached,
    definitions,
    limits,
    make_pod,
    shared_devices,
    shared_node,
)


def test_a_macvlan_pod_reads_the_gids_of_others_as_zero(tmp_path: Path) -> None:
    """As `show_gids` lists them in NVIDIA/nccl#1573, and as NCCL reads their types there."""
    node = shared_node(shared_devices(tmp_path, address="10.106.156.3"))
    look = (
        "cd /sys/class/infiniband/mlx5_2/ports/1\n"
        "for i in 0 1 2 3 4 5 6 7 8; do\n"
        '  echo "$i $(cat gids/$i) $(cat gid_attrs/types/$i) $(cat gid_attrs/ndevs/$i)"\n'
        "done 2>&1\n"
    )
    pod = make_pod("p", limits(rdma__hca=1), annotations={NETWORKS: "macvlan156"})
    bound = attached(node, pod)
    cast("Doc", bound.document["spec"])["nodeName"] = "node03"
    neighbour = bound.noted({})
    world = World({"node03": node}, [], definitions())
    said = run_script(["/bin/sh", "-c", look], container_of(neighbour, world)).output
    assert said.count("types/0: Invalid argument") == said.count("ndevs/3: Invalid argument") == 1
    rows = [line for line in said.splitlines() if line[0].isdigit()]
    zero = "0000:0000:0000:0000:0000:0000:0000:0000"
    assert [row.split()[1] for row in rows[:4]] == [zero] * 4
    assert rows[6] == "6 0000:0000:0000:0000:0000:ffff:0a6a:9c01 IB/RoCE v1 net1"
    assert rows[7] == "7 0000:0000:0000:0000:0000:ffff:0a6a:9c01 RoCE v2 net1"
    assert "gids/8: No such file or directory" in said


def test_a_neighbours_gids_are_hidden_too(tmp_path: Path) -> None:
    node = shared_node(shared_devices(tmp_path))
    pods: list[Pod] = []
    for name in ("one", "two"):
        pod = make_pod(name, limits(rdma__hca=1), annotations={NETWORKS: "macvlan156"})
        bound = attached(node, pod)
        cast("Doc", bound.document["spec"])["nodeName"] = "node03"
        pods.append(bound)
    alone = World({"node03": node}, pods[:1], definitions())
    both = World({"node03": node}, pods, definitions())
    script = job_script("rdma_shared_device") + 'exec ib_write_bw -d "$hca" -x "$gid"\n'
    for world, gid, hidden in ((alone, "5", None), (both, "9", True)):
        run = run_script(["/bin/sh", "-c", script], container_of(pods[len(world.pods) - 1], world))
        assert run.call == ("ib_write_bw", "-d", "mlx5_2", "-x", gid)
        (network,) = cast("list[Doc]", probe_pod(pods[0], world)["networks"])
        assert network.get("hidden_gids") is hidden


def deepspeed_pods(node: NodeState) -> tuple[list[Pod], World]:
    """The planned worker of the scan on a node, and its launcher."""
    (body,) = next(
        job.objects for job in plan_probes(SHARED).jobs if job.probe.kind == "deepspeed_scan"
    )
    replicas = cast("Any", body)["spec"]["mpiReplicaSpecs"]
    pods: list[Pod] = []
    for role in ("worker", "launcher"):
        template = replicas[role.capitalize()]["template"]
        labels = {JOB_NAME: "job", JOB_ROLE: role}
        notes = template.get("metadata", {}).get("annotations", {})
        spec = {**template["spec"], "nodeName": "node03", "hostname": role, "subdomain": "job"}
        pod = make_pod(role, spec, labels=labels, annotations=notes)
        cast("Doc", pod.document["status"])["podIP"] = "198.18.0.7"
        pods.append(attached(node, pod) if NETWORKS in notes else pod)
    services, hostfile = frozenset({"default/job"}), "worker.job.default.svc slots=8\n"
    return pods, World(
        {"node03": node}, pods[:1], definitions(), {"default/job": hostfile}, services
    )


def test_ranks_of_deepspeed_are_bound_to_the_cards_of_their_rails(tmp_path: Path) -> None:
    devices = shared_devices(tmp_path, address="10.106.156.3")
    other = replace(devices.cards[0], pci="0000:59:00.0", netdev="enp89s0", rdma="mlx5_3")
    node = shared_node(replace(devices, cards=(*devices.cards, other)))
    assert len(node.shared[0].cards) == 2, "the pod may open both"
    (worker, launcher), world = deepspeed_pods(node)
    assert why_not_started(worker, world) is None
    physics = Physics()
    ended = run_launcher(launcher, world, cast("Any", physics))
    assert ended.exit_code == 0, ended.log
    (pod,) = cast("list[Doc]", physics.asked[0]["pods"])
    assert pod["rank_env"] == {"NCCL_IB_HCA": "=mlx5_2:1"}


def test_a_worker_of_deepspeed_that_is_on_no_rail_says_so_and_ends(tmp_path: Path) -> None:
    node = shared_node(shared_devices(tmp_path))
    (worker, _), world = deepspeed_pods(node)
    lost = worker.noted({NETWORK_STATUS: "[]"})
    end = why_not_started(lost, world)
    assert end is not None
    assert (end.exit_code, end.reason) == (1, "Error")
    assert "no RDMA device has a GID of net1 on worker: is the pod on that rail?" in end.log
    container = worker.containers[0]
    container["image"] = "lab.railyard.dev/no-run-sshd:1"
    end = why_not_started(worker, world)
    assert end is not None
    assert (end.exit_code, end.log) == (255, "Missing privilege separation directory: /run/sshd\n")

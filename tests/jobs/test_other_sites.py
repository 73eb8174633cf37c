"""Jobs on shared cards, on whole InfiniBand adapters, and DeepSpeed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.acceptance.probes.probe_plan import ClusterProbes, plan_probes
from components.core.errors import SpecError
from components.jobs.job_plan import JobsPlan, deepspeed_workers, plan_jobs
from components.jobs.templates import (
    find_hcas,
    job_script,
    nccl_environment,
    number_objects,
    on_devices,
    sshd_command,
)
from components.model.cluster import ClusterSpec
from tests.golden.site import load_example
from tests.lab_physics.examples import example

SHARED, CLOUD = example("shared-rdma"), example("crusoe-k3s")


def bodies(plan: ClusterProbes, name: str) -> list[Any]:
    job = next(job for job in plan.jobs if job.probe.name == name)
    return [*number_objects(job.objects, 7)]


def worker_of(plan: ClusterProbes, name: str) -> Any:  # noqa: ANN401 - free JSON
    return bodies(plan, name)[0]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def test_collectives_of_the_cloud_are_a_probe_each() -> None:
    plan = plan_probes(CLOUD)
    assert [(job.probe.name, job.probe.collective) for job in plan.jobs[2:]] == [
        ("nccl-all-reduce", "all_reduce"),
        ("nccl-all-gather", "all_gather"),
        ("nccl-reduce-scatter", "reduce_scatter"),
        ("nccl-alltoall", "alltoall"),
    ]
    assert [job.probe.ranks for job in plan.jobs] == [8, 8, 16, 16, 16, 16]


def test_a_worker_of_the_cloud_has_all_adapters_and_its_topology_file() -> None:
    pod = worker_of(plan_probes(CLOUD), "nccl-all-reduce")["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8}
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/dev/shm", "/opt/nccl_topo/h100-80gb-sxm-ib.xml"}
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert paths == ["/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml"]
    env = {item["name"]: item["value"] for item in container["env"]}
    assert env["NCCL_TOPO_FILE"] == "/opt/nccl_topo/h100-80gb-sxm-ib.xml"
    assert "hostNetwork" not in pod


def test_infiniband_is_told_what_the_cloud_needs_and_nothing_of_roce() -> None:
    env = nccl_environment(CLOUD)
    assert env["NCCL_IB_PCI_RELAXED_ORDERING"] == "1"
    assert env["NCCL_ALGO"] == "RING"
    assert not {"NCCL_IB_TC", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA"} & set(env)


def test_no_list_of_adapters_is_fixed_anywhere() -> None:
    text = yaml.safe_dump_all(bodies(plan_probes(CLOUD), "nccl-all-reduce"))
    assert "mlx5_" not in text


Port = tuple[str, str, str]


def search(folder: Path, ports: dict[str, Port]) -> subprocess.CompletedProcess[str]:
    for name, (layer, state, rate) in ports.items():
        port = folder / "ib" / name / "ports" / "1"
        port.mkdir(parents=True)
        for file, value in (("link_layer", layer), ("state", state), ("rate", rate)):
            (port / file).write_text(f"{value}\n")
    command = find_hcas(("/bin/sh", "-c", 'echo "$NCCL_IB_HCA $UCX_NET_DEVICES $1"', "x", "last"))
    return subprocess.run(
        command,
        env={
            "PATH": "/usr/bin:/bin",
            "RAILYARD_INFINIBAND": str(folder / "ib"),
            "RAILYARD_DEVICES": str(folder / "dev"),
        },
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


IB, ACTIVE, NDR = "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)"


def test_the_search_keeps_active_adapters_of_the_highest_rate(tmp_path: Path) -> None:
    done = search(
        tmp_path,
        {
            "mlx5_0": (IB, ACTIVE, "100 Gb/sec (4X EDR)"),
            "mlx5_1": (IB, ACTIVE, NDR),
            "mlx5_2": (IB, "1: DOWN", NDR),
            "mlx5_4": ("Ethernet", ACTIVE, NDR),
            "mlx5_5": (IB, ACTIVE, NDR),
        },
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "=mlx5_1:1,mlx5_5:1 mlx5_1:1,mlx5_5:1 last\n"


def test_a_pod_with_vfs_leaves_their_pfs_alone(tmp_path: Path) -> None:
    """In shared mode a pod sees all devices; it has the character devices of its own alone."""
    for number in range(3):
        (tmp_path / f"ib/mlx5_{number}/device/infiniband_verbs/uverbs{number}").mkdir(parents=True)
    own = tmp_path / "dev"
    own.mkdir()
    (own / "uverbs1").touch()
    done = search(tmp_path, {f"mlx5_{number}": (IB, ACTIVE, NDR) for number in range(3)})
    assert done.stdout == "=mlx5_1:1 mlx5_1:1 last\n", done.stderr


@pytest.mark.parametrize("ports", [{}, {"mlx5_4": ("Ethernet", ACTIVE, NDR)}])
def test_a_search_that_finds_nothing_ends_the_rank(tmp_path: Path, ports: dict[str, Port]) -> None:
    done = search(tmp_path, ports)
    assert done.returncode == 1
    assert "no active InfiniBand port" in done.stderr


def test_pods_on_shared_cards_ask_for_the_published_name() -> None:
    plan = plan_probes(SHARED)
    server, client = bodies(plan, "perftest-send-cm-node03-node04")
    for body in (server, client):
        assert body["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "macvlan156"
        (container,) = body["spec"]["containers"]
        assert container["resources"]["limits"] == {"rdma/hca_shared_devices_b": 1}
        assert "rdma_device" not in container["command"][2]
        assert "RAIL_INTERFACE" in container["command"][2]


def test_the_notes_invocations_keep_their_options() -> None:
    lines = [" ".join(job.command) for job in plan_probes(SHARED).jobs[3:8]]
    tail = "--report_gbits -F SERVER-RAIL-ADDRESS"
    device = "-d $hca -x $gid"
    assert lines == [
        f"ib_read_bw {device} --tclass=106 -q 30 {tail}",
        f"ib_write_bw {device} --tclass=106 {tail}",
        f"ib_send_bw -R {device} -T 106 {tail}",
        f"ib_write_bw {device} --tclass=106 -a {tail}",
        f"ib_write_bw {device} --tclass=106 -D 10 --cpu_util {tail}",
    ]


def test_in_the_hosts_network_the_card_is_named_and_has_its_address() -> None:
    network = SHARED.pod_network.model_copy(update={"host_network": True})
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"address": f"10.106.156.{host.name[-1]}"})
                    for nic in host.nics
                )
            }
        )
        for host in SHARED.hosts
    )
    plan = plan_probes(SHARED.model_copy(update={"pod_network": network, "hosts": hosts}))
    _, client = bodies(plan, "perftest-read-q30-node03-node04")
    pod = client["spec"]
    assert pod["hostNetwork"] is True
    assert pod["containers"][0]["env"] == [{"name": "RAIL_INTERFACE", "value": "enp88s0"}]
    assert "10.106.156.4" in pod["containers"][0]["command"][2]
    assert worker_of(plan, "nccl-all-reduce")["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "oob_tcp_if_include" not in plan.jobs[8].command


def test_ranks_on_shared_cards_look_for_those_of_their_rails() -> None:
    command = next(job for job in plan_probes(SHARED).jobs if job.probe.kind == "nccl").command
    script = command[command.index("/bin/sh") + 2]
    assert script.startswith("interfaces=net1\n")
    assert command[-9:-8] == ("all_reduce_perf",)


def test_cards_of_one_rail_must_have_one_name_in_the_hosts_network() -> None:
    network = SHARED.pod_network.model_copy(update={"host_network": True})
    odd = SHARED.hosts[2].nics[0].model_copy(update={"netdev": "enp1s0"})
    hosts = (*SHARED.hosts[:2], SHARED.hosts[2].model_copy(update={"nics": (odd,)}))
    spec = SHARED.model_copy(update={"pod_network": network, "hosts": hosts})
    with pytest.raises(SpecError, match="rail-0 are named enp1s0, enp88s0"):
        on_devices(spec, ("all_reduce_perf",))


def test_deepspeed_has_a_volume_that_every_node_can_mount() -> None:
    found = {m.kind: m.body for m in plan_jobs(SHARED).manifests if "deepspeed" in m.resource_name}
    assert set(found) == {
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ConfigMap",
        "Deployment",
        "Service",
    }
    volume: Any = found["PersistentVolume"]
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["nfs"] == {"server": "10.106.124.2", "path": "/data"}
    claim: Any = found["PersistentVolumeClaim"]
    assert claim["metadata"]["name"] == "training-data"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    board: Any = found["Deployment"]
    command = board["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:3] == ["tensorboard", "--logdir", "/data/deepspeed_data"]
    assert "namespace" not in volume["metadata"]


def test_the_sample_training_is_a_job_that_can_be_created() -> None:
    config: Any = next(
        m.body for m in plan_jobs(SHARED).manifests if m.resource_name.startswith("deepspeed-conf")
    )
    job: Any = yaml.safe_load(config["data"]["job.yaml"])
    assert (job["kind"], job["metadata"]["name"]) == ("MPIJob", "deepspeed-helloworld")
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    script = launcher["containers"][0]["command"][2]
    assert "train_bert_ds.py --checkpoint_dir /data/deepspeed_data" in script
    assert launcher["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "training-data"}}
    ]
    assert "RUN-NUMBER" not in config["data"]["job.yaml"]


def test_deepspeeds_workers_are_arenas() -> None:
    pod = worker_of(plan_probes(SHARED), "deepspeed-scan")["spec"]
    assert pod["nodeSelector"] == {"gpu-use-type": "exclusive", "rdma": "hca"}
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "rdma/hca": 1}
    assert tuple(container["command"][-8:]) == sshd_command(22)


def searches(spec: ClusterSpec, **changes: object) -> tuple[str, ...]:
    """The scripts that a worker of DeepSpeed runs before its sshd."""
    sample = SHARED.jobs.deepspeed
    assert sample is not None
    before = deepspeed_workers(spec, sample.model_copy(update=changes)).before
    scripts = before[2::4]
    assert before == tuple(
        word
        for script, name in zip(scripts, before[3::4], strict=True)
        for word in ("/bin/sh", "-c", script, name)
    )
    return scripts


def test_deepspeeds_workers_look_for_their_devices_before_pdsh_comes() -> None:
    """Its launcher starts ranks by pdsh, so no script of ours can stand before a rank."""
    keep = job_script("nccl_conf")
    shared = job_script("rail_hcas")
    assert searches(SHARED) == (f"interfaces=net1\n{shared}", keep)
    assert searches(SHARED, host_network=True) == (f"interfaces=enp88s0\n{shared}", keep)
    assert searches(CLOUD) == (job_script("ib_hcas"), keep)
    assert searches(example("dgx-roce")) == (), "a pod opens its own VFs alone"


@pytest.mark.parametrize("before", ["", "NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_9\n"])
def test_what_was_found_is_what_nccl_reads_first(tmp_path: Path, before: str) -> None:
    """NCCL's `setEnvFile` (src/misc/param.cc, v2.26.2-1) leaves a variable that is already set."""
    conf = tmp_path / "nccl.conf"
    if before:
        conf.write_text(before)
    script = job_script("nccl_conf").replace("/etc/nccl.conf", str(conf))
    done = subprocess.run(
        ["/bin/sh", "-c", script, "nccl_conf", "echo", "sshd", "-De"],
        env={"PATH": "/usr/bin:/bin", "NCCL_IB_HCA": "=mlx5_2:1,mlx5_3:1"},
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    assert done.stdout == "sshd -De\n"
    values: dict[str, str] = {}
    for line in conf.read_text().splitlines():
        name, _, value = line.partition("=")
        values.setdefault(name, value)
    assert values["NCCL_IB_HCA"] == "=mlx5_2:1,mlx5_3:1"
    assert values.get("NCCL_DEBUG", "") == ("WARN" if before else "")


def test_the_scan_reaches_messages_that_bandwidth_is_judged_on() -> None:
    plan = plan_probes(SHARED)
    script = bodies(plan, "deepspeed-scan")[0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    text = script["spec"]["containers"][0]["command"][2]
    assert "all_reduce.py --scan --maxsize 28 --dist torch" in text
    assert "StrictHostKeyChecking" not in text
    assert "ssh_known_hosts" in text


def launch(folder: Path, names: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The launcher's script, with the files of a pod and a DNS that knows some names."""
    (folder / "bin").mkdir()
    known = "".join(f'{name}) echo "{ip} $2" ;;\n' for name, ip in names.items())
    getent = folder / "bin" / "getent"
    getent.write_text(f"#!/bin/sh\ncase $2 in\n{known}*) exit 2 ;;\nesac\n")
    getent.chmod(0o755)
    for path, text in (
        ("etc/mpi/hostfile", "w-0.job.default.svc slots=8\nw-1.job.default.svc slots=8\n"),
        ("root/.ssh/id_rsa.pub", "ecdsa-sha2-nistp521 AAAA comment\n"),
        ("etc/ssh/ssh_config", "Host *\n  Port 2200\n"),
    ):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    script = job_script("deepspeed_launch").replace("deepspeed_call", 'echo "call $master"')
    script = script.replace("deepspeed_port", "2222")
    for top in ("/job", "/etc/", "/root/"):
        script = script.replace(f" {top}", f" {folder}{top}").replace(f">{top}", f">{folder}{top}")
    script = script.replace("done </job", f"done <{folder}/job")
    return subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


def test_the_launcher_finds_every_worker_and_pins_the_jobs_key(tmp_path: Path) -> None:
    names = {"w-0.job.default.svc": "10.42.1.7", "w-1.job.default.svc": "10.42.2.9"}
    done = launch(tmp_path, names)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "railyard: w-0.job.default.svc resolves to 10.42.1.7 (slots=8)",
        "railyard: w-1.job.default.svc resolves to 10.42.2.9 (slots=8)",
        "call w-0.job.default.svc",
    ]
    known = (tmp_path / "etc/ssh/ssh_known_hosts").read_text()
    assert known == "* ecdsa-sha2-nistp521 AAAA\n"
    config = (tmp_path / "etc/ssh/ssh_config").read_text()
    assert config == "Host *\n  Port 2222\nHost *\n  Port 2200\n", "ssh takes the first"


def test_a_worker_without_a_name_stops_the_launcher(tmp_path: Path) -> None:
    done = launch(tmp_path, {"w-0.job.default.svc": "10.42.1.7"})
    assert done.returncode == 1
    assert "w-1.job.default.svc of" in done.stderr
    assert "does not resolve" in done.stderr


def test_a_site_without_kubernetes_has_no_jobs() -> None:
    assert plan_jobs(example("esxi-roce")) == JobsPlan(())
    assert plan_probes(example("esxi-roce")) == ClusterProbes()


@pytest.mark.parametrize(("name", "value"), [("quantum-ufm", "1"), ("quantum-ib", None)])
def test_jobs_are_set_for_adaptive_routing_where_the_file_has_it(
    name: str, value: str | None
) -> None:
    assert nccl_environment(load_example(name)).get("NCCL_IB_ADAPTIVE_ROUTING") == value

"""The tests of perftest beside `ib_write_bw`, GPU memory, InfiniBand, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from components.core.errors import UsageError
from lab.hosts.cards import V100
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult
from lab.views import GpuView
from tests.lab_physics.examples import Played, example, gpu_views

ADDRESS = "10.106.156.254"


def play(client: str, server: str = "", site: Played | None = None) -> ProbeResult:
    """A test between the two nodes; without a server's options both ends have the client's."""
    played = site or Played(example("shared-rdma"))
    one, other = played.spec.workers
    tool = ("-d", "mlx5_0", "-x", "3", "--report_gbits", "-F")
    ask = (*client.split(), *tool, ADDRESS)
    serve = (*(server or client).split(), *tool)
    pods = (played.pod(other, serve, ADDRESS), played.pod(one, ask))
    return played.run(ProbeRequest("perftest", pods))


def log_of(result: ProbeResult) -> PerftestLog:
    log = parse_perftest_log(result.log)
    assert isinstance(log, PerftestLog)
    return log


@pytest.mark.parametrize(
    ("tool", "test"),
    [
        ("ib_write_bw", "RDMA_Write BW Test"),
        ("ib_read_bw", "RDMA_Read BW Test"),
        ("ib_send_bw", "Send BW Test"),
    ],
)
def test_each_tool_names_its_test(tool: str, test: str) -> None:
    result = play(f"{tool} -q 30 --tclass=106")
    assert result.exit_code == 0
    assert test in result.log
    assert "Number of qps   : 30" in result.log
    assert log_of(result).rows[0].average_gbit_s > 90


@pytest.mark.parametrize(
    ("tool", "test"),
    [
        ("ib_write_lat", "RDMA_Write Latency Test"),
        ("ib_read_lat", "RDMA_Read Latency Test"),
        ("ib_send_lat", "Send Latency Test"),
    ],
)
def test_a_latency_test_has_its_percentiles(tool: str, test: str) -> None:
    result = play(f"{tool} -n 20000")
    log = log_of(result)
    (row,) = log.latency
    assert (log.test, log.bad_rows, row.size_bytes) == (test, (), 2)
    assert 1 < row.typical_us < row.average_us < (row.tail_us or 0) < 50
    senders = {item.host for item in result.nic_deltas if item.tx_bytes}
    assert len(senders) == (1 if tool == "ib_read_lat" else 2)


def test_a_latency_test_of_some_seconds_has_an_average_alone() -> None:
    result = play("ib_write_lat -D 5")
    assert "tps average" in result.log
    assert log_of(result).bad_rows == ()


def test_the_memory_of_a_gpu_is_as_fast_as_its_link() -> None:
    played = Played(example("dgx-roce"))
    one, other = played.spec.workers

    def run(gpus: tuple[GpuView, ...], gpu: str = "--use_cuda_bus_id=0000:06:00.0") -> ProbeResult:
        call = ("ib_write_bw", "-R", "-d", "mlx5_0", "-F", "--report_gbits", *gpu.split())
        pods = played.pod(other, call), played.pod(one, (*call, "10.10.111.12"))
        with_gpus = tuple(replace(pod, gpu_views=gpus) for pod in pods)
        return played.run(ProbeRequest("perftest", with_gpus))

    sound = gpu_views(V100)
    result = run(sound)
    assert result.exit_code == 0, result.log
    assert "Finding PCIe BUS 0000:06:00.0\nPicking GPU number 0" in result.log
    assert log_of(result).rows[0].average_gbit_s > 90
    slow = (replace(sound[0], pcie_gen=1, pcie_width=8), *sound[1:])
    assert log_of(run(slow)).rows[0].average_gbit_s == pytest.approx(13.7, abs=0.1)
    assert log_of(run(slow, "--use_cuda 1")).rows[0].average_gbit_s > 90
    played.break_nics(peermem=False)
    refused = run(sound)
    assert refused.exit_code == 1
    assert "Couldn't allocate MR" in refused.log


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("--use_cuda_bus_id=0000:ff:00.0", "Failed to get PCI Bus ID (0000:ff:00.0)"),
        ("--use_cuda=8", "No such device ID (8) exists in system"),
    ],
)
def test_a_gpu_that_the_pod_has_not_is_refused(gpu: str, said: str) -> None:
    result = play(f"ib_write_bw {gpu}")
    assert (result.exit_code, said in result.log) == (1, True), result.log


def on_infiniband(tool: str, device: str, site: Played | None = None) -> ProbeResult:
    """A test between one adapter of each of two instances, over the pod network's addresses."""
    played = site or Played(example("crusoe-k3s"))
    one, other, *_ = played.spec.workers
    call = (*tool.split(), "-d", device, "-F", "--report_gbits")
    pods = (played.pod(other, call), played.pod(one, (*call, "10.42.0.7")))
    return played.run(ProbeRequest("perftest", pods))


@pytest.mark.parametrize(
    "tool", ["ib_write_bw -D 5", "ib_read_bw -D 5", "ib_send_bw", "ib_write_lat"]
)
def test_an_adapter_is_named_and_needs_no_gid(tool: str) -> None:
    result = on_infiniband(tool, "mlx5_3")
    log = log_of(result)
    assert result.exit_code == 0, result.log
    assert (log.device, log.link_type, log.gid_index) == ("mlx5_3", "IB", None)
    assert all(row.average_gbit_s > 360 for row in log.rows)
    assert {item.pci for item in result.nic_deltas} == {"0000:03:00.0"}


def test_an_adapter_without_an_address_or_a_link_is_refused() -> None:
    assert "ADDR_ERROR" in on_infiniband("ib_write_bw -R", "mlx5_3").log
    broken = Played(example("crusoe-k3s"))
    broken.break_hcas(("mlx5_3",), active=False)
    assert "state is Down" in on_infiniband("ib_write_bw", "mlx5_3", broken).log
    assert "not found" in on_infiniband("ib_write_bw", "mlx5_9").log


def test_rails_in_vlans_of_their_own_do_not_reach_each_other() -> None:
    played = Played(example("dgx-roce"), tagged=True)
    one, other = played.spec.workers
    call = ("ib_write_bw", "-R", "-F", "--report_gbits", "-d")
    pods = played.pod(other, (*call, "mlx5_1")), played.pod(one, (*call, "mlx5_0", "10.10.112.12"))
    refused = played.run(ProbeRequest("perftest", pods))
    assert refused.exit_code == 1
    assert {each.kind for each in log_of(refused).failures} <= {"no_route", "not_connected"}


def test_a_read_is_sent_by_the_server_in_the_servers_class() -> None:
    result = play("ib_read_bw --tclass=0", "ib_read_bw --tclass=106")
    sent = {item.host: set(item.tx_bytes) for item in result.nic_deltas if item.tx_bytes}
    assert sent == {"node04": {3}}


def test_the_cpus_share_is_a_column_of_its_own() -> None:
    log = log_of(play("ib_write_bw -D 10 --cpu_util"))
    assert log.rows[0].cpu_percent is not None
    assert log.bad_rows == ()
    assert log_of(play("ib_write_bw -D 10")).rows[0].cpu_percent is None


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ("ib_write_bw", "ib_read_bw"),
        ("ib_write_bw -a", "ib_write_bw"),
        ("ib_send_bw -R", "ib_send_bw"),
        ("ib_read_bw -q 30", "ib_read_bw"),
    ],
)
def test_ends_that_were_told_different_things_fail(client: str, server: str) -> None:
    result = play(client, server)
    assert result.exit_code == 1
    assert log_of(result).failures


@pytest.mark.parametrize("options", ["-a -D 10", "--cpu_util", "-z"])
def test_what_perftest_refuses_is_refused(options: str) -> None:
    with pytest.raises(UsageError):
        play(f"ib_write_bw {options}")


def test_a_machine_of_its_own_uses_its_cards_by_name() -> None:
    played = Played(example("esxi-roce"))
    call = ("ib_write_bw", "-R", "-d", "mlx5_0", "-T", "106", "-D", "5", "--report_gbits")
    locks = ("IPC_LOCK",)
    server = ProbePod("vm02", "vm02", call, host_network=True, capabilities=locks)
    client = ProbePod(
        "vm01", "vm01", (*call, "192.168.111.12"), host_network=True, capabilities=locks
    )
    result = played.run(ProbeRequest("perftest", (server, client)))
    assert result.exit_code == 0, result.log
    assert {item.host for item in result.nic_deltas} == {"vm01", "vm02"}


@pytest.mark.parametrize(("blind", "code"), [("client", 139), ("server", 1)])
def test_rdma_cm_ends_where_a_vf_has_no_node_guid(blind: str, code: int) -> None:
    """As sriov-network-operator#267 shows it; without `-R` such a VF works."""
    played = Played(example("shared-rdma"))
    one, other = played.spec.workers

    def run(*options: str) -> ProbeResult:
        tool = ("ib_write_bw", *options, "-d", "mlx5_0", "-F", "--report_gbits")
        pods = {
            "server": played.pod(other, tool, ADDRESS),
            "client": played.pod(one, (*tool, ADDRESS)),
        }
        pod = pods[blind]
        ends = tuple(replace(each, has_node_guid=False) for each in pod.networks)
        pods[blind] = replace(pod, networks=ends)
        return played.run(ProbeRequest("perftest", tuple(pods.values())))

    ended = run("-R")
    assert ended.exit_code == code
    text = ended.log if blind == "client" else ended.server_log
    assert "Segmentation fault (core dumped)" in text
    assert run("-x", "3").exit_code == 0


@pytest.mark.parametrize("tool", ["ib_write_bw -R", "ib_write_bw"])
def test_with_source_based_routes_a_client_without_its_address_finds_no_server(tool: str) -> None:
    """The plugin sbr v1.6.2 (doRoutes) deletes the routes of the interface from the main table."""
    played = Played(example("dgx-roce"))
    one, other = played.spec.workers

    def run(words: str) -> ProbeResult:
        serve = (*tool.split(), "-F")
        pods = played.pod(other, serve, "10.10.111.254"), played.pod(one, (*serve, *words.split()))
        by_source = [
            replace(pod, networks=tuple(replace(net, by_source=True) for net in pod.networks))
            for pod in pods
        ]
        return played.run(ProbeRequest("perftest", tuple(by_source)))

    assert run("10.10.111.254").exit_code == 1
    assert run("--bind_source_ip $address 10.10.111.254").exit_code == 0

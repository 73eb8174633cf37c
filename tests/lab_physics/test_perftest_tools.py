"""The bandwidth tests beside `ib_write_bw`, and what perftest itself refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from components.core.errors import UsageError
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult
from tests.lab_physics.examples import Played, example

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

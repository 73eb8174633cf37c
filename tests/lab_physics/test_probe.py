"""The lab's probes: what they print is read by the product's parsers and judged by its judge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from components.acceptance.evidence import Evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.logs.log_model import NcclLog, PerftestLog
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.perftest import parse_perftest_log
from components.core.errors import UsageError
from lab.physics.request import parse_request
from tests.acceptance.recordings import load_nccl
from tests.lab_physics.site import HOSTS, Site, take_evidence

Break = Callable[[Site], object]


def break_both(rail: int, **changes: object) -> Break:
    def apply(site: Site) -> None:
        for host in HOSTS:
            site.break_nic(host, rail, **changes)

    return apply


def break_host(host: str, **changes: object) -> Break:
    def apply(site: Site) -> None:
        for rail in (0, 1):
            site.break_nic(host, rail, **changes)

    return apply


def failures_of(evidence: Evidence) -> dict[str, str]:
    """(Probe, check) that failed, with the words of the finding."""
    return {
        f"{item.subject} {item.check}": f"{item.actual} {item.detail}"
        for item in judge_evidence(evidence).findings
        if item.verdict in ("failed", "error")
    }


NCCL, PAIR_0, PAIR_1 = "nccl-all-reduce", "perftest-rail-0", "perftest-rail-1"
FAULTS: dict[str, tuple[Break, dict[str, str]]] = {
    "healthy": (lambda _: None, {}),
    "port MTU": (
        lambda site: site.break_port("gpu01", 1, mtu_bytes=1500),
        {
            f"{PAIR_1} run": "discarded at leaf-01 1/2",
            f"{NCCL} run": "discarded at leaf-01 1/2",
        },
    ),
    "host MTU": (
        break_both(0, mtu_bytes=1500),
        {f"{PAIR_0} mtu": "1024", f"{PAIR_0} bandwidth": "86.94 Gb/s"},
    ),
    "DSCP trust of a port": (
        lambda site: site.break_port("gpu01", 1, trust="L2"),
        {f"{NCCL} traffic class": "wrong traffic class at leaf-01 1/2"},
    ),
    "DSCP trust of a NIC": (
        lambda site: site.break_nic("gpu02", 0, trust="pcp"),
        {
            f"{PAIR_0} traffic class": "wrong traffic class at gpu02 enp5s0",
            f"{NCCL} traffic class": "wrong traffic class at gpu02 enp5s0",
        },
    ),
    "unmarked job": (
        lambda site: site.env.update(NCCL_IB_TC="0"),
        {f"{NCCL} traffic class": "wrong traffic class at"},
    ),
    "egress class": (
        lambda site: site.break_port("gpu01", 0, priority_to_tc=(0,) * 8),
        {
            f"{PAIR_0} traffic class": "expected traffic class 3",
            f"{NCCL} traffic class": "wrong traffic class at leaf-01 1/1",
        },
    ),
    "VLAN of a port": (
        lambda site: site.break_port("gpu01", 1, allowed_vlans=frozenset()),
        {f"{PAIR_1} run": "no_route", f"{NCCL} run": "ibv_modify_qp"},
    ),
    "access port": (
        lambda site: site.break_port("gpu01", 1, mode="access", access_vlan=112),
        {f"{PAIR_1} run": "no_route", f"{NCCL} run": "ibv_modify_qp"},
    ),
    "VFs gone": (
        lambda site: site.break_nic("gpu02", 1, vfs=0),
        {f"{PAIR_1} run": "IB device mlx5_1 not found", f"{NCCL} run": "ibv_modify_qp"},
    ),
    "link down": (
        lambda site: site.break_nic("gpu02", 1, link_up=False),
        {f"{PAIR_1} run": "Port number 1 state is Down", f"{NCCL} run": "ibv_modify_qp"},
    ),
    "port shut": (
        lambda site: site.break_port("gpu02", 1, admin_up=False, oper_up=False),
        {f"{PAIR_1} run": "Port number 1 state is Down", f"{NCCL} run": "ibv_modify_qp"},
    ),
    "rail down at both ends": (
        break_both(1, link_up=False),
        {
            f"{PAIR_1} run": "Port number 1 state is Down",
            f"{NCCL} rails": "1 on worker-0",
            f"{NCCL} bandwidth": "11.44 GB/s",
            f"{NCCL} traffic class": "did not pass",
        },
    ),
    "peermem": (
        break_host("gpu01", peermem=False),
        {f"{NCCL} gpudirect": "8 of 16", f"{NCCL} bandwidth": "GB/s"},
    ),
    "memlock": (
        break_host("gpu02", memlock_unlimited=False),
        {
            f"{PAIR_0} run": "Couldn't create CQ",
            f"{PAIR_1} run": "Couldn't create CQ",
            f"{NCCL} run": "ibv_create_cq",
        },
    ),
    "all VFs of one host gone": (
        break_host("gpu02", vfs=0),
        {
            f"{PAIR_0} run": "not found",
            f"{PAIR_1} run": "not found",
            f"{NCCL} run": "mixed_transports",
        },
    ),
    "RDMA switched off": (
        lambda site: site.env.update(NCCL_IB_DISABLE="1"),
        {
            f"{NCCL} transport": "NET/Socket",
            f"{NCCL} rails": "1 on",
            f"{NCCL} gpudirect": "0 of 8",
            f"{NCCL} bandwidth": "4.69 GB/s",
            f"{NCCL} traffic class": "did not pass",
        },
    ),
}


def test_a_small_mtu_of_the_file_is_not_a_wrong_one() -> None:
    site = Site()
    break_both(0, mtu_bytes=1500)(site)
    evidence = take_evidence(site)
    asked = (evidence.limits.rails[0].model_copy(update={"rdma_mtu_bytes": 1024}),)
    limits = evidence.limits.model_copy(update={"rails": (*asked, *evidence.limits.rails[1:])})
    found = failures_of(evidence.model_copy(update={"limits": limits}))
    assert {*failures_of(evidence)} - {*found} == {f"{PAIR_0} mtu"}


@pytest.mark.parametrize("name", FAULTS)
def test_the_judge_fails_for_exactly_the_injected_fault(name: str) -> None:
    apply, expected = FAULTS[name]
    site = Site()
    apply(site)
    found = failures_of(take_evidence(site))
    assert set(found) == set(expected)
    for key, words in expected.items():
        assert words in found[key]


def test_ipc_lock_lifts_the_memlock_limit() -> None:
    site = Site(capabilities=("IPC_LOCK",))
    break_host("gpu02", memlock_unlimited=False)(site)
    assert failures_of(take_evidence(site)) == {}


def test_the_pair_is_calibrated_on_the_seed() -> None:
    site = Site()
    log = parse_perftest_log(site.perftest(0).log)
    assert isinstance(log, PerftestLog)
    # The seed had no VLAN tag: 92.40 x (4096+82) / (4096+86).
    assert log.rows[0].average_gbit_s == pytest.approx(92.31, abs=0.005)
    assert log.rows[0].iterations == 5000


def test_the_all_reduce_is_calibrated_on_the_seed() -> None:
    ours = parse_nccl_log(Site().nccl().log)
    seed = parse_nccl_log(load_nccl("deepops_dgx1_roce"))
    assert isinstance(ours, NcclLog)
    assert isinstance(seed, NcclLog)
    assert [row.size_bytes for row in ours.rows] == [row.size_bytes for row in seed.rows]
    for mine, theirs in zip(ours.rows[22:], seed.rows[22:], strict=True):
        assert theirs.in_place is not None
        better = max(theirs.out_of_place.busbw_gb_s, theirs.in_place.busbw_gb_s)
        assert mine.out_of_place.busbw_gb_s == pytest.approx(better, rel=0.03)


def test_an_unmarked_run_is_not_slower() -> None:
    site = Site()
    marked = site.nccl().log.splitlines()[-8]
    site.env["NCCL_IB_TC"] = "0"
    assert site.nccl().log.splitlines()[-8] == marked


def test_runs_are_deterministic() -> None:
    assert Site().nccl() == Site().nccl()


def test_tclass_does_nothing_with_rdma_cm() -> None:
    site = Site(tos=0)
    moved = site.perftest(0, "--tclass", "104").nic_deltas
    assert set(moved[0].tx_bytes) == {0}


def test_all_sizes_stop_where_packets_become_too_long() -> None:
    site = Site()
    site.break_port("gpu01", 0, mtu_bytes=1500)
    result = site.perftest(0, "-a")
    log = parse_perftest_log(result.log)
    assert isinstance(log, PerftestLog)
    assert log.rows[-1].size_bytes == 1024
    assert result.exit_code == 1


def test_hosts_with_few_slots_are_refused_in_mpirun_words() -> None:
    site = Site()
    few = parse_request(
        {
            "kind": "nccl",
            "pods": [{"name": f"w{i}", "node": host, "gpus": 4} for i, host in enumerate(HOSTS)],
            "launcher": {"name": "l", "command": ["mpirun", "-np", "16", "all_reduce_perf"]},
        }
    )
    result = site.run(few)
    assert result.exit_code == 1
    assert "There are not enough slots available" in result.log


@pytest.mark.parametrize(
    "request_json",
    [
        {},
        {"kind": "iperf", "pods": []},
        {"kind": "nccl", "pods": [{"node": "gpu01"}]},
    ],
)
def test_a_malformed_request_is_refused(request_json: object) -> None:
    with pytest.raises(UsageError):
        parse_request(request_json)


@pytest.mark.parametrize(
    "command",
    [["ib_read_bw"], ["ib_write_bw", "-b", "10.0.0.1"], ["sleep", "1"]],
)
def test_what_the_lab_does_not_play_is_refused(command: list[str]) -> None:
    pods = [
        {"name": "a", "node": "gpu01", "command": command},
        {"name": "b", "node": "gpu02", "command": ["ib_write_bw"]},
    ]
    with pytest.raises(UsageError):
        Site().run(parse_request({"kind": "perftest", "pods": pods}))


def test_shell_scripts_and_variables_are_read() -> None:
    site = Site()
    base = site.pod("x", "gpu01", ())
    networks = [
        {"interface": item.interface, "ip": item.ip, "vlan": item.vlan, "pf": item.pf}
        for item in base.networks
    ]
    far = [{**item, "ip": f"10.10.{item['vlan']}.12"} for item in networks]
    script = (
        "set -e\n# the device's name differs from pod to pod\n"
        "until ib_write_bw -R -T 104 -d \"$(rdma link | awk '{print $2}')\" "
        "--report_gbits ${SERVER}\n"
        "do echo 'not; yet' && sleep 1; done"
    )
    pods = [
        {"name": "server", "node": "gpu01", "command": ["ib_write_bw", "-R"], "networks": networks},
        {
            "name": "client",
            "node": "gpu02",
            "command": ["sh", "-c", script],
            "env": {"SERVER": "10.10.112.11"},
            "networks": far,
        },
    ]
    result = site.run(parse_request({"op": "run_probe", "kind": "perftest", "pods": pods}))
    assert result.exit_code == 0
    assert "mlx5_1" in result.log

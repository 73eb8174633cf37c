"""What is found of frameworks, images and adapters; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.digest import parse_deepspeed_log
from components.acceptance.evidence import Limits, Probe, ProbeEvidence, ProbeKind
from components.acceptance.judge.nccl_findings import (
    judge_hcas,
    judge_network,
    judge_topology,
    judge_version,
)
from components.acceptance.judge.verdict import Finding
from components.acceptance.judge.workload_findings import (
    judge_image,
    judge_images,
    judge_mpi,
    judge_scan,
    judge_scan_busbw,
    judge_scan_completeness,
    judge_totals,
    odd_steps,
)
from components.acceptance.logs.log_model import (
    Channels,
    DeepSpeedLog,
    DeepSpeedRow,
    Hca,
    HostNetwork,
    ImageLog,
    MpiLog,
    NcclLog,
    TrainingLog,
)
from components.core.plain_text import counted

Said = tuple[str, str, str]
"""Verdict, actual and detail."""
CUT: Final = "the log is cut, or ranks are missing"


def training(*totals: float, **changes: Any) -> TrainingLog:  # noqa: ANN401 - any field
    whole: dict[str, Any] = {"program": "tf_cnn_benchmarks", "totals_images_s": totals}
    return TrainingLog.model_validate(whole | changes)


@pytest.mark.parametrize(
    ("log", "ranks", "said"),
    [
        (training(100.0, 100.0), 2, ("passed", "2 totals", "")),
        (training(100.0, 99.0), 2, ("passed", "2 totals", "")),
        (
            training(100.0, 98.9),
            2,
            ("failed", "2 totals", "every rank prints the sum of all, and they differ"),
        ),
        (training(100.0), 2, ("error", "1 total", CUT)),
        (training(), None, ("error", "0 totals", CUT)),
        (training(100.0), None, ("passed", "1 total", "")),
        (training(*[100.0] * 3), 2, ("failed", "3 ranks took part", "")),
        (training(100.0, program="horovod", gpus=2), 2, ("passed", "1 total", "")),
        (training(100.0, program="horovod", gpus=1), 2, ("failed", "1 rank took part", "")),
    ],
)
def test_totals(log: TrainingLog, ranks: int | None, said: Said) -> None:
    found = judge_totals(log, ranks)
    assert (found.verdict, found.actual, found.detail) == said
    assert found.expected == (
        f"a total of each of {ranks} ranks" if ranks else "a total at the end"
    )
    assert (found.next_step == "") is (said[0] == "passed")


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ((100.0, 110.0, 300.0), ("passed", "110.00 images/s", "median of 3 totals; floor: file")),
        ((109.9,), ("failed", "109.90 images/s", "median of 1 total; floor: file")),
        ((), ("error", "no total", "median of 0 totals; floor: file")),
    ],
)
def test_images(totals: tuple[float, ...], said: Said) -> None:
    found = judge_images(training(*totals), 110.0, "file")
    assert (found.verdict, found.actual, found.detail) == said
    assert (found.expected, found.next_step == "") == ("images/s >= 110", said[0] == "passed")


def test_steps_far_from_the_others_are_named() -> None:
    assert odd_steps(training(9.0, steps_images_s=(10.0, 12.0, 8.0))) == ""
    odd = "1 of 3 lines of single ranks are far from the others: 12.1"
    assert odd_steps(training(9.0, steps_images_s=(10.0, 12.1, 8.0))) == odd
    assert odd_steps(training(steps_images_s=(10.0, 99.0))) == ""
    assert odd_steps(training(9.0)) == ""


def scan(*sizes: int, **changes: Any) -> DeepSpeedLog:  # noqa: ANN401 - any field
    rows = tuple(DeepSpeedRow(size_bytes=size, duration_us=1, busbw_gbit_s=9.5) for size in sizes)
    return DeepSpeedLog.model_validate({"rows": rows, "devices": 4} | changes)


@pytest.mark.parametrize(
    ("log", "sizes", "said"),
    [
        (scan(8, 16), 2, ("passed", "2 rows", "")),
        (scan(8), None, ("passed", "1 row", "")),
        (scan(8), 2, ("error", "1 row", "")),
        (scan(8, 16, 32), 2, ("failed", "3 rows", "")),
        (scan(), 2, ("error", "no result row", "")),
        (scan(8, bad_rows=("x", "y")), 1, ("error", "2 unreadable rows", "the first: x")),
        (scan(8, out_of_memory=True), 2, ("failed", "out of GPU memory after 1 row", "")),
    ],
)
def test_a_scan_is_whole(log: DeepSpeedLog, sizes: int | None, said: Said) -> None:
    found = judge_scan_completeness(log, sizes)
    assert (found.verdict, found.actual, found.detail) == said
    assert found.expected == (counted(sizes, "size") if sizes else "a table with a result")
    assert (found.next_step == "") is (said[0] == "passed")


@pytest.mark.parametrize(
    ("log", "floor", "said"),
    [
        (scan(8, 1 << 30), 9.5, ("passed", "9.50 Gb/s at 1 GiB", "floor: file")),
        (scan(1 << 30), 9.6, ("failed", "9.50 Gb/s at 1 GiB", "floor: file")),
        (scan(8), 9.5, ("passed", "9.50 Gb/s at 8 B", "no row reaches 1 GiB; floor: file")),
        (scan(), 9.5, ("error", "no row", "")),
    ],
)
def test_bandwidth_of_a_scan(log: DeepSpeedLog, floor: float, said: Said) -> None:
    found = judge_scan_busbw(log, floor, "file")
    assert (found.verdict, found.actual, found.detail) == said
    assert (found.next_step == "") is (said[0] != "failed")


def ran(kind: ProbeKind, ranks: int) -> ProbeEvidence:
    probe = Probe(name="p", kind=kind, rails=(), nodes=("a", "b"), ranks=ranks)
    return ProbeEvidence(probe=probe, outcome="completed")


def of_scan(check: str, log: DeepSpeedLog, ranks: int = 0) -> Finding:
    found = judge_scan(ran("deepspeed_scan", ranks), log, Limits())
    return next(each for each in found if each.check == check)


def test_members_of_a_scan() -> None:
    good, bad = (of_scan("ranks", scan(8), wanted) for wanted in (4, 5))
    assert (good.verdict, good.actual, good.next_step) == ("passed", "4 devices", "")
    assert (bad.verdict, bad.next_step) == ("failed", "look at the hostfile and the slots")
    named = of_scan("dns", scan(8, resolved=("a", "b", "a")))
    assert (named.verdict, named.actual, named.next_step) == ("passed", "2: a, b, a", "")
    none = of_scan("dns", scan(8))
    assert (none.verdict, none.actual, none.next_step == "") == ("failed", "0: none", False)


@pytest.mark.parametrize(
    ("hosts", "verdict", "actual"),
    [
        (("a", "b.site"), "passed", "all 2 answered once"),
        (("a",), "failed", "b did not answer"),
        (("a", "b", "a"), "failed", "a answered more than once"),
        (("a", "b", "c"), "failed", "c is not in the plan"),
        (
            ("c", "c"),
            "failed",
            "a, b did not answer; c answered more than once; c is not in the plan",
        ),
    ],
)
def test_hosts_that_answer(hosts: tuple[str, ...], verdict: str, actual: str) -> None:
    (found,) = judge_mpi(ran("mpi_hosts", 2), MpiLog(hosts=hosts))
    assert (found.verdict, found.actual) == (verdict, actual)
    assert (found.next_step == "") is (verdict == "passed")


def test_gpus_that_are_listed() -> None:
    (good,), (bad,) = (judge_mpi(ran("mpi_gpus", n), MpiLog(gpus=8)) for n in (8, 16))
    assert (good.verdict, good.expected, good.next_step) == ("passed", "8 GPUs", "")
    assert (bad.verdict, bad.actual, bad.next_step == "") == ("failed", "8 GPUs", False)


HEAD: Final = (
    "---- Performance of all_reduce on 4 devices ---------\n"
    "Size (Bytes)  Description  Duration  Throughput (Gbps)  BusBW (Gbps)\n"
)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        # 1,000,000 B in 100 us are 80 Gb/s; an all-reduce over four counts 1.5 times.
        ("1.0 MB 250000x4 100.000 us 160.000 120.000", [(1_000_000, 100.0, 120.0)]),
        ("1.0 MB 250000x4 0.100 ms 160.000 120.000", [(1_000_000, 100.0, 120.0)]),
        ("1.0 MB 250000x4 100.000 us 160.000 122.300", [(1_000_000, 100.0, 122.3)]),
        ("1.0 MB 250000x4 100.000 us 160.000 122.500", None),
        ("1.0 MB 250000x4 100.000 us 160.000 117.500", None),
        ("1.0 MB 250000x4 0.000 us 160.000 120.000", None),
        ("1.0 MB 250000x4 1.0.0 us 160.000 120.000", None),
        ("1.0 MB 250000x4 100.000", None),
        ("words", []),
    ],
)
def test_rows_of_a_scan(line: str, rows: list[tuple[int, float, float]] | None) -> None:
    log = parse_deepspeed_log(f"{HEAD}{line}\n")
    assert isinstance(log, DeepSpeedLog)
    found = [(row.size_bytes, row.duration_us, row.busbw_gbit_s) for row in log.rows]
    assert (found, log.bad_rows) == (rows or [], (line,) if rows is None else ())


def adapters(count: int = 2, layer: str = "IB", *, relaxed: bool = True) -> HostNetwork:
    hcas = tuple(Hca(index=each, device=f"mlx5_{each}", link_layer=layer) for each in range(count))
    return HostNetwork(host="w0", hcas=hcas, relaxed_ordering=relaxed)


@pytest.mark.parametrize(
    ("hosts", "names", "verdict", "actual"),
    [
        ((adapters(),), (), "passed", "2 on each of 1 host: mlx5_0, mlx5_1"),
        ((adapters(),), ("mlx5_1",), "passed", "2 on each of 1 host: mlx5_0, mlx5_1"),
        ((adapters(),), ("mlx5_7",), "failed", "mlx5_7 is not used on w0"),
        ((adapters(1),), (), "failed", "1 on w0 (mlx5_0)"),
        ((adapters(layer="RoCE"),), (), "failed", "RoCE on w0"),
        ((adapters(relaxed=False),), (), "failed", "no relaxed ordering on w0"),
        ((), (), "error", "not shown"),
    ],
)
def test_adapters_of_a_host(
    hosts: tuple[HostNetwork, ...], names: tuple[str, ...], verdict: str, actual: str
) -> None:
    used = tuple(hca.index for host in hosts for hca in host.hcas)
    channels = Channels(net={"IB": 9}, devices_by_host={"w0": used})
    log = NcclLog(program="nccl-tests", hosts=hosts, channels=channels)
    found = judge_hcas(log, 2, names)
    assert (found.verdict, found.actual) == (verdict, actual)
    assert (found.next_step == "") is (verdict == "passed")


@pytest.mark.parametrize(
    ("used", "verdict", "actual"),
    [
        ((0, 1), "passed", "2 on each of 1 host: mlx5_0, mlx5_1"),
        ((1,), "failed", "1 on w0 (mlx5_1)"),
        ((), "error", "no channel line shows the adapters of w0"),
        ((0, 7), "error", "no channel line shows the adapters of w0"),
    ],
)
def test_adapters_count_that_channels_use(used: tuple[int, ...], verdict: str, actual: str) -> None:
    channels = Channels(net={"IB": 2}, devices_by_host={"w0": used})
    log = NcclLog(program="nccl-tests", hosts=(adapters(),), channels=channels)
    found = judge_hcas(log, 2)
    assert (found.verdict, found.actual) == (verdict, actual)


def test_the_profile_of_nccl() -> None:
    log = NcclLog(
        program="nccl-tests",
        nccl_version="2.19.3+cuda12.2",
        networks={"IBext_v8": 4},
        topology_files=("/a.xml",),
    )
    bare = NcclLog(program="nccl-tests")
    table = [
        (judge_version(log, "2.19"), "passed", "2.19.3+cuda12.2"),
        (judge_version(log, "2.20"), "failed", "2.19.3+cuda12.2"),
        (judge_version(bare, "2.19"), "error", "not shown"),
        (judge_network(log), "passed", "IBext_v8 (4)"),
        (judge_network(bare), "error", "not shown"),
        (
            judge_network(log.model_copy(update={"networks": {"IB": 1, "Socket": 3}})),
            "failed",
            "IB (1), Socket (3)",
        ),
        (judge_topology(log, "/a.xml"), "passed", "/a.xml"),
        (judge_topology(log, "/b.xml"), "failed", "/a.xml"),
        (judge_topology(bare, "/b.xml"), "failed", "not shown"),
        (
            judge_topology(log.model_copy(update={"topology_unread": ("/a.xml",)}), "/a.xml"),
            "failed",
            "/a.xml could not be opened",
        ),
    ]
    assert [(found.verdict, found.actual) for found, *_ in table] == [
        (verdict, actual) for _, verdict, actual in table
    ]
    assert [found.next_step == "" for found, *_ in table] == [
        verdict == "passed" for _, verdict, _ in table
    ]


def image(**changes: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any field
    programs = ("/opt/bin/mpirun", "/usr/sbin/sshd")
    whole: dict[str, Any] = {
        "programs": {"/opt/bin/mpirun": "/opt/bin/mpirun", "/usr/sbin/sshd": "/usr/sbin/sshd"},
        "mpi": {},
        "missing": (),
        "mpirun_version": "mpirun (Open MPI) 4.1.5",
        "daemon": "/opt/bin/orted",
        "uid": "0",
        "home": "/root",
        "path": "/bin",
        "login": "ok",
        "said": (),
        "complete": True,
    }
    probe = Probe(
        name="p", kind="image", rails=(), nodes=("w0",), image="site/nccl:1", programs=programs
    )
    item = ProbeEvidence(probe=probe, outcome="completed")
    found = judge_image(item, ImageLog.model_validate(whole | changes))
    return [(each.verdict, each.actual.removeprefix("the image site/nccl:1 ")) for each in found]


@pytest.mark.parametrize(
    ("changes", "verdict", "actual"),
    [
        ({}, "passed", "has mpirun, sshd (mpirun (Open MPI) 4.1.5)"),
        ({"uid": "1000"}, "failed", "runs as user 1000"),
        ({"uid": ""}, "failed", "runs as user unknown"),
        ({"mpi": {"a": "no", "b": "yes"}}, "failed",
         "has a without MPI: each rank would run as a separate job"),
        ({"missing": ("a lib.so",)}, "failed", "lacks lib.so, which a is linked with"),
        ({"mpirun_version": ""}, "failed", "has another mpirun: it prints no version"),
        ({"daemon": ""}, "failed", "has neither orted nor prted in /opt/bin"),
        ({"login": "failed", "said": ("", "x")}, "failed", "lets no login in: x"),
        ({"login": "failed"}, "failed", "lets no login in: it said nothing"),
        ({"login": "failed", "said": ("x", "y not allowed")}, "failed",
         "lets no login in: x; y not allowed"),
        ({"login": "", "home": "/x"}, "passed", "has mpirun, sshd (mpirun (Open MPI) 4.1.5)"),
        ({"home": ""}, "failed",
         "has no folder as home of root, and the key is mounted at /root/.ssh"),
        ({"complete": False}, "error", "its output ends in the middle"),
    ],
)  # fmt: skip
def test_what_an_image_lacks(changes: dict[str, Any], verdict: str, actual: str) -> None:
    assert image(**changes) == [(verdict, actual)]

"""What the judge does at the edges of a rule; expectations follow from what the fields mean."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.digest import parse_image_log
from components.acceptance.evidence import Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.infiniband import FABRIC, judge_ib
from components.acceptance.judge.nccl import judge_nccl
from components.acceptance.judge.nccl_findings import judge_pace
from components.acceptance.judge.path import Sent, judge_amount, judge_path, sent_bytes
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.verdict import Finding
from components.acceptance.judge.workload_findings import (
    judge_image,
    judge_mpi,
    judge_scan,
    judge_training,
)
from components.acceptance.logs.log_model import (
    Channels,
    DeepSpeedLog,
    DeepSpeedRow,
    ImageLog,
    Measure,
    MpiLog,
    NcclLog,
    NcclRow,
    ParseProblem,
    PerftestLog,
    RankLine,
    TrainingLog,
)
from components.acceptance.logs.perftest import parse_perftest_log
from components.acceptance.probes.ib_look import (
    IbFacts,
    SubnetManager,
    parse_ib_look,
    parse_ibdiagnet,
)
from tests.acceptance.ib_texts import IBDIAGNET, LIMITS, look, record

GIB: Final = 1 << 30
HALF: Final = Measure(time_us=50_000.0, algbw_gb_s=21.47, busbw_gb_s=40.27, wrong=0)


def nccl(**changes: Any) -> NcclLog:  # noqa: ANN401 - any field
    whole: dict[str, Any] = {
        "program": "nccl-tests",
        "collective": "all_reduce_perf",
        "has_preamble": True,
        "has_footer": True,
        "iterations": 20,
        "rows": (NcclRow(size_bytes=GIB, out_of_place=HALF),),
        "ranks": tuple(RankLine(rank=rank, host=f"w{rank // 8}") for rank in range(16)),
    }
    return NcclLog.model_validate(whole | changes)


def item(kind: str = "nccl", **changes: Any) -> ProbeEvidence:  # noqa: ANN401 - any field
    probe = {"name": "p", "kind": kind, "rails": ("a", "b"), "nodes": ("w0", "w1"), "ranks": 16}
    whole: dict[str, Any] = {"probe": Probe.model_validate(probe), "outcome": "completed"}
    return ProbeEvidence.model_validate(whole | changes)


@pytest.mark.parametrize(
    ("sent", "seen", "verdict"),
    [
        # A tenth of the least is where a probe begins to be there, nine tenths where it is whole.
        (Sent(1000, 4000, is_certain=False), 99, "failed"),
        (Sent(1000, 4000, is_certain=False), 100, "error"),
        (Sent(1000, 4000, is_certain=False), 899, "error"),
        (Sent(1000, 4000, is_certain=True), 899, "failed"),
        (Sent(1000, 4000, is_certain=True), 900, "passed"),
        # Twice 102 bytes of headers for each 4096, and 1 %.
        (Sent(1000, 4000, is_certain=False), 4239, "passed"),
        (Sent(1000, 4000, is_certain=False), 4240, "error"),
        (Sent(0, 0, is_certain=False), 0, "failed"),
        (Sent(0, 0, is_certain=False), 1, "passed"),
        (Sent(0, 1, is_certain=False), 5, "error"),
    ],
)
def test_how_much_is_enough(sent: Sent, seen: int, verdict: str) -> None:
    assert judge_amount(sent, seen) == verdict


# One row of 1 GiB in one half, 20 times, over two rails: 10,737,418,240 bytes of message a rail.
RAIL: Final = 10_737_418_240
MOST: Final = round(2 * RAIL * 26 / 20 * 128 / 120)  # 6 runs not timed, flags of LL128


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        # Up or down a tree once at the least, twice at the most.
        ({}, Sent(RAIL, MOST, is_certain=False)),
        # A ring of 16: 2 * 15/16.
        ({"algorithms": ("RING",)}, Sent(20_132_659_200, round(MOST * 15 / 16), is_certain=True)),
        ({"algorithms": ("RING", "TREE")}, Sent(RAIL, MOST, is_certain=False)),
        # 8 ranks send 8 others a sixteenth each: 4 times the message.
        ({"collective": "alltoall_perf"}, Sent(4 * RAIL, 2 * MOST, is_certain=True)),
        # A host has half of what is gathered.
        ({"collective": "all_gather_perf"}, Sent(RAIL // 2, MOST, is_certain=False)),
        ({"iterations": None}, Sent(0, 0, is_certain=False)),
        ({"ranks": ()}, Sent(0, 0, is_certain=False)),
        (
            {"rows": (NcclRow(size_bytes=GIB, out_of_place=HALF, in_place=HALF),)},
            Sent(2 * RAIL, 2 * MOST, is_certain=False),
        ),
    ],
)
def test_what_a_collective_sends_over_a_rail(changes: dict[str, Any], sent: Sent) -> None:
    assert sent_bytes(item(nccl=nccl(**changes))) == sent


def test_what_other_probes_send() -> None:
    rows = (DeepSpeedRow(size_bytes=GIB, duration_us=1.0, busbw_gbit_s=1.0),)
    scan = DeepSpeedLog(collective="all_reduce", devices=16, rows=rows)
    # 50 trials of 1 GiB over two rails.
    assert sent_bytes(item("deepspeed_scan", deepspeed=scan)) == Sent(
        26_843_545_600, round(53_687_091_200 * 55 / 50 * 128 / 120), is_certain=False
    )
    none = DeepSpeedLog(collective="all_reduce", devices=0, rows=rows)
    assert sent_bytes(item("deepspeed_scan", deepspeed=none)).least == 26_843_545_600
    pair = parse_perftest_log(PERFTEST)
    assert isinstance(pair, PerftestLog)
    exact = sent_bytes(item("perftest", perftest=pair))
    assert exact == Sent(327_680_000, 327_680_000 + 5000 * 102, is_certain=True)
    timed = item("perftest", perftest=pair, command="ib_write_bw -D 10")
    assert sent_bytes(timed).most == 655_360_000
    assert sent_bytes(item("resnet50", nccl=nccl())) == Sent(0, 0, is_certain=False)


PERFTEST: Final = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536      5000             92.42              92.40                0.176230\n" + "-" * 60
)


def hop(total: int | None, **by_class: int) -> Hop:
    return Hop(
        rail="a",
        direction="w0 -> w1",
        role="sender_nic",
        device="w0",
        interface="mlx5_0",
        total_bytes=total,
        bytes_by_class={int(key.removeprefix("c")): value for key, value in by_class.items()},
    )


@pytest.mark.parametrize(
    ("total", "verdict", "actual"),
    [(None, "error", "not observed"), (0, "failed", "0 B seen there")],
)
def test_a_hop_that_counted_nothing_proves_nothing(
    total: int | None, verdict: str, actual: str
) -> None:
    found = judge_path(item(nccl=nccl(), hops=(hop(total),)), Limits(priority=3, traffic_class=3))
    assert (found[0].verdict, found[0].actual) == (verdict, actual)


@pytest.mark.parametrize(
    ("transport", "check"), [("ib", "adapter counters"), ("roce", "traffic class")]
)
def test_where_the_bytes_went_is_asked_of_the_fabric_that_there_is(
    transport: str, check: str
) -> None:
    limits = Limits.model_validate({"transport": transport, "hcas": 2, "priority": 3})
    found = judge_probe(item(nccl=nccl()), limits)
    assert [each.check for each in found][-1] == check
    assert found[-1].verdict == "error"


@pytest.mark.parametrize(
    ("kind", "changes", "check"),
    [
        ("deepspeed_scan", {"deepspeed": DeepSpeedLog(collective="all_reduce")}, "dns"),
        ("resnet50", {"training": TrainingLog(program="horovod")}, "throughput"),
        ("mpi_hosts", {"mpi": MpiLog(hosts=("w0", "w1"))}, "hosts"),
        ("mpi_gpus", {"mpi": MpiLog(gpus=16)}, "gpus"),
        ("nccl", {"nccl": nccl()}, "ranks"),
        ("perftest", {"perftest": parse_perftest_log(PERFTEST)}, "mtu"),
    ],
)
def test_each_log_has_its_own_findings(kind: str, changes: dict[str, Any], check: str) -> None:
    found = judge_probe(item(kind, **changes), Limits(priority=3))
    assert check in {each.check for each in found}
    assert ("traffic class" in {each.check for each in found}) is not kind.startswith("mpi")


def one(found: list[Finding], check: str) -> tuple[str, str, str]:
    row = next(each for each in found if each.check == check)
    return row.verdict, row.expected, row.actual


def test_a_frameworks_transport_is_asked_of_its_nccl() -> None:
    limits = Limits(scan_sizes=1, scan_floor_gbit_s=100.0, images_floor_s=50.0)
    rows = (DeepSpeedRow(size_bytes=GIB, duration_us=1.0, busbw_gbit_s=100.0),)
    log = DeepSpeedLog(collective="all_reduce", devices=16, rows=rows, resolved=("w0", "w1", "w0"))
    found = judge_scan(item("deepspeed_scan", deepspeed=log), log, limits)
    assert one(found, "completeness") == ("passed", "1 size", "1 row")
    assert one(found, "dns")[0] == "passed"
    assert one(found, "ranks") == ("passed", "16 devices", "16 devices")
    assert one(found, "transport") == ("error", "roce", "not shown")
    assert one(found, "bandwidth") == ("passed", "busbw >= 100 Gb/s", "100.00 Gb/s at 1 GiB")
    any_size = judge_scan(item("deepspeed_scan", deepspeed=log), log, Limits())
    assert one(any_size, "completeness") == ("passed", "a table with a result", "1 row")
    assert one(any_size, "bandwidth")[1] == "busbw >= 0 Gb/s"
    sockets = nccl(channels=Channels(net={"Socket": 4}))
    shown = judge_scan(item("deepspeed_scan", deepspeed=log, nccl=sockets), log, limits)
    assert one(shown, "transport") == ("failed", "roce", "NET/Socket")
    run = TrainingLog(program="tf_cnn_benchmarks", totals_images_s=(50.0,) * 16)
    found = judge_training(item("resnet50", training=run), run, limits)
    assert one(found, "completeness") == ("passed", "a total of each of 16 ranks", "16 totals")
    assert one(found, "transport") == ("error", "roce", "not shown")
    assert one(found, "throughput") == ("passed", "images/s >= 50", "50.00 images/s")
    assert (
        one(judge_training(item(training=run), run, Limits()), "throughput")[1] == "images/s >= 0"
    )


def test_commands_of_mpirun_are_judged_by_their_kind() -> None:
    log = MpiLog(hosts=("w0", "w1"), gpus=16)
    assert [each.check for each in judge_mpi(item("mpi_gpus"), log)] == ["gpus"]
    assert [each.check for each in judge_mpi(item("mpi_hosts"), log)] == ["hosts"]


@pytest.mark.parametrize(
    ("hcas", "expected", "step"),
    [
        (0, "2 rails in the channels of every host", "a rail is missing on all hosts"),
        (4, "4 adapters in the channels of every host", "an adapter carries nothing on all hosts"),
    ],
)
def test_rails_are_adapters_on_infiniband(hcas: int, expected: str, step: str) -> None:
    found = judge_nccl(item(), nccl(), Limits(hcas=hcas))
    row = next(each for each in found if each.check == "rails")
    assert (row.verdict, row.expected) == ("error", expected)
    assert row.next_step.startswith(step)


def test_two_runs_of_one_probe_are_no_evidence() -> None:
    (row,) = judge_nccl(item(), nccl(other_runs=(nccl(), nccl())), Limits())
    assert (row.verdict, row.actual) == ("error", "3 runs in one log")


@pytest.mark.parametrize(
    ("warn", "actual"), [(40.27, None), (40.28, "40.27 GB/s at 1 GiB"), (30.0, None)]
)
def test_the_pace_of_healthy_systems(warn: float, actual: str | None) -> None:
    found = judge_pace(nccl(), warn)
    assert (found and found.actual) == actual


def test_a_port_that_waits_lacks_no_master() -> None:
    standby = SubnetManager(lid=1, guid="1", priority=1, state=2)
    port = look().ports[0]
    waits = port.model_copy(update={"state": "2: INIT"})
    assert not IbFacts(ports=(waits,), manager=standby).lacks_master
    assert IbFacts(ports=(port,), manager=standby).lacks_master
    assert IbFacts(ports=(waits, port), why_no_manager="x failed: query").lacks_master
    assert not IbFacts(ports=(port,), why_no_manager="sminfo is not installed").lacks_master
    master = standby.model_copy(update={"state": 3})
    assert not IbFacts(ports=(port,), manager=master).lacks_master
    successor = master.model_copy(update={"lid": 9})
    assert IbFacts(ports=(port,), manager=successor).lacks_master


@pytest.mark.parametrize("field", ["LID", "GUID", "Priority", "SMState"])
def test_a_record_without_a_field_is_of_another_form(field: str) -> None:
    text = "\n".join(
        line for line in record(1, 14, 3).splitlines() if not line.strip().startswith(field + ".")
    )
    seen = parse_ib_look(f"=== sminfo\n=== saquery\n{text}\nstatus: 0\n")
    assert (seen.managers, seen.why_no_managers) == ((), "saquery answered in another form")


@pytest.mark.parametrize(
    ("on", "of", "verdict", "actual"),
    [
        (1, 1, "passed", "on 1"),
        (0, 0, "failed", "on 0"),
        (1, 2, "failed", "on 1"),
        (None, 2, "error", "not said"),
    ],
)
def test_adaptive_routing_on_so_many_switches(
    on: int | None, of: int, verdict: str, actual: str
) -> None:
    diagnosis = parse_ibdiagnet(IBDIAGNET)
    assert diagnosis is not None
    assert LIMITS is not None
    changed = diagnosis.model_copy(update={"adaptive_switches": on, "switches": of})
    facts = {"gpu01": look().model_copy(update={"diagnosis": changed})}
    found = judge_ib(facts, LIMITS.model_copy(update={"adaptive_routing": True}))
    row = next(each for each in found if (each.check, each.subject) == ("adaptive routing", FABRIC))
    assert (row.verdict, row.actual) == (verdict, actual)
    assert row.expected == f"on, on all {of or 'switches'}"


def test_a_partition_of_others_is_on_no_port() -> None:
    assert LIMITS is not None
    (first, *_) = (each for each in LIMITS.partitions if each.exclusive)
    alone = first.model_copy(update={"members": {}, "ports": {}})
    limits = LIMITS.model_copy(update={"partitions": (alone,)})
    bare = look().ports[0].model_copy(update={"pkeys": (0x7FFF,)})
    found = judge_ib({"gpu01": IbFacts(ports=(bare,))}, limits)
    row = next(each for each in found if each.check == f"partition {first.name}")
    assert (row.verdict, row.actual) == ("passed", "none has it")


def image_of(needed: tuple[str, ...], **changes: Any) -> list[Finding]:  # noqa: ANN401 - any field
    whole: dict[str, Any] = {
        "programs": dict.fromkeys(needed, ""),
        "mpi": {},
        "missing": (),
        "mpirun_version": "",
        "daemon": "",
        "uid": "0",
        "home": "/root",
        "path": "",
        "login": "",
        "said": (),
        "complete": True,
    }
    probe = Probe(name="i", kind="image", rails=(), nodes=(), image="x:1", programs=needed)
    evidence = ProbeEvidence(probe=probe, outcome="completed")
    return judge_image(evidence, ImageLog.model_validate(whole | changes))


@pytest.mark.parametrize(
    ("program", "step"),
    [
        ("mpirun", "name its place in jobs.programs.mpirun, or "),
        ("/opt/ompi/bin/mpirun", "name its place in jobs.programs.mpirun, or "),
        ("all_reduce_perf", "name its place in jobs.programs.nccl_tests, or "),
        ("ib_write_bw", "name its place in jobs.programs.perftest, or "),
        ("ssh", "install openssh-client in it, or "),
        ("nvidia-smi", "build one with: railyard image build"),
    ],
)
def test_what_to_do_about_a_program_that_an_image_lacks(program: str, step: str) -> None:
    (row,) = image_of((program,))
    assert (row.verdict, row.actual) == ("failed", f"the image x:1 has no {program}")
    assert row.next_step.startswith(step)


@pytest.mark.parametrize(
    ("said", "actual"),
    [
        ((), "it said nothing"),
        (("", "first"), "first"),
        (("first", "User root not allowed because"), "first; User root not allowed because"),
        (("first", "debug: REFUSED user root"), "first; debug: REFUSED user root"),
        (("root not allowed",), "root not allowed"),
    ],
)
def test_what_sshd_said_of_a_login(said: tuple[str, ...], actual: str) -> None:
    found = image_of(
        ("/usr/sbin/sshd",), programs={"/usr/sbin/sshd": "/usr/sbin/sshd"}, login="no", said=said
    )
    assert [each.actual for each in found] == [f"the image x:1 lets no login in: {actual}"]


def test_the_look_at_an_image_is_read() -> None:
    text = (
        "railyard-image: program mpirun=/usr/bin/mpirun\n"
        "railyard-image: mpi all_reduce_perf=no\n"
        "railyard-image: library all_reduce_perf=libx.so\n"
        "railyard-image: said=one\nrailyard-image: said=two\n"
        "railyard-image: uid=1000\nrailyard-image: login=failed\nnoise=x\n"
        "railyard-image: without a value\n"
    )
    log = parse_image_log(text)
    assert isinstance(log, ImageLog)
    assert (log.programs, log.mpi) == ({"mpirun": "/usr/bin/mpirun"}, {"all_reduce_perf": "no"})
    assert (log.missing, log.said) == (("all_reduce_perf libx.so",), ("one", "two"))
    assert (log.uid, log.home, log.login, log.complete) == ("1000", "", "failed", False)
    ended = parse_image_log(f"{text}railyard-image: end=1\n")
    assert isinstance(ended, ImageLog)
    assert ended.complete
    assert parse_image_log(" ") == ParseProblem(
        kind="empty", what="the pod said nothing of its image, but: nothing"
    )
    assert parse_image_log("a\nb\n") == ParseProblem(
        kind="unrecognised", what="the pod said nothing of its image, but: b"
    )

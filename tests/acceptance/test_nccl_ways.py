"""Which way the data of NCCL took, line by line; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.judge.nccl_findings import judge_transport, judge_way, speaks, way_of
from components.acceptance.logs.log_model import Channels, Hca, HostNetwork, RankLine
from tests.acceptance.test_nccl_findings import RANKS, log, row


def over(**nets: int) -> Channels:
    return Channels(net=nets, hosts_on_net=("w0", "w1"))


def adapters(layer: str = "RoCE", name: str = "mlx5_0") -> tuple[HostNetwork, ...]:
    hcas = (Hca(index=0, device=name, link_layer=layer),)
    return tuple(HostNetwork(host=host, hcas=hcas) for host in ("w0", "w1"))


NO_RDMA: Final = (
    "NCCL found no RDMA device it may use: look at the VF, NCCL_IB_HCA, NCCL_IB_DISABLE"
)
UNSAID: Final = "no line 'NET/IB : Using' says whether it is InfiniBand or RoCE"
WITH_INFO: Final = "run with NCCL_DEBUG=INFO and look at the lines 'NET/IB : Using' and 'via NET/'"


@pytest.mark.parametrize(
    ("changes", "expect", "verdict", "actual", "detail", "step"),
    [
        (
            {"channels": over(IB=2), "hosts": adapters()},
            "roce",
            "passed",
            "NET/IB",
            "channel lines: 2 NET/IB; devices: RoCE",
            "",
        ),
        (
            {"channels": over(Socket=2)},
            "roce",
            "failed",
            "NET/Socket",
            "channel lines: 2 NET/Socket",
            NO_RDMA,
        ),
        (
            {"networks": {"Socket": 2}},
            "roce",
            "failed",
            "NET/Socket",
            None,
            NO_RDMA,
        ),
        (
            {"channels": over(IB=2)},
            "ib",
            "error",
            "NET/IB",
            f"{UNSAID}; channel lines: 2 NET/IB",
            WITH_INFO,
        ),
        ({}, "ib", "error", "not shown", "no transport line; run with NCCL_DEBUG=INFO", WITH_INFO),
    ],
)
def test_transports(
    changes: dict[str, Any],
    expect: Any,  # noqa: ANN401 - a word
    verdict: str,
    actual: str,
    detail: str | None,
    step: str,
) -> None:
    found = judge_transport(log(**changes), expect)
    assert (found.expected, found.verdict, found.actual) == (expect, verdict, actual)
    assert found.next_step == step
    if detail is not None:
        assert found.detail == detail


def test_a_transport_that_is_not_asked_for() -> None:
    seen = judge_transport(log(channels=Channels(peer=3, shared_memory=1)), None)
    assert (seen.verdict, seen.actual) == ("skipped", "P2P, SHM (not proven)")
    assert seen.detail == "channel lines: 3 P2P, 1 SHM"
    none = judge_transport(log(), None)
    assert (none.actual, none.detail) == ("none shown (not proven)", "give --expect to judge it")


@pytest.mark.parametrize(
    ("name", "providers", "way"),
    [
        ("IB", (), "verbs"),
        ("IBext_v8", (), "verbs"),
        ("IBx", (), "unknown"),
        ("gIB", (), "verbs"),
        ("Socket", (), "socket"),
        ("FasTrak", (), "other"),
        ("UCX", (), "unknown"),
        ("Libfabric", (), "unknown"),
        ("AWS Libfabric", ("efa",), "other"),
        ("OFI", ("tcp", "sockets"), "socket"),
        ("OFI", ("tcp", "efa"), "unknown"),
        ("OFI", ("new",), "unknown"),
        ("Magic", ("efa",), "unknown"),
    ],
)
def test_what_a_network_sends_over(name: str, providers: tuple[str, ...], way: str) -> None:
    assert way_of(name, providers) == way


def gpus(*names: str) -> tuple[RankLine, ...]:
    return tuple(
        RankLine(rank=rank, host="w0", gpu=f"{rank} [0000:1{rank}:00] {name}")
        for rank, name in enumerate(names)
    )


H100: Final = "NVIDIA H100 80GB HBM3"
MI300: Final = "AMD Instinct MI300X"
XGMI: Final = "the GPUs are not NVIDIA's: AMD's xGMI is not NVLink"
PLAIN: Final = "P2P goes over PCIe too: no line and no number proves NVLink"
NVL: Final[dict[str, Any]] = {"gpu_links": ("NVL",), "rows": (row(busbw=9.0),)}
SEARCH: Final = "NCCL's search found NVL from GPU to GPU"
NVLINK: Final[tuple[tuple[dict[str, Any], str, str], ...]] = (
    ({"nccl_version": "2.28.7", "multi_node_nvlink": True}, "passed", "MNNVL between hosts"),
    (
        {"nccl_version": "2.28.7", "channels": Channels(peer=1, mnnvl=1), "gpus_known": 0},
        "passed",
        "MNNVL between hosts",
    ),
    (NVL | {"nccl_version": "2.28.7"}, "passed", SEARCH),
    (NVL | {"ranks": gpus(H100, H100)}, "passed", SEARCH),
    (NVL | {"ranks": gpus("Tesla V100-SXM2-32GB", "A100-SXM4-40GB")}, "passed", SEARCH),
    ({"ranks": gpus(H100, H100)}, "passed", "150 GB/s is more than PCIe can carry"),
    ({"ranks": gpus(H100, H100), "rows": (row(busbw=128.0),)}, "error", PLAIN),
    (
        {"gpu_links": ("SYS", "PIX"), "multi_node_nvlink": True},
        "failed",
        "GPUs reach each other over PCIe: PIX, SYS",
    ),
    (NVL | {"ranks": gpus(H100, MI300)}, "failed", XGMI),
    (NVL | {"is_rccl": True}, "failed", XGMI),
    (NVL, "error", "no line says that a GPU is NVIDIA's"),
    (NVL | {"ranks": gpus("Magic 7", H100)}, "error", "no line says that Magic 7 is NVIDIA's"),
    (
        NVL | {"ranks": gpus(H100, H100), "gpus_known": 1},
        "error",
        "no line shows that the ranks are on different GPUs",
    ),
    (
        NVL | {"ranks": gpus(H100, H100), "shared_gpus": ("w0 [0000:10:00]",)},
        "error",
        "two ranks use one GPU (w0 [0000:10:00]): its own memory, no link",
    ),
)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("mlx5_0", "RoCE"),
        ("mlx5_0+mlx5_1", "RoCE"),
        ("rocep1s0f0", "RoCE"),
        ("bnxt_re0", "RoCE"),
        ("hns_0", "RoCE"),
        ("irdma0", ""),
        ("qedr0", ""),
        ("erdma_0", ""),
        ("fast0", ""),
        ("mlx5_0+qedr0", ""),
        ("siw0", "iWARP"),
        ("iwp3s0f0", "iWARP"),
        ("cxgb4_0", "iWARP"),
        ("rdmap16s27", "EFA"),
        ("hfi1_0", "Omni-Path"),
    ],
)
def test_what_a_device_speaks_by_its_name(name: str, what: str) -> None:
    assert speaks(name) == what


@pytest.mark.parametrize(
    ("changes", "expect", "verdict", "why"),
    [
        ({"channels": over(IB=1), "hosts": adapters("IB")}, "ib", "passed", ""),
        ({"channels": over(IB=1), "hosts": adapters("IB")}, "roce", "failed", ""),
        ({"channels": over(IB=1), "hosts": adapters()}, "ib", "failed", ""),
        ({"channels": over(IB=1), "hosts": adapters()}, "socket", "failed", ""),
        ({"channels": over(Socket=1)}, "socket", "passed", ""),
        ({"channels": over(IB=1, Socket=1), "hosts": adapters()}, "roce", "failed", ""),
        (
            {"channels": over(UCX=1)},
            "ib",
            "error",
            "no line says what this network sends over",
        ),
        (
            {"channels": over(UCX=1)},
            "socket",
            "error",
            "no line says what this network sends over",
        ),
        (
            {"channels": over(IB=1), "hosts": adapters(name="efa_0")},
            "roce",
            "failed",
            "efa_0 is EFA",
        ),
        (
            {"channels": over(IB=1), "hosts": adapters(name="irdma0")},
            "roce",
            "error",
            "irdma0 may speak iWARP, which NCCL shows as RoCE: ibv_devinfo tells",
        ),
        (
            {"channels": over(IB=1), "hosts": adapters(name="siw0")},
            "roce",
            "failed",
            "siw0 is iWARP",
        ),
        (
            {"channels": over(IB=1), "hosts": (adapters("IB")[0], adapters()[1])},
            "ib",
            "error",
            "devices of both link layers are in use",
        ),
        (
            {"channels": Channels(net={"IB": 1}, hosts_on_net=("w0",)), "hosts": adapters()},
            "roce",
            "error",
            "no line shows a network channel of w1",
        ),
        (
            {"channels": Channels(other=("MAGIC",))},
            "ib",
            "error",
            "channels over MAGIC, which is not known",
        ),
        (
            {"channels": Channels(peer=1)},
            "ib",
            "error",
            "no line shows a channel between hosts",
        ),
        ({"channels": Channels(peer=1), "ranks": RANKS[:2]}, "ib", "failed", ""),
        (
            {"channels": Channels(peer=1), "ranks": (), "nodes": 2},
            "ib",
            "error",
            "no line shows a channel between hosts",
        ),
        ({"channels": over(IB=1)}, "nvlink", "failed", ""),
        ({"channels": Channels(shared_memory=1)}, "nvlink", "failed", ""),
        *(
            ({"channels": Channels(peer=1), "gpus_known": 4} | changes, "nvlink", verdict, why)
            for changes, verdict, why in NVLINK
        ),
        (
            {"channels": Channels(strangers=("gpu09",))},
            "ib",
            "error",
            "channel lines of gpu09, which the list of ranks does not have",
        ),
        (
            {"channels": over(IB=1).model_copy(update={"strangers": ("gpu09", "rank 31")})},
            "ib",
            "error",
            "channel lines of rank 31, which the list of ranks does not have",
        ),
    ],
)
def test_the_way_of_the_data(changes: dict[str, Any], expect: Any, verdict: str, why: str) -> None:  # noqa: ANN401 - a word
    assert judge_way(log(**changes), expect) == (verdict, why)

"""Which way the data of NCCL took, line by line; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.judge.nccl_findings import judge_transport
from components.acceptance.judge.nccl_ways import judge_way, way_of
from components.acceptance.logs.log_model import Channels, Hca, HostNetwork
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
    found = judge_transport(log(**changes), "p", expect)
    assert (found.expected, found.verdict, found.actual) == (expect, verdict, actual)
    assert found.next_step == step
    if detail is not None:
        assert found.detail == detail


def test_a_transport_that_is_not_asked_for() -> None:
    seen = judge_transport(log(channels=Channels(peer=3, shared_memory=1)), "p", None)
    assert (seen.verdict, seen.actual) == ("skipped", "P2P, SHM (not proven)")
    assert seen.detail == "channel lines: 3 P2P, 1 SHM"
    none = judge_transport(log(), "p", None)
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
        ("Libfabric", (), "other"),
        ("AWS Libfabric", ("efa",), "other"),
        ("OFI", ("tcp", "sockets"), "socket"),
        ("OFI", ("tcp", "efa"), "unknown"),
        ("OFI", ("new",), "unknown"),
        ("Magic", ("efa",), "unknown"),
    ],
)
def test_what_a_network_sends_over(name: str, providers: tuple[str, ...], way: str) -> None:
    assert way_of(name, providers) == way


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
        (
            {"channels": Channels(nvls=1)},
            "nvlink",
            "passed",
            "channels over NVSwitch's multicast",
        ),
        (
            {"channels": Channels(peer=1), "multi_node_nvlink": True},
            "nvlink",
            "passed",
            "MNNVL between hosts",
        ),
        (
            {"channels": Channels(peer=1), "gpu_links": ("NVL",), "rows": (row(busbw=9.0),)},
            "nvlink",
            "passed",
            "NCCL's search found NVL from GPU to GPU",
        ),
        (
            {"channels": Channels(peer=1)},
            "nvlink",
            "passed",
            "150 GB/s is more than PCIe can carry",
        ),
        (
            {"channels": Channels(peer=1), "rows": (row(busbw=128.0),)},
            "nvlink",
            "error",
            "P2P goes over PCIe too: no line and no number proves NVLink",
        ),
        (
            {"channels": Channels(peer=1), "gpu_links": ("SYS", "PIX"), "multi_node_nvlink": True},
            "nvlink",
            "failed",
            "GPUs reach each other over PCIe: PIX, SYS",
        ),
    ],
)
def test_the_way_of_the_data(changes: dict[str, Any], expect: Any, verdict: str, why: str) -> None:  # noqa: ANN401 - a word
    assert judge_way(log(**changes), expect) == (verdict, why)

"""RDMA between a VF of each guest: software RoCE on it, and perftest as our jobs run it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from components.acceptance.digest import digest_log
from components.acceptance.evidence import Limits, Probe, ProbeEvidence, RailLimit
from components.acceptance.judge.site import judge_perftest
from components.acceptance.judge.verdict import Finding, find_failure
from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from components.acceptance.probes.probe_job import perftest_command
from components.core.errors import DeviceError
from components.core.record import record
from components.jobs.templates import job_script
from components.model.cluster import ClusterSpec
from components.remote.step import Endpoint
from lab.vm.drifts import PF
from lab.vm.guest import demand, run_as_root

VF: Final = f"{PF}v0"
DEVICE: Final = "rxe0"
CARD_GBIT_S: Final = 1.0
"""The emulated card is an 82576: Gigabit Ethernet."""
EMULATED_FRACTION: Final = 0.001
"""Least share of the line rate here: the instructions of both ends and their cards are emulated,
and 0.02 to 0.1 Gb/s were measured. That anything flows is what this number asks."""
_DEADLINE_S: Final = 240
_MORE_RUNS: Final = 4
"""Where no clock was found: emulated processors stand still while the machine is busy."""


FIND_GID: Final = f"""cd /sys/class/infiniband/{DEVICE}/ports/1
for tried in 1 2 3 4 5 6 7 8 9 10; do
  for index in 0 1 2 3 4 5 6 7; do
    case $(cat gids/$index) in 0000:0000:0000:0000:0000:ffff:*)
      [ "$(cat gid_attrs/types/$index)" != 'RoCE v2' ] || {{ echo $index; exit 0; }}
    esac
  done
  sleep 1
done
echo no RoCE v2 GID with an IPv4 address >&2
exit 1
"""
"""Prints the index of the RoCE v2 GID that carries an IPv4 address."""


def vf_address(number: int) -> str:
    """The address of a guest's VF; a subnet of its own, since the PF has the rail's."""
    return f"10.20.111.{number}"


def add_device(endpoint: Endpoint, number: int) -> str:
    """Give the VF an address and an RDMA device.

    Returns:
        The index of the RoCE v2 GID that carries the address.
    """
    return demand(
        endpoint,
        f"""set -e
        ip addr replace {vf_address(number)}/24 dev {VF}
        ip link set {VF} up
        modprobe rdma_rxe
        rdma link add {DEVICE} type rxe netdev {VF}
        udevadm settle
        {FIND_GID}
        """,
    ).strip()


def remove_device(endpoint: Endpoint, number: int) -> None:
    """Take both away again; the modules that came with it may stay in use."""
    demand(
        endpoint,
        f"rdma link del {DEVICE}; ip link set {VF} down;"
        f" ip addr del {vf_address(number)}/24 dev {VF}; modprobe -r rdma_rxe",
    )


def answers(endpoint: Endpoint, number: int, within_s: int) -> bool:
    """Whether the VF of another guest answers this one's, once within that time."""
    words = f"ping -q -c 1 -w {within_s} -I {VF} {vf_address(number)}"
    return run_as_root(endpoint, words).exit_status == 0


@record
class End:
    """One end of the test."""

    endpoint: Endpoint
    number: int
    gid: str


def run_perftest(spec: ClusterSpec, client: End, server: End) -> str:
    """The client's log of `ib_write_bw`, with the command that the site's own jobs run."""
    return until_clock(lambda: _run_once(spec, client, server))


def until_clock(run: Callable[[], str]) -> str:
    """The log of a test, run again where the emulated processor's clock could not be measured."""
    log = run()
    for _ in range(_MORE_RUNS):
        found = parse_perftest_log(log)
        if not isinstance(found, PerftestLog) or not found.clock_unknown:
            break
        log = run()
    return log


def _run_once(spec: ClusterSpec, client: End, server: End) -> str:
    to = vf_address(server.number)
    waiting = perftest_script("perftest_server", perftest_command(spec), server.gid)
    sending = perftest_script("perftest_client", perftest_command(spec, to), client.gid)
    with ThreadPoolExecutor(max_workers=1) as pool:
        served = pool.submit(run_as_root, server.endpoint, waiting)
        sent = run_as_root(client.endpoint, sending)
        served.result()
    if sent.exit_status != 0:
        raise DeviceError(
            f"ib_write_bw ended with {sent.exit_status}: {(sent.stdout + sent.stderr)[-800:]}"
        )
    return sent.stdout


def perftest_script(name: str, command: tuple[str, ...], gid: str) -> str:
    """One end of the test, as the site's jobs run it, on the device that the story made.

    Args:
        name: Of the job's script: `perftest_server` or `perftest_client`.
        command: Of the site.
        gid: Index of the device's GID.
    """
    call = f"timeout {_DEADLINE_S} {' '.join(command)}"
    text = job_script(name).replace("ib_write_bw_call", call)
    return f"hca={DEVICE}\ngid={gid}\nulimit -l unlimited\n{text}"


def judge(log: str, fraction: float) -> tuple[ProbeEvidence, list[Finding]]:
    """The verdicts of our own judge on that log.

    Args:
        log: The client's.
        fraction: Least share of the card's line rate.
    """
    name = "perftest-rail-0-gpu01-gpu02"
    probe = Probe(name=name, kind="perftest", rails=("rail-0",), nodes=("gpu01", "gpu02"))
    evidence = digest_log(probe, log, outcome="completed")
    if evidence.perftest is None:
        raise DeviceError(f"our parser finds no perftest in this log:\n{log}")
    limits = Limits(
        rails=(RailLimit(name="rail-0", line_rate_gbit_s=CARD_GBIT_S),),
        pair_fraction=fraction,
    )
    failure = find_failure(evidence.perftest.failures)
    found = judge_perftest(evidence, evidence.perftest, limits)
    return evidence, [failure, *found] if failure else found

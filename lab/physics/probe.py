"""The one door to the physics: a probe goes in, its log and its counter increments come out."""

from __future__ import annotations

from collections.abc import Iterable

from lab.physics import horovod, torchrun
from lab.physics.command_line import calls_tool
from lab.physics.deepspeed import run_scan
from lab.physics.nccl import run_nccl
from lab.physics.path import Between, Cables, Site
from lab.physics.perftest import run_perftest
from lab.physics.request import ProbeRequest, ProbeResult, parse_request
from lab.physics.training import run_training
from lab.views import HcaView, NicView, PortView


def run(
    request: ProbeRequest | object,
    nics: Iterable[NicView],
    ports: Iterable[PortView],
    cables: Cables,
    hcas: Iterable[HcaView] = (),
    between: Between | None = None,
) -> ProbeResult:
    """Plays a probe on the devices as they are now.

    Args:
        request: A `ProbeRequest`, or its decoded JSON (`lab.physics.request`).
        nics: The PFs of all hosts.
        ports: The ports of all switches.
        cables: (Switch, port) to (host, PCI address of the PF).
        hcas: The InfiniBand adapters of all hosts.
        between: Links between switches, and what routes over them.

    Returns:
        The log as the real tool prints it, its exit code, and what to add to which counter. The
        caller adds the counters; nothing is changed here.

    Raises:
        UsageError: The request asks for something that the lab does not play.
    """
    asked = request if isinstance(request, ProbeRequest) else parse_request(request)
    site = Site.of(nics, ports, cables, hcas, between)
    if asked.kind == "perftest":
        return run_perftest(asked, site)
    launcher = asked.launcher or asked.pods[0]
    if calls_tool(launcher.command, "deepspeed"):
        return run_scan(asked, site)
    if calls_tool(launcher.command, torchrun.PROGRAM):
        return torchrun.run_torchrun(asked, site)
    if calls_tool(launcher.command, horovod.PROGRAM):
        return horovod.run_horovod(asked, site)
    if calls_tool(launcher.command, "tf_cnn_benchmarks.py"):
        return run_training(asked, site)
    return run_nccl(asked, site)

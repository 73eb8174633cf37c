"""The probes that the product plans are probes that the lab plays, and pass on a healthy site."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from components.acceptance.digest import digest_log
from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.site import judge_probe
from components.acceptance.probes.probe_job import RAIL_ADDRESS, ProbeJob
from components.acceptance.probes.probe_plan import plan_probes
from components.jobs.templates import number_objects
from components.reading.load import load_site
from lab.physics.request import ProbePod, ProbeRequest
from tests.lab_physics.site import HOSTS, LIMITS, PFS, Site

EXAMPLE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"


def planned_jobs() -> tuple[ProbeJob, ...]:
    spec = load_site(EXAMPLE).spec
    assert spec is not None
    return plan_probes(spec).jobs


def containers(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The containers of an object's pod templates, in order."""
    text = json.dumps(body)
    found = re.finditer(r'"containers": (\[.*?\])', text)
    decoder = json.JSONDecoder()
    return [decoder.raw_decode(text, match.start(1))[0][0] for match in found]


def on_rails(pod: ProbePod, rails: tuple[str, ...]) -> ProbePod:
    """The pod with the attachments of its rails only, named as VFs are."""
    site = Site()
    kept = tuple(
        item
        for index, item in enumerate(site.pod("x", pod.node, ()).networks)
        if f"rail-{index}" in rails
    )
    return ProbePod(pod.name, pod.node, pod.command, pod.env, kept, capabilities=("IPC_LOCK",))


def play(job: ProbeJob) -> ProbeEvidence:
    bodies = number_objects(job.objects, 1)
    rails = job.probe.rails
    found = [item for body in bodies for item in containers(cast("Mapping[str, Any]", body))]
    commands = [tuple(cast("list[str]", item["command"])) for item in found]
    if job.probe.kind == "perftest":
        sender, receiver = job.probe.nodes
        server = on_rails(ProbePod("server", receiver, commands[0]), rails)
        rail = int(rails[0][-1])
        address = f"10.10.{111 + rail}.254"
        commands[1] = tuple(word.replace(RAIL_ADDRESS, address) for word in commands[1])
        moved = tuple(
            item.__class__(item.interface, address, PFS[rail][1], item.vlan, item.mtu_bytes)
            for item in server.networks
        )
        server = ProbePod("server", receiver, commands[0], {}, moved)
        client = on_rails(ProbePod("client", sender, commands[1]), rails)
        request = ProbeRequest("perftest", (server, client))
    else:
        workers = tuple(
            on_rails(ProbePod(f"w-{i}", host, ("sshd",)), rails) for i, host in enumerate(HOSTS)
        )
        # The launcher's own script ends with its arguments as the call; a pod's shell runs it.
        call = commands[0][commands[0].index("mpi_launch") + 1 :]
        request = ProbeRequest("nccl", workers, ProbePod("launcher", "", call))
    result = Site().run(request)
    assert result.exit_code == 0, result.log
    assert {number for item in result.nic_deltas for number in item.tx_bytes} == {3}
    return digest_log(job.probe, result.log, outcome="completed")


def test_every_planned_probe_is_played_and_is_good() -> None:
    jobs = planned_jobs()
    assert {job.probe.kind for job in jobs} == {"node", "perftest", "nccl"}
    for job in (each for each in jobs if each.probe.kind != "node"):
        limits = LIMITS.model_copy(update={"priority": None})
        findings = judge_probe(play(job), limits)
        assert {item.verdict for item in findings} <= {"passed"}, findings

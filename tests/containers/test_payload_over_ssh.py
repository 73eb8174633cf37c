"""The payload on emulated workers over real SSH: containers, keyless MPI, drift, and undo."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from components.acceptance.collect.cluster_jobs import ProbeRun
from components.acceptance.collect.probe_runs import run_host_probe
from components.acceptance.probes.probe_job import HostProbe, plan_payload_probes
from components.cli.evidence import make_keys
from components.containers.container_plan import PayloadPlan, plan_payload
from components.core.key_values import diff_states, parse_state
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import RemoteStep
from lab import control
from lab.hosts.lab_file import LabFile
from lab.keys import client_secrets
from lab.site import lab_file, load_document, overlay, secrets_of
from tests.containers.site import EXAMPLE
from tests.over_ssh.host_lab import PROJECT, HostLab

pytestmark = pytest.mark.lab
STACK = "payload-over-ssh"
KEYS = make_keys(STACK)
WORKERS = 2


def load_lab_spec() -> ClusterSpec:
    """The first workers of the example, without hypervisors and switches."""
    spec = ClusterSpec.model_validate(overlay(load_document(EXAMPLE), STACK, {}))
    defaults = spec.host_defaults.model_copy(update={"ats": False})
    return spec.model_copy(update={"hosts": spec.hosts[:WORKERS], "host_defaults": defaults})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    spec = load_lab_spec()
    root = tmp_path_factory.mktemp("payload") / "lab"
    root.mkdir()
    built = lab_file(spec, STACK, (PROJECT, root / "cache", Path(sys.executable)))
    hosts = tuple(replace(host, guest=False) for host in built.hosts)
    file = root / "lab.json"
    built = replace(built, root=root, switches=(), hypervisors=(), hosts=hosts)
    file.write_bytes(TypeAdapter(LabFile).dump_json(built))
    control.start(file)
    running = HostLab(STACK, root, spec)
    try:
        for host in spec.workers:
            answer = running.apply(running.plan(host.name))
            assert answer.exit_status == 0, answer.stderr
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    finally:
        control.stop(root)
    assert unmodelled == {host.name: [] for host in spec.workers}


@pytest.fixture(scope="module")
def plan(lab: HostLab) -> PayloadPlan:
    planned = plan_payload(lab.spec, STACK)
    assert planned is not None
    return planned


def stdin_of(step: RemoteStep) -> str:
    secrets = {"payload_keys": KEYS} | secrets_of(STACK)
    return secrets[step.secret_stdin] if step.secret_stdin else step.desired


def apply(lab: HostLab, step: RemoteStep) -> list[str]:
    answer = lab.run(step, step.apply, stdin_of(step))
    assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    return json.loads(answer.stdout)["changed"]


def undo(lab: HostLab, step: RemoteStep) -> HostAnswer:
    assert step.undo is not None
    answer = lab.run(step, step.undo, stdin_of(step))
    assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    return answer


def drift(lab: HostLab, plan: PayloadPlan, number: int) -> list[str]:
    watched = plan.watched[number]
    answer = lab.run(watched.step, watched.observe, watched.desired.render())
    assert answer.exit_status == 0, answer.stderr
    return [str(each) for each in diff_states(parse_state(answer.stdout), watched.desired)]


def probe(lab: HostLab, kind: str) -> tuple[HostProbe, ProbeRun]:
    found = next(each for each in plan_payload_probes(lab.spec) if each.probe.kind == kind)
    secrets = client_secrets(STACK)
    return found, asyncio.run(run_host_probe(found, secrets))


@pytest.fixture
def running(lab: HostLab, plan: PayloadPlan) -> HostLab:
    """The payload runs; another test may have undone it, and this may be the first one."""
    if not lab.sh(lab.plan("vm01"), "docker ps -q"):
        for step in plan.steps:
            apply(lab, step)
    return lab


def test_a_second_run_changes_nothing(running: HostLab, plan: PayloadPlan) -> None:
    assert [apply(running, step) for step in plan.steps] == [[] for _ in plan.steps]
    assert [drift(running, plan, number) for number in range(WORKERS)] == [[], []]


def test_mpi_starts_on_every_host_through_the_forced_command(running: HostLab) -> None:
    planned, ran = probe(running, "mpi_hosts")
    assert ran.succeeded, ran
    assert sorted(ran.log.split()) == sorted(planned.probe.nodes)


def test_every_host_has_its_gpu(running: HostLab) -> None:
    _, ran = probe(running, "mpi_gpus")
    assert ran.succeeded, ran
    assert ran.log.count("GPU 0:") == WORKERS


def test_the_containers_key_opens_no_shell(running: HostLab) -> None:
    first, second = running.spec.workers[:2]
    answer = running.run(
        running.plan(first.name),
        f"docker exec mpicont ssh -x {second.address} 'cat /etc/shadow'; echo status $?",
        "",
    )
    assert "status 1" in answer.stdout
    assert "'cat' is something else" in answer.stderr + answer.stdout
    assert "root:" not in answer.stdout


def test_the_hosts_key_opens_the_other_host(running: HostLab) -> None:
    answer = asyncio.run(
        run_on_host(
            running.plan("vm01").endpoint,
            client_secrets(STACK),
            "ssh -o BatchMode=yes vm02 uname -n",
            deadline_s=30,
        )
    )
    assert answer.stdout == "vm02\n", answer


def test_a_host_with_another_key_is_not_trusted(running: HostLab, plan: PayloadPlan) -> None:
    home = f"/home/{running.spec.workers[0].way.user}/.ssh"
    swap = (
        f"sed -i 's/^vm02 ssh-ed25519 ..../vm02 ssh-ed25519 AAAB/' {home}/ssh_container/known_hosts"
    )
    running.sh(running.plan("vm01"), swap)
    _, ran = probe(running, "mpi_hosts")
    assert not ran.succeeded
    assert any("known_hosts" in words for words in drift(running, plan, 0))
    assert apply(running, plan.hosts[0].container) != []
    _, ran = probe(running, "mpi_hosts")
    assert ran.succeeded, ran


def test_a_stopped_container_is_drift_and_is_started(running: HostLab, plan: PayloadPlan) -> None:
    running.sh(running.plan("vm02"), "docker stop mpicont")
    assert drift(running, plan, 1) == ["state of container is exited, want running"]
    assert apply(running, plan.hosts[1].container) == ["container.state"]
    assert drift(running, plan, 1) == []


def test_undo_leaves_nothing_and_a_second_round_every_byte(
    running: HostLab, plan: PayloadPlan
) -> None:
    for step in reversed(plan.steps):
        undo(running, step)
    before = [running.snapshot(host.name) for host in running.spec.workers]
    vm01 = running.plan("vm01")
    assert running.sh(vm01, "ls -A /home/*/.ssh").split() == ["authorized_keys"]
    assert "payload" not in running.sh(vm01, f"ls /var/lib/railyard/{STACK}").split()
    assert running.sh(vm01, "docker ps -aq; docker images -q") == ""
    for step in plan.steps:
        apply(running, step)
    for step in reversed(plan.steps):
        undo(running, step)
    assert [running.snapshot(host.name) for host in running.spec.workers] == before

"""Probes on hosts: what is planned, and how a run ends, over SSH to servers of this process."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from components.acceptance.collect.cluster_jobs import ProbeRun
from components.acceptance.collect.probe_runs import run_host_probe
from components.acceptance.probes.probe_job import HostProbe, plan_payload_probes
from components.reading.load import load_site
from components.remote.step import Endpoint
from tests.containers.site import load_spec

ROOT = Path(__file__).parents[2]


def _new_key() -> asyncssh.SSHKey:
    text = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    return asyncssh.import_private_key(text)


HOST_KEY, CLIENT_KEY = _new_key(), _new_key()
SECRETS = {"ssh_private_key": CLIENT_KEY.export_private_key("openssh").decode()}
PROBES = {probe.probe.name: probe for probe in plan_payload_probes(load_spec())}


def test_probes_in_the_order_of_their_meaning() -> None:
    assert [(each.probe.name, each.probe.kind) for each in PROBES.values()] == [
        ("mpi-hosts", "mpi_hosts"),
        ("mpi-gpus", "mpi_gpus"),
        ("perftest-rail-0-vm01-vm02", "perftest"),
        ("nccl-all-reduce", "nccl"),
        ("resnet50", "resnet50"),
    ]


def test_a_cluster_has_none() -> None:
    spec = load_site(ROOT / "examples" / "dgx-roce" / "site.yaml").spec
    assert spec is not None
    assert plan_payload_probes(spec) == ()


def test_the_benchmark_is_the_guides() -> None:
    command = " ".join(PROBES["resnet50"].command)
    hosts = "192.168.4.11,192.168.4.12,192.168.4.13,192.168.4.14"
    assert command.startswith(f"mpirun --allow-run-as-root -H {hosts} -np 4 ")
    assert " -x NCCL_IB_DISABLE=0 " in command
    assert " -x NCCL_DEBUG=INFO " in command
    assert command.endswith(
        " python3 /workspace/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model"
        " resnet50 --batch_size 512 --use_fp16 --variable_update=horovod --xla=True"
    )


def test_nccl_goes_over_the_rail_in_the_rdma_class() -> None:
    probe = PROBES["nccl-all-reduce"]
    assert "NCCL_IB_TC=106" in probe.command
    assert "netdevs=ens224" in probe.client.script
    assert "NCCL_IB_GID_INDEX" not in " ".join(probe.command)
    assert (probe.probe.ranks, probe.probe.rails) == (4, ("rail-0",))


def test_hosts_with_more_gpus_have_more_slots() -> None:
    spec = load_spec()
    hosts = tuple(host.model_copy(update={"gpus": 8}) for host in spec.hosts)
    probes = {
        p.probe.kind: p for p in plan_payload_probes(spec.model_copy(update={"hosts": hosts}))
    }
    assert "192.168.4.11:8,192.168.4.12:8,192.168.4.13:8,192.168.4.14:8" in probes["nccl"].command
    assert probes["nccl"].probe.ranks == 32
    assert probes["mpi_hosts"].probe.ranks == 4
    assert "192.168.4.11,192.168.4.12,192.168.4.13,192.168.4.14" in probes["mpi_hosts"].command


def test_both_ends_of_a_perftest() -> None:
    probe = PROBES["perftest-rail-0-vm01-vm02"]
    assert probe.probe.nodes == ("vm01", "vm02")
    assert probe.server is not None
    assert (probe.client.endpoint.device, probe.server.endpoint.device) == ("vm01", "vm02")
    assert '-d "$hca" -x "$gid" -T 106 -D 5 --report_gbits -F 192.168.111.12' in probe.client.script
    assert "ib_write_bw_call" not in probe.client.script + probe.server.script


def test_every_script_parses() -> None:
    for probe in PROBES.values():
        for command in (probe.client, probe.server):
            if command is not None:
                done = subprocess.run(
                    ["/bin/sh", "-n"], input=command.script,
                    capture_output=True, text=True, timeout=10, check=False,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr


Answer = Callable[[asyncssh.SSHServerProcess[str]], None]


def _ends(text: str, status: int = 0) -> Answer:
    def answer(process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write(text)
        process.exit(status)

    return answer


def _hangs(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write("waiting\n")


async def _serve(answer: Answer) -> asyncssh.SSHAcceptor:
    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[HOST_KEY],
        authorized_client_keys=asyncssh.import_authorized_keys(
            CLIENT_KEY.export_public_key("openssh").decode()
        ),
        process_factory=answer,
    )


def _at(endpoint: Endpoint, port: int) -> Endpoint:
    key = HOST_KEY.export_public_key("openssh").decode().strip()
    return replace(endpoint, address="127.0.0.1", port=port, host_key=key)


async def _run(probe: HostProbe, client: Answer, server: Answer = _hangs) -> ProbeRun:
    listening = [await _serve(client), await _serve(server)]
    here, there = (each.get_port() for each in listening)
    probe = replace(
        probe,
        client=replace(probe.client, endpoint=_at(probe.client.endpoint, here)),
        server=probe.server and replace(probe.server, endpoint=_at(probe.server.endpoint, there)),
    )
    try:
        async with asyncio.timeout(20):
            return await run_host_probe(probe, SECRETS)
    finally:
        for each in listening:
            each.close()


def test_output_and_status_are_the_run() -> None:
    ran = asyncio.run(_run(PROBES["mpi-hosts"], _ends("vm01\nvm02\n")))
    assert ran == ProbeRun("vm01\nvm02\n", ended=True, succeeded=True, reason="")


def test_a_failure_ends_with_its_last_line() -> None:
    ran = asyncio.run(_run(PROBES["mpi-hosts"], _ends("one\nORTE was unable to start\n", 1)))
    assert (ran.ended, ran.succeeded) == (True, False)
    assert ran.reason == "ended with status 1: ORTE was unable to start"


@pytest.mark.parametrize("status", [124, 137])
def test_a_run_that_was_cut_off_did_not_end(status: int) -> None:
    ran = asyncio.run(_run(PROBES["resnet50"], _ends("Done warm up\n", status)))
    assert (ran.ended, ran.log) == (False, "Done warm up\n")
    assert ran.reason == "no end within 600 s"


def test_a_perftest_does_not_wait_for_its_server_once_the_client_is_done() -> None:
    ran = asyncio.run(_run(PROBES["perftest-rail-0-vm01-vm02"], _ends("65536 5000\n"), _hangs))
    assert ran.succeeded


def test_a_failed_client_says_what_the_server_said() -> None:
    server = _ends("railyard: there is no RDMA device behind ens224 on vm02\n", 1)
    ran = asyncio.run(_run(PROBES["perftest-rail-0-vm01-vm02"], _ends("no\n", 1), server))
    assert ran.reason.endswith("server: railyard: there is no RDMA device behind ens224 on vm02")


def test_an_unreachable_host_is_the_reason() -> None:
    async def run() -> ProbeRun:
        gone = await _serve(_hangs)
        port = gone.get_port()
        gone.close()
        await gone.wait_closed()
        probe = PROBES["mpi-hosts"]
        client = replace(probe.client, endpoint=_at(probe.client.endpoint, port))
        return await run_host_probe(replace(probe, client=client), SECRETS)

    ran = asyncio.run(run())
    assert (ran.ended, ran.succeeded) == (False, False)
    assert "is not reachable" in ran.reason

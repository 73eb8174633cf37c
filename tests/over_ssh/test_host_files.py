"""Files that are sent to a host over real SSH: by digest, streamed, and taken away again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DeviceError, UsageError
from components.hosts.host_plan import HostPlan
from components.remote.host_session import connect_to_host
from components.remote.send import run_steps
from components.remote.sending import plan_files, render_parts
from components.remote.step import RemoteStep, env_name
from lab.keys import client_key, client_secrets
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
STACK = "host-files"
BIG = bytes(range(256)) * 8192 * 4
SMALL = b"#!/bin/sh\necho hello\n"
PLACE = "/var/lib/railyard/files"


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture(name="lab", scope="module")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    with running_hosts(STACK, tmp_path_factory.mktemp("lab"), only=("gpu01",)) as found:
        yield found


@pytest.fixture(name="host")
def _host(lab: HostLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostPlan:
    folder = tmp_path / ".railyard" / "files"
    folder.mkdir(parents=True)
    for body in (BIG, SMALL):
        (folder / digest(body)).write_bytes(body)
    monkeypatch.chdir(tmp_path)
    return lab.plan("gpu01")


def step_of(host: HostPlan, **files: bytes) -> RemoteStep:
    step = plan_files(host.endpoint, {digest(body): name for name, body in files.items()})
    assert step is not None
    return step


def environ(host: HostPlan) -> dict[str, str]:
    name = env_name(host.endpoint.private_key_secret or "")
    return {name: client_key(STACK).private_openssh}


def send(step: RemoteStep, host: HostPlan) -> str:
    return run_steps(render_parts([(step, "")]), step.name, environ(host)).stdout


def remove(step: RemoteStep, host: HostPlan) -> None:
    run_steps(render_parts([(step, "")]), "", environ(host))


def test_files_arrive_whole_once_and_go_again(lab: HostLab, host: HostPlan) -> None:
    step = step_of(host, k3s=BIG, script=SMALL)
    first = json.loads(send(step, host))
    assert (sorted(first["sent"]), first["there"]) == (["k3s", "script"], [])
    listed = lab.sh(host, f"cd {PLACE} && sha256sum */* | sort")
    wanted = sorted((digest(body), name) for name, body in (("k3s", BIG), ("script", SMALL)))
    assert listed == "".join(f"{each}  {each}/{name}\n" for each, name in wanted)
    again = send(step, host)
    assert again == '{"sent": [], "there": ["k3s", "script"]}\n'
    assert lab.sh(host, f"stat -c %a {PLACE}") == "700\n"
    one = send(step_of(host, script=SMALL), host)
    assert one == '{"sent": [], "there": ["script"]}\n'
    assert lab.sh(host, f"ls {PLACE}") == f"{digest(SMALL)}\n"
    remove(step, host)
    assert lab.sh(host, f"ls {PLACE} 2>&1 || true").endswith("No such file or directory\n")


def test_a_file_that_was_altered_on_the_host_is_sent_again(lab: HostLab, host: HostPlan) -> None:
    step = step_of(host, script=SMALL)
    send(step, host)
    lab.sh(host, f"echo other >{PLACE}/{digest(SMALL)}/script")
    assert send(step, host) == '{"sent": ["script"], "there": []}\n'
    assert lab.sh(host, f"cat {PLACE}/*/script").encode() == SMALL
    remove(step, host)


def test_what_arrives_otherwise_gets_no_name(lab: HostLab, host: HostPlan) -> None:
    (Path(".railyard") / "files" / digest(SMALL)).write_bytes(b"cut")
    with pytest.raises(DeviceError, match="what arrived is not script") as refused:
        send(step_of(host, script=SMALL), host)
    assert "run again" in str(refused.value)
    assert lab.sh(host, f"find {PLACE} -type f") == ""


def test_a_file_that_is_not_here_is_named(host: HostPlan) -> None:
    with pytest.raises(UsageError, match="gone is not here") as refused:
        send(step_of(host, gone=b"never kept"), host)
    assert "Nothing was changed there" in str(refused.value)


def test_a_file_of_many_packets_arrives(host: HostPlan, tmp_path: Path) -> None:
    """The session reads from the file: what it needs does not grow with it."""
    body = tmp_path / "large"
    with body.open("wb") as file:
        file.truncate(64 << 20)

    async def count() -> str:
        async with connect_to_host(host.endpoint, client_secrets(STACK)) as session:
            answer = await session.run("wc -c", stdin=body, deadline_s=120)
            return answer.stdout.strip()

    assert asyncio.run(count()) == str(64 << 20)

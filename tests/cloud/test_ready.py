"""Waiting for an instance: against a real SSH server on its address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import asyncssh
import pytest

from components.cli.cloud import run_verb
from components.cloud.cloud_plan import CloudPlan, list_calls
from components.cloud.crusoe_api import Patience
from components.core.errors import DeviceError, HostKeyError, UnreachableError
from lab.cloud.crusoe.server import CrusoeCloud
from lab.keys import host_key
from tests.cloud.small_engine import QUICK, Stack, plan_of, printed, site

pytestmark = pytest.mark.lab  # the addresses of instances are those of the lab's cloud
WORKER = "crusoe-k3s-worker-0"
PORT = 2222


@contextmanager
def ssh_server(address: str, seed: str) -> Generator[None]:
    """An SSH server with a key of the lab, in a thread of its own."""
    loop = asyncio.new_event_loop()
    key = asyncssh.import_private_key(host_key(seed).private_openssh)

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(address, PORT, server_host_keys=[key])

    async def close(listening: asyncssh.SSHAcceptor) -> None:
        listening.close()
        await listening.wait_closed()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(close(listening), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def asked(cloud: CrusoeCloud) -> tuple[Stack, CloudPlan]:
    """Everything is made; nobody has waited yet."""
    plan = plan_of(site(cloud.endpoint, ("ssh_user: ubuntu", f"ssh_port: {PORT}\n    ssh_user: u")))
    stack = Stack()
    assert stack.up(replace(plan, instances=())), stack.errors
    return stack, plan


def wait(asked: tuple[Stack, CloudPlan], patience: Patience = QUICK) -> dict[str, str]:
    stack, plan = asked
    call = next(each for each in list_calls(plan, {}) if each.step == f"{WORKER}-await")
    kept = stack.steps.get(call.step)
    text = run_verb("await", stack.filled(call.stdin), stack.environ(kept), patience)
    return json.loads(text)


def address_of(cloud: CrusoeCloud) -> str:
    found = cloud.snapshot()["instances"]
    assert isinstance(found, dict)
    [own] = [json.dumps(item) for item in found.values() if f'"{WORKER}"' in json.dumps(item)]
    return own.partition('"address": "127.205.0.')[2].partition('"')[0]


def test_the_key_is_pinned_on_first_contact_and_demanded_afterwards(
    cloud: CrusoeCloud,
    asked: tuple[Stack, CloudPlan],
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = f"127.205.0.{address_of(cloud)}"
    with ssh_server(address, "first"):
        facts = wait(asked)
    assert facts["public_ip"] == address
    assert facts["host_key"].split()[:2] == host_key("first").public_openssh.split()[:2]
    assert f"{WORKER}: pinned on first contact" in capsys.readouterr().err
    stack, _ = asked
    stack.keep(f"{WORKER}-await", json.dumps(facts))
    with ssh_server(address, "first"):
        assert wait(asked) == facts
    assert capsys.readouterr().err == ""
    with ssh_server(address, "another"), pytest.raises(HostKeyError, match="not the pinned one"):
        wait(asked)


def test_nobody_answers(asked: tuple[Stack, CloudPlan]) -> None:
    with pytest.raises(UnreachableError, match=r"does not answer SSH after 0\.1 s") as caught:
        wait(asked, replace(QUICK, boot_s=0.1))
    assert "ssh_allowed" in str(caught.value)


def test_an_instance_with_other_hcas_is_refused(asked: tuple[Stack, CloudPlan]) -> None:
    stack, plan = asked
    instance = next(each for each in plan.instances if each.name == WORKER)
    fewer = replace(instance, request=replace(instance.request, hcas=4))
    with pytest.raises(DeviceError, match="has 8 HCAs in partition"):
        wait((stack, replace(plan, instances=(fewer,))))


def test_an_instance_that_vanished_is_said_to_be_gone(
    cloud: CrusoeCloud, asked: tuple[Stack, CloudPlan]
) -> None:
    assert printed(asked[0], f"{WORKER}-instance")["did"] == "made"
    cloud.fault(["gone", WORKER])
    with pytest.raises(DeviceError, match="is gone"):
        wait(asked)

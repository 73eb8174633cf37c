"""One emulated ESXi host with two machines, and the ways in which Railyard touches it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from components.core.difference import Difference
from components.core.key_values import HostState, diff_states, parse_state
from components.hypervisor.hypervisor_plan import HypervisorPlan, plan_hypervisors
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint
from components.remote.tools import ToolCall
from lab.hypervisors.config import (
    EsxiConfig,
    EsxiVmConfig,
    gpu_device,
    management_nic,
    nic_device,
)
from lab.hypervisors.esxi.machine import GuestHooks
from lab.hypervisors.esxi.server import EsxiHost
from lab.keys import client_key, client_secrets, host_key
from lab.steps import run_step_on_host
from tests.golden.site import changed_spec, load_example

ADDRESS, PORT = "127.241.0.11", 2222
STACK: Final = "esxi-test"
SECRETS: Final = client_secrets(STACK)
DEADLINE_S: Final = 60.0
GPUS, NICS = ("0000:3b:00.0", "0000:d8:00.0"), ("0000:5e:00.0", "0000:af:00.0")
CONFIG: Final = EsxiConfig(
    name="esx01",
    address=ADDRESS,
    port=PORT,
    user="root",
    authorized_key=client_key(STACK).public_openssh,
    host_key_seed="esxi-test/esx01",
    release="7.0U2",
    devices=(
        management_nic(),
        *(gpu_device(gpu, node) for node, gpu in enumerate(GPUS)),
        *(nic_device(nic, "ConnectX-6", node) for node, nic in enumerate(NICS)),
    ),
    vms=tuple(
        EsxiVmConfig(name, 262144, gpu, nic, guest=name)
        for name, gpu, nic in zip(("vm01", "vm02"), GPUS, NICS, strict=True)
    ),
)
T = TypeVar("T")


def make_spec(**changed: object) -> ClusterSpec:
    """The example with one hypervisor, at the address of the test, that runs vm01 and vm02."""
    spec = load_example("esxi-roce")
    first, second = spec.hypervisors[:2]
    ssh = first.ssh.model_copy(
        update={
            "address": ADDRESS,
            "port": PORT,
            "host_key": host_key(CONFIG.host_key_seed, "ecdsa").public_openssh,
        }
    )
    moved = second.vms[0].model_copy(update={"gpu": GPUS[1], "nic": NICS[1]})
    hypervisor = first.model_copy(
        update={"ssh": ssh, "vms": (first.vms[0], moved), "shutdown_s": 10, **changed}
    )
    environment = Esxi(kind="esxi", hypervisors=(hypervisor,))
    return changed_spec(spec, environment=environment, hosts=spec.hosts[:2])


def make_plan(spec: ClusterSpec | None = None) -> HypervisorPlan:
    return plan_hypervisors(spec or make_spec(), STACK)[0]


@dataclass
class EsxiLab:
    """The running host."""

    host: EsxiHost
    loop: asyncio.AbstractEventLoop
    power: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def fault(self, *args: str) -> None:
        self.call(self.host.fault(args))

    def snapshot(self) -> object:
        return self.host.snapshot()

    def run(self, endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        return asyncio.run(
            run_on_host(
                endpoint, SECRETS, command, stdin=stdin, deadline_s=min(deadline_s, DEADLINE_S)
            )
        )

    def send(
        self, plan: HypervisorPlan, call: ToolCall | str | None, stdin: str | None = None
    ) -> HostAnswer:
        """A verb of the tool as an update runs it, or a command by hand."""
        text = plan.converge.desired if stdin is None else stdin
        if not isinstance(call, ToolCall):
            return self.run(plan.endpoint, call or "", text, DEADLINE_S)
        return run_step_on_host(plan.converge, call, text, SECRETS, sending=plan.sending)

    def apply(self, plan: HypervisorPlan) -> HostAnswer:
        return self.send(plan, plan.converge.apply)

    def undo(self, plan: HypervisorPlan) -> HostAnswer:
        return self.send(plan, plan.converge.undo)

    def observe(self, plan: HypervisorPlan) -> HostState:
        answer = self.send(plan, plan.watched.observe, plan.desired.render())
        assert answer.exit_status == 0, answer.stderr
        return parse_state(answer.stdout)

    def left(self, plan: HypervisorPlan) -> tuple[Difference, ...]:
        return diff_states(self.observe(plan), plan.desired)


@contextmanager
def running(folder: Path, config: EsxiConfig = CONFIG) -> Generator[EsxiLab, None, None]:
    """Play the host in a thread of its own, as the lab daemon does in its process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="esxi")
    thread.start()
    seen: list[tuple[str, bool]] = []

    async def note(name: str, on: bool) -> None:  # noqa: FBT001 - the shape of the hook
        seen.append((name, on))

    lab = EsxiLab(EsxiHost(config, folder, GuestHooks(on_power=note)), loop, seen)
    try:
        lab.call(lab.host.start())
        yield lab
    finally:
        lab.call(lab.host.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()


def with_release(release: str) -> EsxiConfig:
    return replace(CONFIG, release=release)

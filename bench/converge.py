"""What `pulumi up` does with the hosts of a site, without the engine: look, compare, converge.

`python -m bench.converge SITE.json STACK KEY FORKS` plans the site, looks at every host over one
connection each, and converges those that differ over one more. It prints how many did.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from components.core.errors import DeviceError
from components.core.key_values import HostState, diff_states, parse_state
from components.drift.applied import Applied
from components.drift.device_drift import asked_of_step
from components.hosts.host_plan import HostPlan, plan_hosts
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer, connect_to_host, look_with
from components.remote.step import render_step_command
from lab.steps import sender_of

T = TypeVar("T")
DEADLINE_S = 600.0
"""For one script: on an emulator, hundreds of hosts share the cores of one machine."""


async def look(plan: HostPlan, secrets: Mapping[str, str]) -> HostState:
    """The settings of a host as they are, and those beside them, over one connection."""
    asked = asked_of_step(plan.watched, Applied())
    async with connect_to_host(plan.endpoint, secrets) as session:

        def run(command: str) -> Awaitable[HostAnswer]:
            return session.run(command, stdin=asked.render_short(), deadline_s=DEADLINE_S)

        answer, _ = await look_with(run, plan.watched.observe, DEADLINE_S)
    return parse_state(_demand(plan, answer))


async def send_tools(plan: HostPlan, secrets: Mapping[str, str]) -> None:
    """The step that sends the tools."""
    async with connect_to_host(plan.endpoint, secrets) as session:
        await sender_of(plan.converge, session, plan.sending).send()


async def _converge(plan: HostPlan, secrets: Mapping[str, str]) -> None:
    """Send the tools and apply the settings over one connection, as the resource of a host does."""
    step = replace(plan.converge, deadline_s=DEADLINE_S)
    async with connect_to_host(plan.endpoint, secrets) as session:
        await sender_of(plan.converge, session, plan.sending).send()
        command = render_step_command(step, step.apply)
        answer = await session.run(command, stdin=step.desired, deadline_s=DEADLINE_S)
    _demand(plan, answer)


def _demand(plan: HostPlan, answer: HostAnswer) -> str:
    if answer.exit_status != 0:
        raise DeviceError(f"{plan.name}: {answer.stderr}")
    return answer.stdout


async def bring(plan: HostPlan, secrets: Mapping[str, str]) -> bool:
    """Look, and converge where something differs; say whether it did."""
    if not diff_states(await look(plan, secrets), plan.desired):
        return False
    await _converge(plan, secrets)
    return True


async def each_host(
    plans: Sequence[HostPlan], work: Callable[[HostPlan], Coroutine[None, None, T]], forks: int
) -> list[T]:
    """Do the work for every host, so many at a time."""
    slots = asyncio.Semaphore(forks)

    async def one(plan: HostPlan) -> T:
        async with slots:
            return await work(plan)

    return await asyncio.gather(*(one(plan) for plan in plans))


async def bring_all(plans: Sequence[HostPlan], secrets: Mapping[str, str], forks: int) -> int:
    """Every host; how many were converged."""
    return sum(await each_host(plans, lambda plan: bring(plan, secrets), forks))


def main(argv: Sequence[str]) -> None:
    """Bring the site of the file to its plan."""
    site, stack, key, forks = argv
    spec = ClusterSpec.model_validate(json.loads(Path(site).read_text()))
    plans = plan_hosts(spec, stack)
    secrets = {"ssh_private_key": Path(key).read_text()}
    done = asyncio.run(bring_all(plans, secrets, int(forks)))
    sys.stdout.write(f"{done} of {len(plans)} hosts were converged\n")


if __name__ == "__main__":
    main(sys.argv[1:])

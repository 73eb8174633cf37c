"""A lab with the hosts of the example and no switch: what the host tests talk to over real SSH."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from components.core.difference import Difference
from components.core.key_values import HostState, diff_states, parse_state
from components.core.record import record, replace
from components.hosts.host_plan import HostPlan, plan_hosts
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import RemoteStep, render_remote_command
from components.remote.tools import ToolCall
from lab import control
from lab.cluster.artefact import checksums
from lab.hosts.lab_file import LabFile
from lab.keys import client_secrets
from lab.site import lab_file, load_document, overlay
from lab.steps import run_step_on_host
from lab.views import HostConfig

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "dgx-roce" / "site.yaml"
STEP_DEADLINE_S = 300.0
PACKAGE_PATHS = (
    "etc/docker", "etc/systemd/system/multi-user", "usr/local/lib/", "var/lib/docker",
    "var/lib/dpkg",
)  # fmt: skip
"""What packages bring to a lab host: an undo leaves them, as `railyard plan` says."""


def own_stack(name: str) -> str:
    """A stack of this worker alone: a stack's name is its addresses, and workers may share them."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return f"{name}-{worker}" if worker else name


def load_spec(stack: str, example: Path = EXAMPLE) -> ClusterSpec:
    document = overlay(load_document(example), stack, checksums())
    return ClusterSpec.model_validate(document)


@record
class HostLab:
    """The running lab, its site, and the ways in which Railyard touches a host."""

    stack: str
    root: Path
    spec: ClusterSpec

    def plan(self, name: str, spec: ClusterSpec | None = None) -> HostPlan:
        plans = plan_hosts(spec or self.spec, self.stack)
        return next(plan for plan in plans if plan.name == name)

    def ask(self, **body: object) -> dict[str, object]:
        return control.request(self.root / "control.sock", body)

    def fault(self, host: str, *args: str) -> None:
        self.ask(op="fault", device=host, args=list(args))

    def snapshot(self, host: str) -> object:
        answer = cast("dict[str, dict[str, dict[str, object]]]", self.ask(op="snapshot"))
        return answer["snapshot"]["hosts"][host]

    def run(self, plan: HostPlan | RemoteStep, call: ToolCall | str, stdin: str) -> HostAnswer:
        """A verb of a tool as an update runs it, or a script by hand."""
        secrets = client_secrets(self.stack)
        if isinstance(call, str):
            command = render_remote_command(call, STEP_DEADLINE_S)
            done = run_on_host(
                plan.endpoint, secrets, command, stdin=stdin, deadline_s=STEP_DEADLINE_S
            )
            return asyncio.run(done)
        step = plan.converge if isinstance(plan, HostPlan) else plan
        return run_step_on_host(step, call, stdin, secrets, deadline_s=STEP_DEADLINE_S)

    def apply(self, plan: HostPlan, stdin: str | None = None) -> HostAnswer:
        step: RemoteStep = plan.converge
        return self.run(plan, step.apply, step.desired if stdin is None else stdin)

    @staticmethod
    def stdin(plan: HostPlan) -> str:
        """What an update sends, with the lines of each card: a test changes one of them."""
        return parse_state(plan.converge.desired).render()

    def undo(self, plan: HostPlan) -> HostAnswer:
        assert plan.converge.undo is not None
        return self.run(plan, plan.converge.undo, plan.converge.desired)

    def observe(self, plan: HostPlan) -> HostState:
        answer = self.run(plan, plan.watched.observe, plan.desired.render())
        assert answer.exit_status == 0, answer.stderr
        return parse_state(answer.stdout)

    def drift(self, plan: HostPlan) -> tuple[Difference, ...]:
        return diff_states(self.observe(plan), plan.desired)

    def sh(self, plan: HostPlan, script: str) -> str:
        """Do something on a host by hand, as root."""
        answer = self.run(plan, script, "")
        assert answer.exit_status == 0, answer.stderr
        return answer.stdout


@contextmanager
def running_hosts(
    stack: str,
    root: Path,
    cache: Path | None = None,
    example: Path = EXAMPLE,
    only: tuple[str, ...] = (),
    edit: Callable[[HostConfig], HostConfig] = lambda host: host,
) -> Generator[HostLab]:
    """Start the hosts of an example; guests of hypervisors as bare machines of their own.

    Args:
        stack: Chooses addresses and keys.
        root: Folder of the lab.
        cache: Built programs; default none.
        example: The site file.
        only: The hosts to start; default all.
        edit: Gives a host another form.
    """
    spec = load_spec(stack, example)
    places = (PROJECT, cache or root / "cache", Path(sys.executable))
    whole = lab_file(spec, stack, places)
    chosen = [host for host in whole.hosts if not only or host.name in only]
    hosts = tuple(edit(replace(host, guest=False)) for host in chosen)
    lab = replace(whole, root=root, switches=(), hypervisors=(), hosts=hosts)
    root.mkdir(parents=True, exist_ok=True)
    file = root / "lab.json"
    file.write_bytes(TypeAdapter(LabFile).dump_json(lab))
    control.start(file)
    try:
        yield HostLab(stack, root, spec)
    finally:
        control.stop(root)


def without_driver(host: HostConfig) -> HostConfig:
    """The host with the kernel's own RDMA driver."""
    return replace(host, driver="")

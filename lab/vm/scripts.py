"""The product's own steps on a guest: converge, observe, undo, as they are sent to any host."""

from __future__ import annotations

import json
from typing import cast

from components.core.errors import DeviceError
from components.core.key_values import diff_states, parse_state
from components.hosts.host_plan import HostPlan
from components.remote.tools import ToolCall
from lab.keys import client_secrets
from lab.steps import run_step_on_host


def converge(plan: HostPlan) -> tuple[str, ...]:
    """Bring a guest to its plan.

    Returns:
        The settings that were changed.
    """
    return _list(_run(plan, plan.converge.apply, plan.converge.desired), "changed")


def undo(plan: HostPlan) -> tuple[str, ...]:
    """Put a guest back.

    Returns:
        What the script says that it left.
    """
    return _list(_run(plan, plan.converge.undo, plan.converge.desired), "left")


def observe(plan: HostPlan) -> dict[str, str]:
    """What a guest has otherwise than planned: setting to the words of a drift report."""
    watched = plan.watched
    actual = parse_state(_run(plan, watched.observe, watched.desired.render()))
    desired = watched.desired
    return {
        key: str(difference)
        for key, value in desired.values.items()
        for difference in diff_states(actual, type(desired)({key: value}))
    }


def _run(plan: HostPlan, call: ToolCall | str | None, stdin: str) -> str:
    if not isinstance(call, ToolCall):
        raise DeviceError(f"{plan.name}: a host runs a verb of a tool")
    secrets = client_secrets("vm")
    answer = run_step_on_host(plan.converge, call, stdin, secrets, sending=plan.sending)
    if answer.exit_status != 0:
        raise DeviceError(
            f"{plan.endpoint.where}: the script ended with {answer.exit_status}:"
            f" {answer.stderr[-1200:]}"
        )
    return answer.stdout


def _list(evidence: str, key: str) -> tuple[str, ...]:
    found = cast("dict[str, list[str]]", json.loads(evidence.strip().splitlines()[-1]))
    return tuple(found.get(key, []))

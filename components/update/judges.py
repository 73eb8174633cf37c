"""All judges of the situation of an update, and the commands that ask them.

A new kind of refusal is one function of a `Situation`, and one row of `JUDGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from components.core.judge import Judge, When, describe
from components.core.key_values import HostState
from components.core.problem import Finding
from components.disruption.leave_plan import renamed_nodes
from components.hosts.preview import hosts_refused, judge_settings
from components.update.decide import judge_placements, judge_stranded, judge_unreachable
from components.update.identity import judge_identity
from components.update.pieces import judge_moved
from components.update.refusals import (
    judge_balancers,
    judge_disruptions,
    judge_executors,
    judge_guards,
)
from components.update.refuse import (
    judge_alignment,
    judge_api,
    judge_first_install,
    judge_losses,
    judge_playbooks,
)
from components.update.seen import Situation
from components.update.servers import judge_quorum, judge_roles, judge_upgrades

Check: TypeAlias = Callable[[Situation], Iterable[Finding]]


def judge_node_names(at: Situation) -> Iterator[Finding]:
    """Refuse another name for an existing node."""
    return renamed_nodes(at.plan.kubernetes, at.applied)


def judge_hosts(at: Situation) -> Iterator[Finding]:
    """Refuse cards and users of hosts that cannot get the wanted settings."""
    yield from hosts_refused(at.spec, at.plan.hosts, at.seen.devices)


def judge_host_settings(at: Situation) -> Iterator[Finding]:
    """Report settings of hosts that no step may change, and that differ from the file."""
    for plan in at.plan.hosts:
        facts = at.seen.devices.get(plan.name)
        if isinstance(facts, HostState):
            yield from judge_settings(plan, facts.values)


def _judge(check: Check, *when: When) -> Judge[Situation]:
    name, text, needs = describe(check)
    return Judge(check, name, text, needs, frozenset(when))


JUDGES: Final = (
    _judge(judge_identity, "update", "preflight"),
    _judge(judge_moved, "update", "preflight"),
    _judge(judge_roles, "update", "preflight"),
    _judge(judge_losses, "update", "preflight"),
    _judge(judge_unreachable, "update"),  # preflight reports every device that does not answer
    _judge(judge_executors, "update", "preflight"),
    _judge(judge_placements, "update", "preflight"),
    _judge(judge_stranded, "update", "preflight"),
    _judge(judge_guards, "update", "preflight"),
    _judge(judge_disruptions, "update", "preflight"),
    _judge(judge_quorum, "update", "preflight"),
    _judge(judge_first_install, "update", "preflight"),
    _judge(judge_alignment, "update", "preflight"),
    _judge(judge_node_names, "update", "preflight"),
    _judge(judge_api, "update", "preflight"),
    _judge(judge_balancers, "update", "preflight"),
    _judge(judge_upgrades, "update", "preflight"),
    _judge(judge_hosts, "update", "preflight"),
    _judge(judge_host_settings, "update", "preflight"),
    _judge(judge_playbooks, "update", "preflight"),
)
"""In print order."""


def judge_situation(at: Situation, when: When) -> tuple[Finding, ...]:
    """Return the findings of every judge that this command asks, with the lines of the file."""
    found = (each for judge in JUDGES if when in judge.when for each in judge.findings(at))
    return tuple(map(at.lines.locate_all, found))

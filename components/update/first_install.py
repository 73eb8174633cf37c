"""What K3s takes at its first start alone: a later edit is refused before anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.core.key_values import parse_state
from components.core.problem import Lines
from components.drift.applied import Applied
from components.plan.make import ClusterPlan
from components.update.upgrades import place_of


@dataclass(frozen=True, slots=True)
class _Choice:
    """One key of the file that is chosen once."""

    rule: str
    key: str
    line: str
    """Begins the line of config.yaml that is there with it alone."""
    on: str
    """What the file says with it."""
    off: str
    """What it says without it."""


_CHOICES: Final = (
    _Choice(
        "secrets-encryption",
        "secrets_encryption",
        "secrets-encryption: true",
        "secrets_encryption: true",
        "secrets_encryption: false",
    ),
    _Choice("agent-token", "agent_token", "agent-token-file: ", "an agent_token", "no agent_token"),
)


def first_install_refused(plan: ClusterPlan, applied: Applied, lines: Lines) -> tuple[str, ...]:
    """Refuse to turn encryption of Secrets, or a token of agents, on or off later.

    K3s wants the same value on all servers at every start (sources.md#k3s). Encryption it turns on
    later only by commands between two restarts of all of them.

    Args:
        plan: All that is wanted.
        applied: What was last applied.
        lines: Where the values of the file stand.
    """
    if plan.kubernetes is None or not plan.kubernetes.servers:
        return ()
    first = plan.kubernetes.servers[0]
    recorded = applied.step(first.name)
    if recorded is None or not recorded.stdin:
        return ()
    return tuple(
        _refusal(choice, lines, had=had)
        for choice in _CHOICES
        if (had := _has(choice, recorded.stdin)) != _has(choice, first.desired)
    )


def _refusal(choice: _Choice, lines: Lines, *, had: bool) -> str:
    was, wants = (choice.on, choice.off) if had else (choice.off, choice.on)
    place = place_of(lines, ("kubernetes", choice.key), wants.rpartition(": ")[2])
    return (
        f"{choice.rule}: the cluster was installed with {was}, and the file says {wants}: K3s"
        f" chooses it at its first start.\n"
        f"  where  {place}\n"
        f"  fix    write {was}. Nothing was changed on any device."
    )


def _has(choice: _Choice, stdin: str) -> bool:
    values = parse_state(stdin).values.items()
    return any(
        key.startswith("config.yaml.") and value.startswith(choice.line) for key, value in values
    )

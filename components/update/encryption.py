"""Encryption of Secrets is chosen at the first install: a later edit is refused before anything."""

from __future__ import annotations

from typing import Final

from components.core.key_values import parse_state
from components.core.problem import Lines
from components.drift.applied import Applied
from components.plan.make import ClusterPlan
from components.update.upgrades import place_of

_LINE: Final = "secrets-encryption: true"


def encryption_refused(plan: ClusterPlan, applied: Applied, lines: Lines) -> tuple[str, ...]:
    """Refuse to turn the encryption of Secrets on or off on a cluster that is there.

    K3s wants the same value on all servers at every start, and turns it on later only by commands
    between two restarts of all of them (sources.md#k3s).

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
    had, wanted = _encrypts(recorded.stdin), _encrypts(first.desired)
    if had == wanted:
        return ()
    was, wants = ("true", "false") if had else ("false", "true")
    return (
        (
            f"secrets-encryption: the cluster was installed with secrets_encryption: {was}, and the"
            f" file says {wants}: K3s chooses it at its first start.\n"
            f"  where  {place_of(lines, ('kubernetes', 'secrets_encryption'), wants)}\n"
            f"  fix    write secrets_encryption: {was}. Nothing was changed on any device."
        ),
    )


def _encrypts(stdin: str) -> bool:
    values = parse_state(stdin).values.items()
    return any(key.startswith("config.yaml.") and value == _LINE for key, value in values)

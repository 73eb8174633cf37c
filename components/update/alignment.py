"""Alignment to NUMA nodes on kubespray's nodes: chosen at the first install, an edit is refused."""

from __future__ import annotations

from typing import cast

from components.core.problem import Lines
from components.drift.applied import Applied
from components.kubernetes.kubespray.settings import KUBELET
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update.upgrades import place_of


def alignment_refused(plan: ClusterPlan, applied: Applied, lines: Lines) -> tuple[str, ...]:
    """Refuse another alignment on nodes that kubespray installed.

    kubespray starts a kubelet again with the state of its CPU manager, and a kubelet refuses the
    state of another policy (its pkg/kubelet/cm/cpumanager): each worker would be away until
    someone removes the file there.

    Args:
        plan: All that is wanted.
        applied: What was last applied.
        lines: Where the values of the file stand.
    """
    playbooks = plan.kubernetes.playbooks if plan.kubernetes else None
    recorded = applied.step(playbooks.step.name) if playbooks else None
    if playbooks is None or recorded is None or not recorded.stdin:
        return ()
    had, wanted = _kubelet(recorded.stdin), _kubelet(playbooks.step.desired)
    if had == wanted:
        return ()
    where = place_of(lines, ("kubernetes", "alignment"), str(wanted or "none"))
    return (
        (
            f"alignment: the cluster was installed with {had or 'no alignment'}, and kubespray does"
            " not change it on nodes that are there.\n"
            f"  where  {where}\n"
            "  fix    take the edit back. By hand: drain a worker, write the fields into"
            " /etc/kubernetes/kubelet-config.yaml, remove /var/lib/kubelet/cpu_manager_state, start"
            " its kubelet again. Nothing was changed on any device."
        ),
    )


def _kubelet(stdin: str) -> dict[str, object]:
    wanted = cast("dict[str, dict[str, object]]", parse_lines(stdin).get("wanted") or {})
    settings = wanted.get("settings") or {}
    return cast("dict[str, object]", settings.get(KUBELET) or {})

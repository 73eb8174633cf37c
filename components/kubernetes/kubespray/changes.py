"""What an update would have kubespray do, for people, and why it must not start.

It reads what this machine keeps of the cluster and what the stack recorded; nothing is asked.
"""

from __future__ import annotations

from components.kubernetes.kubespray.perform import decide_on, edited_inventory
from components.kubernetes.kubespray.state import State, keeper_of
from components.kubernetes.kubespray.wanted import parse_request
from components.kubernetes.planes.base import KubernetesPlan


def kubespray_changes(
    kubernetes: KubernetesPlan | None, recorded: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The playbooks that an update would run, in words; and the refusals.

    Args:
        kubernetes: The plan of the control plane.
        recorded: What the step printed when it last ran, of the stack's state.

    Raises:
        DeviceError: What this machine keeps cannot be read.
    """
    if kubernetes is None or kubernetes.playbooks is None:
        return (), ()
    request = parse_request(kubernetes.playbooks.step.desired)
    keeper = keeper_of(request.stack)
    state = keeper.load(recorded)
    decision = decide_on(state, request)
    edited = edited_inventory(keeper, state)
    refused = (*decision.refused, *([edited] if edited else []))
    words = [f"kubespray: {run.words}" for run in decision.runs]
    if words and (begun := _begun(state)):
        words.insert(0, begun)
    if words:
        words.append(f"kubespray: it may take hours; follow it with `tail -f {keeper.log}`")
    return tuple(words), refused


def _begun(state: State) -> str:
    if state.under_way is None:
        return ""
    return f"kubespray: the last run ended in the middle of {state.under_way.words}"

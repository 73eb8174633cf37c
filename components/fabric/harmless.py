"""What `guards: …: repair` makes ours: the harmless value joins the desired state of a switch.

From then on drift, repair, baseline and undo treat it as everything that is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.switch_system import SwitchSystem
from components.model.fabric import Rdma
from components.model.guards import Guards

CLASSES: Final = range(8)
_Repair = Callable[[PortState, PortState, Rdma], Mapping[str, object]]
"""From a wanted port and one from the factory to what else is wanted."""


def with_repairs(
    state: SwitchState, system: SwitchSystem, guards: Guards, rdma: Rdma
) -> SwitchState:
    """The desired state with what the file wants repaired; the same one where that is nothing.

    A kind that the system cannot repair is for the rules to refuse.
    """
    kinds = [kind for kind in sorted(system.repairs) if guards.way(kind) == "repair"]
    if not kinds:
        return state
    first = system.driver.factory_state(tuple(state.ports)).ports
    ports = dict(state.ports)
    for name, port in ports.items():
        wanted: dict[str, object] = {}
        for kind in kinds:
            wanted |= _REPAIRS[kind](port, first[name], rdma)
        ports[name] = port.model_copy(update=wanted)
    return state.model_copy(update={"ports": ports})


def _rewrite(port: PortState, first: PortState, rdma: Rdma) -> Mapping[str, object]:
    del port, rdma
    return {"rewrite_dscp": first.rewrite_dscp}


def _ecn_elsewhere(port: PortState, first: PortState, rdma: Rdma) -> Mapping[str, object]:
    del first, rdma
    off: dict[int, EcnState | None] = dict.fromkeys(CLASSES)
    return {"ecn": off | port.ecn}


def _pfc_elsewhere(port: PortState, first: PortState, rdma: Rdma) -> Mapping[str, object]:
    """Where the file plans PFC, its priorities are ours already."""
    del port
    if rdma.mode != "lossy_ecn":
        return {}
    return {"pfc": first.pfc, "pfc_priorities": first.pfc_priorities}


_REPAIRS: Final[Mapping[str, _Repair]] = {
    "switch.rewrite": _rewrite,
    "switch.ecn_elsewhere": _ecn_elsewhere,
    "switch.pfc_elsewhere": _pfc_elsewhere,
}

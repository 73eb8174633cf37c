"""The one RoCE intent of a file, as each switch system can have it: pure.

Onyx, EOS and SONiC set every part on its own; on SONiC that includes which DSCP and which class
belong to a priority. Cumulus has it as one profile of the whole switch, of which the parts are
wanted as the profile gives them: a check refuses a file that asks for others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.cumulus.facts import (
    CNP_PRIORITY,
    ECN_MAX_KIB,
    ECN_MIN_KIB,
    ROCE_PRIORITY,
)
from components.model.fabric import Rdma


@dataclass(frozen=True, slots=True)
class Intent:
    """What RoCE means to one switch and to each of its ports; VLANs and MTU are not part of it."""

    switch: SwitchState
    port: PortState


_ONYX_ONE_SHOT: Final[dict[str, Literal["lossless", "semi-lossless"] | None]] = {
    "lossless": "lossless",
    "semi_lossless": "semi-lossless",
    "lossy_ecn": None,
}


def _onyx(rdma: Rdma) -> Intent:
    lossless = rdma.mode == "lossless"
    return Intent(
        SwitchState(
            pfc_priorities=(rdma.priority,) if lossless else None,
            pfc_enabled=True if lossless else None,
            # A pause needs a buffer pool of its own: the one-shot makes it, and PFC with it. What
            # PFC shows in semi-lossless mode is not public, so nothing is wanted of it there.
            roce=_ONYX_ONE_SHOT[rdma.mode],
        ),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: EcnState(min_kib=rdma.ecn_min_kib, max_kib=rdma.ecn_max_kib)},
            pfc=True if lossless else None,
            # Priority n is in class n (Onyx' default, printed by `show roce` for 3 and 6).
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _cumulus(rdma: Rdma) -> Intent:
    lossless = rdma.mode == "lossless"
    return Intent(
        SwitchState(
            pfc_priorities=(ROCE_PRIORITY,) if lossless else None,
            pfc_enabled=True if lossless else None,
            roce="lossless" if lossless else "lossy",
        ),
        PortState(
            trust="both",
            ecn={ROCE_PRIORITY: EcnState(min_kib=ECN_MIN_KIB, max_kib=ECN_MAX_KIB)},
            strict_classes=(CNP_PRIORITY,),
        ),
    )


def _eos(rdma: Rdma) -> Intent:
    lossless = rdma.mode == "lossless"
    return Intent(
        # The class of a DSCP is said by a map that anybody can change, so ours are watched.
        SwitchState(dscp_classes={rdma.dscp: rdma.traffic_class, rdma.cnp_dscp: rdma.cnp_priority}),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: EcnState(min_kib=rdma.ecn_min_kib, max_kib=rdma.ecn_max_kib)},
            pfc=True if lossless else None,
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _sonic(rdma: Rdma) -> Intent:
    lossless = rdma.mode == "lossless"
    return Intent(
        # The pools of the platform's template, which lossless buffers are taken from.
        SwitchState(roce="lossless" if lossless else None),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: EcnState(min_kib=rdma.ecn_min_kib, max_kib=rdma.ecn_max_kib)},
            strict_classes=(rdma.cnp_priority,),
            dscp_priorities={rdma.dscp: rdma.priority, rdma.cnp_dscp: rdma.cnp_priority},
            priority_classes={
                rdma.priority: rdma.traffic_class,
                rdma.cnp_priority: rdma.cnp_priority,
            },
            # The platform's template pauses 3 and 4 on every port, so "none" must be said.
            pfc_priorities=(rdma.priority,) if lossless else (),
            lossless_buffers=(rdma.priority,) if lossless else None,
        ),
    )


def _mlnxos(_: Rdma) -> Intent:
    """InfiniBand has no RoCE: `ib_plan.py` says what such a switch shall have."""
    return Intent(SwitchState(), PortState())


INTENTS: Final[dict[str, Callable[[Rdma], Intent]]] = {
    "onyx": _onyx,
    "cumulus": _cumulus,
    "eos": _eos,
    "sonic": _sonic,
    "mlnxos": _mlnxos,
}
"""By switch system."""

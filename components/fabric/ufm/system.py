"""UFM as the rest of the house knows it: read and set as a switch is, over HTTPS."""

from __future__ import annotations

from typing import Final

from components.fabric.identity import Field, IdentityQuestions
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.switch_system import Intent, SwitchSystem
from components.fabric.ufm.driver import UfmDriver
from components.model.fabric import Rdma
from components.remote.session_profile import SessionProfile

VERSION: Final = "GET /ufmRest/app/ufm_version"
USER: Final = "GET /ufmRest/app/users/{user}"


def plan_intent(_: Rdma) -> Intent:
    """InfiniBand has no RoCE: `ib_plan.py` says what UFM shall have."""
    return Intent(SwitchState(), PortState())


SYSTEM: Final = SwitchSystem(
    driver=UfmDriver(),
    intent=plan_intent,
    session=SessionProfile(prompt="", prepare=(), https=True),
    exec_form="UFM has no command line",
    identity=IdentityQuestions(
        release=Field(VERSION, r'"ufm_release_version": *"([0-9][^" ]*)'),
        model=(),
        rights=Field(USER, r'"group": *"(\w+)"'),
        # The other groups are Monitoring_Only and Tenant (guide, "Users REST API").
        may=r"^(System_Admin|Fabric_Admin|Fabric_Operator)$",
    ),
    # The first guide with `pkeys/add`; that of 6.12 has it not.
    min_release=(6, 15, 0),
    older="makes no partition without members",
    a_release="6.19.3",
    port_ecn="InfiniBand has no ECN thresholds",
    routing="InfiniBand is no IP fabric: its subnet manager makes the routes",
)

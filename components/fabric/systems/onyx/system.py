"""Onyx as the rest of the house knows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from components.core.errors import Bug
from components.fabric.queues import marking_of
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.onyx.driver import OnyxDriver
from components.fabric.systems.switch_system import ExecForm, Intent, SwitchSystem
from components.model.fabric import Rdma

_ONE_SHOT: Final[dict[str, Literal["lossless", "semi-lossless"] | None]] = {
    "lossless": "lossless",
    "semi_lossless": "semi-lossless",
    "lossy_ecn": None,
}
_UNSAFE: Final = re.compile(r'["\\`$\n]')
"""What would end a quoted argument, or be more than text in it."""


def plan_intent(rdma: Rdma) -> Intent:
    """Every part on its own; lossless modes come with the one-shot, which makes their pool.

    `rdma.dscp` reaches no line: the switch's own map gives DSCP 24 to 31 priority 3.
    """
    lossless = rdma.mode == "lossless"
    return Intent(
        SwitchState(
            pfc_priorities=(rdma.priority,) if lossless else None,
            pfc_enabled=True if lossless else None,
            # A pause needs a buffer pool of its own: the one-shot makes it, and PFC with it. What
            # PFC shows in semi-lossless mode is not public, so nothing is wanted of it there.
            roce=_ONE_SHOT[rdma.mode],
        ),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "onyx")},
            pfc=True if lossless else None,
            # Priority n is in class n (Onyx' default, printed by `show roce` for 3 and 6).
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def render_cli(lines: Sequence[str]) -> str:
    """One word `cli` and each line as an argument in double quotes."""
    for line in lines:
        if _UNSAFE.search(line):
            raise Bug(f"the line {line!r} cannot be an argument of `cli`")
    return "cli " + " ".join(f'"{line}"' for line in lines)


_MODES: Final = (*mellanox_cli.ENTER, *mellanox_cli.CONFIGURE)
SYSTEM: Final = SwitchSystem(
    driver=OnyxDriver(),
    intent=plan_intent,
    session=mellanox_cli.SESSION,
    # `speed 100G no-autoneg` on 3.6 and `speed 100G` on 3.9 (sources.md#onyx-unknown).
    links="the words for it are others on 3.6 than on 3.9, and no page was found that says since "
    "when",
    exec_form=ExecForm(
        render=render_cli,
        mark=lambda text, mark: text.replace("cli ", f'cli "## {mark}" ', 1),
        enter=_MODES,
        commit=(),
        save=(mellanox_cli.SAVE,),
        save_enter=_MODES,
        # A configuration line that is taken prints nothing.
        expects=re.compile(r"\s*"),
        resets=re.compile(r"allowed-vlan none$|no switchport force$"),
    ),
    identity=mellanox_cli.IDENTITY,
    # `roce` and `show roce` (Onyx user manual 3.8.2000, "RoCE Commands"). Trust, traffic pools and
    # ECN per class came with 3.6.5000 (docs/explanation/sources.md#onyx).
    min_release=(3, 8, 2000),
    older="has no `show roce`, by which its state is read",
    a_release="3.9.2504",
    one_shot_modes=frozenset({"lossless", "semi_lossless"}),
    one_shot_flaps=True,  # manual "RoCE Commands": interfaces may toggle
    semi_lossless=None,
    # `interface ethernet 1/1 pfc-wd` is in one public transcript, with no release and no show
    # command that tells whether it is on.
    pfc_watchdog="no published command shows whether its `pfc-wd` is on, so that it could be "
    "set and never read back",
    cable_length="its lossless pool sizes the headroom itself, and no command for the length "
    "of a cable is documented",
    port_ecn=None,
    # onyx_traffic_class.py of the Ansible collection: control, thresholds, and no more.
    mark_percent="its line of thresholds has no share of packets, and at the upper one all are "
    "marked",
    class_shares=None,
    repairs=frozenset({"switch.rewrite", "switch.ecn_elsewhere", "switch.pfc_elsewhere"}),
)

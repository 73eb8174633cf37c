"""A virtual address or a VRRP number that others have is refused before anything is changed."""

from __future__ import annotations

from components.checks.site import load_checked_site
from components.core.key_values import HostState
from components.core.problem import Lines, Spot
from components.drift.applied import Applied
from components.plan.make import make_plan
from components.update.refusals import judge_balancers
from components.update.seen import Seen
from tests.golden.site import EXAMPLES, load_example
from tests.update.judged import texts

LINES = Lines(
    "k3s-ha.yaml",
    Spot(1, {"kubernetes": Spot(60, {"virtual_address": Spot(64, {"address": Spot(64)})})}),
)

PLAN = make_plan(load_checked_site(EXAMPLES / "dgx-roce" / "k3s-ha.yaml").spec_or_raise(), "ha")


def seen(**of_both: str) -> Seen:
    facts = HostState({"service.active": "inactive", **of_both})
    return Seen({"lb01 keepalived": facts, "lb02 keepalived": facts})


def test_a_machine_that_answers_for_the_address_is_named_once() -> None:
    (words,) = texts(
        judge_balancers, PLAN, Applied(), seen(**{"others.address": "52:54:00:12:34:56"}), LINES
    )
    assert words == (
        "virtual-address: 192.168.1.20 is already used by 52:54:00:12:34:56, which is not a"
        " balancer of this site.\n"
        "  where  k3s-ha.yaml:64  kubernetes.virtual_address.address = 192.168.1.20\n"
        "  fix    choose a free address of that network, or take it from that machine"
    )


def test_another_router_of_that_number_is_named() -> None:
    (words,) = texts(
        judge_balancers, PLAN, Applied(), seen(**{"others.router": "192.168.1.2"}), LINES
    )
    assert words.startswith("virtual-router: 192.168.1.2 is a VRRP router of the number 51 in")
    assert "kubernetes.virtual_address.router_id = 51" in words


def test_nothing_is_said_where_nothing_was_found_or_read() -> None:
    assert texts(judge_balancers, PLAN, Applied(), seen(), LINES) == ()
    assert texts(judge_balancers, PLAN, Applied(), Seen(), LINES) == ()
    assert (
        texts(judge_balancers, make_plan(load_example("dgx-roce"), "dev"), Applied(), seen(), LINES)
        == ()
    )

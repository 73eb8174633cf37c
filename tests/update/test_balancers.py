"""A virtual address or a VRRP number that others have is refused before anything is changed."""

from __future__ import annotations

from components.checks.site import load_checked_site
from components.core.key_values import HostState
from components.core.problem import Lines, Spot
from components.plan.make import make_plan
from components.update.refusals import balancers_refused
from components.update.seen import Seen
from tests.golden.site import EXAMPLES, load_example

LINES = Lines(
    "k3s-ha.yaml",
    Spot(1, {"kubernetes": Spot(60, {"virtual_address": Spot(64, {"address": Spot(64)})})}),
)
PLAN = make_plan(load_checked_site(EXAMPLES / "dgx-roce" / "k3s-ha.yaml").spec_or_raise(), "ha")


def seen(**of_both: str) -> Seen:
    facts = HostState({"service.active": "inactive", **of_both})
    return Seen({"lb01 keepalived": facts, "lb02 keepalived": facts})


def test_a_machine_that_answers_for_the_address_is_named_once() -> None:
    (words,) = balancers_refused(PLAN, seen(**{"others.address": "52:54:00:12:34:56"}), LINES)
    assert words == (
        "virtual-address: 192.168.1.20 is already used by 52:54:00:12:34:56, which is not a"
        " balancer of this site.\n"
        "  where  k3s-ha.yaml:64  kubernetes.virtual_address.address = 192.168.1.20\n"
        "  fix    choose a free address of that network, or take it from that machine. Nothing was"
        " changed on any device."
    )


def test_another_router_of_that_number_is_named() -> None:
    (words,) = balancers_refused(PLAN, seen(**{"others.router": "192.168.1.2"}), LINES)
    assert words.startswith("virtual-router: 192.168.1.2 is a VRRP router of the number 51 in")
    assert "kubernetes.virtual_address.router_id = 51" in words


def test_nothing_is_said_where_nothing_was_found_or_read() -> None:
    assert balancers_refused(PLAN, seen(), LINES) == ()
    assert balancers_refused(PLAN, Seen(), LINES) == ()
    assert balancers_refused(make_plan(load_example("dgx-roce"), "dev"), seen(), LINES) == ()

"""The page for switches that are not in the file, and what is said of them elsewhere."""

from __future__ import annotations

import pytest

from components.acceptance.probes.probe_plan import list_unproven
from components.checks.routing import check_routed_port
from components.checks.site import check_loaded
from components.model.cluster import ClusterSpec
from components.model.owners import left_alone
from components.plan.make import make_plan
from components.plan.text import Choice, render_plan
from components.reading.load import parse_site
from tests.checks.cases import CLEAN
from tests.golden.site import load_example

_STRICT = "strict: served before all others"
_MARKS = "mark in queue 3 from 150 KiB, and 100 % of packets at 1500 KiB"


def _without_switches(example: str = "dgx-roce", **rdma: object) -> ClusterSpec:
    spec = load_example(example)
    return spec.model_copy(update={"switches": (), "rdma": spec.rdma.model_copy(update=rdma)})


def _page(spec: ClusterSpec) -> str:
    return render_plan(make_plan(spec, "dev"), Choice(stage="fabric"))


def test_the_page_has_every_setting_that_the_cards_count_on() -> None:
    page = _page(_without_switches())
    assert "rail-0: VLAN 111 tagged (the pods' VFs tag), 10.10.111.0/24; 2 ports: " in page
    assert "gpu[01-02] enp5s0 100G\n" in page
    for line in (
        "MTU: 9216 bytes or more (the cards send up to 9000)",
        "trust: DSCP (layer 3), not the priority of the VLAN tag",
        "RoCE: DSCP 26 to priority 3 and queue 3",
        f"congestion notifications: DSCP 48 to priority and queue 6, {_STRICT}",
        f"ECN: on, ports of 100 Gbit/s {_MARKS}",
        "PFC: off on every priority (rdma.mode is lossy_ecn)",
    ):
        assert f"{line}\n" in page
    assert len(page.splitlines()) <= 20  # a page to hand over


def test_it_follows_the_file() -> None:
    spec = _without_switches(
        mode="lossless", dscp=34, cnp_class=7, ecn_min_kib=300, pfc_watchdog=True
    )
    page = _page(spec)
    assert "RoCE: DSCP 34 to priority 4 and queue 4\n" in page
    assert "DSCP 48 to priority and queue 7, strict" in page
    assert "mark in queue 4 from 300 KiB" in page
    assert "PFC: on for priority 4 alone, on every port, both ways, with the PFC watchdog" in page


def test_a_pod_address_needs_a_routed_switch_of_the_file() -> None:
    spec = _without_switches()
    card = spec.hosts[1].nics[0].model_copy(update={"pod_address": "10.10.111.1"})
    hosts = (spec.hosts[0], spec.hosts[1].model_copy(update={"nics": (card,)}), *spec.hosts[2:])
    (found,) = check_routed_port(spec.model_copy(update={"hosts": hosts}))
    assert "only a switch of the file" in found.what
    assert "as a VLAN" in found.fix


def test_shared_cards_send_without_a_tag() -> None:
    assert "untagged (the cards do not tag)" in _page(_without_switches("shared-rdma"))


def test_acceptance_and_check_say_that_nobody_looks_at_the_hops() -> None:
    spec = _without_switches()
    assert [each.subject for each in list_unproven(spec)] == ["fabric"]
    assert any("--stage fabric" in each for each in left_alone(spec))


@pytest.mark.parametrize("example", ["dgx-roce", "shared-rdma", "quantum-ib", "esxi-roce"])
def test_a_site_with_switches_or_infiniband_has_no_such_page(example: str) -> None:
    spec = load_example(example)
    assert make_plan(spec, "dev").foreign_fabric == ()
    assert all(each.subject != "fabric" for each in list_unproven(spec))


@pytest.mark.parametrize("system", ["junos", "nxos", "NX-OS", "nvos", "enterprise_sonic"])
def test_an_unknown_system_gets_the_way_out_and_no_wrong_guess(system: str) -> None:
    text = CLEAN.read_text(encoding="utf-8").replace("os: onyx", f"os: {system}")
    (problem,) = check_loaded(parse_site(text, "site.yaml"), "site.yaml").problems
    assert problem.rule == "unknown-choice"
    assert "Did you mean" not in problem.what
    assert "switches: []" in problem.fix
    assert "onyx, cumulus, eos, sonic, mlnxos" in problem.fix


def test_a_slip_of_a_known_system_is_still_mended() -> None:
    text = CLEAN.read_text(encoding="utf-8").replace("os: onyx", "os: onix")
    (problem,) = check_loaded(parse_site(text, "site.yaml"), "site.yaml").problems
    assert "Did you mean `onyx`?" in problem.what

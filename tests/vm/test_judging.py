"""What the story demands of guests, without a guest: comparison, drift, plan and verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from lab.telling import Told, render_table
from lab.vm import rdma
from lab.vm.carried import LEFT_OUT, plan_guests
from lab.vm.drifts import drifts_of
from lab.vm.judging import (
    StoryError,
    describe_findings,
    left_modules,
    require_as_before,
    require_named,
)
from lab.vm.snapshot import RESIDUE, Snapshot, compare, parse_snapshot
from lab.vm.story import NAMES
from lab.vm.tools import major_release

LOG = Path(__file__).parents[1] / "acceptance/recorded/perftest/rxe_on_igb_vf.txt"
PORTS = {"gpu01": 2201, "gpu02": 2202}


def snapshot(
    mtu: int = 1500, modules: str = "igb", sysctl: str = "kernel.random.uuid = a", number: int = 2
) -> Snapshot:
    link = json.dumps([{"ifindex": number, "ifname": "enp1s0", "mtu": mtu, "qdisc": "noop"}])
    return parse_snapshot(
        f"@@ link\n{link}\n@@ address\n{link}\n@@ sysctl\nnet.core.rmem_max = 1\n"
        f"{sysctl}\n@@ module\n{modules}\n@@ file\n/etc/hosts = -rw- 0:0\n"
        "@@ unit\nssh.service = enabled\n"
    )


def test_random_values_are_no_difference() -> None:
    assert compare(snapshot(), snapshot(sysctl="kernel.random.uuid = b")) == ()


def test_the_order_in_which_the_kernel_found_the_cards_is_no_difference() -> None:
    """Their drivers race at each start: it was 2 and 3 at one, 3 and 2 at the next."""
    assert compare(snapshot(number=2), snapshot(number=3)) == ()


def test_what_the_kernel_makes_of_the_memory_free_at_boot_is_no_difference() -> None:
    """64 KiB less were free at one start in some forty: 30022 became 30020."""
    before, after = (f"vm.user_reserve_kbytes = {each_kib}" for each_kib in (30022, 30020))
    assert compare(snapshot(sysctl=before), snapshot(sysctl=after)) == ()


def test_every_difference_is_named() -> None:
    found = compare(snapshot(), snapshot(mtu=9000, modules="igb\nigbvf"))
    assert found == (
        "address enp1s0 mtu: was 1500, is 9000",
        "link enp1s0 mtu: was 1500, is 9000",
        "module igbvf: was absent, is there",
    )


def test_only_the_named_residue_is_passed_over() -> None:
    require_as_before("gpu01", snapshot(), snapshot(modules="igb\nigbvf"), RESIDUE)
    with pytest.raises(StoryError, match="module rdma_cm: was absent"):
        require_as_before("gpu01", snapshot(), snapshot(modules="igb\nrdma_cm"), RESIDUE)


def test_half_a_look_is_no_look() -> None:
    with pytest.raises(DeviceError, match="nothing about link, sysctl"):
        parse_snapshot("@@ link\n[]\n@@ module\nigb\n")


def test_a_drift_that_was_not_seen_and_one_that_nobody_made_are_refused() -> None:
    require_named("gpu01", {"a"}, {"a": "a is 1, want 2"})
    require_named("gpu01", {"a"}, {"a": "", "vf.0.vlan": ""}, r"$never|vf\..*")
    with pytest.raises(StoryError, match="not seen: a"):
        require_named("gpu01", {"a"}, {})
    with pytest.raises(StoryError, match="seen and not done: b is 1, want 2"):
        require_named("gpu01", {"a"}, {"a": "", "b": "b is 1, want 2"})


def test_what_undo_leaves_brings_the_modules_that_it_needs() -> None:
    assert left_modules(("module.rdma_cm",)) == {"rdma_cm", "iw_cm", "ib_cm", "ib_core"}
    assert left_modules(()) == frozenset()


def test_the_plan_is_the_products_own_less_what_the_card_lacks(tmp_path: Path) -> None:
    _, carried = plan_guests(PORTS, tmp_path)
    for each in carried:
        assert set(each.left_out.values()) == set(LEFT_OUT.values())
        values = each.plan.desired.values
        assert values["nic.0000:01:00.0.vfs"] == "4"
        assert not values.keys() & each.left_out.keys()
        assert f"unit.railyard-nics.files={values['unit.railyard-nics.files']}\n" in (
            each.plan.converge.desired
        )
        assert each.plan.endpoint.port == PORTS[each.plan.name]


def test_ten_changes_by_hand_at_least_and_each_of_a_setting_of_ours(tmp_path: Path) -> None:
    _, carried = plan_guests(PORTS, tmp_path)
    for each in carried:
        drifts = drifts_of(each.plan.name, frozenset(each.plan.desired.values))
        assert len({name for drift in drifts for name in drift.named}) >= 10


def test_our_judge_takes_the_recorded_log_and_not_its_speed() -> None:
    log = LOG.read_text()
    emulated = describe_findings(rdma.judge(log, rdma.EMULATED_FRACTION))
    assert [line for line in emulated if ": passed" not in line] == []
    real = describe_findings(rdma.judge(log, 0.9))
    assert [line.split(":")[0] for line in real if ": failed" in line] == ["bandwidth"]


@pytest.mark.parametrize("busy", [0, 2, 9])
def test_a_run_without_a_clock_is_repeated_a_few_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, busy: int
) -> None:
    site, carried = plan_guests(PORTS, tmp_path)
    client, server = (rdma.End(each.plan.endpoint, n, "gid") for n, each in enumerate(carried, 1))
    no_clock = LOG.with_name("rxe_clock_unknown.txt").read_text()
    logs = [no_clock] * busy + [LOG.read_text()]

    def run(endpoint: Endpoint, _script: str) -> HostAnswer:
        return HostAnswer(logs.pop(0) if endpoint == client.endpoint else "", "", 0)

    monkeypatch.setattr(rdma, "run_as_root", run)
    log = rdma.run_perftest(site, client, server)
    assert ("Correlation coefficient" in log) == (busy > 4)
    assert len(logs) == max(0, busy - 4)


def test_a_log_of_something_else_is_refused() -> None:
    with pytest.raises(DeviceError, match="our parser finds no perftest"):
        rdma.judge("bash: ib_write_bw: command not found", 0.001)


def test_old_qemus_are_told_from_new_ones() -> None:
    assert major_release("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg)") == 7
    assert major_release("QEMU emulator version 10.0.2 (Debian)") == 10
    assert major_release("") == 0


def test_the_table_counts_what_did_not_run() -> None:
    table = render_table([Told("boot", 3.0, "", good=True), Told("look", 1.0, "", good=False)], 5)
    assert table.splitlines()[-1] == "3 steps did not run"
    assert "FAILED  look" in table
    assert len(NAMES) == 2

"""Kernel settings over real SSH: those that exclude each other, and those of a module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from components.hosts.host_plan import HostPlan
from components.model.kernel import KernelSettings
from components.remote.host_session import HostAnswer
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
PAIRS = "grep -H '' /proc/sys/vm/*_bytes /proc/sys/vm/*_ratio /proc/sys/vm/*_kbytes"
FRESH = "vm.dirty_ratio=20 vm.dirty_background_ratio=10 vm.overcommit_ratio=50"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("sysctls") / "lab"
    with running_hosts("sysctls-over-ssh", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


@pytest.fixture
def host(lab: HostLab) -> Iterator[HostPlan]:
    """A host on which nothing is ours, before and after."""
    plan = lab.plan("gpu01")
    before = lab.snapshot("gpu01")
    yield plan
    assert lab.undo(plan).exit_status == 0
    lab.sh(plan, f"sysctl -q -w {FRESH}")
    assert lab.snapshot("gpu01") == before


def stdin_of(lab: HostLab, *lines: str) -> str:
    return "".join(f"{line}\n" for line in (f"stack={lab.stack}", *lines))


def report(lab: HostLab, plan: HostPlan, stdin: str) -> dict[str, object]:
    """The evidence of a run that ends well."""
    answer = lab.apply(plan, stdin)
    assert answer.exit_status == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize(
    ("by_hand", "wanted"),
    [
        ("true", "dirty_bytes=1073741824"),
        ("sysctl -q -w vm.dirty_bytes=1073741824", "dirty_ratio=10"),
        ("sysctl -q -w vm.dirty_bytes=1073741824", "dirty_ratio=0"),
        ("sysctl -q -w vm.dirty_bytes=1073741824", "dirty_bytes=2147483648"),
        ("sysctl -q -w vm.dirty_ratio=0", "dirty_bytes=1073741824"),
        ("sysctl -q -w vm.dirty_background_bytes=4096", "dirty_background_ratio=5"),
        ("true", "overcommit_kbytes=1048576"),
    ],
)
def test_the_one_of_two_settings_that_counted_counts_again(
    lab: HostLab, host: HostPlan, by_hand: str, wanted: str
) -> None:
    lab.sh(host, by_hand)
    before = lab.sh(host, PAIRS)
    stdin = stdin_of(lab, f"kernel.sysctl.vm.{wanted}")

    def drop(plan: HostPlan) -> HostAnswer:
        return lab.apply(plan, stdin_of(lab))

    for put_back in (lab.undo, drop):
        report(lab, host, stdin)
        assert f"vm.{wanted}" in lab.run(host, host.watched.observe, stdin).stdout
        assert report(lab, host, stdin)["changed"] == []
        answer = put_back(host)
        assert answer.exit_status == 0, answer.stderr
        assert lab.sh(host, PAIRS) == before


def test_the_file_changes_from_the_one_to_the_other(lab: HostLab, host: HostPlan) -> None:
    before = lab.sh(host, PAIRS)
    for line in ("dirty_bytes=1073741824", "dirty_ratio=10", "dirty_bytes=8192"):
        stdin = stdin_of(lab, f"kernel.sysctl.vm.{line}")
        report(lab, host, stdin)
        assert f"vm.{line}" in lab.run(host, host.watched.observe, stdin).stdout
    assert lab.undo(host).exit_status == 0
    assert lab.sh(host, PAIRS) == before


def test_a_setting_whose_rival_counts_is_told_with_it(lab: HostLab, host: HostPlan) -> None:
    stdin = stdin_of(lab, "kernel.sysctl.vm.dirty_ratio=10")
    report(lab, host, stdin)
    lab.sh(host, "sysctl -q -w vm.dirty_bytes=1073741824")
    told = lab.run(host, host.watched.observe, stdin).stdout
    assert "kernel.sysctl.vm.dirty_ratio=0/1073741824\n" in told


SETTINGS = {
    "net.bridge.bridge-nf-call-ip6tables": "0",
    "net.netfilter.nf_conntrack_max": "1000000",
    "sunrpc.rdma_slot_table_entries": "64",
}


def plan_with(lab: HostLab, sysctls: Mapping[str, str]) -> HostPlan:
    kernel = KernelSettings.model_validate({"sysctls": sysctls, "source_routing": "off"})
    defaults = lab.spec.host_defaults.model_copy(update={"kernel": kernel})
    return lab.plan("gpu01", lab.spec.model_copy(update={"host_defaults": defaults}))


def only(plan: HostPlan) -> str:
    """The stdin of a run on these settings and their modules alone."""
    kept = ("stack", "kernel.sysctl.", "module.")
    lines = plan.converge.desired.splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(kept))


def test_settings_of_modules_outlive_a_reboot_and_go_with_them(lab: HostLab) -> None:
    plan = plan_with(lab, SETTINGS)
    before = lab.snapshot("gpu01")
    applied = lab.apply(plan)
    assert applied.exit_status == 0, applied.stderr
    assert lab.drift(plan) == ()
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert lab.sh(plan, "systemctl is-failed railyard-nics.service || true") == "active\n"
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    assert lab.snapshot("gpu01") == before


@pytest.mark.parametrize("loaded_first", [True, False])
def test_a_setting_goes_back_where_its_module_has_to_stay(
    lab: HostLab, host: HostPlan, *, loaded_first: bool
) -> None:
    shown = "cat /proc/sys/net/netfilter/nf_conntrack_max"
    plan = plan_with(lab, {"net.netfilter.nf_conntrack_max": "1000000"})
    if loaded_first:
        lab.sh(plan, "modprobe nf_conntrack")
    report(lab, plan, only(plan))
    lab.fault("gpu01", "module-held", "nf_conntrack", "on")  # as kube-proxy's rules do
    dropped = lab.apply(host, stdin_of(lab))
    assert dropped.exit_status == 0, dropped.stderr
    assert lab.sh(plan, shown) == "262144\n"
    report(lab, plan, only(plan))
    undone = lab.undo(plan)
    assert json.loads(undone.stdout)["left"] == ([] if loaded_first else ["module.nf_conntrack"])
    assert lab.sh(plan, shown) == "262144\n"
    lab.fault("gpu01", "module-held", "nf_conntrack", "off")
    lab.sh(plan, "modprobe -r nf_conntrack")

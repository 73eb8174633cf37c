"""Names of rails: written by PCI address, given by udev at the next boot, and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
CARD = "nic.0000:05:00.0"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("names") / "lab"
    with running_hosts("names", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


def named(lab: HostLab, netdev: str, rdma: str | None) -> HostPlan:
    """The plan in which the first card of gpu01 gets these names."""
    host = next(host for host in lab.spec.hosts if host.name == "gpu01")
    first = host.nics[0].model_copy(update={"netdev": netdev, "rdma": rdma})
    changed = host.model_copy(update={"nics": (first, *host.nics[1:])})
    hosts = tuple(changed if each is host else each for each in lab.spec.hosts)
    defaults = lab.spec.host_defaults.model_copy(update={"rail_names": True})
    return lab.plan(
        "gpu01", lab.spec.model_copy(update={"hosts": hosts, "host_defaults": defaults})
    )


def test_a_name_comes_with_the_next_boot_and_goes_with_the_one_after_destroy(lab: HostLab) -> None:
    plan = named(lab, "rail0", "roce_rail0")
    before = lab.snapshot("gpu01")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    assert json.loads(answer.stdout)["reboot_required"] is True
    assert "rail0" not in lab.sh(plan, "ls /sys/class/net").split()  # the card is up
    pending = lab.observe(plan).values
    assert pending[f"pending.boot.{CARD}.boot_name"] == "enp5s0 -> rail0"
    assert pending[f"pending.boot.{CARD}.boot_rdma"] == "mlx5_0 -> roce_rail0"
    lab.ask(op="reboot", device="gpu01")
    assert lab.sh(plan, "cat /sys/class/net/rail0/mtu") == "9000\n"
    lab.sh(plan, "ls /sys/class/infiniband/roce_rail0")
    assert lab.drift(plan) == ()
    assert not [key for key in lab.observe(plan).values if key.startswith("pending.boot.nic")]
    again = json.loads(lab.apply(plan).stdout)
    assert (again["changed"], again["reboot_required"]) == ([], False)
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    left = json.loads(undone.stdout)["left"]
    assert {f"{CARD}.boot_name_current", f"{CARD}.boot_rdma_current"} <= set(left)
    lab.ask(op="reboot", device="gpu01")
    assert lab.snapshot("gpu01") == before


DISTRIBUTION = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
RDMA_RENAME = "/usr/lib/udev/rdma_rename"


def test_the_rule_runs_before_that_of_rdma_core(lab: HostLab) -> None:
    """rdma-core v50.0 renames mlx5_0 to rocep5s0 by its rule 60, as it comes from distributions."""
    plan = named(lab, "enp5s0", "roce_rail0")
    rule = 'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_FALLBACK"'
    lab.sh(plan, f"echo '{rule}' | sudo tee {DISTRIBUTION}")
    lab.ask(op="reboot", device="gpu01")
    assert lab.sh(plan, "ls /sys/class/infiniband").split() == ["rocep132s0", "rocep5s0"]
    assert lab.apply(plan).exit_status == 0
    lab.ask(op="reboot", device="gpu01")
    assert {"roce_rail0", "rocep132s0"} < {*lab.sh(plan, "ls /sys/class/infiniband").split()}
    assert lab.drift(plan) == ()
    assert lab.undo(plan).exit_status == 0
    lab.sh(plan, f"sudo rm {DISTRIBUTION}")
    lab.ask(op="reboot", device="gpu01")


def test_a_host_whose_rdma_core_gives_no_fixed_name_is_refused(lab: HostLab) -> None:
    plan = named(lab, "enp5s0", "roce_rail0")
    lab.sh(plan, f"sudo sed -i s/NAME_FIXED// {RDMA_RENAME}")
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert "no rdma_rename of this host knows NAME_FIXED" in answer.stderr
    assert lab.undo(plan).exit_status == 0
    lab.sh(plan, f"sudo sed -i 's/NAME_GUID/& NAME_FIXED/' {RDMA_RENAME}")


@pytest.mark.parametrize(
    ("netdev", "rdma", "words"),
    [
        ("enp132s0", None, "0000:05:00.0 cannot be called enp132s0: 0000:84:00.0 of this host"),
        ("rail0", "mlx5_1", "0000:05:00.0 cannot be called mlx5_1: 0000:84:00.0 of this host"),
    ],
)
def test_a_name_that_is_taken_is_refused(
    lab: HostLab, netdev: str, rdma: str | None, words: str
) -> None:
    plan = named(lab, netdev, rdma)
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert words in answer.stderr
    assert lab.undo(plan).exit_status == 0

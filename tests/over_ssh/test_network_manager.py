"""NetworkManager takes the cards of a host, unless it is told that they are ours."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from components.hosts.preview import judge_settings
from components.model.cluster import ClusterSpec
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
CARD = "0000:05:00.0"
KEY = f"nic.{CARD}.network_manager"
CARDS = ("enp5s0", "enp132s0")


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("nm") / "lab"
    with running_hosts("nm", root, only=("gpu01",)) as running:
        running.fault("gpu01", "network-manager", "on")
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


def with_addresses(spec: ClusterSpec, **more: object) -> ClusterSpec:
    """The example, whose cards have an address on their rail."""
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"address": f"10.10.{111 + number}.101"})
                    for number, nic in enumerate(host.nics)
                )
            }
        )
        for host in spec.hosts
    )
    manage = spec.host_defaults.manage.model_copy(update=more)
    defaults = spec.host_defaults.model_copy(update={"manage": manage})
    return spec.model_copy(update={"hosts": hosts, "host_defaults": defaults})


def states(lab: HostLab, plan: HostPlan) -> dict[str, str]:
    lines = lab.sh(plan, "nmcli -t -f DEVICE,STATE device").splitlines()
    return dict(line.split(":", 1) for line in lines)


def rails(lab: HostLab, plan: HostPlan) -> set[str]:
    """The states of the cards and of their VFs; the management port keeps its own."""
    found = states(lab, plan)
    assert (found.pop("eno1"), found.pop("lo")) == ("connected", "unmanaged")
    assert set(CARDS) < set(found)
    return set(found.values())


def addresses(lab: HostLab, plan: HostPlan) -> list[str]:
    shown = lab.sh(plan, "ip -4 -o addr show")
    return [line.split()[3] for line in shown.splitlines() if line.split()[1] in CARDS]


def test_without_the_rule_an_attempt_that_ends_takes_our_address(lab: HostLab) -> None:
    plan = lab.plan("gpu01", with_addresses(lab.spec, network_manager=False))
    assert lab.apply(plan).exit_status == 0
    assert len(addresses(lab, plan)) == len(CARDS)
    assert rails(lab, plan) == {"connecting (getting IP configuration)"}
    lab.fault("gpu01", "dhcp-ends", "enp5s0")
    assert len(addresses(lab, plan)) == len(CARDS) - 1
    assert {each.setting for each in lab.drift(plan)} == {"address", "gid"}


def test_cards_and_their_vfs_are_ours_until_destroy(lab: HostLab) -> None:
    plan = lab.plan("gpu01", with_addresses(lab.spec))
    before = lab.snapshot("gpu01")
    assert lab.observe(plan).values[KEY] == "managed"
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    assert lab.drift(plan) == ()
    assert rails(lab, plan) == {"unmanaged"}
    lab.fault("gpu01", "dhcp-ends", "enp5s0")
    assert len(addresses(lab, plan)) == len(CARDS)
    lab.fault("gpu01", "vf-in-pod", "enp5s0", "0", "on")
    in_pod = states(lab, plan)
    lab.fault("gpu01", "vf-in-pod", "enp5s0", "0", "off")
    assert set(in_pod) < set(states(lab, plan))
    assert rails(lab, plan) == {"unmanaged"}
    lab.ask(op="reboot", device="gpu01")
    assert rails(lab, plan) == {"unmanaged"}
    assert lab.drift(plan) == ()
    assert json.loads(lab.apply(plan).stdout)["changed"] == []
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert lab.snapshot("gpu01") == before


def test_a_card_with_a_profile_is_refused_before_anything_is_touched(lab: HostLab) -> None:
    plan = lab.plan("gpu01")
    lab.sh(plan, "ip addr add 172.16.0.5/24 dev enp5s0")
    seen = lab.observe(plan)
    before = lab.snapshot("gpu01")
    assert seen.values[KEY] == "managed, has 172.16.0.5/24"
    found = judge_settings(plan, seen.values)
    (refused,) = [each for each in found if each.severity == "error"]
    assert (refused.rule, refused.severity) == ("network-manager-profile", "error")
    assert "manage.network_manager: false" in refused.fix
    answer = lab.apply(plan)
    assert answer.exit_status == 1
    assert f"{KEY}=managed, has 172.16.0.5/24, from NetworkManager" in answer.stderr
    assert lab.snapshot("gpu01") == before


def test_a_card_taken_back_by_hand_is_drift(lab: HostLab) -> None:
    plan = lab.plan("gpu01")
    assert lab.apply(plan).exit_status == 0
    lab.sh(plan, "nmcli device set enp5s0 managed yes")
    assert {each.setting for each in lab.drift(plan)} == {"network_manager"}
    assert lab.apply(plan).exit_status == 0
    assert lab.drift(plan) == ()
    rule = f"/etc/udev/rules.d/86-railyard-network-manager-{CARD}.rules"
    lab.sh(plan, f"echo '# mine' >>{rule}")
    assert lab.observe(plan).values[KEY] == "altered"
    assert lab.apply(plan).exit_status == 0
    assert lab.sh(plan, f"grep -c mine {rule} || :") == "0\n"

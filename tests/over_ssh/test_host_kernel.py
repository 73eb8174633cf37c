"""Kernel, PCI path and routes of a host over real SSH: set, over a reboot, and exactly undone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from components.model.cluster import ClusterSpec
from components.model.kernel import KernelSettings
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
RAIL_KEYS = tuple(
    f"nic.{pci}.{key}"
    for pci in ("0000:05:00.0", "0000:84:00.0")
    for key in ("netdev", "link", "address")
)
"""What the routes stand on."""
EVERYTHING = KernelSettings(
    sysctls={
        "net.core.rmem_max": "268435456",
        "net.ipv4.ip_local_port_range": "20000 60999",
        "net.ipv4.ip_local_reserved_ports": "30000-32767",  # empty on a new system
        "net.netfilter.nf_conntrack_max": "1000000",  # there with its module alone
        "vm.dirty_bytes": "1073741824",  # which makes vm.dirty_ratio 0
        "vm.overcommit_ratio": "80",
    },
    hugepages_2mib=1024,
    hugepages_1gib_per_node=(2, 1),
    cpu_governor="performance",
    numa_balancing=False,
    acs="off",
    iommu="pt",
    rdma_netns="exclusive",
)


def with_kernel(spec: ClusterSpec, kernel: KernelSettings) -> ClusterSpec:
    """The site with that kernel, and an address on each rail card of its workers."""
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(
                        update={"address": f"10.10.{111 + rail}.{10 + number}", "vfs": 0}
                    )
                    for rail, nic in enumerate(host.nics)
                )
            }
        )
        for number, host in enumerate(spec.hosts)
    )
    defaults = spec.host_defaults.model_copy(update={"kernel": kernel})
    return spec.model_copy(update={"hosts": hosts, "host_defaults": defaults})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("kernel") / "lab"
    with running_hosts("kernel-over-ssh", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


@pytest.fixture
def plan(lab: HostLab) -> HostPlan:
    return lab.plan("gpu01", with_kernel(lab.spec, EVERYTHING))


def evidence(text: str) -> dict[str, object]:
    return json.loads(text)


def test_all_is_set_outlives_a_reboot_and_is_undone_exactly(lab: HostLab, plan: HostPlan) -> None:
    before = lab.snapshot("gpu01")
    first = lab.apply(plan)
    assert first.exit_status == 0, first.stderr
    report = evidence(first.stdout)
    assert report["reboot_required"] is True
    assert "IOMMU is absent until this host reboots, then pt" in str(report["notes"])
    assert lab.drift(plan) == ()
    assert evidence(lab.apply(plan).stdout)["changed"] == []
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert " intel_iommu=on iommu=pt" in lab.sh(plan, "cat /proc/cmdline")
    assert "netns exclusive" in lab.sh(plan, "rdma system show")
    told = lab.run(plan, plan.watched.observe, f"stack={lab.stack}\n").stdout.splitlines()
    assert {line for line in told if line.startswith("pending.back")} == {
        "pending.back.kernel.cmdline.iommu=pt -> absent",
        "pending.back.kernel.rdma_netns=exclusive -> shared",
    }
    assert evidence(lab.apply(plan).stdout)["reboot_required"] is False
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    left = ["kernel.rdma_netns_current", "kernel.cmdline.iommu_current"]
    assert evidence(undone.stdout)["left"] == left
    lab.ask(op="reboot", device="gpu01")
    assert lab.snapshot("gpu01") == before


def only(plan: HostPlan, *prefixes: str) -> str:
    """The stdin of a run on these settings alone."""
    kept = ("stack", *prefixes)
    lines = HostLab.stdin(plan).splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(kept))


@pytest.fixture
def clean(lab: HostLab, plan: HostPlan) -> Iterator[HostPlan]:
    """A host on which nothing is ours, before and after."""
    assert lab.undo(plan).exit_status == 0
    before = lab.snapshot("gpu01")
    yield plan
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert lab.snapshot("gpu01") == before


def test_a_module_that_is_in_use_is_listed_as_left(lab: HostLab, plan: HostPlan) -> None:
    lab.undo(plan)
    lab.sh(plan, "modprobe -r nvidia_peermem || true")
    assert lab.apply(plan, only(plan, "module.")).exit_status == 0
    lab.fault("gpu01", "module-held", "nvidia_peermem", "on")
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert evidence(undone.stdout)["left"] == ["module.nvidia_peermem"]
    lab.fault("gpu01", "module-held", "nvidia_peermem", "off")
    lab.sh(plan, "modprobe -r nvidia_peermem")


def test_a_file_that_sets_our_key_to_another_value_is_told(lab: HostLab, clean: HostPlan) -> None:
    lab.sh(
        clean,
        "printf 'net/core/rmem_max = 212992\n-net.ipv4.conf.*.rp_filter=1\n# net.core.x=1\n'"
        " >/etc/sysctl.d/10-site.conf",
    )
    answer = lab.apply(clean, only(clean, "kernel.sysctl.net.core"))
    lab.sh(clean, "rm /etc/sysctl.d/10-site.conf")
    told = "/etc/sysctl.d/10-site.conf sets net.core.rmem_max to 212992 at boot, and"
    told += " railyard-nics.service net.core.rmem_max to 268435456 after it"
    assert evidence(answer.stdout)["notes"] == [told]


def test_acs_of_other_bridges_is_not_touched(lab: HostLab, clean: HostPlan) -> None:
    assert lab.apply(clean, only(clean, "kernel.acs", "nic.0000:05:00.0.netdev")).exit_status == 0
    words = "setpci -s 0000:e1:05.0 ECAP_ACS+0x6.w; setpci -s 0000:e1:06.0 ECAP_ACS+0x6.w;"
    # The card's port and a GPU's beside it are off; the root port above both and the other socket's
    # ports are as they were.
    words += "setpci -s 0000:00:02.0 ECAP_ACS+0x6.w; setpci -s 0000:f1:04.0 ECAP_ACS+0x6.w"
    assert lab.sh(clean, words).split() == ["0000", "0000", "001d", "001d"]
    assert "ReqRedir-" in lab.sh(clean, "lspci -s e1:05.0 -vvv")
    assert "ReqRedir+" in lab.sh(clean, "lspci -s f1:04.0 -vvv")


def test_bridges_of_a_card_that_comes_later_are_put_back_too(lab: HostLab, clean: HostPlan) -> None:
    lab.sh(clean, "setpci -s 0000:f1:04.0 ECAP_ACS+0x6.w=0015")
    one, two = "nic.0000:05:00.0.netdev", "nic.0000:84:00.0.netdev"
    for cards in ((one,), (one, two)):
        assert lab.apply(clean, only(clean, "kernel.acs", *cards)).exit_status == 0
    words = "setpci -s 0000:e1:05.0 ECAP_ACS+0x6.w; setpci -s 0000:f1:04.0 ECAP_ACS+0x6.w"
    assert lab.sh(clean, words).split() == ["0000", "0000"]
    kept = lab.apply(clean, only(clean, one, two))  # the file says acs: keep now
    assert kept.exit_status == 0, kept.stderr
    assert lab.sh(clean, words).split() == ["001d", "0015"]
    lab.sh(clean, "setpci -s 0000:f1:04.0 ECAP_ACS+0x6.w=001d")


def test_a_locked_down_kernel_is_told_with_the_way_out(lab: HostLab, clean: HostPlan) -> None:
    lab.fault("gpu01", "pci-locked", "on")
    answer = lab.apply(clean, only(clean, "kernel.acs", "nic.0000:05:00.0.netdev"))
    lab.fault("gpu01", "pci-locked", "off")
    assert answer.exit_status == 1
    assert "A kernel that is locked down (Secure Boot)" in answer.stderr


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("kernel.sysctl.net.core.no_such=1", "this kernel has no setting net.core.no_such"),
        ("kernel.hugepages.1gib.node7=1", "the machine has no such NUMA node"),
        ("kernel.hugepages.1gib=1000", "the kernel gave 128 of 1000 huge pages"),
        ("kernel.governor=ondemand", "this machine has: performance schedutil powersave"),
        ("kernel.acs=on", "'on' is no value of kernel.acs"),
        ("kernel.sysctl.net/../x.y=1", "is no setting of a host"),
        ("route.0.rule=from 10.0.0.1 lookup 1", "is no setting of a host"),
        ("route.7400.table=10.9.0.0/24 dev nope", 'Cannot find device "nope"'),
    ],
)
def test_what_cannot_be_set_is_refused_in_words(
    lab: HostLab, clean: HostPlan, line: str, reason: str
) -> None:
    answer = lab.apply(clean, f"stack={lab.stack}\n{line}\n")
    assert answer.exit_status == 1
    assert reason in answer.stderr


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ("railyard-fault", "rule of route.7400 is absent, want from 10.10.111.11 lookup 7400"),
        ("ip -4 rule del pref 7401", "rule of route.7401 is absent"),
        ("ip route flush table 7401", "table of route.7401 is absent"),
        ("echo 1 >/proc/sys/net/ipv4/conf/enp5s0/rp_filter", "rp_filter of kernel.sysctl"),
        ("setpci -s 0000:e1:06.0 ECAP_ACS+0x6.w=1d", "acs of kernel is 0000:e1:06.0/001d"),
        ("echo powersave >/sys/devices/system/cpu/cpufreq/policy3/scaling_governor",
         "governor of kernel is performance:0.1.10"),
        ("echo 7 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "2mib of kernel"),
        ("rm /etc/default/grub.d/zz-railyard.cfg; update-grub", "iommu of kernel.cmdline"),
        ("rm /etc/modprobe.d/zz-railyard-rdma.conf", "rdma_netns of kernel is shared"),
        ("rm /etc/security/limits.d/90-railyard-nvidia.conf", "memlock of kernel.limits.nvidia"),
    ],
)  # fmt: skip
def test_drift_is_seen_in_words_and_repaired(
    lab: HostLab, plan: HostPlan, by_hand: str, words: str
) -> None:
    stdin = only(plan, "module.nf_conntrack", "kernel.", "route.", *RAIL_KEYS)
    assert lab.apply(plan, stdin).exit_status == 0
    if by_hand == "railyard-fault":
        lab.fault("gpu01", "rules-lost")
    else:
        lab.sh(plan, by_hand)
    found = [str(difference) for difference in lab.drift(plan)]
    assert [each for each in found if words in each], found
    answer = lab.apply(plan, stdin)
    assert answer.exit_status == 0, answer.stderr
    assert not [d for d in lab.drift(plan) if d.where.startswith(("kernel", "route"))]

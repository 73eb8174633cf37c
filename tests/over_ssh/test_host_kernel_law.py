"""The law on kernel settings over real SSH, from random states of a host to random wishes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from components.core.key_values import parse_state
from components.model.kernel import KernelSettings
from tests.over_ssh.host_lab import HostLab, running_hosts
from tests.over_ssh.test_host_kernel import RAIL_KEYS, only, with_kernel

pytestmark = pytest.mark.lab
NODES = "/sys/devices/system/node/node"
POLICIES = "/sys/devices/system/cpu/cpufreq/policy"
RMEM = "net.core.rmem_max"
SITE_GRUB = ("", "iommu=pt intel_iommu=on", "intel_iommu=off", "amd_iommu=off iommu=nopt")
AMD_GRUB = f"""echo 'GRUB_CMDLINE_LINUX_DEFAULT="{SITE_GRUB[-1]}"' >/etc/default/grub.d/50-site.cfg
update-grub 2>/dev/null"""
"""Words for AMD's IOMMU, which mean nothing to the lab's processors."""
BRIDGES = ("0000:e1:05.0", "0000:e1:06.0", "0000:f1:04.0", "0000:00:02.0")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("law") / "lab"
    with running_hosts("kernel-law", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


PAGES = st.integers(0, 9)
GOVERNOR = st.sampled_from(("performance", "powersave", "schedutil"))


@st.composite
def hand_made(draw: st.DrawFn) -> str:
    """A shell script that brings a host into some state that a person may have left."""
    lines = [f"sysctl -q -w {RMEM}={draw(st.integers(4096, 1 << 30))}"]
    lines.append(f"echo {draw(st.integers(0, 2))} >/proc/sys/kernel/numa_balancing")
    for size in ("2048kB", "1048576kB"):
        lines += [
            f"echo {draw(PAGES)} >{NODES}{node}/hugepages/hugepages-{size}/nr_hugepages"
            for node in range(2)
        ]
    lines += [f"echo {draw(GOVERNOR)} >{POLICIES}{n}/scaling_governor" for n in (0, 3, 10)]
    lines += [
        f"setpci -s {bridge} ECAP_ACS+0x6.w={draw(st.integers(0, 0x7F)):04x}" for bridge in BRIDGES
    ]
    lines.append("while ip rule del pref 7400 2>/dev/null; do :; done; ip route flush table 7400")
    lines += ["ip rule add pref 7400 from 10.9.9.9 lookup 7400"] * draw(st.integers(0, 1))
    lines += ["ip route add 10.9.9.0/24 dev eno1 scope link table 7400"] * draw(st.integers(0, 1))
    grub = draw(st.sampled_from(SITE_GRUB))
    lines.append(
        f"""echo 'GRUB_CMDLINE_LINUX_DEFAULT="quiet {grub}"' >/etc/default/grub.d/50-site.cfg"""
    )
    lines.append("update-grub 2>/dev/null")
    lines.append(
        f"echo options ib_core netns_mode={draw(st.integers(0, 1))} >/etc/modprobe.d/a.conf"
    )
    lines.append("rm -f /etc/security/limits.d/90-railyard-nvidia.conf")
    if draw(st.booleans()):
        limit = "nvidia - memlock 65536"
        lines.append(f"(umask 022; echo {limit} >/etc/security/limits.d/90-railyard-nvidia.conf)")
    return "\n".join((*lines, "true"))


WISHES = st.builds(
    KernelSettings,
    sysctls=st.dictionaries(st.just(RMEM), st.integers(4096, 1 << 30).map(str), max_size=1),
    hugepages_2mib=st.none() | PAGES,
    hugepages_1gib_per_node=st.just(()) | st.tuples(PAGES, PAGES),
    cpu_governor=st.none() | st.sampled_from(("performance", "powersave")),
    numa_balancing=st.none() | st.booleans(),
    acs=st.sampled_from(("off", "keep")),
    iommu=st.sampled_from(("pt", "off", "keep")),
    rdma_netns=st.sampled_from(("shared", "exclusive", "keep")),
    source_routing=st.sampled_from(("auto", "off")),
)


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(start=hand_made(), wish=WISHES)
@example(start="true", wish=KernelSettings())
@example(start=AMD_GRUB, wish=KernelSettings(iommu="pt"))
def test_the_next_difference_is_empty_and_undo_is_exact(
    lab: HostLab, start: str, wish: KernelSettings
) -> None:
    plan = lab.plan("gpu01", with_kernel(lab.spec, wish))
    stdin = only(plan, "kernel.", "route.", "module.", *RAIL_KEYS)
    lab.sh(plan, start)
    before = lab.snapshot("gpu01")
    applied = lab.apply(plan, stdin)
    assert applied.exit_status == 0, applied.stderr
    wanted = {k: v for k, v in parse_state(stdin).values.items() if k != "stack"}
    actual = parse_state(lab.run(plan, plan.watched.observe, stdin).stdout).values
    assert {key: actual[key] for key in wanted} == wanted
    assert json.loads(lab.apply(plan, stdin).stdout)["changed"] == []
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert lab.snapshot("gpu01") == before

"""What a destroy leaves on a host is said beforehand, by the settings that leave it."""

from __future__ import annotations

import pytest

from components.hosts.keys.ask import Leftovers, leftovers
from components.plan.make import make_plan
from components.plan.text import render_plan
from tests.golden.site import load_example


@pytest.mark.parametrize(
    ("setting", "stays", "until_restart"),
    [
        (("driver.kind", "inbox"), (), ()),
        (("driver.kind", "doca_ofed"), ("the RDMA driver",), ()),
        (("docker.toolkit", "present"), ("nvidia-container-toolkit",), ()),
        (("nic.0000:05:00.0.ats", "on"), (), ("firmware settings of the cards",)),
        (("nic.0000:05:00.0.fw_num_of_vfs", "16"), (), ("firmware settings of the cards",)),
        (
            ("kernel.cmdline.iommu", "pt"),
            (),
            ("kernel boot parameters (remove them yourself if the host lacks update-grub)",),
        ),
        (("nic.0000:05:00.0.vfs", "8"), (), ()),
        (("nic.0000:05:00.0.fw_floor", "16.35.4030"), (), ()),  # a release is never set
        (("kernel.sysctl.vm.swappiness", "10"), (), ()),
        (("user.mpi.uid", "1500"), ("the home folder of its account",), ()),
    ],
)
def test_each_setting_says_what_stays(
    setting: tuple[str, str], stays: tuple[str, ...], until_restart: tuple[str, ...]
) -> None:
    assert leftovers(dict([setting])) == Leftovers(stays, until_restart)


def test_the_plan_lists_them() -> None:
    text = render_plan(make_plan(load_example("esxi-roce"), "dev"))
    tail = text.partition("## What destroy leaves")[2]
    assert "# stays on vm01, if it came with the stack: docker.io" in tail
    waits = "firmware settings of the cards"
    assert f"# put back on vm01 for its next start, and in force until then: {waits}" in tail
    assert "put back on vm01" not in text.partition("## What destroy leaves")[0]

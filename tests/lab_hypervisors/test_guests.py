"""Guests follow the power of their virtual machines; a boot of the host makes their cards cold."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from lab.hypervisors.esxi.server import EsxiHost
from lab.hypervisors.guests import Hypervisors
from tests.lab_hypervisors.conftest import CONFIG

pytestmark = pytest.mark.lab
DEADLINE_S = 30


class FakeGuest:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def power_on(self, *, cold: bool) -> None:
        self.seen.append("cold" if cold else "warm")

    async def power_off(self) -> None:
        self.seen.append("off")

    def allow_ats(self, *, allowed: bool, placed: bool) -> None:
        self.seen.append(f"ats={allowed} placed={placed}")

    def take(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


async def make_p2p_vm(esx: EsxiHost, guest: FakeGuest) -> None:
    for key, value in (("pciPassthru.allowP2P", "TRUE"), ("pciPassthru.RelaxACSforP2P", "TRUE"),
                       ("numa.nodeAffinity", "0")):  # fmt: skip
        await esx.fault(["vmx", "vm01", key, value])
    await esx.fault(["kernel", "atsSupport", "TRUE"])
    await esx.fault(["vm-power", "vm01", "off"])
    assert guest.take() == ["off"]
    await esx.fault(["vm-power", "vm01", "on"])
    assert guest.take() == ["ats=False placed=True", "warm"]  # the kernel is the old one


def play(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, DEADLINE_S))


def test_a_guest_follows_its_machine_and_is_cold_once_after_a_boot(tmp_path: Path) -> None:
    guest = FakeGuest()

    async def scenario() -> None:
        lab = Hypervisors((CONFIG,), tmp_path, {"vm01": guest})
        esx = lab.hosts["esx01"]
        await lab.start()
        try:
            assert guest.take() == ["ats=False placed=False", "warm"]
            await make_p2p_vm(esx, guest)
            await esx.reboot()
            assert set(guest.take()) == {"off"}
            await esx.fault(["vm-power", "vm01", "on"])
            assert guest.take() == ["ats=True placed=True", "cold"]
            await esx.fault(["vm-power", "vm01", "off"])
            await esx.fault(["vm-power", "vm01", "on"])
            assert guest.take() == ["off", "ats=True placed=True", "warm"]
        finally:
            await lab.stop()

    play(scenario())


def test_a_machine_that_is_off_stays_off_when_the_lab_starts_again(tmp_path: Path) -> None:
    guest = FakeGuest()

    async def scenario() -> None:
        for expected in (["ats=False placed=False", "warm"], []):
            lab = Hypervisors((CONFIG,), tmp_path, {"vm01": guest})
            await lab.start()
            assert guest.take() == expected
            if expected:
                await lab.hosts["esx01"].fault(["vm-power", "vm01", "off"])
                assert guest.take() == ["off"]
            await lab.stop()

    play(scenario())

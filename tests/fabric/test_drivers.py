"""Every switch system has all of its parts, and its driver keeps the laws of one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from components.errors import UsageError
from components.fabric.drivers import DRIVERS
from components.fabric.intent import INTENTS
from components.fabric.models import MODELS
from lab.switches.emulators import EMULATORS, make_switch
from lab.views import SwitchConfig
from tests.fabric.completeness import PARTS, ROOT, golden_of, missing_parts, offered
from tests.fabric.laws import check_laws
from tests.fabric.switch_labs import LABS
from tests.golden.files import check_golden
from tests.over_ssh.test_switch_faults import TRAITS

HOWTO = ROOT / "docs" / "howto" / "add-a-switch-os.md"


def _config(system: str) -> SwitchConfig:
    fitting = (name for name, model in MODELS.items() if system in model.ports)
    return SwitchConfig(
        name="leaf-01",
        os=system,
        model=next(fitting),
        address="127.209.0.6",
        port=0,
        user="admin",
        password="admin",
        host_key_seed="test/leaf-01",
    )


def test_every_registry_has_the_same_systems() -> None:
    for registry in (offered(), {*INTENTS}, {*EMULATORS}, {*LABS}, {*TRAITS}):
        assert registry == {*DRIVERS}


@pytest.mark.parametrize("system", DRIVERS)
def test_the_lines_of_a_first_apply(system: str) -> None:
    check_golden(f"switches/{system}.txt", golden_of(system))


@pytest.mark.parametrize("system", DRIVERS)
def test_a_system_is_whole(system: str, tmp_path: Path) -> None:
    assert missing_parts(system) == []
    emulator = make_switch(_config(system), tmp_path / "leaf-01.json")
    assert emulator.unmodelled == ()


@pytest.mark.parametrize("system", DRIVERS)
def test_a_driver_keeps_the_laws(system: str, tmp_path: Path) -> None:
    check_laws(LABS[system], tmp_path)


def test_the_page_walks_through_the_parts_that_are_checked() -> None:
    steps = re.findall(r"^\| `([a-z]+)` \|", HOWTO.read_text(), re.MULTILINE)
    assert steps == [*PARTS]


def test_a_system_that_nobody_plays_is_named(tmp_path: Path) -> None:
    config = replace(_config("sonic"), os="ios")
    with pytest.raises(UsageError, match="plays no switch with 'ios'"):
        make_switch(config, tmp_path / "leaf-01.json")

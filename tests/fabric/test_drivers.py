"""Every switch system has all of its parts: driver, intent, model, session, emulator, page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from components.errors import UsageError
from components.fabric.drivers import DRIVERS
from components.fabric.intent import INTENTS
from components.fabric.models import MODELS
from components.model.fabric import Switch
from components.remote import switch_session
from lab.switches.emulators import make_switch
from lab.views import SwitchConfig

ROOT = Path(__file__).parents[2]


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


def test_the_model_offers_what_there_is() -> None:
    assert {*get_args(Switch.model_fields["os"].annotation)} == {*DRIVERS} == {*INTENTS}


@pytest.mark.parametrize("system", DRIVERS)
def test_a_system_is_whole(system: str, tmp_path: Path) -> None:
    assert DRIVERS[system].system == system
    assert system in switch_session._SYSTEMS  # pyright: ignore[reportPrivateUsage] - is it there
    emulator = make_switch(_config(system), tmp_path / "leaf-01.json")
    assert emulator.unmodelled == ()
    for page in ("components/fabric/WHY.md", "docs/explanation/sources.md"):
        assert f"\n## {DRIVERS[system].title}" in (ROOT / page).read_text()


def test_a_system_that_nobody_plays_is_named(tmp_path: Path) -> None:
    config = replace(_config("sonic"), os="ios")
    with pytest.raises(UsageError, match="plays no switch with 'ios'"):
        make_switch(config, tmp_path / "leaf-01.json")

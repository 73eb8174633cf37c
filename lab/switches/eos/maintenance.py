"""Maintenance mode: its lines, and what it shows (sources.md#graceful-drain)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.switches.eos.configure import Place
from lab.switches.eos.grammar import table
from lab.switches.eos.show import Device, Tree


def _maintain(place: Place) -> str:
    place.maintenance = "maintenance"
    return ""


def _unit(place: Place) -> str:
    place.maintenance = "System"
    return ""


def _quiesce(*, on: bool) -> Callable[[Place], str]:
    def change(place: Place) -> str:
        place.config.quiesced = on
        return ""

    return change


MAINTENANCE: Final = table((("maintenance", _maintain),))
UNITS: Final = table((("unit System", _unit),))
UNIT: Final = table((("quiesce", _quiesce(on=True)), ("no quiesce", _quiesce(on=False))))
"""AVD, template of `maintenance`. That nothing of it stays after `no quiesce` is a guess."""


def maintenance(device: Device) -> Tree:
    """`show maintenance | json`: the answers in ANTA's unit tests of VerifyMaintenance."""
    if not device.running.quiesced:
        return {
            "units": {},
            "interfaces": {},
            "vrfs": {},
            "warnings": ["Maintenance Mode is disabled."],
        }
    unit: Tree = {
        "state": "underMaintenance",
        "adminState": "underMaintenance",
        "stateChangeTime": 1741258774.3756502,
        "onBootMaintenance": False,
        "intfsViolatingTrafficThreshold": False,
        "aggInBpsRate": 0,
        "aggOutBpsRate": 0,
    }
    return {"units": {"System": unit}, "interfaces": {}, "vrfs": {}}

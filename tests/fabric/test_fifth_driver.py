"""docs/howto/add-a-switch-os.md, tried: an invented system joins by one module and one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.catalogue.switches import MODELS
from components.catalogue.switches.systems import SWITCH_SYSTEMS, PortNaming, SystemEntry
from components.core.errors import DeviceError
from components.fabric.exchange import Exchange
from components.fabric.state import SwitchState
from components.fabric.targets import plan_exec, why_no_exec
from components.model.cluster import ClusterSpec
from lab.switches.emulators import EMULATORS
from lab.views import SwitchConfig
from tests.fabric import conftest as onyx_lab
from tests.fabric import minimal_os
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import answer, apply
from tests.fabric.lives import check_laws
from tests.fabric.minimal_os import PORTS, SYSTEM, MinimalSwitch
from tests.fabric.switch_labs import LABS, SwitchLab
from tests.fabric.test_drivers import FOLDERS, PARTS, SOURCES, golden_of, missing_parts
from tests.over_ssh.test_switch_faults import TRAITS, Absent, Traits

NAME = "minimal"
MODEL = f"""
asic: invented
systems: {{{NAME}: {{names: "p[1-{len(PORTS)}]"}}}}
ports: {len(PORTS)}
speeds_gbit_s: [100]
lossless_priorities: 1
sources:
  {{asic: invented, systems: it, ports: it, speeds_gbit_s: it, lossless_priorities: it}}
"""
WHY = FOLDERS / NAME / "WHY.md"
NAMING = PortNaming(re.compile(r"(?P<whole>p[1-8])(?P<part>/[1-4])?"), "p{}", "/1")
WORDS = """
# Minimal
## Reading
`show`
## The session
`save`
## Writing, at once
`vlan add 1`, `port p1 mode "trunk"`, `port p1 trunk [1]`, `port p1 trust "L3"`, `port p1 ecn {}`,
`port p1 strict [6]`, `port p1 mtu 1`, `port p1 pause [3]`
## What undo promises
"""


def make_switch(folder: Path, _clock: Clock | None = None) -> MinimalSwitch:
    config = SwitchConfig("leaf-01", NAME, "M8", "127.209.0.9", 0, "admin", "admin", "test")
    return MinimalSwitch(config, folder)


def talk(switch: MinimalSwitch) -> Exchange:
    return Exchange(switch, SYSTEM)


def load_spec(**rdma: object) -> ClusterSpec:
    spec = onyx_lab.load_spec(**rdma)
    leaf = spec.switches[0]
    plugged = dict(zip(PORTS, leaf.ports.values(), strict=False))
    update = {"os": NAME, "model": "M8", "release": "1.0", "ports": plugged}
    return spec.model_copy(update={"switches": (leaf.model_copy(update=update),)})


LAB = SwitchLab(
    make_switch=make_switch,
    talk=talk,
    load_spec=load_spec,
    address="127.209.0.9",
    user="admin",
    password="admin",
    saved="saved",
    site=onyx_lab.SITE,
)
Register = Callable[[pytest.MonkeyPatch, Path], None]


def _write(root: Path, page: Path | str, text: str) -> None:
    path = root / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _add_model(patch: pytest.MonkeyPatch, root: Path) -> None:
    """A file, and nothing else."""
    _write(root, "models/M8.yaml", MODEL)
    patch.setattr(MODELS, "folders", (*MODELS.folders, root / "models"))


REGISTER: dict[str, Register] = {
    "folder": lambda patch, _root: patch.setitem(
        sys.modules, f"components.fabric.systems.{NAME}.system", minimal_os
    ),
    "reasons": lambda _patch, root: _write(root, WHY, WORDS),
    "line": lambda patch, _root: patch.setitem(
        SWITCH_SYSTEMS, NAME, SystemEntry("roce", NAMING, (1500, 9216))
    ),
    "hardware": _add_model,
    "emulator": lambda patch, _root: patch.setitem(
        EMULATORS, NAME, f"{minimal_os.__name__}:MinimalSwitch"
    ),
    "lab": lambda patch, _root: patch.setitem(LABS, NAME, LAB),
    "faults": lambda patch, _root: patch.setitem(
        TRAITS, NAME, Traits("port p2 mtu 9216", Absent("every line acts at once"), at_commit=False)
    ),
    "sources": lambda _patch, root: _write(root, SOURCES, "\n## Minimal\n\n### Minimal unknown\n"),
    "golden": lambda _patch, root: _write(
        root, f"tests/golden/switches/{NAME}.txt", golden_of(NAME)
    ),
}


def register(patch: pytest.MonkeyPatch, root: Path, without: str = "") -> None:
    """Register the system but for one part."""
    for part, join in REGISTER.items():
        if part != without and not (
            part == "golden" and without in {"folder", "line", "hardware", "lab"}
        ):
            join(patch, root)


def test_the_parts_are_all_tried() -> None:
    assert [*REGISTER] == [*PARTS]


def test_nothing_is_there_before(tmp_path: Path) -> None:
    assert missing_parts(NAME, tmp_path) == [*PARTS]


def test_a_whole_system_lacks_nothing_and_keeps_the_laws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, tmp_path)
    assert missing_parts(NAME, tmp_path) == []
    check_laws(LAB, tmp_path)
    assert why_no_exec(NAME) == "it has no SSH server"
    assert plan_exec(NAME, SwitchState()) is None


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_missing_is_named(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, tmp_path, without=part)
    assert part in missing_parts(NAME, tmp_path)


def test_a_line_without_a_reason_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, tmp_path)
    _write(tmp_path, WHY, WORDS.replace('`port p1 trust "L3"`, ', ""))
    assert missing_parts(NAME, tmp_path) == ["reasons"]


def test_its_refusals_put_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, tmp_path)
    switch = make_switch(tmp_path)
    first, exchange = switch.snapshot(), talk(switch)
    answer(exchange, lambda line, _: "! busy\n" if line == "port p2 mtu 9216" else None)
    with pytest.raises(DeviceError, match=r"! busy\n(.|\n)*previous values were put back"):
        apply(exchange, LAB.desired)
    assert switch.snapshot() == first

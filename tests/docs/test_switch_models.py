"""Switch models are files: one more file is one more model, and their page is made of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from components.catalogue.switches import MODELS, find_model, find_plain, list_plain
from components.catalogue.switches.switch_model import FOLDER, PlainSwitch, SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.fabric.fabric_plan import plan_fabric
from components.reading.load import parse_site
from components.reading.schema import render_schema
from lab.switches.front import front_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/switch-models.md"
SITE = ROOT / "tests/cases/base/site.yaml"
HEAD = """\
# Switch models

Known models. Each has a file in `components/catalogue/switches/models/` with the source of every
number, from which `make goldens` writes this page. To describe another model see
[Switch models](../howto/switch-models.md).

| Model | Chip | Systems | Ports | Splits of a port | Lossless priorities |
|---|---|---|---|---|---|
"""
PLAIN = """
## Without a login

InfiniBand switches for `infiniband.switches`; Railyard does not configure them. Their files are in
the folder `without_login`.

| Model | Chip | Runs | Ports | Names |
|---|---|---|---|---|
"""
NEW = """\
# A switch that nobody makes.
asic: Spectrum-9
systems:
  cumulus: {since: 5.9.0}
  sonic: {names: "Ethernet[0-3]", headroom_m: [5, 40]}
ports: 4
lanes: 8
speeds_gbit_s: [400, 1600]
slow: {ports: 1, gbit_s: 25}
splits:
  - {mode: 2x800}
  - {mode: 8x200, blocks_next: true, systems: [cumulus]}
buffer_mb: 99
mtu_bytes: 9000
lossless_priorities: 2
sources:
  {asic: made up, systems: made up, ports: made up, lanes: made up, speeds_gbit_s: made up,
   slow: made up, splits: made up, buffer_mb: made up, mtu_bytes: made up,
   lossless_priorities: made up}
"""


def _row(model: SwitchModel) -> str:
    systems = (
        f"{system} from {'.'.join(map(str, first))}" if (first := model.first_release.get(system))
        else system
        for system in model.ports
    )  # fmt: skip
    splits = (
        split.mode + (", and the next port is gone" if split.blocks_next else "")
        + (f" ({', '.join(split.systems)})" if split.systems else "")
        for split in model.splits
    )  # fmt: skip
    count = len(next(iter(model.ports.values())))
    ports = f"{count} of {model.speed_gbit_s}"
    if model.slow_ports:
        slow = len(model.slow_ports) // len(model.ports)
        fast = f"{count - slow} of {model.speed_gbit_s}"
        ports = f"{slow} of {max(model.slow_ports.values())}, {fast}"
    lossless = "all" if "mlnxos" in model.ports else str(model.max_lossless_priorities)
    said = ", ".join(systems), ports, "; ".join(splits) or "none", lossless
    cells = (model.name, model.asic, *said)
    return f"| {' | '.join(cells)} |\n"


def _plain_row(name: str) -> str:
    model = find_plain(name)
    assert model is not None
    names = "; ".join(f"`{half[0]}` to `{half[-1]}`" for half in model.halves)
    ports = f"{len(model.ports)} of {max(model.speeds_gbit_s)}"
    return f"| {name} | {model.asic} | {model.runs} | {ports} | {names} |\n"


def test_the_page_has_every_model() -> None:
    text = HEAD + "".join(_row(model) for model in MODELS.values())
    text += PLAIN + "".join(_plain_row(name) for name in list_plain())
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run `make goldens` and read the difference"


def test_a_file_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of code knows the name."""
    (tmp_path / "X9.yaml").write_text(NEW, encoding="utf-8")
    monkeypatch.setattr(MODELS, "folders", (FOLDER, tmp_path))
    monkeypatch.setattr("lab.switches.front.FOLDERS", (FOLDER, tmp_path))
    model = find_model("X9")
    assert model is not None
    assert model.capability_line() == (
        "X9 (Spectrum-9): 4 ports of 1600 Gbit/s or split into 2 of 800, 8 of 200; 99 MB of "
        "buffer; 2 lossless priorities; runs cumulus from 5.9 with MTU 552-9000 or sonic with MTU "
        "68-9000"
    )
    assert (model.ports["cumulus"][-1], model.ports["sonic"][-1]) == ("swp4", "Ethernet3")
    assert model.headroom_length("sonic", 6) == 40
    assert [model.has_port("cumulus", f"swp{each}") for each in ("1s0", "2s1", "3s7", "4s7")] == [
        *(False, True, True, False)
    ]
    assert model.blocked_by("cumulus", "swp3", 8) == "swp4"
    assert model.blocked_by("cumulus", "swp3", 2) is None
    assert "X9" in str(render_schema())
    assert (front_of("X9", "cumulus").ports, front_of("X9", "cumulus").speed(1)) == (4, 25)
    text = SITE.read_text(encoding="utf-8").replace("model: SN2700", "model: X9")
    text = text.replace("os: onyx", "os: cumulus").replace("3.9.2504", "5.9.2")
    for number in range(1, 5):
        text = text.replace(f'"1/{number}"', f"swp{number}")
    spec = parse_site(text, "site.yaml").spec
    assert spec is not None
    assert [*plan_fabric(spec)[0].desired.ports] == ["swp1", "swp2", "swp3", "swp4"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("buffer_mb: 99", "buffers_mb: 99", "buffers_mb"),
        ("asic: made up, ", "", "not for: asic"),
        ("asic: made up, ", "asic: made up, lasic: made up, ", "not for: lasic"),
        ("mode: 2x800", "mode: 2x3200", "cannot be split as 2x3200"),
        ("mode: 2x800", "mode: 3x800", "cannot be split as 3x800"),
        ("mode: 2x800", "mode: two", "String should match pattern"),
        ("speeds_gbit_s: [400, 1600]", "speeds_gbit_s: []", "at least 1 item"),
    ],
)
def test_a_file_that_is_not_sound_is_refused(
    old: str, new: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in NEW
    (tmp_path / "X9.yaml").write_text(NEW.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(MODELS, "folders", (FOLDER, tmp_path))
    with pytest.raises(ValidationError, match=words):
        find_model("X9")


def test_a_name_with_a_path_is_no_model() -> None:
    assert find_model("../models/SN2700") is None


@pytest.mark.parametrize("name", MODELS)
def test_each_system_of_a_model_is_one(name: str) -> None:
    model = MODELS[name]
    assert {*model.ports} <= {*SWITCH_SYSTEMS}
    assert all({*(split.systems or ())} <= {*model.ports} for split in model.splits)


@pytest.mark.parametrize(
    ("name", "count", "fastest", "first", "last"),
    [
        ("QM8790", 40, 200, "1/1", "1/40"),
        ("QM9790", 64, 400, "1/1/1", "1/32/2"),
        ("QM9700", 64, 400, "1/1/1", "1/32/2"),
        ("Q3400-RA", 144, 800, "sw1p1", "sw72p2"),
        ("Q3200-RA", 72, 800, "swA1p1", "swB18p2"),
    ],
)
def test_a_switch_without_a_login_has_ports(
    name: str, count: int, fastest: int, first: str, last: str
) -> None:
    model = find_plain(name)
    assert model is not None
    assert (len(model.ports), max(model.speeds_gbit_s)) == (count, fastest)
    assert (model.ports[0], model.ports[-1]) == (first, last)


def test_an_ethernet_switch_is_none_of_the_fabric() -> None:
    assert find_plain("SN5600") is None
    assert find_plain("Q3450-LD") is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ports": 5}, "its names are of 4 ports, and it has 5"),
        ({"sources": {}}, "not for: asic, names, ports, runs, speeds_gbit_s"),
        ({"login": "none"}, "login"),
    ],
)
def test_such_a_file_that_is_not_sound_is_refused(changes: dict[str, object], words: str) -> None:
    facts: dict[str, object] = {
        "asic": "X",
        "runs": "no system",
        "names": ["p[1-2]", "q[1-2]"],
        "ports": 4,
        "speeds_gbit_s": [800],
    }
    sound = facts | {"sources": dict.fromkeys(facts, "made up")}
    assert [*PlainSwitch.model_validate(sound).ports] == ["p1", "p2", "q1", "q2"]
    with pytest.raises(ValidationError, match=words):
        PlainSwitch.model_validate(sound | changes)

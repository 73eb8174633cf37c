"""What a device says never acts on a terminal: escape codes and invisible characters are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.write import write_report
from components.cli.app import say
from components.core.difference import Difference, ForeignSetting, RoutingFault
from components.core.plain_text import plain_text
from components.fabric.cabling import CableEnd, find_wrong_cables
from components.fabric.state import Neighbour
from components.kubernetes.live.compare import FieldDrift
from components.kubernetes.live.look import ObjectDrift
from components.remote.ssh import cut_off
from components.remote.step import Endpoint
from tests.lab_physics.site import Site, take_evidence

CLEARS = "gpu01\x1b[2J\x1b]0;owned\x07"
SHOWN = r"gpu01\x1b[2J\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (CLEARS, SHOWN),
        ("a\rb", r"a\rb"),
        ("\x9b31m", r"\x9b31m"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("half \ud83d", r"half \ud83d"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Zürich, 東京, 1.5 µs ≥ 3", "Zürich, 東京, 1.5 µs ≥ 3"),
    ],
)
def test_what_a_terminal_obeys_is_shown(text: str, shown: str) -> None:
    assert plain_text(text) == shown
    assert plain_text(shown) == shown, "a text that was shown once is not changed again"


def test_a_command_prints_no_escape_code(capsys: pytest.CaptureFixture[str]) -> None:
    say(CLEARS)
    say(CLEARS, err=True)
    assert capsys.readouterr() == (SHOWN + "\n", SHOWN + "\n")


FORGES = "gpu01\nleaf-02: drift: faked line"


@pytest.mark.parametrize(
    "said",
    [
        Difference("host", "hostname", FORGES, "gpu01"),
        ForeignSetting("host.guard", Difference("host", "x", FORGES, "y"), FORGES, FORGES),
        RoutingFault(FORGES, FORGES, FORGES),
        FieldDrift("metadata.labels", FORGES, "gpu01"),
        ObjectDrift("Node gpu01", (FieldDrift("", FORGES, FORGES),)),
        find_wrong_cables(
            {"1/1": CableEnd(text="gpu01/rail-0", system="gpu01")},
            {"1/1": Neighbour(system=FORGES)},
        )[0],
        cut_off(Endpoint("gpu01", "host", "gpu01", 22, "root", ""), OSError(FORGES), 1.0),
    ],
    ids=lambda said: type(said).__name__,
)
def test_no_device_can_forge_a_line_of_drift_or_a_preview(said: object) -> None:
    text = str(said)
    assert "drift: faked line" in text
    assert text.splitlines() == [text]


def test_a_difference_is_plain_in_drift_and_repair_notes() -> None:
    assert "\x1b" not in str(Difference("host", "hostname", CLEARS, "gpu01"))


def test_no_file_of_a_report_has_an_escape_code(tmp_path: Path) -> None:
    evidence = take_evidence(Site()).model_copy(update={"cluster": CLEARS})
    write_report(judge_evidence(evidence), tmp_path)
    for file in ("report.html", "report.md", "report.ctrf.json"):
        text = (tmp_path / file).read_text()
        assert "\x1b" not in text, file
        assert "\x07" not in text, file
    assert "owned" in (tmp_path / "report.html").read_text()

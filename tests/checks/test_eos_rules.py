"""Where the rules on EOS switches begin and end; the reports are in tests/cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from components.fabric.fabric_plan import plan_fabric
from tests.checks.cases import CLEAN

EOS = (
    ("    os: onyx", "    os: eos"),
    ("model: SN2700", "model: DCS-7060DX5-64S"),
    ("release: 3.9.2504", "release: 4.32.1F"),
    ("mtu_bytes: 9000", "mtu_bytes: 9000, port_mtu_bytes: 9214"),
    *((f'"1/{number}"', f"Ethernet{number}/1") for number in range(1, 5)),
)


def _site(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = CLEAN.read_text()
    for old, new in (*EOS, *changes):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ((), set[str]()),
        ((("4.32.1F", "4.28.0F"),), set[str]()),
        ((("4.32.1F", "4.27.12M"),), {"switch-release"}),
        ((("release: 4.32.1F", "release: 3.9.2504"),), {"switch-release"}),
        ((("lossy_ecn", "lossless"),), set[str]()),
        ((("lossy_ecn", "lossless, pfc_watchdog: true"),), set[str]()),
        ((("lossy_ecn", "lossy_ecn, pfc_watchdog: true"),), {"pfc-watchdog"}),
        (
            (
                (
                    "lossy_ecn, dscp: 26",
                    "lossless, dscp: 34",
                ),
            ),
            set[str](),
        ),
        (
            (
                (
                    "lossy_ecn, dscp: 26",
                    "lossless, dscp: 0",
                ),
            ),
            {"pfc-priority"},
        ),
        ((("Ethernet4/1", "Ethernet64/1"),), set[str]()),
        ((("Ethernet4/1", "Ethernet65/1"),), {"port-capability"}),
        ((("Ethernet4/1", "Ethernet4/5"),), set[str]()),
        ((("Ethernet4/1", "Ethernet4/9"),), {"port-capability"}),
        ((("Ethernet4/1", "Ethernet4"),), {"port-capability"}),
        ((("9214", "9215"),), {"port-capability"}),
        ((("DCS-7060DX5-64S", "DCS-7060DX5-64"),), {"switch-model"}),
    ],
)
def test_boundaries(tmp_path: Path, changes: tuple[tuple[str, str], ...], rules: set[str]) -> None:
    problems = load_checked_site(_site(tmp_path, *changes)).problems
    assert {problem.rule for problem in problems} == rules


def test_what_the_rules_let_through_can_be_planned(tmp_path: Path) -> None:
    site = load_checked_site(_site(tmp_path))
    assert site.spec is not None
    assert plan_fabric(site.spec)[0].os == "eos"

"""Where the rules on Cumulus switches begin and end; the reports are in tests/cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from components.fabric.fabric_plan import plan_fabric
from tests.checks.cases import CLEAN, ROOT

CUMULUS = (
    ("    os: onyx", "    os: cumulus"),
    ("release: 3.9.2504", "release: 5.9.2"),
    *((f'"1/{number}"', f"swp{number}") for number in range(1, 5)),
)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ((), set[str]()),
        ((("release: 5.9.2", 'release: "5.0"'),), set[str]()),
        ((("release: 5.9.2", "release: 4.4.5"),), {"switch-release"}),
        ((("release: 5.9.2", "release: 4.2.1"),), {"switch-release"}),
        ((("lossy_ecn", "lossless"),), set[str]()),
        # 5 % of 150,000 bytes: 140 to 153 KiB. Others need a profile of the port, from 5.4 on.
        *(
            ((("mtu_bytes: 9000", f"{said}, mtu_bytes: 9000"), ("5.9.2", release)), rules)
            for said, release, rules in (
                ("ecn_min_kib: 140", "5.3.0", set[str]()),
                ("ecn_min_kib: 153", "5.3.0", set[str]()),
                ("ecn_min_kib: 139", "5.3.0", {"queue-setting"}),
                ("ecn_max_kib: 1539", "5.3.0", {"queue-setting"}),
                ("ecn_mark_percent: 20", "5.3.0", {"queue-setting"}),
                ("schedule: {shares: {0: 50, 3: 50}}", "5.3.0", {"queue-setting"}),
                ("ecn_min_kib: 139", "5.4.0", set[str]()),
                ("ecn_mark_percent: 20", "5.4.0", set[str]()),
                ("schedule: {shares: {0: 50, 3: 50}}", "5.4.0", set[str]()),
            )
        ),
        (
            (("dscp: 26", "dscp: 26, cnp_dscp: 40"),),
            {"cumulus-profile"},
        ),
        ((("swp4", "swp33"),), {"port-capability"}),
        ((("swp2", "swp1s0"),), {"port-capability"}),
        # A quarter of the port is there, and too slow for the NIC.
        ((("swp2", "swp2s3"),), {"port-capability"}),
        ((("mtu_bytes: 9000", "port_mtu_bytes: 9217, mtu_bytes: 9000"),), {"port-capability"}),
    ],
)
def test_boundaries(tmp_path: Path, changes: tuple[tuple[str, str], ...], rules: set[str]) -> None:
    text = CLEAN.read_text()
    for old, new in (*CUMULUS, *changes):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "site.yaml"
    path.write_text(text)
    assert {problem.rule for problem in load_checked_site(path).problems} == rules


def test_the_example_is_clean_and_plans_every_port() -> None:
    checked = load_checked_site(ROOT / "examples" / "esxi-roce" / "cumulus.yaml")
    assert checked.problems == ()
    assert checked.spec is not None
    plan = plan_fabric(checked.spec)[0]
    assert [*plan.desired.ports] == ["swp1", "swp2", "swp3", "swp4"]
    assert "nv set qos roce mode lossless" in plan.commands_from_factory

"""What a site leaves alone is said, and changes nothing of what is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.checks.site import load_checked_site
from components.cli.group import app
from components.model.owners import left_alone
from components.plan.make import ClusterPlan, make_plan
from components.plan.text import render_plan
from tests.golden.site import EXAMPLES

OTHER = """other_switches:
  - {name: mgmt-01, network: management, model: SN2201, ports: {swp1: gpu01/bond0}}
  - {name: nas-01, network: storage, ports: {swp1s0: "bond0 of gpu01, 802.3ad"}}
"""


@pytest.mark.parametrize("example", ["quantum-ib", "dgx-roce"])
def test_other_switches_are_named_and_left_alone(tmp_path: Path, example: str) -> None:
    text = (EXAMPLES / example / "site.yaml").read_text(encoding="utf-8")
    plans: list[ClusterPlan] = []
    for name, more in (("without", ""), ("with", OTHER)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text + more, encoding="utf-8")
        checked = load_checked_site(path)
        assert checked.problems == ()
        plans.append(make_plan(checked.spec_or_raise(), "dev"))
    without, with_others = plans
    assert with_others.digest == without.digest
    shown = render_plan(with_others)
    assert "# left alone: mgmt-01 (management switch)" in shown
    assert "# left alone: nas-01 (storage switch)" in shown
    assert "mgmt-01" not in render_plan(without)
    assert "bonds, management, storage" in render_plan(without)


def test_check_says_what_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text((EXAMPLES / "quantum-ib" / "site.yaml").read_text() + OTHER)
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 1, "its artefacts are not pinned"
    assert "Left alone: mgmt-01 (management switch); nas-01 (storage switch); " in done.output


def test_parts_of_others_in_the_cluster_are_said() -> None:
    checked = load_checked_site(EXAMPLES / "shared-rdma/theirs.yaml")
    assert left_alone(checked.spec_or_raise())[-1] == (
        "owned by others in the cluster, and read: Multus, whereabouts, the reference CNI plugins, "
        "RDMA shared device plugin, GPU operator, MPI operator"
    )

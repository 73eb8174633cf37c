"""An edit that makes a program run here is said first, and its arguments are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.checks.site import load_checked_site
from components.model.cluster import ClusterSpec
from components.preview.from_plans import added_programs, programs_of
from tests.golden.site import EXAMPLES
from tests.graph.example_sites import NAMES, example_spec
from tests.preview.edits import SITE, before

TOKEN = "s3cr3t-token"


def _edited(tmp_path: Path, change: dict[str, Any]) -> ClusterSpec:
    document = yaml.safe_load(SITE.read_text())
    for key, value in change.items():
        place: Any = document
        *way, last = key.split("/")
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        place[last] = value
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(document))
    return load_checked_site(file).spec_or_raise()


def test_a_command_for_a_secret_is_a_program(tmp_path: Path) -> None:
    vault = {"command": ["vault", "kv", "get", f"-token={TOKEN}"]}
    after = _edited(tmp_path, {"hosts/1/ssh/private_key": vault})
    (alarm,) = added_programs(before(), after)
    assert alarm.startswith(
        "this edit adds a program: vault of hosts[1].ssh.private_key.command runs on the machine"
    )
    assert TOKEN not in alarm
    assert added_programs(after, after) == ()
    other = _edited(tmp_path, {"hosts/1/ssh/private_key": {"command": ["vault", "-exec", "x"]}})
    (again,) = added_programs(after, other)
    assert again == alarm.replace("program:", "program, one of before with other arguments:")


def test_a_chart_of_the_project_is_named() -> None:
    spec = before()
    assert spec.operators.gpu is not None
    own = spec.operators.gpu.chart.model_copy(update={"chart": "charts/own", "repo": None})
    gpu = spec.operators.gpu.model_copy(update={"chart": own})
    after = spec.model_copy(update={"operators": spec.operators.model_copy(update={"gpu": gpu})})
    (alarm,) = added_programs(spec, after)
    assert "the chart charts/own of operators.gpu is a folder of this project" in alarm


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("dgx-roce/kubespray.yaml", "python3 of kubernetes.python"),
        ("dgx-roce/kubespray.yaml", "kubespray v2.31.0 of kubernetes.source"),
        ("shared-rdma/existing.yaml", "a user of kubernetes.kubeconfig may name one with `exec`"),
    ],
)
def test_each_kind_of_program_is_found(file: str, words: str) -> None:
    spec = load_checked_site(EXAMPLES / file).spec_or_raise()
    assert any(words in alarm for alarm in added_programs(before(), spec))
    assert added_programs(spec, spec) == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_site_without_programs_has_none(name: str) -> None:
    spec = example_spec(name)
    if spec.k3s is not None:
        assert programs_of(spec) == {}

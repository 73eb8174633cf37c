"""The pipelines that post a preview: what a fork can reach, and that a comment is found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from components.preview.report import MARKER

ROOT: Final = Path(__file__).parents[2]
GITHUB: Final = ROOT / ".github" / "workflows" / "preview.yml"
GITLAB: Final = ROOT / "ci" / "gitlab-preview.yml"


def test_a_forks_code_never_runs_with_secrets() -> None:
    workflow: dict[Any, Any] = yaml.safe_load(GITHUB.read_text())
    assert workflow[True] == "pull_request"  # YAML reads the key `on` as true
    steps = workflow["jobs"]["preview"]["steps"]
    with_secrets = [step for step in steps if "secrets." in str(step.get("env", {}))]
    assert [step["if"] for step in with_secrets] == ["env.HAS_STATE == 'true'"]
    (posting,) = [step for step in steps if "GH_TOKEN" in step.get("env", {})]
    assert "head.repo.full_name == github.repository" in posting["if"]
    checkout = next(step for step in steps if "checkout" in step.get("uses", ""))
    assert checkout["with"]["persist-credentials"] is False


def test_both_find_their_own_comment_by_the_marker() -> None:
    for pipeline in (GITHUB, GITLAB):
        assert f'startswith("{MARKER}")' in pipeline.read_text(), pipeline.name


def test_nothing_of_a_pull_request_is_put_into_a_shell_by_text() -> None:
    workflow = yaml.safe_load(GITHUB.read_text())
    for step in workflow["jobs"]["preview"]["steps"]:
        assert "${{" not in step.get("run", ""), step

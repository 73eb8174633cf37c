"""The pipelines that post a preview: who reads a secret, what is pinned, whose note is edited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.preview.report import MARKER

ROOT: Final = Path(__file__).parents[2]
GITHUB: Final = ROOT / ".github" / "workflows" / "preview.yml"
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITLAB: Final = ROOT / "ci" / "gitlab-preview.yml"
_CODE: Final = ("checkout", "railyard preview", "pip install")
"""What brings or runs code of a pull request."""


def _jobs() -> dict[str, dict[str, Any]]:
    workflow: dict[Any, Any] = yaml.safe_load(GITHUB.read_text())
    assert workflow[True] == "pull_request"  # YAML reads the key `on` as true
    assert workflow["permissions"] == {}
    return workflow["jobs"]


def _runs_code(job: object) -> bool:
    return any(word in str(job) for word in _CODE)


def test_only_a_protected_environment_has_secrets() -> None:
    jobs = _jobs()
    with_secrets = [name for name, job in jobs.items() if "secrets." in str(job)]
    assert with_secrets == ["state"]
    assert jobs["state"]["environment"] == "railyard-preview"
    assert "vars.RAILYARD_STATE_PREVIEW == 'true'" in jobs["state"]["if"]
    assert "head.repo.full_name == github.repository" in jobs["state"]["if"]


def test_no_job_has_both_code_of_a_pull_request_and_a_right_to_write() -> None:
    for name, job in _jobs().items():
        writes = "write" in job["permissions"].values()
        assert not (writes and _runs_code(job)), name
        assert writes == ("github.token" in str(job)), name
    assert _runs_code(_jobs()["plan"])  # the words that are looked for are the right ones


def test_the_default_comment_needs_no_secret() -> None:
    jobs = _jobs()
    assert jobs["comment"]["needs"] == "plan"
    assert "--against" in str(jobs["plan"])
    assert "secrets." not in str((jobs["plan"], jobs["comment"]))


def test_a_checkout_keeps_no_token() -> None:
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                if "checkout" in step.get("uses", ""):
                    assert step["with"]["persist-credentials"] is False, path.name


@pytest.mark.parametrize("path", [*WORKFLOWS, GITLAB], ids=lambda path: path.name)
def test_nothing_is_piped_into_a_shell_and_actions_are_pinned_by_commit(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\|\s*(ba|da)?sh\b", text)
    used = re.findall(r"uses:\s*(\S+)", text)
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used), used
    assert all("--require-hashes" in line or "--no-deps" in line
               for line in text.splitlines() if "pip install" in line)  # fmt: skip
    if "pulumi-v" in text:
        assert "sha256sum --check --strict" in text


def test_a_preview_in_gitlab_hands_no_variable_to_the_code_of_a_change() -> None:
    document: dict[str, dict[str, Any]] = yaml.safe_load(GITLAB.read_text())
    for name in ("railyard-plan", ".railyard-code"):
        assert "TOKEN" not in str(document[name])
        assert "environment" not in document[name]
    assert document["railyard-state"]["environment"]["name"] == "railyard-preview"
    assert document["railyard-state"]["rules"][0]["when"] == "manual"
    note = document["railyard-note"]
    assert not _runs_code(note)
    assert note["variables"] == {"GIT_STRATEGY": "none"}


def test_both_find_their_own_comment_by_its_author_and_the_marker() -> None:
    for pipeline in (GITHUB, GITLAB):
        assert f'startswith("{MARKER}")' in pipeline.read_text(), pipeline.name
    assert '.user.login == "github-actions[bot]"' in GITHUB.read_text()
    assert 'n["author"]["id"] == int(os.environ["OWN"])' in GITLAB.read_text()


def test_nothing_of_a_pull_request_is_put_into_a_shell_by_text() -> None:
    for job in _jobs().values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step


def test_the_table_of_licences_lists_each_file_of_others() -> None:
    page = (ROOT / "docs" / "reference" / "licences.md").read_text()
    listed = set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE))
    folder = ROOT / "components"
    shipped = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("vendor/*")
        if path.name != "README.md"
    }
    assert listed == shipped


def test_no_job_of_a_release_has_both_our_code_and_a_right_to_write() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow["permissions"] == {}
    jobs: dict[str, dict[str, Any]] = workflow["jobs"]
    order = ["build", "try", "attest", "release", "publish"]
    assert [*jobs] == order
    assert [jobs[name].get("needs", "") for name in order] == ["", *order[:-1]]
    for name, job in jobs.items():
        writes = "write" in job["permissions"].values()
        assert writes == (name in order[2:]), name
        runs = any(word in str(job) for word in (*_CODE, "make dist", "bin/railyard"))
        assert runs != writes, name
    assert [n for n in order if "environment" in jobs[n]] == ["release", "publish"]
    assert "secrets." not in str(jobs)

"""The pipelines that post a preview: who reads a secret, what is pinned, whose note is edited."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
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


def _catalogue(job: str) -> tuple[dict[str, Any], str]:
    """A job of the workflow that renews the catalogue, and its last script."""
    path = ROOT / ".github" / "workflows" / "catalogue.yml"
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {}
    assert re.fullmatch(r"\d+ \d+ \* \* 1", workflow[True]["schedule"][0]["cron"])
    found = workflow["jobs"][job]
    return found, [step["run"] for step in found["steps"] if "run" in step][-1]


def test_the_catalogue_is_proposed_by_a_job_that_may_only_read() -> None:
    job, script = _catalogue("propose")
    assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in str(job)
    assert "token" not in str(job).replace("persist-credentials", "")
    (module,) = re.findall(r"python -m (\S+)", script)
    assert find_spec(module) is not None
    assert f"-m {module}\n" in (ROOT / "Makefile").read_text()  # as `make catalogue` does


@pytest.mark.parametrize(("status", "ends", "told"), [(0, 0, "false"), (1, 0, "true"), (4, 4, "")])
def test_the_catalogue_is_behind_only_if_its_makers_say_so(
    tmp_path: Path, status: int, ends: int, told: str
) -> None:
    program = tmp_path / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho a diff\necho 1 behind >&2\nexit {status}\n")
    program.chmod(0o755)
    done = _shell(_catalogue("propose")[1], tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"))
    assert done.returncode == ends
    output = tmp_path / "output"
    assert (output.read_text() if told else "") == (f"behind={told}\n" if told else "")
    assert (tmp_path / "proposal.diff").read_text() == "a diff\n"


@pytest.mark.parametrize(("number", "does"), [("", "pr create --base main"), ("12", "pr edit 12")])
def test_the_proposal_is_one_pull_request_about_the_catalogue_alone(
    tmp_path: Path, number: str, does: str
) -> None:
    job, script = _catalogue("pull-request")
    assert job["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert not any(word in str(job["steps"][-1]) for word in ("-m ci", ".venv", "pip "))
    clone, file = _clone(tmp_path), "components/catalogue/upstream.py"
    (clone / "proposal").mkdir()
    (clone / "proposal/said.txt").write_text("1 behind\n")
    (clone / "proposal/proposal.diff").write_text(
        f"{file}:1: MULTUS v1 -> v2 (https://example.com)\n\n"
        f"--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-MULTUS = 1\n+MULTUS = 2\n"
        "--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-good\n+evil\n"
    )
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n[ "$2" != list ] || echo "{number}"\n'
    )
    gh.chmod(0o755)
    path = f"{gh.parent}:{os.environ['PATH']}"
    done = _shell(script, clone, PATH=path, HOME=str(tmp_path), BASE="main", GH_TOKEN="x")
    assert done.returncode == 0, done.stderr
    pushed = ("git", "-C", tmp_path / "origin", "show", "--format=%s", "--stat=200")
    shown = subprocess.run(
        [*pushed, "catalogue-refresh"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("catalogue: take newer releases from their makers' lists\n")
    assert " 1 file changed, 1 insertion(+), 1 deletion(-)" in shown.stdout
    assert f" {file} " in shown.stdout
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[-1].startswith(does)
    body = (clone / "proposal/body.md").read_text()
    assert f"1 behind\n{file}:1: MULTUS v1 -> v2" in body


def _shell(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does: `bash -e` with pipefail."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    environment = {**os.environ, **more}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _clone(folder: Path) -> Path:
    """A clone of a repository with a catalogue and another file."""
    origin, clone = folder / "origin", folder / "clone"
    (origin / "components" / "catalogue").mkdir(parents=True)
    (origin / "components/catalogue/upstream.py").write_text("MULTUS = 1\n")
    (origin / "setup.py").write_text("good\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for words in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", "-C", origin, *who, *words], check=True)
    subprocess.run(["git", "clone", "-q", origin, clone], check=True)
    return clone

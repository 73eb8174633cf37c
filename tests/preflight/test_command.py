"""`railyard preflight`: its arguments, its forms and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from components.artefacts.lock import Lock, write_lock
from components.cli import discover as cli
from components.core.problem import Finding, on_device
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.preflight.report import Preflight
from tests.cli.conftest import Call, railyard
from tests.golden.site import EXAMPLES, load_example
from tests.graph.locked import lock_of

__all__ = ["railyard"]
SITE = EXAMPLES / "dgx-roce" / "site.yaml"
CLOCK = on_device("gpu01", "clock", "the clock differs.", "2 h behind", "within 1 s", "run chrony")


class Looked:
    """Stands in for the one call that talks to devices; keeps what it was given."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.findings: tuple[Finding, ...] = ()

    def __call__(
        self,
        spec: ClusterSpec,
        plan: ClusterPlan,
        secrets: dict[str, str],
        applied: Applied,
        *beside: Path | Lock,
    ) -> Preflight:
        del plan, applied
        project, lock = beside
        assert isinstance(project, Path)
        assert project.is_dir()
        assert isinstance(lock, Lock)
        self.secrets = secrets
        return Preflight(spec.name, ("gpu01",), self.findings)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    found = Looked()
    monkeypatch.setattr(cli, "run_preflight", found)
    return found


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """The site with a lock of whatever checksums."""
    site = tmp_path / "site.yaml"
    site.write_text(SITE.read_text())
    write_lock(tmp_path / "site.lock.yaml", lock_of(load_example("dgx-roce")).entries)
    return site


def test_what_an_update_refuses_as_unpinned_is_a_problem(railyard: Call, looked: Looked) -> None:
    assert not looked.findings
    done = railyard("preflight", str(SITE))
    assert done.code == 1
    assert "unpinned: not everything that the site brings has a checksum" in done.out
    assert "k3s, k3s-install-script, gpu-operator, ghcr.io/" in done.out
    assert f"run `railyard pin {SITE}`" in done.out


def test_a_file_needs_no_stack(
    railyard: Call, looked: Looked, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_SECRET_SWITCH_PASSWORD", "pw")
    done = railyard("preflight", str(pinned))
    assert (done.code, done.err) == (0, "")
    assert looked.secrets["switch_password"] == "pw"
    assert "no problem (1 device read)" in done.out


def test_problems_are_exit_1_and_a_missing_answer_is_4(railyard: Call, looked: Looked) -> None:
    looked.findings = (CLOCK,)
    assert railyard("preflight", str(SITE)).code == 1
    looked.findings = (
        CLOCK,
        on_device("gpu02", "reach", "no.", "a", "b", "c").rated("unreachable"),
    )
    assert railyard("preflight", str(SITE)).code == 4


def test_the_forms_go_to_a_file_where_one_is_named(
    railyard: Call, looked: Looked, pinned: Path, tmp_path: Path
) -> None:
    looked.findings = (CLOCK,)
    shown = json.loads(railyard("preflight", str(pinned), "--format", "json").out)
    assert shown["findings"][0]["rule"] == "clock"
    page = tmp_path / "page.html"
    done = railyard("preflight", str(SITE), "--format", "html", "--out", str(page))
    assert done.code == 1
    assert page.read_text().startswith("<!doctype html>")
    assert f"report: {page}" in done.out
    nowhere = railyard("preflight", str(SITE), "--out", str(tmp_path / "none" / "x"))
    assert nowhere.code == 2
    assert "cannot be written" in nowhere.err


def test_a_wrong_file_is_refused_before_any_look(
    railyard: Call, looked: Looked, tmp_path: Path
) -> None:
    wrong = tmp_path / "site.yaml"
    wrong.write_text("name: x\n")
    assert railyard("preflight", str(wrong)).code == 1
    assert railyard("preflight", str(tmp_path / "none.yaml")).code == 2
    assert looked.secrets == {}


@pytest.mark.parametrize("command", ["preflight", "drift", "preview"])
def test_a_real_stack_on_the_labs_parts_is_refused_by_each_command(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked: Looked, command: str
) -> None:
    config = {"railyard:cluster": {"value": json.dumps(yaml.safe_load(SITE.read_text()))}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    program = tmp_path / "pulumi"
    program.write_text('#!/bin/sh\necho "$1" >>calls\n[ "$1" = config ] && cat config.json\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "railyard-lab")
    done = railyard(command, "prod")
    assert (done.code, done.out) == (2, "")
    assert "stack prod does not belong to the lab, but would use parts of the lab" in done.err
    assert "the lab's passphrase, which is public" in done.err
    assert (tmp_path / "calls").read_text() == "config\n"  # no state was read
    assert looked.secrets == {}

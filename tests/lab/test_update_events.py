from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lab import update_events
from lab.update_events import Update, follow_update, name_of, progress_of, stage_of

HERE = Path(__file__).parent
URN = (
    "urn:pulumi:dev::railyard::railyard:pod_network:PodNetwork$kubernetes:apps/v1:DaemonSet::multus"
)


def follow(
    recorded: str, status: int | str, folder: Path, pieces: int = 7, stuck_s: float = 60.0
) -> Update:
    log = HERE / "recorded" / f"{recorded}.jsonl"
    command = [sys.executable, str(HERE / "replay.py"), str(log), str(status), str(pieces)]
    return follow_update(command, folder, os.environ, folder, stuck_s)


@pytest.mark.parametrize("pieces", [1, 7, 500])
def test_a_first_update(tmp_path: Path, pieces: int) -> None:
    update = follow("create", 0, tmp_path, pieces)
    assert update.succeeded
    assert {stage: dict(counts) for stage, counts in update.changes.items()} == {
        "stack": {},
        "fabric": {"created": 2},
        "hosts": {"created": 2},
        "kubernetes": {"created": 1},
    }
    assert update.changed == 5
    assert update.messages == ["ports: 1/5 has no cable"]


def test_every_finished_step_has_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    follow("create", 0, tmp_path)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["fabric", "leaf-01-baseline", "created"],
        ["fabric", "leaf-01-apply", "created"],
        ["hosts", "gpu01-host", "created"],
        ["hosts", "gpu02-host", "created"],
        ["kubernetes", "mgmt01-k3s", "created"],
    ]
    assert all(line.endswith(" s") for line in lines)


def test_a_failing_step_is_named_with_its_reason_and_without_its_script(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    update = follow("step_fails", 1, tmp_path)
    assert not update.succeeded
    assert update.messages == ["gpu02-host: exit status 3:\ngpu02: the card has only 4 VFs"]
    assert dict(update.changes["hosts"]) == {"same": 1, "failed": 1}
    assert dict(update.changes["fabric"]) == {"same": 1, "updated": 1}
    out = capfd.readouterr().out
    assert "  leaf-01: drift: mtu_bytes of port 1/2 is 1500, want 9216\n" in out
    assert [line.split() for line in out.splitlines() if "FAILED" in line] == [
        ["hosts", "gpu02-host", "FAILED"]
    ]


def test_what_was_skipped_after_a_failure_is_not_counted(tmp_path: Path) -> None:
    update = follow("step_fails", 1, tmp_path)
    assert sum(update.changes["kubernetes"].values()) == 0


def test_an_engine_that_ends_without_a_word_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    script = "import sys; print('error: no stack named dev'); sys.exit(255)"
    update = follow_update([sys.executable, "-c", script], tmp_path, os.environ, tmp_path)
    assert (update.exit_code, update.changed) == (255, 0)
    assert update.messages == ["error: no stack named dev"]


def test_the_log_of_an_earlier_update_is_not_read(tmp_path: Path) -> None:
    follow("create", 0, tmp_path)
    script = [sys.executable, "-c", "pass"]
    assert follow_update(script, tmp_path, os.environ, tmp_path).changes == {}


@pytest.mark.parametrize(
    ("urn", "stage"),
    [
        (URN, "pod_network"),
        ("urn:pulumi:dev::railyard::railyard:fabric:Fabric::fabric", "fabric"),
        ("urn:pulumi:dev::railyard::pulumi:pulumi:Stack::railyard-dev", "stack"),
        ("urn:pulumi:dev::railyard::pulumi:providers:command::default", "stack"),
    ],
)
def test_stages_come_from_the_components(urn: str, stage: str) -> None:
    assert stage_of(urn) == stage
    assert name_of(URN) == "multus"


def test_an_engine_that_hangs_behind_a_failed_step_is_ended(tmp_path: Path) -> None:
    update = follow("step_fails", "hang", tmp_path, stuck_s=0.5)
    assert not update.succeeded
    assert "the engine did not come to its end after the failed step" in update.messages[-1]
    assert "only deletions are left to do" in update.messages[-1]


EVIDENCE = (
    "urn:pulumi:dev::railyard::railyard:acceptance:Acceptance$command:local:Command"
    "::acceptance-evidence"
)


def test_what_acceptance_waits_for_is_shown_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update_events, "QUIET_S", -1.0)
    screen = vars(update_events)["_Screen"](60.0, tmp_path)
    screen.running[EVIDENCE] = screen.last_word
    for number, words in ((3, "of a killed run"), (4, "probe 3 of 12, nccl: pod a waits")):
        file = tmp_path / f"run-000{number}" / "progress.txt"
        file.parent.mkdir()
        file.write_text(f"acceptance: {words}\n")
        os.utime(file, (number, number))
    screen.tick()
    shown = capfd.readouterr().out.splitlines()
    assert shown[0].startswith("  ... working on acceptance-evidence (")
    assert shown[1:] == ["      acceptance: probe 3 of 12, nccl: pod a waits"]
    screen.running = {URN: screen.last_word}
    screen.tick()
    assert "acceptance" not in capfd.readouterr().out, "another step runs"


def test_a_run_that_says_nothing_has_no_line(tmp_path: Path) -> None:
    assert progress_of(tmp_path / "none") == ""

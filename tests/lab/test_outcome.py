from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from components.acceptance.evidence import dump_evidence
from components.model.cluster import ClusterSpec
from lab import outcome
from lab.update_events import Update
from tests.golden.site import changed_spec, load_example
from tests.lab_physics.site import Site, take_evidence

OUTLINE = outcome.outline_of(load_example("dgx-roce"))


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> io.StringIO:
    """The table as text; reports are looked for in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = io.StringIO()
    monkeypatch.setattr(outcome, "console", Console(file=text, width=120))
    return text


def put_evidence(stack: str) -> None:
    folder = Path(".railyard") / stack / "run-0007"
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_text(dump_evidence(take_evidence(Site())))


def rows(screen: io.StringIO) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in screen.getvalue().splitlines()}


def good(**fabric: int) -> Update:
    changes = {stage: Counter(same=2) for stage in OUTLINE.stages}
    return Update(changes=changes | {"fabric": Counter(fabric)})


def test_a_good_update_ends_with_the_proof_and_what_to_try(
    screen: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    put_evidence("dev")
    outcome.print_outcome(good(updated=1, same=1), "dev", Path(".lab/dev/env.sh"), 12.3, OUTLINE)
    out = capsys.readouterr().out
    assert rows(screen)["fabric"] == ["1", "updated", "1", "ready"]
    assert rows(screen)["hosts"] == ["-", "2", "ready"]
    assert "acceptance passed" in out
    assert "Good after 12 s: 1 resources changed." in out
    assert ". .lab/dev/env.sh" in out


def test_a_quiet_update_says_so(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    del screen
    put_evidence("dev")
    outcome.print_outcome(good(same=2), "dev", Path("env.sh"), 1, OUTLINE)
    assert "Good after 1 s: nothing changed." in capsys.readouterr().out


def test_a_failure_shows_what_was_reached_and_no_old_verdict(
    screen: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    put_evidence("dev")
    update = Update(
        exit_code=1,
        changes={
            "fabric": Counter(same=2),
            "hosts": Counter(same=2, failed=1),
            "kubernetes": Counter(),
            "acceptance": Counter(),
        },
        messages=["gpu02-host: exit status 3:\ngpu02: the card has only 4 VFs"],
    )
    outcome.print_outcome(update, "dev", Path("env.sh"), 30, OUTLINE)
    out = capsys.readouterr().out
    assert rows(screen)["hosts"] == ["1", "failed", "2", "FAILED"]
    for stage in ("kubernetes", "operators", "acceptance"):
        assert rows(screen)[stage] == ["-", "-", "not", "reached"]
    assert "acceptance did not run" in out
    assert "PASSED" not in out
    assert "gpu02: the card has only 4 VFs" in out
    assert "NOT GOOD after 30 s" in out
    assert "Good after" not in out


HOSTS = load_example("dgx-roce").hosts


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (load_example("dgx-roce"), "leaf-01 mtu 1/1 1500"),
        (load_example("quantum-ib"), "ib-leaf-01 sm off"),
        (load_example("quantum-ufm"), "ufm routing minhop"),
        (changed_spec(load_example("crusoe-k3s"), hosts=HOSTS[1:]), "cloud gone gpu01"),
        (changed_spec(load_example("dgx-roce"), switches=()), "gpu01 mtu enp5s0 1500"),
        (
            changed_spec(load_example("dgx-roce"), switches=(), hosts=HOSTS[:1]),
            'mgmt01 file-changed /etc/hosts "10.0.0.9 stray"',
        ),
    ],
    ids=["switch", "infiniband", "ufm", "cloud", "cards", "hosts"],
)
def test_the_fault_to_try_is_of_a_device_that_the_site_has(spec: ClusterSpec, fault: str) -> None:
    assert outcome.outline_of(spec).fault == fault

"""`railyard report` and the steps of acceptance with a shared store, as operators and CI do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.acceptance.acceptance_plan import AcceptancePlan
from components.acceptance.evidence import Limits, dump_evidence
from components.acceptance.handover import (
    AcceptRequest,
    hand_over,
    parse_accept_request,
    parse_named,
    render_accept_request,
    tell,
)
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import digest_of, last_accepted
from components.acceptance.report.store import Store
from tests.acceptance.stores import EVIDENCE, KEY, OTHER, keep, opened, spec_of
from tests.cli.conftest import Call

EARLIER = EVIDENCE.model_copy(update={"run": 6, "finished_at": "2026-01-02T03:04:05+00:00"})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two runs in a shared folder, and a machine that has only the state."""
    for name in ("prover", "ci", "bin", "shared"):
        (tmp_path / name).mkdir()
    found = opened(spec_of(str(tmp_path / "shared")))
    monkeypatch.chdir(tmp_path / "prover")
    keep(found, EARLIER)
    keep(found)
    monkeypatch.chdir(tmp_path / "ci")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    urn = "urn:pulumi:dev::railyard::x$command:local:Command::acceptance-evidence"
    resource = {"urn": urn, "outputs": {"stdout": _told(found)}}
    Path("export.json").write_text(json.dumps({"deployment": {"resources": [resource]}}))
    program = tmp_path / "bin" / "pulumi"
    program.write_text("#!/bin/sh\ncat export.json\n")
    program.chmod(0o755)
    return found


def _told(store: Store) -> str:
    """What the evidence step printed on the machine that proved."""
    return tell(judge_evidence(EVIDENCE), "dev", digest_of(dump_evidence(EVIDENCE)), store.spec)


@pytest.mark.usefixtures("store")
def test_another_machine_shows_the_report_and_compares_runs(railyard: Call) -> None:
    done = railyard("report", "dev", "--no-open", "--against", "6")
    assert (done.code, done.err) == (0, "")
    assert "acceptance passed" in done.out
    assert "run-0007/report.html" in done.out
    assert Path(".railyard/dev/run-0006/evidence.json").is_file()
    missing = railyard("report", "dev", "--no-open", "--against", "5")
    assert (missing.code, missing.out) == (1, "")
    assert "evidence_store: run 5 of dev is missing; the store has 6, 7." in missing.err


def test_the_gate_on_another_machine_passes_a_signed_run(railyard: Call, store: Store) -> None:
    done = railyard("evidence", "gate", "--fail", "--stack", "dev", stdin=_told(store))
    assert (done.code, done.err) == (0, "")
    assert "acceptance passed" in done.out


def _gone(store: Store) -> None:
    run = next(Path(store.spec.address).glob("dev/run-0007*"))
    (run / "evidence.json").unlink()


def _altered(store: Store) -> None:
    file = next(Path(store.spec.address).glob("dev/run-0007*/evidence.json"))
    file.write_text(file.read_text().replace('"lab"', '"real"'))


def _unsigned(store: Store) -> None:
    run = next(Path(store.spec.address).glob("dev/run-0007*"))
    (run / "evidence.json.minisig").write_text("")


@pytest.mark.parametrize("where", ["ci", "prover"])
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_gone, "run 7 of dev ("),
        (_altered, "run 7: its signature does not hold"),
        (_unsigned, "run 7: its signature is not a signature of minisign"),
    ],
)
def test_the_gate_passes_no_run_that_does_not_hold(
    railyard: Call, store: Store, harm: Callable[[Store], None], words: str, where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Not even on the machine that proved and has its own copy."""
    monkeypatch.chdir(Path("..", where))
    harm(store)
    done = railyard("evidence", "gate", "--warn", "--stack", "dev", stdin=_told(store))
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert re.search(r"\n  fix    .*railyard accept dev\.\n$", done.err)


def test_a_key_that_is_no_longer_trusted_fails_the_gate(railyard: Call, store: Store) -> None:
    told = _told(opened(store.spec.model_copy(update={"trusted_keys": (OTHER.public,)})))
    done = railyard("evidence", "gate", "--fail", "--stack", "dev", stdin=told)
    assert (done.code, done.out) == (1, "")
    assert "which `trusted_keys` does not list" in done.err


def _asked(store: Store) -> str:
    """The stdin of the evidence step of a plan without probes."""
    plan = AcceptancePlan("rack7", "fail", Limits(), (), (), (), (), 60.0, store=store.spec)
    text = render_accept_request(AcceptRequest("plan-1", "dev", "lab", plan))
    return hand_over(parse_accept_request(text), text, keep=True)


def test_collecting_stores_a_signed_run(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_SECRET_EVIDENCE_KEY", KEY.secret)
    done = railyard("evidence", "collect", "--number", "8", stdin=_asked(store))
    assert (done.code, done.err) == (0, "")
    named = parse_named(done.out)
    assert named.store == store.spec
    assert store.fetch("dev", 8, named.evidence) == Path(named.archive).read_text()
    assert last_accepted("dev", 8) == EVIDENCE  # proven on another machine


def test_a_store_that_refuses_stops_acceptance_before_its_probes(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _asked(store)
    done = railyard("evidence", "collect", "--number", "8", stdin=asked)
    assert (done.code, done.out) == (2, "")
    assert "evidence_store: the secret evidence_key is not set." in done.err
    monkeypatch.setenv("RAILYARD_SECRET_EVIDENCE_KEY", OTHER.secret)
    done = railyard("evidence", "collect", "--number", "8", stdin=asked)
    assert (done.code, done.out) == (2, "")
    assert "evidence_store.trusted_keys lacks " in done.err
    monkeypatch.setenv("RAILYARD_SECRET_EVIDENCE_KEY", KEY.secret)
    shared = Path(store.spec.address)
    shared.rename(shared.with_name("away"))
    shared.write_text("")
    done = railyard("evidence", "collect", "--number", "8", stdin=asked)
    assert (done.code, done.out) == (4, "")
    assert f"evidence_store: Not a directory.\n  where  {shared}" in done.err
    assert not Path(".railyard/dev/run-0008").exists()


def test_a_forged_run_of_others_is_named_and_not_counted(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_SECRET_EVIDENCE_KEY", KEY.secret)
    _altered(store)
    done = railyard("evidence", "collect", "--number", "8", stdin=_asked(store))
    assert done.code == 0
    assert done.err.startswith("not counted: evidence_store: run 7: its signature does not hold")
    assert last_accepted("dev", 8) == EARLIER

"""The campaign itself: it replays, it agrees with the engine, and it falls without a guard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from campaign.command import fixed, main
from campaign.device.ssh import EVERY
from campaign.guards import GUARDS, without
from campaign.history import INVARIANTS, History
from campaign.intent import play as intent
from campaign.run import play_one, private_folder

FALLS: dict[str, int] = {
    "identity": 2,
    "protected": 7,
    "deny": 4,
    "preview": 5,
    "sealed": 40,
    "once": 40,
    "others": 2,
    "recorded": 30,
    "given-back": 9,
    "step-deny": 7,
    "clock": 2,
    "second-look": 4,
    "next": 3,
    "swept": 1,
}
"""Guard to a seed that falls without it, and holds with it."""


@pytest.fixture(autouse=True)
def own_folder() -> Iterator[None]:
    """What other tests leave in the folder for temporary files at this moment is not a finding."""
    with private_folder():
        yield


@pytest.mark.parametrize("tier", [1, 2, 4])
def test_the_same_seed_plays_the_same_history(tier: int) -> None:
    one, other = play_one(tier, 7), play_one(tier, 7)
    assert len(one.lines) > 3
    assert one.lines == other.lines


def test_both_ways_of_an_update_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intent, "BY_ENGINE", 1.0)
    played = [play_one(1, seed) for seed in (4, 9)]
    assert sum(each.counts["updates also by the recording engine"] for each in played) >= 4
    assert [each.text for history in played for each in history.findings] == []


def test_a_share_of_the_switches_is_reached_over_real_ssh() -> None:
    history = play_one(2, 9 * EVERY)
    assert history.counts["histories over SSH"] == 1
    assert history.counts["steps"] >= 3
    assert history.findings == []


@pytest.mark.parametrize("name", FALLS)
def test_a_seed_falls_without_the_guard(name: str) -> None:
    guard, seed = GUARDS[name], FALLS[name]
    with without(name):
        found = play_one(guard.tier, seed).findings
    assert guard.invariant in {each.invariant for each in found}
    assert fixed(guard.tier, range(seed, seed + 1)) == []


def test_every_invariant_has_a_guard_that_can_be_off() -> None:
    assert {guard.invariant for guard in GUARDS.values()} == {*INVARIANTS}
    assert {*FALLS} == {*GUARDS}


def test_a_failing_seed_is_printed_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def falls(history: History) -> None:
        history.say("something happens")
        history.fail(4, "a port goes down")

    monkeypatch.setattr(intent, "play", falls)
    monkeypatch.setattr("sys.argv", ["campaign", "--tier", "1", "--seed", "3", "--verbose"])
    assert main() == 1
    assert "something happens" in (said := capsys.readouterr().out)
    assert "seed 3: 4: a port goes down" in said


def test_an_error_of_the_product_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(history: History) -> None:
        raise KeyError(history.seed)

    monkeypatch.setattr(intent, "play", crashes)
    (finding,) = play_one(1, 3).findings
    assert (finding.invariant, "KeyError" in finding.text) == (0, True)

"""The table of the seeds: each line has an answer, and every answer names what exists."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest

from components.checks.registry import RULES
from tests.docs.markdown import ROOT
from tests.docs.site_pages import has_key, options_of
from tests.preflight.lacks import LACKS
from tests.preflight.played import PLAYED

TEXT: Final = (ROOT / "examples" / "seeds.md").read_text()
LINES: Final = {"000": 45, "001": 33, "002": 33, "003": 35}
"""How many lines each seed was counted to have."""
KINDS: Final = ("as in the seed", "differs", "not done")
CAUSES: Final = frozenset(LACKS).union(*PLAYED.values())


def rows_of(seed: str) -> list[list[str]]:
    """The table of one seed: number, words of the seed, kind, answer."""
    part = re.split(r"^## Seed ", TEXT, flags=re.MULTILINE)
    (own,) = (each for each in part if each.startswith(f"{seed}:"))
    lines = (line for line in own.splitlines() if re.match(r"\| \d+ \|", line))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


ROWS: Final = {row[0]: row for seed in LINES for row in rows_of(seed)}


def test_every_line_of_every_seed_is_there_once() -> None:
    assert {seed: len(rows_of(seed)) for seed in LINES} == LINES
    assert list(ROWS) == [str(number) for number in range(1, 147)]
    assert all(len(row) == 4 for row in ROWS.values())
    words = [row[1] for row in ROWS.values()]
    assert sorted(set(words)) == sorted(words)


def test_the_first_table_counts_the_others() -> None:
    kinds = Counter[str]()
    for seed in LINES:
        found = Counter(row[2] for row in rows_of(seed))
        counts = " | ".join(str(found[kind]) for kind in KINDS)
        assert f"| {seed} | {LINES[seed]} | {counts} |" in TEXT
        kinds += found
    assert set(kinds) == set(KINDS)
    assert f"| all | 146 | {' | '.join(str(kinds[kind]) for kind in KINDS)} |" in TEXT


@pytest.mark.parametrize("number", ROWS)
def test_what_differs_or_is_not_done_has_a_sentence(number: str) -> None:
    _, _, kind, answer = ROWS[number]
    assert answer.endswith(".")
    assert kind == KINDS[0] or len(answer.split()) > 5


def exists(code: str, before: str) -> bool:
    """Whether a word in code marks names something, by the words before it."""
    words = code.split()
    if words[0] == "railyard":
        name, options = options_of(words[1:])
        return bool(name) and {each for each in words if each.startswith("--")} <= options
    if words[0] == "pulumi":
        return words[1:] in (["up"], ["destroy"], ["preview"])
    if "/" in code:
        return (ROOT / code).is_file()
    if "." in code:
        return has_key(code)
    if not (named := re.findall(r"\b(rule|preflight)", before.lower())):
        return has_key(code) or code in RULE_NAMES
    return code in (RULE_NAMES if named[-1] == "rule" else CAUSES)


RULE_NAMES: Final = frozenset(rule.name for rule in RULES)


@pytest.mark.parametrize("number", ROWS)
def test_what_an_answer_names_exists(number: str) -> None:
    answer = ROWS[number][3]
    for found in re.finditer(r"`([^`]+)`", answer):
        assert exists(found[1], answer[: found.start()]), found[1]


def test_most_answers_name_something() -> None:
    """A key, rule, cause, command, file or page; the others say in words what a step does."""
    bare = [row[0] for row in ROWS.values() if "`" not in row[3] and "](" not in row[3]]
    assert len(bare) < len(ROWS) // 4


def test_releases_are_those_of_the_examples_and_the_catalogue() -> None:
    places = ("examples/*/*.yaml", "components/catalogue/**/*.py", "components/jobs/images/*/*")
    known = "".join(path.read_text() for place in places for path in ROOT.glob(place))
    answers = " ".join(row[3] for row in ROWS.values())
    releases = set(re.findall(r"(?<![\w.])v?\d+\.\d+\.\d+(?:[-+.\w]*\w)?", answers))
    assert len(releases) > 10
    assert sorted(each for each in releases if each not in known) == []

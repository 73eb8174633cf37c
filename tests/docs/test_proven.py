"""Each claim of the README has its proof, each proof is there, and none is called too much."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.docs.collected import collect
from tests.docs.markdown import ROOT, anchors
from tests.docs.proven import KINDS, PAGE, Proof, load_table, render_page

README = ROOT / "README.md"
EXAMPLES = ROOT / "examples" / "README.md"
LAB = ROOT / "docs" / "explanation" / "lab.md"
SOURCES = ROOT / "lab" / "sources.md"
TABLE = load_table()
EVERY = list(TABLE.every())
PLAYED = {"lab", "engine", "cluster", "site", "story", "pods", "vm"}
"""Marks of tests in which something else than Railyard has a part."""
HARDWARE = re.compile(r"\b(?:[AHV]\d{3}|DGX-1|\d+G adapter)\b")
"""A GPU or a card that a line on provenance names."""
PROOF_WORD = re.compile(r"\bpro(?:ve|ves|ven|of)\b", re.IGNORECASE)


def section(page: Path, title: str) -> str:
    form = rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)"
    found = re.search(form, page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(page: Path, title: str) -> list[list[str]]:
    lines = [line for line in section(page, title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def provenance(path: Path) -> str:
    """What the README of the folder of recordings says of a file; nothing where it is silent."""
    folder = next(each for each in path.parents if each.name == "recorded")
    name = str(path.relative_to(folder))
    for line in (folder / "README.md").read_text().splitlines():
        cells = line.strip("|").split("|")
        if not line.startswith("| ") or len(cells) < 2:
            continue
        prefix = Path(cells[0].strip()).parent
        shown = [each.strip() for each in cells[0].split(",")]
        if any(fnmatch(name, each) or fnmatch(name, str(prefix / each)) for each in shown):
            return cells[1]
    return ""


def ids(proof: object) -> str:
    return proof.what[:50] if isinstance(proof, Proof) else str(proof)


each_proof = pytest.mark.parametrize(("claim", "proof"), EVERY, ids=ids)


@pytest.fixture(scope="module")
def collected() -> dict[str, frozenset[str]]:
    return collect(test for _, proof in EVERY for test in proof.tests)


def test_each_bullet_of_what_it_does_has_its_proofs() -> None:
    text = section(README, "Features")
    bullets = re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE)
    assert len(bullets) == len(re.findall(r"^- ", text, re.MULTILINE)) >= 8
    assert bullets == list(TABLE.claims)


def test_each_site_has_its_proofs() -> None:
    shown = [
        found[1]
        for row in rows(EXAMPLES, "The sites")
        if len(row) == 4 and (found := re.match(r"\[`([\w-]+)`\]", row[0]))
    ]
    assert shown == list(TABLE.sites)


def test_whatever_of_the_lab_is_called_real_has_its_proofs() -> None:
    real = [row[0] for row in rows(LAB, "Real and simulated parts") if "real" in row[2]]
    parts = [name for name in real if name not in {"ESXi", "Kernel, cards, vendor tools, systemd"}]
    assert set(parts) <= set(TABLE.lab)
    assert set(TABLE.lab) <= {row[0] for row in rows(LAB, "Real and simulated parts")}


def test_nothing_is_called_proven_but_in_what_has_proofs() -> None:
    """Elsewhere the README speaks of proofs only to say that there is none, or names a page."""
    rest = README.read_text().replace(section(README, "Features"), "")
    rest = re.sub(r"```.*?```|^\|.*?$", "", rest, flags=re.DOTALL | re.MULTILINE)
    sentences = re.split(r"(?<=[.:])\s+", rest)
    claims = [" ".join(each.split()) for each in sentences if PROOF_WORD.search(each)]
    allowed = re.compile(r"acceptance proves it\]|docs/explanation/what-is-proven\.md")
    assert [claim for claim in claims if not allowed.search(claim)] == []


@each_proof
def test_tests_are_there_and_of_the_stage_that_the_proof_needs(
    claim: str, proof: Proof, collected: dict[str, frozenset[str]]
) -> None:
    assert set(proof.tests) <= set(collected), claim
    marks = frozenset[str]().union(*(collected[test] for test in proof.tests))
    needed = {"kernel": {"vm", "pods"}, "program": PLAYED}.get(proof.proof)
    assert needed is None or marks & needed, f"{claim}: no test of {needed}"
    if proof.proof == "itself":
        assert any(not collected[test] & PLAYED for test in proof.tests), claim


@each_proof
def test_recordings_say_where_they_come_from(claim: str, proof: Proof) -> None:
    for file in proof.recorded:
        assert (ROOT / file).is_file(), claim
        assert provenance(ROOT / file), file


@each_proof
def test_a_kind_of_proof_has_what_it_needs(claim: str, proof: Proof) -> None:
    assert proof.not_proven.strip(), claim
    assert proof.tests, claim
    assert bool(proof.program) == (proof.proof == "program")
    assert bool(proof.sources) == (proof.proof in {"sourced", "guess"})
    assert set(proof.sources) <= anchors(SOURCES)
    if proof.proof == "hardware":
        assert proof.recorded
        assert all(HARDWARE.search(provenance(ROOT / file)) for file in proof.recorded)


@pytest.mark.parametrize(
    "anchor", sorted({each for _, p in EVERY if p.proof == "guess" for each in p.sources})
)
def test_a_guess_is_listed_as_one(anchor: str) -> None:
    title = re.compile(
        rf"^#+ {anchor.replace('-', ' ')}\n(.*?)(?=^#+ |\Z)",
        re.IGNORECASE | re.MULTILINE | re.DOTALL,
    )
    found = title.search(SOURCES.read_text())
    assert found
    assert re.search(r"guess|No source was found|choices of this project", found[1])


def test_no_claim_is_proven_by_hardware_alone_where_devices_are_configured() -> None:
    """Recorded logs say how programs print, and nothing of what Railyard does to a device."""
    logs = {"Acceptance.", "Jobs and logs.", "Log parsers and judgement"}
    assert {claim for claim, proof in EVERY if proof.proof == "hardware"} <= logs


def test_the_readme_leads_to_the_page() -> None:
    assert "docs/explanation/what-is-proven.md" in section(README, "Features")


def test_the_page_is_fresh() -> None:
    page = render_page(TABLE)
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run `make goldens` and read the difference"


def test_every_kind_is_explained_and_used() -> None:
    assert {proof.proof for _, proof in EVERY} == set(KINDS)

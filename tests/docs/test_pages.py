"""The pages point to things that exist, and generated pages are fresh."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs.config_page import render_config_page
from tests.docs.markdown import ROOT, anchors, blocks, links, tracked

PAGES = tracked("*.md")
CITING = tuple(
    path
    for path in tracked("*.py", "*.sh", "*.yaml", "*.toml", "*.md", "Makefile")
    # Its checksum is pinned by the stack: a comment there would be a change of every node.
    if "mirror" not in path.parts
)
CONFIG_PAGE = ROOT / "docs" / "reference" / "config.md"
SOURCES = ROOT / "lab" / "sources.md"

_CITED_PAGE = re.compile(r"\b((?:docs|lab)/[\w./-]+\.md)(?:#([\w-]+))?")
_CITED_SOURCE = re.compile(r"\bsources\.md#([\w-]+)")
_CAPTURE = re.compile(r"\bcaptures? (C\d+)(?:(?:, | and |-)(C\d+))*")
_UNREACHABLE = re.compile(
    # Papers that are not part of this repository; a reader could not follow them.
    r"\bfacts? (?:file|\d)|\bfacts/|\bdecisions \d|\bdesign \d|\bpub\d{3}\b|"
    r"(?:k8s_lab|kubernetes_stack|hosts_and_esxi|switch_and_deepops|pulumi_engineering|"
    r"acceptance|design)\.md"
)


def _names(paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("page", PAGES, ids=_names(PAGES))
def test_links_resolve(page: Path) -> None:
    broken = [link for link in links(page) if re.search(r"\s", link)]
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_there_are_links_to_check() -> None:
    assert sum(len(links(page)) for page in PAGES) > 30


def test_what_the_code_cites_exists() -> None:
    broken: list[str] = []
    for path in CITING:
        text = path.read_text()
        for file, anchor in _CITED_PAGE.findall(text):
            if not (ROOT / file).is_file() or (anchor and anchor not in anchors(ROOT / file)):
                broken.append(f"{path.relative_to(ROOT)}: {file}#{anchor}")
        broken += [
            f"{path.relative_to(ROOT)}: sources.md#{anchor}"
            for anchor in _CITED_SOURCE.findall(text)
            if anchor not in anchors(SOURCES)
        ]
    assert broken == []


def test_captures_that_the_code_cites_are_listed() -> None:
    listed = set(re.findall(r"^\| (C\d+) \|", SOURCES.read_text(), re.MULTILINE))
    cited = {
        name
        for path in CITING
        for match in _CAPTURE.finditer(path.read_text())
        for name in re.findall(r"C\d+", match[0])
    }
    assert cited, "no capture is cited any more: take the table away"
    assert cited <= listed


def test_nothing_cites_papers_outside_the_repository() -> None:
    own = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in CITING
        if path != own and path.name != "requirements.lock"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _UNREACHABLE.search(line)
    ]
    assert found == []


def test_config_reference_is_fresh() -> None:
    page = render_config_page()
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        CONFIG_PAGE.write_text(page)
    assert CONFIG_PAGE.read_text() == page, "run `make goldens` and read the difference"


def test_decisions_are_numbered_without_gaps() -> None:
    text = (ROOT / "docs/decisions.md").read_text()
    numbers = [int(found) for found in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    pages = set((ROOT / "docs").rglob("*.md")) - {index}
    assert sorted(str(page) for page in pages - listed) == []


@pytest.mark.parametrize(
    ("page", "lines", "words"), [("README.md", 120, 1200), ("CHANGELOG.md", 80, 700)]
)
def test_the_first_pages_stay_short(page: str, lines: int, words: int) -> None:
    text = (ROOT / page).read_text()
    assert len(text.splitlines()) <= lines, f"{page} has at most {lines} lines"
    assert len(text.split()) <= words, f"{page} has at most {words} words: shorten another entry"


def test_pages_are_plain() -> None:
    crowded = [
        f"{page.relative_to(ROOT)}: {word}"
        for page in PAGES
        for word in ("e.g.", "i.e.", "etc.", "\N{EM DASH}")
        if word in re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    ]
    assert crowded == []


def test_shown_files_exist() -> None:
    """Paths of this repository that pages name in code marks."""
    roots = "components|stacks|lab|tests|examples|docs"
    missing: set[str] = set()
    for page in PAGES:
        text = page.read_text()
        for block in blocks(page):
            text = text.replace(block.text, "")
        for path in re.findall(rf"`((?:{roots})/[\w./-]*\w)/?`", text):
            if not (ROOT / path).exists():
                missing.add(f"{page.relative_to(ROOT)}: {path}")
    assert missing == set()

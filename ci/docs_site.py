"""Prepare the pages of the docs site: a hook of MkDocs (mkdocs.yml), which `make docs` runs.

The site shows the pages where the repository has them, so links between pages stay as they are. A
link to another file becomes an address in the repository, and a link to nothing is a warning, which
`mkdocs build --strict` refuses. The navigation follows docs/README.md.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final, cast

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "build" / "docs" / "pages"
INDEX: Final = "docs/README.md"
PICTURES: Final = "docs/images/"
# A logger of this name: MkDocs counts its warnings in strict mode.
_LOG: Final = logging.getLogger("mkdocs.plugins.docs_site")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_CODE_OR_LINK: Final = re.compile(
    r"^ *```.*?^ *```$|\[(?P<text>(?:`[^`\n]*`|[^\]`])*)\]\((?P<link>[^)\s]+)\)|`[^`\n]*`",
    re.MULTILINE | re.DOTALL,
)
_ADDRESS: Final = re.compile(r"[a-z]+:")
_GROUP: Final = re.compile(r"^## (.+)$")
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) +(?=\S)")

Group = Mapping[str, list[dict[str, str]]]


def on_config(config: MutableMapping[str, object]) -> None:
    """Copy the pages, then give MkDocs their folder and the navigation."""
    extra = cast("Mapping[str, str]", config["extra"])
    shutil.rmtree(PAGES, ignore_errors=True)
    for problem in copy_pages(PAGES, extra["repository"]):
        _LOG.warning(problem)
    config["docs_dir"] = str(PAGES)
    config["nav"] = navigation()


def on_post_build(config: MutableMapping[str, object]) -> None:
    """Publish the JSON schema of the site file at the address that it names."""
    sys.path.insert(0, str(ROOT))
    from components.reading.schema import publish_schema  # noqa: PLC0415 - the rest needs only Python itself

    published = publish_schema()
    name = str(published["$id"]).rpartition("/")[2]
    (Path(str(config["site_dir"])) / name).write_text(json.dumps(published, indent=2) + "\n")


def navigation() -> list[Group]:
    """The README, the groups of docs/README.md in its order, and the pages about releases."""
    groups: dict[str, list[dict[str, str]]] = {}
    name = ""
    for line in (ROOT / INDEX).read_text().splitlines():
        if heading := _GROUP.match(line):
            name = heading[1]
        elif name and line.startswith("|"):
            pages = [{_titled(text): _from(INDEX, link)} for text, link in _LINK.findall(line)]
            groups.setdefault(name, []).extend(pages)
    first: Group = {"Start": [{"README": "README.md"}, {"All pages": INDEX}]}
    last: Group = {"Releases": [{"Changes": "CHANGELOG.md"}, {"Security": "SECURITY.md"}]}
    return [first, *({name: pages} for name, pages in groups.items()), last]


def _titled(text: str) -> str:
    return text[:1].upper() + text[1:]


def _from(page: str, link: str) -> str:
    """The path in the repository to which a link of a page points."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def site_pages() -> frozenset[str]:
    """Paths of all pages: those below docs/, and those that the navigation names."""
    named = (
        path
        for group in navigation()
        for pages in group.values()
        for page in pages
        for path in page.values()
    )
    below = (str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    return frozenset((*below, *named))


def copy_pages(target: Path, repository: str) -> Iterator[str]:
    """Write every page and picture below `target`; yield the links that lead nowhere."""
    pages = site_pages()
    for page in sorted(pages):
        text, problems = rewrite(page, (ROOT / page).read_text(), pages, repository)
        yield from problems
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(text)
    shutil.copytree(ROOT / PICTURES, target / PICTURES, dirs_exist_ok=True)
    shutil.copy(ROOT / "ci" / "docs_site.css", target)


def rewrite(
    page: str, text: str, pages: frozenset[str], repository: str
) -> tuple[str, tuple[str, ...]]:
    """A page with links that work on the site and lists that Python-Markdown understands.

    The second value names the links that lead nowhere.
    """
    problems: list[str] = []

    def point(match: re.Match[str]) -> str:
        if match["link"] is None:  # code
            return match[0]
        file, mark, anchor = match["link"].partition("#")
        path = _from(page, file)
        if _ADDRESS.match(file) or not file or path in pages or path.startswith(PICTURES):
            return match[0]
        if path.startswith("..") or not (ROOT / path).exists():
            problems.append(f"{page}: the link {match['link']} leads to no file")
            return match[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"[{match['text']}]({repository}/{kind}/main/{path}{mark}{anchor})"

    lines = _CODE_OR_LINK.sub(point, text).splitlines()
    return "\n".join(_widened(lines)) + "\n", tuple(problems)


def _widened(lines: Iterable[str]) -> Iterator[str]:
    """Indent the text of list items by four columns, as Python-Markdown demands.

    GitHub accepts two or three, and also a list directly below a paragraph.
    """
    rest = deque(lines)
    in_list, fenced, before = False, False, ""
    while rest:
        line = rest.popleft()
        item = None if fenced else _ITEM.match(line)
        if item is None:
            fenced ^= line.startswith("```")
            in_list = in_list and not line
            before = line
            yield line
            continue
        if before and not in_list:  # also below an item with a block, which ends the list
            yield ""
        body = [line[item.end() :]]
        while rest and (not rest[0] or rest[0].startswith(" " * item.end())):
            body.append(rest.popleft()[item.end() :])
        first, *more = _widened(body)
        yield f"{line[: item.end()]}{first}"
        yield from (f"    {each}" if each else "" for each in more)
        in_list, before = "" not in body, body[-1]

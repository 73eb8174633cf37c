"""The pages of the four reference systems, read as far as tests need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from components.cli.group import list_commands, load_command
from components.model.cluster import ClusterSpec
from tests.docs.markdown import ROOT, Block, blocks

SITES: Final = {
    "site-000": "dgx-roce",
    "site-001": "esxi-roce",
    "site-002": "shared-rdma",
    "site-003": "crusoe-k3s",
}
_RESOURCES: Final = re.compile(r"^\| first `pulumi up` \| \d+ s, (\d+) resources", re.MULTILINE)


def page_of(example: str) -> str:
    """The page that is about an example."""
    return next(page for page, name in SITES.items() if name == example)


def page_text(page: str) -> str:
    """The whole page."""
    return (ROOT / "docs" / "howto" / f"{page}.md").read_text()


def consoles(page: str, begins: str) -> Iterator[Block]:
    """The blocks with what a command printed that begin so."""
    for block in blocks(ROOT / "docs" / "howto" / f"{page}.md"):
        if block.language == "console" and block.text.startswith(begins):
            yield block


def shown_verdicts(page: str) -> list[str]:
    """The lines of verdicts that a page shows, with single blanks."""
    lines = page_text(page).splitlines()
    return [" ".join(line.split()) for line in lines if line.startswith("PASSED ")]


def shown_resources(page: str) -> int:
    """How many resources the first update of the page makes."""
    (found,) = _RESOURCES.findall(page_text(page))
    return int(found)


def options_of(words: Sequence[str]) -> tuple[str, set[str]]:
    """The command that the words call, and its options; an empty name where there is none."""
    entry = next((each for each in list_commands() if each.name == words[0]), None)
    if entry is None:
        return "", set()
    command: Any = load_command(entry)
    inner = getattr(command, "commands", {})
    if inner:
        command = inner.get(words[1])
    if command is None:
        return "", set()
    return words[0], {name for each in command.params for name in each.opts} | {"--help"}


@cache
def _schema() -> Mapping[str, Any]:
    return ClusterSpec.model_json_schema()


def _fields(schema: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Keys of a part of the site, through lists and through all forms that it may have."""
    if "$ref" in node:
        return _fields(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    found: dict[str, list[Any]] = {}
    inner = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
    inner += [node["items"]] if isinstance(node.get("items"), dict) else []
    for each in inner:
        for key, parts in _fields(schema, each).items():
            found.setdefault(key, []).extend(parts)
    for key, part in node.get("properties", {}).items():
        found.setdefault(key, []).append(part)
    return found


def has_key(path: str) -> bool:
    """Whether the site file has such a key: `hosts.nics.pci`, lists and forms left out."""
    schema = _schema()
    nodes: list[Any] = [schema]
    for key in path.split("."):
        nodes = [part for node in nodes for part in _fields(schema, node).get(key, ())]
    return bool(nodes)

"""Texts with holes: what only a created instance knows, by name, until it is there.

A plan is finished before anything exists, and an address that a cloud gives out is not known
then. It is in the plan as `@{crusoe-k3s-0.public_ip}`; a component joins the address into the
text once the instance has answered, and decides nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from components.core.errors import Bug

_HOLE: Final = re.compile(r"@\{([a-z0-9-]+)\.([a-z_]+)\}")
Facts = Mapping[str, Mapping[str, str]]
"""Name of an instance to its facts: `public_ip`, `private_ip`, `host_key`."""


def placeholder(instance: str, fact: str) -> str:
    """The hole for one fact of one instance."""
    return f"@{{{instance}.{fact}}}"


def has_placeholder(text: str) -> bool:
    """Whether a text waits for an instance."""
    return _HOLE.search(text) is not None


def instances_in(text: str) -> tuple[str, ...]:
    """The instances that a text waits for, sorted."""
    return tuple(sorted({match[1] for match in _HOLE.finditer(text)}))


def fill_known(text: str, facts: Facts) -> str:
    """The text with the holes filled that can be; the others stay."""

    def known(match: re.Match[str]) -> str:
        return facts.get(match[1], {}).get(match[2], match[0])

    return _HOLE.sub(known, text)


def matches(text: str, recorded: str) -> bool:
    """Whether a recorded text is this one with something in every hole."""
    if _HOLE.search(text) is None:  # most texts: no expression of the whole text is compiled
        return text == recorded
    parts: list[str] = []
    end = 0
    for hole in _HOLE.finditer(text):
        parts += [re.escape(text[end : hole.start()]), ".*"]
        end = hole.end()
    return re.fullmatch("".join(parts) + re.escape(text[end:]), recorded) is not None


def fill(text: str, facts: Facts) -> str:
    """The text with every hole filled.

    Raises:
        Bug: An instance, or that fact of it, is not there.
    """

    def known(match: re.Match[str]) -> str:
        try:
            return facts[match[1]][match[2]]
        except KeyError as error:
            raise Bug(f"nothing is known of {match[0]}. Please open an issue.") from error

    return _HOLE.sub(known, text)


def parse_facts(names: Sequence[str], texts: Sequence[str | None]) -> Facts:
    """Read what the instances' steps printed, in the order of the names.

    A step behind a failed one is skipped with `--continue-on-error` and gives None; what hangs on
    it is skipped as well, so that its facts do not matter.
    """
    read = [cast("Mapping[str, str]", json.loads(text)) if text else _Anything() for text in texts]
    return dict(zip(names, read, strict=True))


class _Anything(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""

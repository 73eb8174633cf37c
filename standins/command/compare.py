"""Compare old and new inputs: which properties differ, and which of them replace.

The rules are those of pulumi-command 1.2.1 over pulumi-go-provider 1.3.0: any changed input is
an update in place, and only `triggers` as a whole (added or removed) replaces from the provider's
side. A changed trigger element replaces because the SDK asks the engine for `triggers[*]`
(sources.md#the-command-plugin).
"""

from __future__ import annotations

import enum
from typing import Final

from standins.values import Properties, Value, is_secret

REPLACING: Final = frozenset({"triggers"})


class Change(enum.Enum):
    """How one property differs."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


def diff_inputs(olds: Properties, news: Properties) -> dict[str, Change]:
    """Return each differing property path, for example `environment.HOME` or `triggers[0]`."""
    changes: dict[str, Change] = {}
    relevant = {k: v for k, v in news.items() if k != "version" and not k.startswith("__")}
    _diff_objects("", olds, relevant, changes)
    return changes


def replaces(path: str) -> bool:
    """Return whether the provider itself asks for a replacement because of this path."""
    return path in REPLACING


def keep_ignored(olds: Properties, news: Properties, ignored: tuple[str, ...]) -> Properties:
    """Return the new inputs with the old value of every ignored top-level property."""
    return {**news, **{key: olds[key] for key in ignored if key in olds}}


def _diff_objects(
    prefix: str, olds: dict[str, Value], news: dict[str, Value], changes: dict[str, Change]
) -> None:
    for key in olds.keys() | news.keys():
        path = _join(prefix, key)
        _diff_values(path, olds.get(key), news.get(key), changes)


def _diff_lists(
    prefix: str, olds: list[Value], news: list[Value], changes: dict[str, Change]
) -> None:
    for index in range(max(len(olds), len(news))):
        path = f"{prefix}[{index}]"
        if index >= len(olds):
            changes[path] = Change.ADD
        elif index >= len(news):
            changes[path] = Change.DELETE
        else:
            _diff_values(path, olds[index], news[index], changes)


def _diff_values(path: str, old: Value, new: Value, changes: dict[str, Change]) -> None:
    if old == new:
        return
    if old is None:
        changes[path] = Change.ADD
    elif new is None:
        changes[path] = Change.DELETE
    elif is_secret(old) or is_secret(new):
        changes[path] = Change.UPDATE
    elif isinstance(old, dict) and isinstance(new, dict):
        _diff_objects(path, old, new, changes)
    elif isinstance(old, list) and isinstance(new, list):
        _diff_lists(path, old, new, changes)
    else:
        changes[path] = Change.UPDATE


def _join(prefix: str, key: str) -> str:
    if not key.replace("_", "").replace("-", "").isalnum():
        return f'{prefix}["{key}"]'
    return f"{prefix}.{key}" if prefix else key

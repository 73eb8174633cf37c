"""Part N of M of the chosen tests, so that parts can run beside one another (`lab/suite.py`)."""

from __future__ import annotations

from collections import Counter

import pytest

_OPTION = "--part"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, default="1/1", help="run part N of M of the files: N/M")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole files only: their tests share a lab. The largest first, each to the smallest part."""
    number, _, parts = str(config.getoption(_OPTION)).partition("/")
    sizes = Counter(item.path for item in items)
    taken: list[Counter[object]] = [Counter() for _ in range(int(parts))]
    for path, size in sorted(sizes.items(), key=lambda each: (-each[1], each[0])):
        min(taken, key=lambda each: each.total())[path] = size
    mine = taken[int(number) - 1]
    config.hook.pytest_deselected(items=[item for item in items if item.path not in mine])
    items[:] = [item for item in items if item.path in mine]

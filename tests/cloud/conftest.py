"""One emulated cloud, a plan for it, and instances that answer SSH at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.cloud.cloud_plan import CloudPlan
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import Stack, answer_ssh, plan_of, running_cloud, site
from tests.engine.fixtures import engine, session_engine

__all__ = ["engine", "session_engine"]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CrusoeCloud]:
    with running_cloud(tmp_path / "cloud.json") as running:
        yield running


@pytest.fixture
def plan(cloud: CrusoeCloud, monkeypatch: pytest.MonkeyPatch) -> CloudPlan:
    answer_ssh(monkeypatch)
    return plan_of(site(cloud.endpoint))


@pytest.fixture
def made(plan: CloudPlan) -> Stack:
    """A stack that was brought up once."""
    stack = Stack()
    assert stack.up(plan), stack.errors
    return stack

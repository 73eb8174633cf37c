"""One emulated cloud, a plan for it, and instances that answer SSH at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.cloud.cloud_plan import CloudPlan
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import Stack, answer_ssh, plan_of, running_cloud, site
from tests.engine.fixtures import engine, session_engine

__all__ = ["engine", "session_engine"]


@pytest.fixture(autouse=True)
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client reads the machine's authorities, which was half of the time; this cloud has HTTP.

    See SSL_CTX_set_default_verify_paths(3).
    """
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)


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

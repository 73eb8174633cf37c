"""The engine fixtures; a conftest that wants them imports them from here."""

from __future__ import annotations

import pytest

from lab.engine.install import ensure_engine
from tests.engine.runner import EngineRunner, make_runner


@pytest.fixture(scope="session")
def session_engine(tmp_path_factory: pytest.TempPathFactory) -> EngineRunner:
    """The real engine on a fresh file backend; built at first use where there is none."""
    return make_runner(ensure_engine(), tmp_path_factory.mktemp("engine"))


@pytest.fixture
def engine(session_engine: EngineRunner) -> EngineRunner:
    """The session's engine, for a test that makes projects of its own."""
    return session_engine

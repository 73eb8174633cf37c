from __future__ import annotations

from dataclasses import replace

import pytest

from components.testing import Graph
from tests.graph.dev_site import dev_run
from tests.graph.whole_program import record_main


@pytest.fixture(scope="session")
def dev_graph() -> Graph:
    """A first update of the dev stack, not observed."""
    return record_main(dev_run())


@pytest.fixture(scope="session")
def dev_preview() -> Graph:
    """A preview of the same new stack: no command has printed anything."""
    return record_main(replace(dev_run(), preview=True, stdout={}))

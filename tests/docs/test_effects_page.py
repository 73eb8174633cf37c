"""The reference of effects shows what the tables say."""

from __future__ import annotations

import os

from tests.docs.effects_page import PAGE, render_page


def test_the_page_is_what_the_tables_say() -> None:
    page = render_page()
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run `make goldens` and read the difference"

"""The page of the catalogue shows what its tables say."""

from __future__ import annotations

import os

from tests.docs.catalogue_page import PAGE, render_page


def test_the_page_is_what_the_tables_say() -> None:
    page = render_page()
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page, "run `make goldens` and read the difference"

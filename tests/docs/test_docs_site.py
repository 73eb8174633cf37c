"""The docs site has every page, and its links lead to pages, files or addresses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.docs_site import copy_pages, navigation, on_post_build, rewrite, site_pages
from components.core.problem import DOCS_SITE
from tests.docs.markdown import ROOT

REPOSITORY = "https://example.net/railyard"
PAGES = frozenset({"README.md", "docs/tutorial.md"})


def test_every_page_is_in_the_navigation_once() -> None:
    named = [path for group in navigation() for pages in group.values() for page in pages
             for path in page.values()]  # fmt: skip
    assert sorted(named) == sorted(site_pages())
    assert len(named) > 70


def test_groups_are_those_of_the_index_in_its_order() -> None:
    names = [name for group in navigation() for name in group]
    assert names[:3] == ["Start", "Learn", "Write a site"]
    assert names[-1] == "Releases"
    learn = dict(navigation()[1].items())["Learn"]
    assert learn[0] == {"Tutorial": "docs/tutorial.md"}


def test_no_page_of_the_site_has_a_broken_link(tmp_path: Path) -> None:
    assert list(copy_pages(tmp_path, REPOSITORY)) == []
    assert (tmp_path / "docs/images/flow.svg").is_file()
    assert (
        f"({REPOSITORY}/blob/main/examples/dgx-roce/site.yaml)"
        in (tmp_path / "README.md").read_text()
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](docs/tutorial.md)", "[a](docs/tutorial.md)"),
        ("[a](#try)", "[a](#try)"),
        ("[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("[`a`](LICENSE)", f"[`a`]({REPOSITORY}/blob/main/LICENSE)"),
        ("[a](lab)", f"[a]({REPOSITORY}/tree/main/lab)"),
        ("![a](docs/images/flow.svg)", "![a](docs/images/flow.svg)"),
        ("`[a](LICENSE)`", "`[a](LICENSE)`"),
        ("```\n[a](LICENSE)\n```", "```\n[a](LICENSE)\n```"),
        ("text\n- a\n  b", "text\n\n- a\n    b"),
        ("1. a\n\n   ```sh\n   b\n   ```\n2. c", "1. a\n\n    ```sh\n    b\n    ```\n\n2. c"),
        ("```\n- a\n  b\n```", "```\n- a\n  b\n```"),
    ],
)
def test_a_page_is_rewritten(written: str, shown: str) -> None:
    assert rewrite("README.md", written, PAGES, REPOSITORY) == (f"{shown}\n", ())


def test_a_link_to_nothing_is_named_with_its_page() -> None:
    _, problems = rewrite("docs/tutorial.md", "[a](../gone.yaml)", PAGES, REPOSITORY)
    assert problems == ("docs/tutorial.md: the link ../gone.yaml leads to no file",)


def _settings() -> dict[str, Any]:
    # What follows names Python functions, which a safe loader refuses.
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text().split("markdown_extensions")[0])


def test_package_site_and_findings_name_the_same_addresses() -> None:
    settings = _settings()
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert settings["site_url"] == urls["Documentation"] == f"{DOCS_SITE}/"
    assert settings["extra"]["repository"] == urls["Source"]
    assert "docs/reference/rules.md" in site_pages(), "the page to which a finding links"
    assert settings["use_directory_urls"] is False, "its address ends in .html"


def test_a_warning_ends_the_build() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    assert "mkdocs build --strict" in recipe
    assert "quiet" not in recipe, "it hides the warnings from the count of --strict, too"


def test_the_site_has_the_schema_at_its_address(tmp_path: Path) -> None:
    on_post_build({"site_dir": str(tmp_path)})
    schema = json.loads((tmp_path / "site.schema.json").read_text())
    assert schema["$id"] == f"{DOCS_SITE}/site.schema.json"


def test_the_site_loads_nothing_from_other_servers() -> None:
    settings = _settings()
    assert settings["theme"]["font"] is False
    assert "repo_url" not in settings, "the theme would ask the repository's server for numbers"
    css = (ROOT / "ci/docs_site.css").read_text()
    assert "url(" not in css
    assert "@import" not in css

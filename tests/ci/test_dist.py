"""What may be a release, and what `make dist` builds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ci.dist import build, find_obstacles
from tests.test_wheel import copy_sources

LOG = "# Changelog\n\n## 0.1.0 (2026-12-01)\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "changed", "said"),
    [
        ("v0.1.0", LOG, "", ""),
        ("", "", " M README.md\n", ""),
        ("v0.2.0", LOG, "", "the tag is v0.2.0, and pyproject.toml has version 0.1.0"),
        ("0.1.0", LOG, "", "the tag is 0.1.0"),
        ("v0.1.0", "## 0.1.0 (unreleased)\n", "", "write its date"),
        ("v0.1.0", LOG, " M README.md\n?? a.py\n", "files differ from the commit: README.md, a.py"),
    ],
)
def test_what_keeps_a_checkout_from_being_a_release(
    tag: str, changelog: str, changed: str, said: str
) -> None:
    found = [*find_obstacles(tag, "0.1.0", changelog, changed)]
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_the_wheel_of_the_sdist_has_the_files_of_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "source"
    copy_sources(source)
    commit = "0123456789ab\n"
    (source / "railyard_rdma" / "commit.txt").write_text(commit)  # as an sdist of a tag has it
    sdist, wheel = build(source, tmp_path / "dist")
    assert sdist.name == "railyard_rdma-0.1.0.tar.gz"
    with zipfile.ZipFile(wheel) as held:
        names = {name for name in held.namelist() if ".dist-info/" not in name}
        assert held.read("railyard_rdma/commit.txt").decode() == commit
        example = "railyard_rdma/project/examples/dgx-roce.yaml"
        assert held.read(example) == (source / "examples/dgx-roce/site.yaml").read_bytes()
    own = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    own = {name for name in own if "__pycache__" not in name}
    for folder in ("components/", "stacks/"):
        wanted = {name for name in own if name.startswith(folder)} - {"components/__init__.py"}
        below = "railyard_rdma/stacks/" if folder == "stacks/" else "railyard_rdma/"
        assert {below + name.removeprefix(folder) for name in wanted} <= names

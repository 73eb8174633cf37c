"""What Railyard refuses, by name, before or without harm: and that nothing was touched."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.up import choose_site, load_spec
from tests.site.playground import PROJECT, STACK, Playground

pytestmark = pytest.mark.site
COMMITTED = PROJECT / f"Pulumi.{STACK}.yaml"


def edited(folder: Path, pattern: str, replacement: str) -> Path:
    """A copy of the committed configuration with the first match of a pattern replaced."""
    text, count = re.subn(pattern, replacement, COMMITTED.read_text(), count=1, flags=re.DOTALL)
    assert count == 1
    copy = folder / COMMITTED.name
    copy.write_text(text)
    return copy


def address_of(name: str) -> str:
    host = load_spec(choose_site([])).host(name)
    assert host is not None
    return host.way.address


@contextmanager
def ssh_refused(site: Playground, host: str) -> Generator[None]:
    site.fault(host, "ssh-refused", "on")
    try:
        yield
    finally:
        site.fault(host, "ssh-refused", "off")


def test_an_unreachable_host(standing: Playground, tmp_path: Path) -> None:
    left = standing.settings()
    fewer_vfs = edited(tmp_path, r"(name: gpu01\n.*?vfs: )8(.*?vfs: )8", r"\g<1>4\g<2>4")
    with ssh_refused(standing, "gpu01"):
        report = standing.railyard("drift", "dev").must(4)
        line = next(line for line in report.splitlines() if line.startswith("gpu01"))
        assert "unreachable" in line
        assert f"{address_of('gpu01')}:2222" in line
        assert re.search(r"within \d+ s", line)

        unchanged = standing.preview()
        assert unchanged.quiet, unchanged.changes
        assert any(text.startswith("gpu01: not observed") for text in unchanged.messages)

        refused = standing.pulumi(
            "up", "--yes", "--skip-preview", "--config-file", str(fewer_vfs)
        ).refused()
        assert "unreachable: gpu01" in refused
        assert "Nothing was changed on any device" in refused
    assert standing.settings() == left


def test_a_changed_host_key(standing: Playground, tmp_path: Path) -> None:
    left = standing.settings()
    spec = load_spec(choose_site([]))
    pinned, another = spec.hosts[1].way.host_key, spec.hosts[2].way.host_key
    assert pinned is not None
    assert another is not None
    swapped = edited(tmp_path, re.escape(pinned), another)

    refused = standing.preview(swapped)
    text = refused.done.refused()
    assert not refused.changes
    assert "the host key is not the pinned one" in text
    assert f"pinned     {another}" in text
    assert f"presented  {pinned}" in text
    assert standing.settings() == left


def test_a_wrong_file(standing: Playground, tmp_path: Path) -> None:
    left = standing.settings()
    wrong = edited(tmp_path, r"vlan: 111(.*?)role: worker", r"vlan: 5000\1roel: worker")

    refused = standing.preview(wrong)
    text = refused.done.refused()
    assert "rails[0].vlan = 5000" in text
    assert "Did you mean `role`?" in text
    assert text.count("Nothing was touched.") == 1
    assert not refused.changes
    assert standing.settings() == left

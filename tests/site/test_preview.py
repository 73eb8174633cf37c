"""What a person sees of edits: few lines of the engine, whatever they reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.playground import PROJECT, Playground
from tests.site.test_drift import MOST_LINES

pytestmark = pytest.mark.site


def lines_of(site: Playground, folder: Path, old: str, new: str) -> tuple[str, ...]:
    """What the engine prints of the committed file with one text replaced."""
    text = (PROJECT / "Pulumi.dev.yaml").read_text()
    assert text.count(old) == 1
    edited = folder / "Pulumi.dev.yaml"
    edited.write_text(text.replace(old, new))
    preview = site.preview(edited, "--diff")
    preview.done.must()
    return preview.lines


def test_one_edited_port_fits_a_screen(standing: Playground, tmp_path: Path) -> None:
    port = "1/2: {to: gpu01/rail-1, mtu_bytes: 9000}"
    lines = lines_of(standing, tmp_path, "1/2: gpu01/rail-1", port)
    assert len(lines) <= MOST_LINES
    changed = [line.strip() for line in lines if "ports.1/2.mtu_bytes" in line]
    assert changed == [
        "- desired.ports.1/2.mtu_bytes = 9216",
        "+ desired.ports.1/2.mtu_bytes = 9000",
    ]


def test_an_edited_mtu_is_a_line_a_host_for_all_its_cards(
    standing: Playground, tmp_path: Path
) -> None:
    lines = lines_of(standing, tmp_path, "      mtu_bytes: 9000\n", "      mtu_bytes: 4200\n")
    assert len(lines) <= MOST_LINES
    # Without a sign is what stays, such as the reason of the last repair.
    changed = [line.strip() for line in lines if line.strip().startswith(("+", "-"))]
    found = [line for line in changed if "mtu_bytes" in line]
    one_host = [
        "- nic.*.mtu_bytes=9000",
        "+ nic.*.mtu_bytes=4200",
        "- nic.*.vf_mtu_bytes=9000",
        "+ nic.*.vf_mtu_bytes=4200",
    ]
    assert sorted(found) == sorted(2 * one_host)

"""What a person sees of one drift and one edit: few lines of the engine, fewer of `railyard`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.site
MOST_LINES = 80


def lines_of(site: Playground, *arguments: str, **variables: str) -> list[str]:
    """What it prints, without the dots by which a slow engine shows that it is alive."""
    text = site.pulumi("preview", "--diff", *arguments, **variables).must()
    return [line for line in text.splitlines() if not line.startswith("@ previewing")]


def test_nothing_to_do_prints_no_object(standing: Playground) -> None:
    assert not [line for line in lines_of(standing) if "kubernetes:" in line]


def test_one_drifted_port_fits_a_screen(standing: Playground) -> None:
    standing.fault("leaf-01", "mtu", "1/2", "1500")
    lines = lines_of(standing)
    assert len(lines) <= MOST_LINES
    assert "    mtu_bytes: 1500 -> 9216" in lines
    told = standing.railyard("preview", "dev").must()
    assert "leaf-01: port 1/2 mtu_bytes: 1500 -> 9216" in told
    assert "! leaf-01: INTERRUPTS (disruption.ports: allow): port 1/2: flaps" in told
    standing.up().must()


def test_one_edited_port_fits_a_screen(standing: Playground, tmp_path: Path) -> None:
    edited = tmp_path / "Pulumi.dev.yaml"
    text = (PROJECT / "Pulumi.dev.yaml").read_text()
    port = "1/2: gpu01/rail-1"
    assert port in text
    edited.write_text(text.replace(port, "1/2: {to: gpu01/rail-1, mtu_bytes: 9000}"))
    lines = lines_of(standing, "--config-file", str(edited))
    assert len(lines) <= MOST_LINES
    changed = [line.strip() for line in lines if "ports.1/2.mtu_bytes" in line]
    assert changed == [
        "- desired.ports.1/2.mtu_bytes = 9216",
        "+ desired.ports.1/2.mtu_bytes = 9000",
    ]


def test_an_edited_mtu_is_a_line_a_host_for_all_its_cards(
    standing: Playground, tmp_path: Path
) -> None:
    edited = tmp_path / "Pulumi.dev.yaml"
    text = (PROJECT / "Pulumi.dev.yaml").read_text()
    mtu = "      mtu_bytes: 9000\n"
    assert text.count(mtu) == 1
    edited.write_text(text.replace(mtu, "      mtu_bytes: 4200\n"))
    lines = lines_of(standing, "--config-file", str(edited))
    assert len(lines) <= MOST_LINES
    found = [line.strip() for line in lines if "mtu_bytes" in line]
    one_host = [
        "- nic.*.mtu_bytes=9000",
        "+ nic.*.mtu_bytes=4200",
        "- nic.*.vf_mtu_bytes=9000",
        "+ nic.*.vf_mtu_bytes=4200",
    ]
    assert sorted(found) == sorted(2 * one_host)


def test_three_drifts_fit_a_screen(standing: Playground) -> None:
    standing.fault("leaf-01", "mtu", "1/2", "1500")
    standing.fault("gpu01", "vfs-lost")
    standing.fault("gpu02", "mtu", "enp5s0", "1500")
    lines = lines_of(standing)
    assert len(lines) <= MOST_LINES
    assert "gpu02: drift: mtu_bytes of nic 0000:05:00.0 is 1500, want 9000" in lines
    standing.up().must()

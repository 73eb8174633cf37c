"""`railyard draw`: every device and cable of a site is in the picture, also of a large one."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.sites import EIGHT_RAILS, site_text
from components.cli.draw import draw_site
from components.model.cluster import ClusterSpec
from components.reading.load import load_site, parse_site
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES

SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/site.yaml"))


def _site(name: str) -> ClusterSpec:
    """An example with the instances of its cloud."""
    spec = load_site(EXAMPLES / name / "site.yaml").spec
    assert spec is not None
    return spec


def _texts(picture: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 - our own text


def _wires(picture: str) -> list[str]:
    return re.findall(r"<title>(.*?)</title>", picture, re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_every_device_and_cable_of_an_example(name: str) -> None:
    spec = _site(name)
    picture = draw_site(spec)
    texts = _texts(picture)
    switches = [*spec.switches, *(spec.infiniband.switches if spec.infiniband else ())]
    assert {each.name for each in switches} <= {*texts}
    drawn = {host.name for host in spec.hosts if host.nics or host.hcas or host in spec.workers}
    assert [host for host in drawn if host not in texts and host not in texts[-1]] == []
    cabled = [far for each in switches for far in each.ports.values()]
    cables = [far for far in cabled if ":" not in (far if isinstance(far, str) else far.to)]
    between = [far for far in cabled if far not in cables]
    hints = "\n".join(_wires(picture))
    counts = [int(found) for found in re.findall(r"(\d+) \u00d7 \d+G$", hints, re.MULTILINE)]
    if switches:
        assert sum(counts) == len(cables) + len(between) // 2


def test_rails_speeds_machines_and_the_ways_of_a_cloud_are_named() -> None:
    assert "on esx01" in _texts(draw_site(_site("esxi-roce")))
    texts = _texts(draw_site(_site("dgx-roce")))
    assert "rail-0: VLAN 111, 10.10.111.0/24" in texts
    assert {"2 \u00d7 100G", "Not on the rails: mgmt01 (control plane)"} <= {*texts}
    texts = _texts(draw_site(_site("crusoe-k3s")))
    assert {"InfiniBand of the cloud", "8 \u00d7 400G", "crusoe-k3s-worker-0"} <= {*texts}


def test_alike_devices_of_a_large_site_share_a_box() -> None:
    loaded = parse_site(site_text(128, EIGHT_RAILS), "site.yaml")
    assert loaded.spec is not None
    picture = draw_site(loaded.spec)
    folded = [text for text in _texts(picture) if re.fullmatch(r"gpu\[\d+-\d+\]", text)]
    hosts = [text for text in _texts(picture) if re.fullmatch(r"\d+ hosts", text)]
    assert sum(int(text.split()[0]) for text in hosts) == 128
    assert len(folded) == len(hosts) <= 16
    width = re.search(r'width="(\d+)"', picture)
    assert width is not None
    assert int(width[1]) < 2400


def test_names_cannot_become_markup() -> None:
    spec = _site("dgx-roce")
    picture = draw_site(spec.model_copy(update={"name": "<script>&\x1b"}))
    assert "<script" not in picture
    assert r"<script>&\x1b" in _texts(picture)


def test_a_site_without_cables_is_drawn(railyard: Call, tmp_path: Path) -> None:
    spec = _site("dgx-roce")
    bare = spec.model_copy(update={"hosts": (), "switches": (), "rails": ()})
    assert "dgx-roce" in _texts(draw_site(bare))
    site = str(EXAMPLES / "dgx-roce" / "site.yaml")
    out = tmp_path / "out.svg"
    assert railyard("draw", site, "--out", str(out)).out == f"wrote {out}\n"
    assert out.read_text() == draw_site(spec) == railyard("draw", site, "-o", "-").out
    done = railyard("draw", site, "--out", str(tmp_path / "no" / "out.svg"))
    assert (done.code, done.out) == (2, "")
    assert "cannot be written: No such file or directory" in done.err
    assert railyard("draw", "no.yaml").code == 2
    own = tmp_path / "site.yaml"
    own.write_text(Path(site).read_text())
    done = railyard("draw", str(own), "--out", str(own))
    assert (done.code, done.out) == (2, "")
    assert "exists already. Nothing was written." in done.err
    assert own.read_text() == Path(site).read_text()

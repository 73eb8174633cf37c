"""Names of kernel settings that are near a known one, and are settings themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from tests.checks.cases import CLEAN


@pytest.mark.parametrize(
    "setting",
    [
        "net.ipv4.conf.all.forwarding: 1",
        "net.ipv4.conf.default.arp_filter: 1",
        "net.ipv4.conf.lo.arp_ignore: 1",
        "net.ipv4.tcp_dsack: 1",
        "net.ipv6.neigh.default.gc_thresh3: 8192",
    ],
)
def test_a_name_that_is_one_is_no_slip(tmp_path: Path, setting: str) -> None:
    text = CLEAN.read_text(encoding="utf-8")
    path = tmp_path / "site.yaml"
    kernel = f"peermem: true, kernel: {{sysctls: {{{setting}}}}}"
    path.write_text(text.replace("peermem: true", kernel), encoding="utf-8")
    assert load_checked_site(path).problems == ()

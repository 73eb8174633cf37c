"""A machine that has the virtual address is named by the look and by the step of a balancer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from components.drift.device_drift import Watched

if TYPE_CHECKING:
    from tests.over_ssh.test_k3s_ha import Site

MAC: Final = "52:54:00:12:34:56"


def name_a_taken_address(site: Site, watched: Watched, address: str) -> None:
    """Only before this host may have it: a balancer that runs would find itself."""
    host = watched.step.endpoint.device
    site.lab.fault(host, "address-taken", address, MAC)
    asked = watched.desired.render() + watched.looks
    assert "others." not in site.lab.run(watched.step, watched.observe, asked).stdout
    site.sh(watched.step, "systemctl stop railyard-keepalived")
    assert f"others.address={MAC}\n" in site.lab.run(watched.step, watched.observe, asked).stdout
    refused = site.run(watched.step)
    assert refused.exit_status != 0
    assert f"{address} is in use: {MAC} answers for it on eno1" in refused.stderr
    site.lab.fault(host, "address-taken", address, "off")
    assert site.changed(watched.step)
    assert site.drift(watched) == ""

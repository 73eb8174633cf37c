"""One mistake is one problem: what only follows from it is not told beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from tests.checks.cases import CLEAN, ROOT

BASES = {
    "clean": CLEAN,
    "spine-leaf": ROOT / "examples" / "spine-leaf" / "site.yaml",
    "quantum-ib": ROOT / "examples" / "quantum-ib" / "site.yaml",
    "mixed-fabric": ROOT / "examples" / "mixed-fabric" / "site.yaml",
}
_LINK = 'swp49: {to: "spine-01:swp1", mode: routed, cable_length_m: 150}'
_ROUTING = "routing: {asn: 65101, router_id: 10.255.0.1}"


def _problems(folder: Path, base: str, old: str, new: str) -> list[str]:
    text = BASES[base].read_text(encoding="utf-8")
    assert old in text
    path = folder / "site.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return [problem.rule for problem in load_checked_site(path).problems]


@pytest.mark.parametrize(
    ("base", "old", "new", "rule"),
    [
        ("clean", '"1/1": gpu01/rail-0', "eth0: gpu01/rail-0", "malformed"),
        ("clean", '"1/1": gpu01/rail-0', '"1/1": [gpu01/rail-0]', "malformed"),
        ("clean", '"1/1": gpu01/rail-0', '"1/1":', "malformed"),
        ("clean", '"1/1": gpu01/rail-0', '"1/1": {mode: trunk}', "missing-key"),
        ("clean", '"1/1": gpu01/rail-0', '"1/1": gpx01/rail-0', "port-target"),
        ("clean", '"1/1": gpu01/rail-0', '"1/1": gpu01/rail-7', "port-target"),
        ("clean", '"1/2": gpu01/rail-1', '"1/1": gpu01/rail-1', "duplicate-key"),
        ("clean", "release: 3.9.2504", "release: banana", "switch-release"),
        ("clean", "numa: 0", "numa: -3", "out-of-range"),
        ("clean", '"1/2": gpu01/rail-1', '"1/2": gpu01/rail-0', "nic-cabling"),
        ("clean", "enp5s0, vfs: 8", "enp5s0, vfs: 8, speed_gbit_s: 800", "nic-speed"),
        ("clean", "enp5s0, vfs: 8", "enp5s0, vfs: 254", "vf-limit"),
        ("spine-leaf", "swp1-8: gpu[01-08]/rail-0", "swp8-1: gpu[01-08]/rail-0", "port-range"),
        ("spine-leaf", "gpu[01-08]/rail-0", "gpu[01-07]/rail-0", "port-range"),
        ("spine-leaf", "gpu[01-08]/rail-0", "gpu[01-08]", "port-range"),
        ("spine-leaf", "gpu[01-08]/rail-0", "gpu[01-08]/rail-9", "port-target"),
        ("spine-leaf", "swp1-8: gpu[01-08]/rail-0", "swp1-99: gpu[01-08]/rail-0", "port-range"),
        ("spine-leaf", "name: leaf-02", "name: leaf-01", "duplicate-name"),
        ("spine-leaf", _LINK, "swp49: 5", "malformed"),
        ("spine-leaf", _LINK, _LINK.replace("spine-01:swp1", "spine-01:swp2"), "link-ends"),
        ("spine-leaf", _LINK, _LINK.replace("spine-01:swp1", "spine-09:swp1"), "link-ends"),
        ("spine-leaf", _LINK, _LINK.replace("spine-01:swp1", "spine-01:swp99"), "link-ends"),
        ("spine-leaf", _LINK, _LINK.replace("spine-01:swp1", "leaf-01:swp50"), "link-ends"),
        ("spine-leaf", _LINK, _LINK.replace("routed", "access"), "link-form"),
        ("spine-leaf", _LINK, _LINK.replace("routed", "trunk"), "link-match"),
        ("spine-leaf", _ROUTING, "routing: 65101", "wrong-type"),
        ("spine-leaf", _ROUTING, "#", "routing"),
        ("spine-leaf", _ROUTING, _ROUTING.replace("10.255.0.1", "10.255.0.300"), "malformed"),
        ("spine-leaf", "pfc_watchdog: true", "pfc_watchdog: yes", "wrong-type"),
        ("mixed-fabric", '"4.32.1F"', '"latest"', "switch-release"),
        ("mixed-fabric", "model: SN3700", "model: Z9332F", "switch-system"),
        ("quantum-ib", "pkey: 0x0101", "pkey: -1", "malformed"),
        ("quantum-ib", "pkey: 0x0101", "pkey: 0xffff", "malformed"),
        ("quantum-ib", "members: [gpu01, gpu02]", "members: gpu01", "unknown-choice"),
        ("quantum-ib", "members: [gpu01, gpu02]", "members: [0c42a1030000db20]", "malformed"),
        ("quantum-ib", "members: [gpu01, gpu02]", "members: []", "partition-member"),
        ("quantum-ib", '"a088:c203:0001:1000"', "a088", "malformed"),
        ("quantum-ib", '"a088:c203:0001:1000"', '"a088:c203:0002:1000"', "hca-guid"),
        ("quantum-ib", "infiniband:\n", "infinband:\n", "unknown-key"),
        ("quantum-ib", "  rate_gbit_s: 400", "  rate_gbit_s: 123", "ib-rate"),
    ],
)
def test_one_mistake_is_one_problem(
    tmp_path: Path, base: str, old: str, new: str, rule: str
) -> None:
    assert _problems(tmp_path, base, old, new) == [rule]


def test_a_wrong_key_of_the_only_virtual_machine_is_one_problem(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "esxi-roce" / "site.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "name: vm01, gpu:" in line)
    path = tmp_path / "site.yaml"
    path.write_text(text.replace(line, line.replace("gpu:", "gpus: 2, gpu:")), encoding="utf-8")
    assert [problem.rule for problem in load_checked_site(path).problems] == ["unknown-key"]


def test_a_template_for_anchors_is_no_setting(tmp_path: Path) -> None:
    text = CLEAN.read_text(encoding="utf-8")
    line = '      - {rail: rail-0, pci: "0000:05:00.0", netdev: enp5s0, vfs: 8, numa: 0}\n'
    assert text.count(line) == 2
    template = f"x-first: &first {line.strip().removeprefix('- ')}\n"
    path = tmp_path / "site.yaml"
    path.write_text(template + text.replace(line, "      - *first\n"), encoding="utf-8")
    loaded = load_checked_site(path)
    assert loaded.problems == ()
    assert loaded.spec == load_checked_site(CLEAN).spec


_DEFAULTS = "{user: {name: nvidia, uid: 1010}, driver: {kind: present}, peermem: true}"


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (
            _DEFAULTS,
            "{memlock: none, driver: {kind: present, version: 3.2.0}, firmware: {num_of_vfs: 4}}",
            {"unknown-choice", "driver-package", "firmware-vfs"},
        ),
        (
            "peermem: true",
            "peermem: true, kernel: {sysctls: {kernel.sysrq: true, vm.nr_hugepages: 8}}",
            {"wrong-type", "malformed"},
        ),
    ],
)
def test_one_mistake_hides_no_other(tmp_path: Path, old: str, new: str, rules: set[str]) -> None:
    assert set(_problems(tmp_path, "clean", old, new)) == rules


@pytest.mark.parametrize(
    ("old", "new"),
    [("rails:\n", "rails: {}\nx:\n"), ("hosts:\n", "hosts: {}\nx:\n")],
)
def test_a_part_of_the_wrong_kind_hides_what_looks_for_it(
    tmp_path: Path, old: str, new: str
) -> None:
    assert _problems(tmp_path, "clean", old, new) == ["wrong-type", "unknown-key"]


def test_fewer_hcas_than_the_fabric_has_are_told_where_they_are_counted(tmp_path: Path) -> None:
    found = _problems(tmp_path, "quantum-ib", "    hcas: 8", "    hcas: 4")
    assert sorted(found) == ["hca-guid", "ib-hcas"]


def test_an_ethernet_switch_in_infiniband_says_nothing_of_its_ports(tmp_path: Path) -> None:
    found = _problems(tmp_path, "quantum-ib", "os: mlnxos", "os: onyx")
    assert sorted(found) == ["sm-switch", "switch-system", "switch-transport"]


def test_two_mistakes_stay_two(tmp_path: Path) -> None:
    """A NIC that is on no port is told beside a port that leads nowhere, if there are more NICs."""
    old = '"1/1": gpu01/rail-0\n      "1/2": gpu01/rail-1\n'
    found = _problems(tmp_path, "clean", old, '"1/1": gpx01/rail-0\n')
    assert found == ["port-target", "nic-cabling"], "the two NICs of nic-cabling are joined"


def test_a_wrong_setting_hides_no_cabling(tmp_path: Path) -> None:
    text = BASES["clean"].read_text(encoding="utf-8")
    path = tmp_path / "site.yaml"
    path.write_text(text.replace('"1/4": gpu02/rail-1', "").replace("dscp: 26", "dscp: 64"))
    rules = [problem.rule for problem in load_checked_site(path).problems]
    assert rules == ["out-of-range", "nic-cabling"]


def test_two_swapped_cables_are_one_problem_with_both(tmp_path: Path) -> None:
    """Each of the four ends names one that names another; the two first ones tell it."""
    text = BASES["spine-leaf"].read_text(encoding="utf-8")
    for old, new in (("swp49: {", "swpx: {"), ("swp50: {", "swp49: {"), ("swpx: {", "swp50: {")):
        text = text.replace(old, new, 1)
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    (problem,) = load_checked_site(path).problems
    assert (problem.rule, problem.more) == ("link-ends", 1)
    assert {str(place.value) for place in problem.where} >= {"spine-01:swp1", "spine-01:swp2"}

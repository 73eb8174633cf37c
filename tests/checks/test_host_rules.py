"""What the rules say of hosts and their cards: one problem for one mistake, with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.site import load_checked_site
from components.core.problem import Finding
from tests.checks.cases import CLEAN, ROOT

_SHA = "6f0b44c8a5b0e5f4c1a9d7b2e3f60718293a4b5c6d7e8f90112233445566778f"
_SITES = ("dgx-roce", "shared-rdma", "crusoe-k3s")
_INBOX = "driver: {kind: present}"
_DEB = "doca-host_3.2.0-125000-25.10-ubuntu2204_amd64.deb"
_NIC = 'pci: "0000:05:00.0", netdev: enp5s0, vfs: 8, numa: 0'


def _problems(folder: Path, *edits: tuple[str, str], base: Path | None = None) -> list[Finding]:
    text = (base or CLEAN).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return list(load_checked_site(path).problems)


def _sysctl(value: str) -> tuple[str, str]:
    return "peermem: true", f"peermem: true, kernel: {{sysctls: {{{value}}}}}"


def test_a_checksum_beside_a_repository_is_shown_as_what_it_is(tmp_path: Path) -> None:
    repository = f"repository: {{url: /opt/doca, key: /opt/doca.gpg, key_sha256: {_SHA}}}"
    driver = f"driver: {{kind: doca_ofed, version: 3.2.0, sha256: {_SHA}, {repository}}}"
    [problem] = _problems(tmp_path, (_INBOX, driver))
    assert [place.path[-1] for place in problem.where] == ["sha256", "url"]
    assert problem.what.startswith("the driver has a checksum of a source and a repository")
    assert problem.fix == "remove sha256, or repository."


@pytest.mark.parametrize(
    ("address", "what"),
    [
        (f"https://m/{_DEB}?token=abc", 'has a "?" in it'),
        (f"/opt/{_DEB.replace('_amd64', '~rc_amd64')}", 'has a "~" in it'),
        (f"http://m/{_DEB}", "is neither an absolute path nor https"),
    ],
)
def test_a_source_that_scripts_refuse_is_one_problem(
    tmp_path: Path, address: str, what: str
) -> None:
    driver = f'driver: {{kind: doca_ofed, version: 3.2.0, sha256: {_SHA}, source: "{address}"}}'
    [problem] = _problems(tmp_path, (_INBOX, driver))
    assert problem.rule == "malformed"
    assert what in problem.what


def test_a_gpu_that_is_twice_in_one_list_is_said_to_be(tmp_path: Path) -> None:
    twice = f'{_NIC}, gpu_pci: ["0000:06:00.0", "0000:06:00.0"]'
    [problem] = _problems(tmp_path, (_NIC, twice))
    assert problem.what == "gpu01 enp5s0 lists the GPU at 0000:06:00.0 2 times."
    assert problem.fix == "remove one of the two."


def test_firmware_of_guests_is_told_once_with_a_way_that_works(tmp_path: Path) -> None:
    esxi = ROOT / "examples" / "esxi-roce" / "site.yaml"
    edit = ("firmware: {ats: true", "firmware: {ats: true, num_of_vfs: 4")
    [problem] = _problems(tmp_path, edit, base=esxi)
    assert problem.rule == "firmware-guests"
    assert problem.fix.startswith("remove num_of_vfs; set these parameters on the hypervisor")


@pytest.mark.parametrize(
    ("site", "role"),
    [
        *((site, role) for site in _SITES for role in ("worker", "control_plane")),
        ("crusoe-k3s", "balancer"),
    ],
)
def test_a_wrong_role_is_one_problem(tmp_path: Path, site: str, role: str) -> None:
    base = ROOT / "examples" / site / "site.yaml"
    found = _problems(tmp_path, (f"role: {role}", "role: gpu"), base=base)
    assert [problem.rule for problem in found] == ["unknown-choice"]


def test_no_role_is_one_problem(tmp_path: Path) -> None:
    found = _problems(tmp_path, ("    role: worker\n", ""))
    assert [problem.rule for problem in found] == ["missing-key"]


@pytest.mark.parametrize(
    ("written", "shown", "decimal"),
    [
        ("vm.swappiness: 010", "010", "8"),
        ('vm.swappiness: "010"', "010", "8"),
        ('kernel.msgmax: "0x10000"', "0x10000", "65536"),
        ('net.ipv4.tcp_rmem: "4096 0X20000 00064"', "4096 0X20000 00064", "4096 131072 52"),
        ('net.ipv4.ip_local_port_range: "01024 65535"', "01024 65535", "532 65535"),
        ('vm.swappiness: "099"', "099", "99"),
    ],
)
def test_a_number_that_never_reads_back_is_refused(
    tmp_path: Path, written: str, shown: str, decimal: str
) -> None:
    [problem] = _problems(tmp_path, _sysctl(written))
    assert (problem.rule, problem.severity) == ("malformed", "error")
    assert f" = {shown} " in problem.what
    assert f"write {decimal}" in problem.fix


@pytest.mark.parametrize(
    "written",
    [
        "net.core.default_qdisc: fq_codel",
        'net.ipv4.tcp_rmem: "4096 87380 6291456"',
        'net.ipv4.ip_local_reserved_ports: "30000-32767"',
        "vm.swappiness: 0",
        "kernel.sched_rt_runtime_us: -1",
        'net.core.flow_limit_cpu_bitmap: "00000010"',
        'net.ipv4.tcp_fastopen_key: "00000000-00000001-00000002-00000003"',
        "kernel.domainname: node 007",
    ],
)
def test_what_reads_back_as_it_is_stays(tmp_path: Path, written: str) -> None:
    assert _problems(tmp_path, _sysctl(written)) == []


_SERIAL = "serial: MT2012X12345"


def test_two_ports_of_one_card_have_one_serial(tmp_path: Path) -> None:
    second = 'pci: "0000:84:00.0", netdev: enp132s0, vfs: 8, numa: 1'
    port = 'pci: "0000:05:00.1", netdev: enp5s0f1, vfs: 8, numa: 0'
    edits = ((_NIC, f"{_NIC}, {_SERIAL}"), (second, f"{port}, {_SERIAL}"))
    assert _problems(tmp_path, *edits) == []


_SHARED = ROOT / "examples" / "shared-rdma" / "site.yaml"


@pytest.mark.parametrize(
    ("setting", "key", "reason"),
    [
        ("vfs: 0, sriov: {trust: true}", "trust", "has no VFs"),
        ("vfs: 0, sriov: {autoprobe: false}", "autoprobe", "has no VFs"),
        ("vfs: 0, vf_mtu_bytes: 9000", "vf_mtu_bytes", "has no VFs"),
        (
            "vfs: 4, vf_mtu_bytes: 9000, sriov: {autoprobe: false}",
            "vf_mtu_bytes",
            "but its VFs have no driver",
        ),
    ],
)
def test_settings_of_vfs_that_are_not_there_are_refused(
    tmp_path: Path, setting: str, key: str, reason: str
) -> None:
    found = _problems(tmp_path, ("vfs: 0", setting), base=_SHARED)
    assert [(each.rule, each.where[0].path[-1]) for each in found] == [("vf-effect", key)]
    assert reason in found[0].what


def test_the_mode_of_a_card_without_vfs_may_be_set(tmp_path: Path) -> None:
    edit = ("vfs: 0", "vfs: 0, sriov: {eswitch: legacy}")
    assert _problems(tmp_path, edit, base=_SHARED) == []

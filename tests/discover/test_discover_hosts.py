"""Hosts of all kinds, known, new and silent, through discovery into a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UnreachableError, UsageError
from components.discover import site_file
from components.discover.run import compare, render_report, replace_file
from components.discover.site_file import find_targets, read_site_file
from components.hosts.look import HostLook
from components.reading.yaml_text import YamlText, parse_yaml
from tests.discover.played import bare, dgx, instance, look_at, nic
from tests.discover.sites import GPU01, HEAD, KEY, SSH, TAIL, added, run


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> HostLook:
    return look_at(dgx(), tmp_path_factory.mktemp("dgx"))


@pytest.mark.parametrize(
    ("model", "written"),
    [
        ("ConnectX-5", "model: ConnectX-5, speed_gbit_s: 100"),
        ("ConnectX-6 Dx", "model: ConnectX-6 Dx, speed_gbit_s: 100"),
        ("ConnectX-7", "model: ConnectX-7, speed_gbit_s: 400"),
        ("ConnectX-8", "model: ConnectX-8, speed_gbit_s: 800"),
        ("ConnectX-9", "model: ConnectX-9, speed_gbit_s: 800"),
        ("BlueField-3", "model: BlueField-3, speed_gbit_s: 400"),
        ("BlueField-2", "netdev: enp5s0, speed_gbit_s: 200"),
    ],
)
def test_each_model_is_found(tmp_path: Path, model: str, written: str) -> None:
    seen = look_at(bare(nic(0, "0000:05:00.0", 0, model), gpus=1), tmp_path / "look")
    report, after = run(tmp_path, HEAD + GPU01, seen)
    assert written in after
    assert f"  {model}  " in render_report(report)


def test_a_host_with_nothing_in_it(tmp_path: Path) -> None:
    seen = look_at(bare(), tmp_path / "look")
    report, after = run(tmp_path, HEAD + GPU01, seen)
    assert (report.exit_code, after) == (0, HEAD + GPU01)
    assert "0 cards, 0 GPUs, 2 NUMA nodes" in render_report(report)


def test_infiniband_adapters_are_counted(tmp_path: Path) -> None:
    seen = look_at(instance(bare_metal=True), tmp_path / "look")
    _, after = run(tmp_path, HEAD + GPU01, seen)
    assert added(HEAD + GPU01, after) == ["    gpus: 8", "    hcas: 8"]


def test_a_new_host_is_a_whole_entry(tmp_path: Path, look: HostLook) -> None:
    before = HEAD + GPU01 + TAIL
    seen = replace(look, name="GPU02.example.com")
    _, after = run(tmp_path, before, seen, asked=("ubuntu@192.168.2.12:2222",))
    lines = added(before, after)
    assert lines[:8] == [
        "  - name: gpu02",
        "    role: worker",
        "    ssh:",
        '      address: "192.168.2.12"',
        "      port: 2222",
        "      user: ubuntu",
        "      private_key:",
        "        secret: ssh_private_key",
    ]
    assert after.endswith(TAIL)


@pytest.mark.parametrize(
    ("names", "asked", "words"),
    [
        (("gpu01",), ("root@10.0.0.7",), "calls itself gpu01, as hosts[0] does"),
        (
            ("node", "Node.example.com"),
            ("root@10.0.0.7", "root@10.0.0.8"),
            "root@10.0.0.8 calls itself node, as root@10.0.0.7 does",
        ),
    ],
)
def test_a_new_host_under_a_name_that_is_taken_is_not_written(
    tmp_path: Path, look: HostLook, names: tuple[str, ...], asked: tuple[str, ...], words: str
) -> None:
    looks = [replace(look, name=name) for name in names]
    report, after = run(tmp_path, HEAD + GPU01, *looks, asked=asked)
    [error] = report.errors
    assert words in str(error)
    assert "nothing was written for it" in str(error)
    assert report.exit_code == 2
    assert after.count("- name: node") == len(names) - 1
    assert after.count("- name: gpu01") == 1


def targets_of(folder: Path, text: str, *asked: str) -> list[tuple[str, int]]:
    path = folder / "site.yaml"
    path.write_text(text)
    targets, errors = find_targets(read_site_file(path), asked, KEY, "root")
    assert errors == []
    return [(target.name, target.endpoint.port) for target in targets]


def test_a_stranger_is_asked_once_however_it_is_written(tmp_path: Path) -> None:
    words = ("nvidia@10.0.0.7", "10.0.0.7", "root@10.0.0.7:22", "10.0.0.7:2222")
    assert targets_of(tmp_path, HEAD + GPU01, *words) == [
        ("nvidia@10.0.0.7", 22),
        ("10.0.0.7:2222", 2222),
    ]


def test_hosts_behind_one_address_differ_by_their_port(tmp_path: Path) -> None:
    def entry(name: str, port: int) -> str:
        port_line = f"      user: nvidia\n      port: {port}\n"
        ssh = SSH.replace("      user: nvidia\n", port_line)
        return ssh.replace("    ssh:", f"  - name: {name}\n    ssh:")

    one = f"{HEAD}hosts:\n{entry('gpu01', 2211)}"
    both = f"{one}{entry('gpu02', 22)}"
    assert targets_of(tmp_path, one, "192.168.2.11") == [("gpu01", 2211)]
    assert targets_of(tmp_path, one, "192.168.2.11:2211") == [("gpu01", 2211)]
    assert targets_of(tmp_path, one, "192.168.2.11:22") == [("192.168.2.11:22", 22)]
    assert targets_of(tmp_path, both, "192.168.2.11:2211") == [("gpu01", 2211)]
    assert targets_of(tmp_path, both, "192.168.2.11") == [("gpu02", 22)]
    assert targets_of(tmp_path, GPU01, "192.168.2.11:22") == [("gpu01", 22)]


def test_hosts_that_fail_keep_no_other_from_being_written(tmp_path: Path, look: HostLook) -> None:
    text = HEAD + GPU01 + SSH.replace("    ssh:", "  - name: gpu02\n    ssh:").replace(".11", ".12")
    path = tmp_path / "site.yaml"
    path.write_text(text)
    file = read_site_file(path)
    targets, errors = find_targets(file, ("gpu02", "gpu01", "gpu77"), None, "root")
    assert [target.name for target in targets] == ["gpu01", "gpu02"]
    gone = UnreachableError(
        "gpu02 (nvidia@192.168.2.12:22) is not reachable within 20 s: no answer"
    )
    report, after = compare(file, targets, [look, gone], errors)
    assert report.exit_code == 4
    assert after.count(" pci:") == 4
    text = render_report(report)
    assert "gpu77 is not a host of" in text
    assert "its hosts: gpu01, gpu02" in text
    assert "not reachable" in text


def test_many_hosts_are_written_in_one_pass(
    tmp_path: Path, look: HostLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = "".join(
        SSH.replace("    ssh:", f"  - name: gpu{n:02}\n    ssh:").replace(".11", f".{n}")
        for n in range(20, 28)
    )
    read: list[str] = []

    def count(text: str, source: str) -> YamlText:
        read.append(source)
        return parse_yaml(text, source)

    monkeypatch.setattr(site_file, "parse_yaml", count)
    report, after = run(tmp_path, f"{HEAD}hosts:\n{hosts}", *[look] * 8)
    assert after.count(" pci:") == 8 * 4
    assert report.errors == ()
    assert len(read) == len(["the file", "with what is added", "what is expected of that"])


def test_a_host_that_cannot_be_written_keeps_no_other(tmp_path: Path, look: HostLook) -> None:
    text = HEAD + GPU01 + '    nics: &cards\n      - {rail: rail-0, pci: "0000:05:00.0"}\n'
    text += SSH.replace("    ssh:", "  - name: gpu02\n    nics: *cards\n    ssh:")
    text += SSH.replace("    ssh:", "  - name: gpu03\n    ssh:")
    report, after = run(tmp_path, text, look, look, look)
    assert len(report.errors) == 2
    assert [found.target.name for found in report.found] == ["gpu01", "gpu02", "gpu03"]
    assert after.count(" pci:") == 1 + 4


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(HEAD + GPU01)
    file = read_site_file(path)
    path.write_text(HEAD + GPU01 + "# saved\n")
    with pytest.raises(UsageError, match="was changed while the hosts were read; nothing was"):
        replace_file(file, HEAD)
    assert path.read_text().endswith("# saved\n")
    replace_file(read_site_file(path), HEAD)
    assert path.read_text() == HEAD
    assert [each.name for each in tmp_path.iterdir()] == ["site.yaml"]


def test_a_stranger_needs_a_host_key(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(HEAD + GPU01)
    targets, errors = find_targets(read_site_file(path), ("root@192.168.2.19",), None, "root")
    assert targets == []
    assert "ssh-keyscan -p 22 192.168.2.19" in str(errors[0])
    by_address, _ = find_targets(read_site_file(path), ("nvidia@192.168.2.11",), None, "root")
    assert [target.name for target in by_address] == ["gpu01"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f"      host_key: {KEY}\n", "", "gpu01 lacks a pinned host key"),
        ("      private_key: {secret: ssh_private_key}\n", "", "lacks a private key"),
        ("user: nvidia", "user: [a]", "ssh.user"),
    ],
)
def test_a_host_that_cannot_be_reached_as_it_is_written(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "site.yaml"
    path.write_text((HEAD + GPU01).replace(old, new))
    targets, errors = find_targets(read_site_file(path), (), None, "root")
    assert targets == []
    assert words in str(errors[0])
    assert "site.yaml:" in str(errors[0])

"""Odd and wrong texts of a site: what is said of them, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.render import render_text
from components.checks.site import CheckedSite, check_loaded, check_site, load_checked_site
from components.checks.topology import list_cables
from components.model.fabric import SwitchPort
from components.reading.load import parse_site
from tests.checks.cases import ROOT

TEXT = (ROOT / "examples" / "dgx-roce" / "site.yaml").read_text(encoding="utf-8")
_PACKAGE = f"{{kind: doca_ofed, source: /d.deb, sha256: '{'ab' * 32}'"
PASSWORD = "password: {secret: switch_password}"


def _check(*edits: tuple[str, str]) -> CheckedSite:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return check_loaded(parse_site(text, "site.yaml"), "site.yaml")


def _rules(*edits: tuple[str, str]) -> set[str]:
    return {problem.rule for problem in _check(*edits).problems}


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"1/4"', '"1/04"', "malformed"),
        ('"1/4"', '"1/\u0664"', "malformed"),
        ('"1/4"', '"1/4\\n"', "malformed"),
        ('"0000:05:00.0"', '"0000:05:00.0\\n"', "malformed"),
        ("      user: admin", '      user: "a;id"', "malformed"),
        ("      user: nvidia", "      user: -oProxyCommand=x", "malformed"),
        ("image: 192.168.100.10:5000/nccl-roce-test:1", "image: http://a/b", "malformed"),
        ("image: 192.168.100.10:5000/nccl-roce-test:1", 'image: ""', "malformed"),
        ("mode: sriov,", "mode: sriov, mtu_bytes: 0,", "out-of-range"),
        (
            "{kind: present}",
            f"{_PACKAGE}, version: '3 2;id'}}",
            "malformed",
        ),
        ("{kind: present}", f'{{kind: present, sha256: "{"ab" * 32}"}}', "driver-package"),
        ("user: {name: nvidia", 'user: {name: "nvidia\\n"', "malformed"),
        ("  token:", '  source: {binary: "/opt/mirror/k3s\\n"}\n  token:', "malformed"),
        ("mirror: 192.168.100.10:5000", "mirror: 192.168.100.10:99999", "malformed"),
        ("address: 192.168.2.11", "address: 0.0.0.0", "malformed"),
        ("address: 192.168.2.11", "address: 224.0.0.1", "malformed"),
        ("    gpus: 8", "    node_ip: 10.10.111.7\n    gpus: 8", "subnet-overlap"),
        (PASSWORD, f"{PASSWORD}\n      agent: true", "credentials"),
        ("AjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr", "AjcW", "malformed"),
        ("  - name: gpu02", "  - <<: hello\n    name: gpu02", "yaml-syntax"),
    ],
)
def test_odd_value_is_refused_by_its_rule_alone(old: str, new: str, rule: str) -> None:
    checked = _check((old, new))
    assert checked.spec is None
    assert {p.rule for p in checked.problems} - {"nic-cabling"} == {rule}
    assert all(place.line for problem in checked.problems for place in problem.where)


def test_key_of_several_lines_is_no_pinned_key() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
    assert _rules((key, f'"{key}\\nssh-ed25519 AAAA"')) == {"malformed"}
    assert _rules((key, f"{key} root@leaf-01")) == set()


@pytest.mark.parametrize("written", ["password: hunter2", "password: {secure: hunter2}"])
def test_secret_in_the_file_is_refused_and_not_shown(written: str) -> None:
    report = render_text(_check((PASSWORD, written)).problems)
    assert "hunter2" not in report
    assert "pulumi config set --secret" in report


def test_rules_also_run_where_a_needed_value_is_wrong() -> None:
    edits = (
        ("vlan: 111", "vlan: 4095"),
        ("port_mtu_bytes: 9216", "port_mtu_bytes: 1500"),
        ("role: control_plane", "role: contrl"),
        ('"0000:84:00.0"', '"84:00"'),
        ("10.10.112.0/24", "10.10.112.9/24"),
        ("      address: 192.168.1.5\n", ""),
        ("version: v1.36.3+k3s1", "version: latest"),
    )
    kinds = ["mtu-chain", "out-of-range", "malformed", "missing-key", "unknown-choice"]
    assert [p.rule for p in _check(*edits).problems] == [*kinds, "malformed", "malformed"]


def test_missing_name_does_not_make_others_wrong() -> None:
    assert _rules(("  - name: gpu02\n    role: worker", "  - role: worker")) == {"missing-key"}


def test_site_without_a_rail_is_refused() -> None:
    spec = _check().spec
    assert spec is not None
    hosts = tuple(host.model_copy(update={"nics": ()}) for host in spec.hosts)
    bare = spec.model_copy(update={"rails": (), "hosts": hosts, "switches": ()})
    assert {problem.rule for problem in check_site(bare)} == {"unused-rail"}


def test_misspelt_site_key_is_named() -> None:
    text = "config:\n  railyard:clustre:\n    name: x\n"
    (problem,) = parse_site(text, "Pulumi.dev.yaml").problems
    assert "did you mean it by `railyard:clustre`?" in problem.what


def test_large_site_is_checked_by_looking_up_its_cables() -> None:
    """64 workers of 8 rails: among all pairs of NIC and port this would take minutes."""
    spec = _check().spec
    assert spec is not None
    rail, worker, switch = spec.rails[0], spec.workers[0], spec.switches[0]
    rails = tuple(rail.model_copy(update={"name": f"rail-{r}"}) for r in range(8))
    nics = tuple(worker.nics[0].model_copy(update={"rail": each.name}) for each in rails)
    workers = tuple(worker.model_copy(update={"name": f"gpu{h}", "nics": nics}) for h in range(64))
    cables = [f"{host.name}/{each.name}" for host in workers for each in rails]
    ports = {f"1/{n}": SwitchPort(to=to) for n, to in enumerate(cables, 1)}
    large = spec.model_copy(
        update={
            "rails": rails,
            "hosts": (*spec.servers, *workers),
            "switches": (switch.model_copy(update={"ports": ports}),),
        }
    )
    assert len(list_cables(large)) == len(cables)
    assert "nic-cabling" not in {problem.rule for problem in check_site(large)}


EXAMPLES = sorted((ROOT / "examples").glob("*/[a-z]*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_example_has_no_problem(file: Path) -> None:
    assert load_checked_site(file).problems == ()


def test_positions_on_one_line_are_sorted_by_number() -> None:
    entries = ", ".join(f"{{name: n{number}}}" for number in range(12))
    text = f"name: x\nhosts: [{entries}]\n"
    found = check_loaded(parse_site(text, "site.yaml"), "site.yaml").problems
    (roles,) = (each for each in found if each.where and each.where[0].path[-1:] == ("role",))
    assert [place.path[1] for place in roles.where] == list(range(12))
    assert roles.what.startswith("hosts[0] lacks `role`")

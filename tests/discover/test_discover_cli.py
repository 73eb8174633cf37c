"""`railyard discover` as a user calls it, where no host is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "dgx-roce" / "site.yaml"


def discover(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    call = "from components.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", call, "discover", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--file", "no-such.yaml"), "no-such.yaml: file not found"),
        (("--file", str(EXAMPLE)), "--identity FILE names the private key"),
        (("--file", str(EXAMPLE)), "RAILYARD_SECRET_SSH_PRIVATE_KEY holds it"),
        (("--file", str(EXAMPLE), "--identity", "no-such-key"), "the private key cannot be read"),
    ],
)
def test_what_is_missing_is_said_and_nobody_is_asked(words: tuple[str, ...], text: str) -> None:
    done = discover("gpu01", *words)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_host_alone_needs_no_key() -> None:
    done = discover("gpu99", "--file", str(EXAMPLE))
    assert done.returncode == 2
    assert "gpu99 is not a host of" in done.stdout
    assert "its hosts: mgmt01, gpu01, gpu02" in done.stdout


def test_a_key_that_is_none_is_said_for_each_host() -> None:
    done = discover("gpu01", "--file", str(EXAMPLE), RAILYARD_SECRET_SSH_PRIVATE_KEY="nonsense")
    assert done.returncode == 4
    assert "the secret ssh_private_key is not a private key" in done.stdout
    assert EXAMPLE.read_text().count("link_width") == 0

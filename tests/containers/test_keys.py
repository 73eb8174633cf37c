"""The keys: two pairs, in OpenSSH's own forms, new every time."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.cli.evidence import PAIRS, make_keys
from components.cli.group import app
from components.core.key_values import parse_state


def content(text: str, name: str) -> str:
    return base64.b64decode(parse_state(text).values[name]).decode()


@pytest.mark.parametrize("pair", PAIRS)
def test_openssh_reads_the_pair(tmp_path: Path, pair: str) -> None:
    text = make_keys("lab")
    file = tmp_path / "key"
    file.write_text(content(text, f"{pair}.private"))
    file.chmod(0o600)
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(file)],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    public = content(text, f"{pair}.public")
    assert shown.split()[:2] == public.split()[:2]
    assert public.endswith(f" railyard-{pair}@lab\n")


def test_the_command_prints_other_keys_every_time() -> None:
    first, second = (
        CliRunner().invoke(app, ["payload", "keys", "--stack", "lab"]).output for _ in range(2)
    )
    assert set(parse_state(first).values) == {
        "container.private", "container.public", "host.private", "host.public",
    }  # fmt: skip
    assert first != second

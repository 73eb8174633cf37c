"""The scripts that are sent with a part before them, as one text under shellcheck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from components.kubernetes.planes.scripts import script_text

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
TOGETHER = (
    *(("member", name) for name in ("k3s_removal", "k3s_node", "k3s_node_undo")),
    *(("haproxy_reading", name) for name in ("haproxy", "haproxy_observe", "haproxy_undo")),
)


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
def test_what_is_sent_as_one_is_clean(names: tuple[str, str]) -> None:
    assert shellcheck("".join(script_text(name) for name in names)) == ""

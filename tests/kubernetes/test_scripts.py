"""The scripts that are sent with a part before them, as one text under shellcheck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from components.kubernetes.planes.scripts import PARTS, script_text

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

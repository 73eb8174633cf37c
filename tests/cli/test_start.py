"""A process of ours imports what it uses: most of a short one's time is its imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

_HEAVY: Final = ("asyncssh", "netmiko", "kubernetes", "urllib3", "matplotlib", "pulumi.automation")
_SESSION: Final = """
from components.remote.netmiko_base import BaseConnection as ours
assert "netmiko" not in sys.modules and "netmiko.ssh_dispatcher" not in sys.modules
import netmiko
assert netmiko.BaseConnection is ours and netmiko.ConnectHandler
"""
_STAND_IN: Final = """
from components.core.start import without_init
with without_init("pulumi", "pulumi.runtime"):
    import {}
"""


@pytest.mark.parametrize(
    ("code", "brings"),
    [
        ("import components.cli.evidence", ()),
        ("import components.cli.check", ()),
        (_SESSION, ("netmiko",)),
        (_STAND_IN.format("standins.command.provider"), ()),
        (_STAND_IN.format("lab.engine.language.host"), ()),
    ],
    ids=["evidence", "check", "netmiko", "command", "language-host"],
)
def test_a_start_brings_no_library_that_it_does_not_use(code: str, brings: tuple[str, ...]) -> None:
    shown = f"import sys\n{code}\nprint(*[n for n in {_HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=False
    )
    assert (done.stderr, tuple(done.stdout.split())) == ("", brings)

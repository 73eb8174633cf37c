"""What a step that failed says last: Pulumi prints it, and a person has to go on from it."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from components.cli import main as cli
from components.core.errors import DeviceError, UnreachableError
from components.fabric import device


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UnreachableError("leaf-01: the session ended"), "next   run the same `pulumi` command"),
        (DeviceError("leaf-01: in the way\n  fix    take it away"), "fix    take it away\n"),
    ],
)
def test_an_error_of_a_step_ends_with_what_to_do(
    error: DeviceError,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seed 8 of tier 2 of the campaign: a lost session named no next command."""

    def fails(_text: str, _environ: Mapping[str, str]) -> str:
        raise error

    monkeypatch.setattr(device, "run_apply", fails)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.argv", ["railyard", "device", "apply"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == error.exit_code
    assert told in said
    assert said.count("\n  ") == 1

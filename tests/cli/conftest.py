"""`railyard` as its entry point calls it, without the cost of a process per call."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.cli.main import main
from components.core.record import record
from tests.cli.put_stack import SeeFacts


@record
class Ended:
    code: int
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def railyard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `railyard` with arguments, and text for standard input."""

    def call(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["railyard", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Ended(code, said.out, said.err)

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, whose `pulumi` is what a test puts into `bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


@pytest.fixture
def see(monkeypatch: pytest.MonkeyPatch) -> SeeFacts:
    return SeeFacts(monkeypatch)

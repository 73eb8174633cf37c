"""What only Onyx does over SSH: its exec requests, its shells, its pager, its deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("onyx", tmp_path) as room:
        yield room


def test_a_slow_prompt_within_the_deadline(room: SwitchRoom) -> None:
    with room.session() as session:
        room.switch.fault(["slow", "0.3"])
        assert "Product release:   3.9.2504" in session.run("show version")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("show version", "UNIX shell commands cannot be executed using this account.\n"),
        ('cli "enable" "show roce"', "RoCE mode: N/A\n"),
        ('cli -h \'"enable" "conf t" "bogus"\'', '% Unrecognized command "bogus".'),
    ],
)
def test_an_exec_runs_only_what_starts_with_cli(
    room: SwitchRoom, command: str, output: str
) -> None:
    text, status = room.exec(command)
    assert text.startswith(output)
    assert status is None, "Onyx may send no exit status (sources.md#onyx-sessions)"


def test_a_shell_without_a_terminal_prints_results_only(room: SwitchRoom) -> None:
    async def work() -> str:
        async with room.connect() as connection:
            process = await connection.create_process(term_type=None)
            output, _ = await process.communicate("enable\nshow roce\n")
            return str(output)

    assert room.wait(work()) == "RoCE mode: N/A\n"


def test_the_pager_of_a_terminal(room: SwitchRoom) -> None:
    async def work() -> str:
        async with room.connect() as connection:
            process = await connection.create_process(term_type="vt100", term_size=(80, 24))
            await process.stdout.readuntil("> ")
            process.stdin.write("enable\r")
            await process.stdout.readuntil("# ")
            process.stdin.write("show interfaces ethernet status\r")
            page = await process.stdout.readuntil("lines 1-23 ")
            process.stdin.write("q")
            return str(page)

    page = room.wait(work())
    assert page.startswith("show interfaces ethernet status\r\n\x1b[?1h\x1b=\r")
    assert "Eth1/22 " in page
    assert "Eth1/23 " not in page

"""bash of the emulated SONiC switch: lists, pipes, and the filters that chains use."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.switches.sonic.cli import Session
from tests.fabric.sonic_lab import make_switch


@pytest.fixture
def shell(tmp_path: Path) -> Session:
    return make_switch(tmp_path).session()


def test_a_prompt_of_bash(shell: Session) -> None:
    assert shell.prompt() == "admin@leaf-01:~$ "
    assert shell.run('echo one; echo "[status $?]"') == "one\n[status 0]\n"
    shell.run("exit")
    assert not shell.open


@pytest.mark.parametrize(
    ("line", "printed", "status"),
    [
        ("false || echo two", "two\n", 0),
        ("false && echo two", "", 1),
        ("true && echo one && echo two", "one\ntwo\n", 0),
        ("true || { echo no; false; }", "", 0),
        ("false || { echo why; false; }", "why\n", 1),
        ("false && echo a || echo b; echo c", "b\nc\n", 0),
        ("echo one | grep -q two", "", 1),
        ("! echo one | grep -q two", "", 0),
        ("! echo one | grep one && echo three", "one\n", 1),
        ("true || ! false | grep x && echo on", "on\n", 0),
        ("echo a|b | grep -Ex 'a|b'", "-bash: b: command not found\n", 1),
        ("echo 'a|b' | grep -x 'a|b'", "a|b\n", 0),
        ("echo a.b | grep -cF .", "1\n", 0),
        ("echo a b | xargs -r -n 1 echo got", "got a\ngot b\n", 0),
        ("echo | xargs -r -n 1 echo got", "", 0),
        ("echo a | xargs -r -n 1 false", "", 123),
        ("echo a | xargs rm", "xargs: the lab does not know rm\n", 1),
        ("# run 2\necho one &&\necho two", "one\ntwo\n", 0),
        ("cat <<<'one\ntwo' | grep -c o", "2\n", 0),
        ("echo one \\\ntwo", "one two\n", 0),
        ("{ echo a", "a\n", 0),
    ],
)
def test_lists_of_commands(shell: Session, line: str, printed: str, status: int) -> None:
    output = shell.run(line)
    if line.startswith("{"):
        assert output.startswith("-bash: syntax error")
        return
    assert (output, shell.status) == (printed, status)


def test_a_command_may_be_typed_as_several_lines(shell: Session) -> None:
    for line in ("true &&", "echo 'a", "b' \\"):
        assert shell.run(line) == ""
        assert shell.prompt() == "> "
    assert shell.run("c") == "a\nb c\n"
    assert shell.prompt() == "admin@leaf-01:~$ "


def test_a_pipe_swallows_no_error(shell: Session) -> None:
    assert "Error: x is not integer" in shell.run("sudo config vlan add x | grep -q x")
    assert shell.status == 1

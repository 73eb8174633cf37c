"""What switches print at a login: each entry of `transcripts.yaml`, played by a real SSH server."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from time import monotonic
from typing import Any, Final

import asyncssh
import pytest
import yaml

from components.core.errors import DeviceError, UnreachableError
from components.fabric.systems import system_of
from components.remote.session_profile import Prompt
from components.remote.step import Endpoint
from components.remote.switch_channels import LONGEST_ESCAPE, PlainStream
from components.remote.switch_session import SwitchSession, open_session
from tests.over_ssh.real_sshd import new_key
from tests.over_ssh.switch_room import running_loop

KEY: Final = new_key()
ENTRIES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "transcripts.yaml").read_text()
)
DEADLINE_S: Final = 2.0
SECRETS: Final = {"pw": "x"}


@dataclass
class Played:
    """A switch that prints what it is told to."""

    login: Sequence[str] = ("leaf-01#",)
    prompts: Sequence[str] = ("leaf-01#",)
    reply: Sequence[str] = ()
    closes: bool = False
    lost_after: int | None = None
    """The session ends after so many typed lines."""
    has_status: bool = False

    async def serve(self, process: asyncssh.SSHServerProcess[str]) -> None:
        await _print(process, self.login)
        if self.closes or self.lost_after == 0:
            process.exit(0)
            return
        last = self.prompts[-1]
        prompts, typed = chain(self.prompts, repeat(last)), 0
        try:
            async for line in process.stdin:
                if not line:  # asyncssh gives one at the end of the input
                    return
                typed += 1
                if typed == self.lost_after:
                    process.channel.get_connection().abort()
                    return
                await _print(process, self.pieces(line.rstrip("\n"), next(prompts)))
        except asyncssh.Error:
            return

    def pieces(self, line: str, prompt: str) -> Iterator[str]:
        status = "[status 0]\n" if self.has_status and "status" in line else ""
        usual = ("{line}\n", f"body\n{status}", "{prompt}")
        prepares = not self.has_status and line.startswith(("terminal", "no cli"))
        for piece in usual if prepares else self.reply or usual:
            yield piece.format(line=line, prompt=prompt)


async def _print(
    process: asyncssh.SSHServerProcess[str], pieces: Iterator[str] | Sequence[str]
) -> None:
    for piece in pieces:
        process.stdout.write(piece.replace("\n", "\r\n"))
        await process.stdout.drain()
        await asyncio.sleep(0)


class _Login(asyncssh.SSHServer):
    more: tuple[str, ...] = ()
    """What is asked after the password."""

    def __init__(self) -> None:
        self._asked = 0

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, Sequence[tuple[str, bool]]]:
        del username, lang, submethods
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> Any:  # noqa: ANN401 - asyncssh's
        del username
        if self.more:
            return "", "", "", [(self.more[0], False)]
        return list(responses) == ["x"]


@contextmanager
def playing(played: Played, login: type[_Login] = _Login) -> Generator[Endpoint]:
    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[KEY], server_factory=login,
            process_factory=played.serve, line_editor=False,
        )  # fmt: skip

    with running_loop() as loop:
        server = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
        public = KEY.export_public_key().decode().strip()
        try:
            yield Endpoint(
                "leaf-01", "switch", "127.0.0.1", server.get_port(), "admin", public,
                password_secret="pw", command_s=0.01,
            )  # fmt: skip
        finally:
            loop.call_soon_threadsafe(server.close)


def _open(endpoint: Endpoint, system: str, deadline_s: float) -> SwitchSession:
    return open_session(endpoint, system_of(system).session, SECRETS, deadline_s)


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["name"] for entry in ENTRIES])
def test_a_transcript(entry: Mapping[str, Any]) -> None:
    more = {key: entry[key] for key in ("login", "prompts", "reply", "closes") if key in entry}
    for key in {"login", "prompts"} & more.keys():
        more[key] = [text.replace("LONG", "x" * 5000) for text in more[key]]
    played = Played(**more, has_status=system_of(entry["os"]).session.has_status)
    command = entry.get("command", "show version")
    with playing(played) as endpoint:
        if "says" not in entry:
            with _open(endpoint, entry["os"], 20) as session:
                answers = [session.run(command) for _ in range(2)]
            assert answers == [entry.get("answer", "body\n")] * 2
            return
        with (
            pytest.raises(UnreachableError) as caught,
            _open(endpoint, entry["os"], DEADLINE_S) as session,
        ):
            session.run(command)
    missing = [words for words in entry["says"] if words not in str(caught.value)]
    assert missing == [], str(caught.value)


@pytest.mark.parametrize(
    ("lost_after", "words"),
    [
        (0, "no session within 10 s: the switch ended it; the last line that it printed is `leaf"),
        (1, "no session within 10 s: the switch ended it; the last line that it printed is `leaf"),
        (2, "no session within 10 s: the switch ended it"),
        (3, "the session ended while `show 1` ran"),
        (4, "the session ended while `show 2` ran"),
    ],
)
def test_a_session_that_is_lost_says_in_which_exchange(lost_after: int, words: str) -> None:

    def talk() -> None:
        with _open(endpoint, "eos", 20) as session:
            for number in (1, 2):
                session.run(f"show {number}")

    with (
        playing(Played(lost_after=lost_after)) as endpoint,
        pytest.raises(UnreachableError) as caught,
    ):
        talk()
    assert words in str(caught.value)


def test_a_login_that_asks_for_a_new_password_gets_none() -> None:
    class Expired(_Login):
        more = ("New password: ",)

    with (
        playing(Played(), Expired) as endpoint,
        pytest.raises(DeviceError, match="asks `New password:`") as caught,
    ):
        _open(endpoint, "eos", 20)
    assert "wants a new password" in str(caught.value)


def test_nothing_is_typed_at_a_question() -> None:
    typed = list[str]()

    class Listening(Played):
        def pieces(self, line: str, prompt: str) -> Iterator[str]:
            typed.append(line)
            return super().pieces(line, prompt)

    with (
        playing(Listening(login=["#### WARNING ####\nNew password: "])) as endpoint,
        pytest.raises(UnreachableError),
    ):
        _open(endpoint, "eos", DEADLINE_S)
    assert typed == []


ESCAPES: Final = (
    "\x1b[2K", "\x1b[?25l", "\x1b[0;1m", "\x1b[1 q", "\x9b0m", "\x1b(B", "\x1b#8", "\x1b=", "\x1bM",
    "\x1b]0;title\x07", "\x1b]0;title\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b_app\x1b\\", "\x9d2;t\x9c",
)  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES)
def test_escapes_are_taken_away_wherever_they_are_split(escape: str) -> None:
    data = f"grün{escape}leaf-01#".encode()
    for at in range(len(data) + 1):
        stream = PlainStream()
        assert stream.feed(data[:at]) + stream.feed(data[at:]) == "grünleaf-01#"
    stream = PlainStream()
    assert "".join(stream.feed(bytes([each])) for each in data) == "grünleaf-01#"


@pytest.mark.parametrize("end", [b"\x07", b"\x1b\\", b"\xc2\x9c"])
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_a_title_of_any_length_takes_little_room(size: int, end: bytes) -> None:
    stream, data = PlainStream(), b"\x1b]0;" + b"x" * 2000 + end + b"leaf-01#"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert "".join(map(stream.feed, pieces)) == "leaf-01#"
    assert stream.feed(b"\x1b]0;" + b"x" * 100_000) == ""
    assert len(stream.held) <= LONGEST_ESCAPE + 1


def test_a_title_without_an_end_keeps_the_text_behind_it() -> None:
    stream = PlainStream()
    assert stream.feed(b"\x1b]0;title\r\nleaf-01#") == "0;title\r\nleaf-01#"


@pytest.mark.parametrize("piece", [b"\x1b]", b"\x1b]x", b"\x1b[0", b"\x1b", b"\x9d", b"(", b"a#>("])
def test_hostile_text_takes_no_time_of_its_square(piece: bytes) -> None:
    """2 MiB took minutes if each chunk were searched with all that came before it."""
    stream, tail, prompt = PlainStream(), "", Prompt(system_of("eos").session.prompt)
    chunk, began = piece * (4096 // len(piece)), monotonic()
    for _ in range(512):
        tail = (tail + stream.feed(chunk))[-8192:]
        assert prompt.find(tail) is None or piece == b"a#>("
    assert monotonic() - began < 20

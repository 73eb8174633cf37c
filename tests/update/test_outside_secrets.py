"""Secrets from the environment and from programs: asked for once, and never shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.model.units import SecretRef
from components.update import secrets
from components.update.secrets import demand_one_line, resolve, run_program, secret_names
from tests.cli.conftest import Call, railyard
from tests.plan.test_text import SPEC

__all__ = ["railyard"]

STACK = SecretRef(secret="switch_password")
ENV = SecretRef(env="VAULT_KEY")
COMMAND = SecretRef(command=("vault", "kv", "get", "kv/ssh"))
PATH = ("hosts", 0, "ssh", "private_key")


def _python(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


def test_each_source_is_asked_once_and_the_stack_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[tuple[str, ...]] = []

    def call(words: tuple[str, ...]) -> str:
        called.append(words)
        return "from the vault\n"

    monkeypatch.setattr(secrets, "run_program", call)
    asked = [(each, PATH) for each in (STACK, ENV, COMMAND, COMMAND, ENV)]
    found = resolve(asked, {"VAULT_KEY": "from the shell"})
    assert found == {ENV.name: "from the shell", COMMAND.name: "from the vault"}
    assert called == [("vault", "kv", "get", "kv/ssh")]


def test_no_two_sources_share_a_name() -> None:
    references = [
        STACK, ENV, COMMAND, SecretRef(env="vault_key"), SecretRef(command=("vault",)),
        SecretRef(secret="env_vault_key"),
    ]  # fmt: skip
    assert len({each.name for each in references}) == len(references)
    assert all(each.name == each.name.lower() for each in references), "they become variables"


def test_all_that_is_missing_is_said_at_once_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(words: tuple[str, ...]) -> str:
        raise UsageError(f"`{words[0]}` is not logged in")

    monkeypatch.setattr(secrets, "run_program", fail)
    with pytest.raises(UsageError) as refused:
        resolve([(ENV, (*PATH, "env")), (COMMAND, ("proxy",))], {})
    text = str(refused.value)
    assert "hosts[0].ssh.private_key.env: the environment variable VAULT_KEY is not set" in text
    assert "proxy: `vault` is not logged in" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import sys; print('hunter2'); sys.exit('denied')",
            "status 1. Nothing was contacted.\n  stderr denied",
        ),
        ("print()", "printed nothing"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "no text in UTF-8"),
    ],
)
def test_a_program_that_gives_nothing_is_shown_without_its_output(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        resolve([(SecretRef(command=_python(text)), PATH)], {})
    assert "\n  stderr hunter2" not in str(refused.value)


def test_an_error_shows_no_argument_no_second_line_and_no_known_secret() -> None:
    text = (
        "import sys; sys.stderr.write('hunter2 is no token: ' + 'x' * 900 + chr(10) + 'dump')"
        "; sys.exit(3)"
    )
    failing = SecretRef(command=(*_python(text), "--token=s3cr3t"))
    with pytest.raises(UsageError) as refused:
        resolve([(ENV, PATH), (failing, PATH)], {"VAULT_KEY": "hunter2"})
    said = str(refused.value)
    assert f"`{sys.executable} …` ended with status 3" in said
    assert "\n  stderr [secret] is no token: xxx" in said
    assert not any(word in said for word in ("s3cr3t", "hunter2", "dump", "x" * 200))


@pytest.mark.parametrize("key", ["sudo_password", "password", "passphrase", "enable_password"])
def test_a_secret_of_several_lines_is_refused_where_one_is_meant(key: str) -> None:
    named = [(STACK, ("hosts", 0, "ssh", key, "secret"))]
    with pytest.raises(UsageError, match=rf"{key}.secret: the secret has 2 lines, and one") as no:
        demand_one_line(named, {"switch_password": "moon\nkernel.core_pattern=|/x"})
    assert "moon" not in str(no.value)
    demand_one_line(named, {"switch_password": "moon"})
    demand_one_line([(STACK, (*PATH, "secret"))], {"switch_password": "-----BEGIN\nAAA\n"})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("pw\n", "ends with a line break"),
        ("pw\r", "ends with a line break"),
        ("\n", "ends with a line break"),
        ("  ", "is blank"),
        ("pw\0x", "has a control character"),
        ("a\x1bb", "has a control character"),
    ],
)
def test_a_secret_that_would_break_the_line_after_it_is_refused(value: str, why: str) -> None:
    named = [(STACK, ("hosts", 0, "ssh", "password", "secret"))]
    with pytest.raises(UsageError, match=f"password.secret: the secret {why}. Nothing was cont"):
        demand_one_line(named, {"switch_password": value})


def test_a_program_that_prints_without_end_is_ended() -> None:
    with pytest.raises(UsageError, match="it sent more than 1 MiB"):
        run_program(("cat", "/dev/zero"))


def test_a_site_refuses_a_password_of_the_stack_with_a_second_line() -> None:
    (own, *_) = [name for name in secret_names(SPEC) if "token" in name or "password" in name]
    with pytest.raises(UsageError, match="has 2 lines, and one is meant"):
        secrets.outside_secrets(SPEC, {}, {own: "a\nb"})


def test_a_program_that_is_not_there_and_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot be run: No such file or directory"):
        run_program(("no-such-vault",))
    monkeypatch.setattr(secrets, "DEADLINE_S", 0.3)
    with pytest.raises(UsageError, match=r"did not end within 0.3 s"):
        run_program(_python("import threading; threading.Event().wait()"))


def test_a_program_gets_no_input_and_no_shell() -> None:
    text = "import sys; print(repr(sys.stdin.read()), sys.argv[1])"
    assert run_program((*_python(text), "$HOME;id")) == "'' $HOME;id\n"


def test_only_the_stacks_secrets_are_asked_of_the_stack() -> None:
    first, *rest = SPEC.hosts
    ssh = first.way.model_copy(update={"private_key": ENV, "sudo_password": COMMAND})
    site = SPEC.model_copy(update={"hosts": (first.model_copy(update={"ssh": ssh}), *rest)})
    assert secret_names(site) == secret_names(SPEC)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("private_key: ~/.ssh/id_ed25519", "is a path: ~/.ssh/id_ed25519"),
        ("private_key: {secrets: x}", "Did you mean `secret`?"),
        ("private_key: {environment: X}", "Did you mean `env`?"),
        ("private_key: {vault: kv/ssh}", "Did you mean `command`?"),
        ("private_key: {secret: a, env: B}", "secret and env is given"),
        ("private_key: {}", "nothing is given"),
    ],
)
def test_a_slip_is_a_slip_and_no_leaked_secret(
    railyard: Call, tmp_path: Path, written: str, words: str
) -> None:
    base = (Path(__file__).parents[1] / "cases" / "base" / "site.yaml").read_text()
    old = "private_key: {secret: ssh_private_key}"
    file = tmp_path / "site.yaml"
    file.write_text(base.replace(old, written, 1))
    done = railyard("check", str(file))
    report = done.out + done.err
    assert done.code == 1
    assert words in report
    assert "it has been readable" not in report
    assert report.partition("\nunpinned: ")[0].count("\n  fix") == 1

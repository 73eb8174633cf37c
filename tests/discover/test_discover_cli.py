"""`railyard discover` as a user calls it, where no host is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Ended, railyard

__all__ = ["railyard"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"

Discover = Callable[..., Ended]


@pytest.fixture
def discover(railyard: Call, monkeypatch: pytest.MonkeyPatch) -> Discover:
    def call(*words: str, **environment: str) -> Ended:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return railyard("discover", *words)

    return call


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--file", "no-such.yaml"), "no-such.yaml: file not found"),
        (("--file", str(EXAMPLE)), "--identity FILE names the private key"),
        (("--file", str(EXAMPLE)), "RAILYARD_SECRET_SSH_PRIVATE_KEY holds it"),
        (("--file", str(EXAMPLE), "--identity", "no-such-key"), "the private key cannot be read"),
    ],
)
def test_what_is_missing_is_said_and_nobody_is_asked(
    discover: Discover, words: tuple[str, ...], text: str
) -> None:
    done = discover("gpu01", *words)
    assert done.code == 2
    assert text in done.err


def test_an_unknown_host_alone_needs_no_key(discover: Discover) -> None:
    done = discover("gpu99", "--file", str(EXAMPLE))
    assert done.code == 2
    assert "gpu99 is not a host of" in done.out
    assert "its hosts: mgmt01, gpu01, gpu02" in done.out


def test_a_key_that_is_none_is_said_for_each_host(discover: Discover) -> None:
    done = discover("gpu01", "--file", str(EXAMPLE), RAILYARD_SECRET_SSH_PRIVATE_KEY="nonsense")
    assert done.code == 4
    assert "the secret ssh_private_key is not a private key" in done.out
    assert EXAMPLE.read_text().count("link_width") == 0

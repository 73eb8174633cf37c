"""A request to reboot a host comes back as it was, with what lies beside the program."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.disruption.reboot import reboot_host
from components.disruption.request import groups_file, groups_text, parse_request
from components.remote.tools import keep_current, keep_text
from tests.disruption.played import request_of
from tests.golden.site import load_example

REQUEST = request_of(load_example("dgx-roce"), "gpu01")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a program whose update wrote what requests name by digest."""
    monkeypatch.chdir(tmp_path)
    keep_text(REQUEST.text)
    keep_current(groups_file(REQUEST.stack), groups_text([REQUEST]))
    return tmp_path / ".railyard" / "tools"


def test_the_request_comes_back_as_it_was(kept: Path) -> None:
    assert kept.is_dir()
    assert parse_request(REQUEST.render()) == REQUEST
    assert parse_request(REQUEST.render("1: vfs is 0")) == replace(REQUEST, repair="1: vfs is 0")


def test_settings_that_wait_for_an_instance_are_in_the_request_itself(kept: Path) -> None:
    address = {"hosts.gpu01": "@{gpu01.private_ip}"}
    request = replace(REQUEST, settings={**REQUEST.settings, **address})
    assert request.text == REQUEST.text
    filled = request.render().replace("@{gpu01.private_ip}", "10.0.0.7")
    assert kept.is_dir()
    assert parse_request(filled).settings == {**REQUEST.settings, "hosts.gpu01": "10.0.0.7"}


@pytest.mark.parametrize("text", [None, "hostname=gpu02\n"], ids=["missing", "altered"])
def test_without_what_it_names_nothing_is_done(kept: Path, text: str | None) -> None:
    settings = kept / hashlib.sha256(REQUEST.text.encode()).hexdigest()
    settings.unlink()
    if text is not None:
        settings.write_text(text)
    with pytest.raises(UsageError, match=r"settings [0-9a-f]{64}, and .* is missing or altered"):
        parse_request(REQUEST.render())


def test_groups_are_those_of_the_last_update(kept: Path) -> None:
    """One worker more in the file changes the groups behind it, and no request."""
    (kept.parent / "groups-dev").write_text("gpu[00-02]\ngpu[00-01]\ngpu02\n")
    request = parse_request(REQUEST.render())
    assert (request.workers, request.group) == ("gpu[00-02]", ("gpu00", "gpu01"))


def test_without_the_groups_nothing_is_done(kept: Path) -> None:
    (kept.parent / "groups-dev").unlink()
    with pytest.raises(UsageError, match=r"groups-dev, which has the groups of the hosts, is miss"):
        parse_request(REQUEST.render())


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the request to reboot a host on stdin"):
        parse_request(text)


def test_a_missing_key_is_named(kept: Path) -> None:
    assert kept.is_dir()
    with pytest.raises(UsageError, match="set RAILYARD_SECRET_SSH_PRIVATE_KEY"):
        reboot_host(REQUEST, {})

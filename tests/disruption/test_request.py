"""A request to reboot a host comes back as it was, with what lies beside the program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import DeviceError, UsageError
from components.disruption import reboot
from components.disruption.reboot import reboot_host, run_reboot_hosts
from components.disruption.request import HostReboot, groups_file, groups_text, parse_request
from components.remote.sending import render_parts, with_repair
from components.remote.tools import keep_current, keep_text
from tests.disruption.played import groups_of, request_of
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
    assert parse_request(with_repair(REQUEST.render(), "1: vfs is 0")) == REQUEST


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


def both(changed: str = "") -> tuple[str, list[HostReboot]]:
    """The text of one resource with all hosts of the example, and their requests."""
    steps = [step for group in groups_of(load_example("dgx-roce")) for step in group.steps]
    keep_current(groups_file(REQUEST.stack), groups_text(step.request for step in steps))
    for step in steps:
        keep_text(step.request.text)
    noted = [(step.step, "1: lost" if step.name == changed else "") for step in steps]
    return render_parts(noted), [step.request for step in steps]


def test_only_a_host_with_a_changed_request_is_visited(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept.is_dir()
    visited: list[HostReboot] = []

    def visit(request: HostReboot, environ: Mapping[str, str]) -> str:
        del environ
        visited.append(request)
        return "{}\n"

    monkeypatch.setattr(reboot, "reboot_host", visit)
    text, requests = both()
    was = run_reboot_hosts(text, {})
    assert visited == requests
    visited.clear()
    assert "{}" not in run_reboot_hosts(text, {"PULUMI_COMMAND_STDOUT": was})
    assert visited == []
    run_reboot_hosts(both("gpu02-reboot")[0], {"PULUMI_COMMAND_STDOUT": was})
    assert [each.endpoint.device for each in visited] == ["gpu02"]


def test_a_failed_group_ends_the_groups_after_it(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept.is_dir()
    visited: list[str] = []

    def fail(request: HostReboot, environ: Mapping[str, str]) -> str:
        del environ
        visited.append(request.endpoint.device)
        raise DeviceError(f"{request.endpoint.device} does not come back")

    monkeypatch.setattr(reboot, "reboot_host", fail)
    text, requests = both()
    with pytest.raises(DeviceError, match=r"^gpu01 does not come back$"):
        run_reboot_hosts(text, {})
    assert visited == ["gpu01"]
    together = [replace(each, group=("gpu01", "gpu02")) for each in requests]
    keep_current(groups_file(REQUEST.stack), groups_text(together))
    with pytest.raises(DeviceError, match=r"^gpu01 does not come back\ngpu02 does not come back$"):
        run_reboot_hosts(text, {})

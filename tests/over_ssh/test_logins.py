"""The lines of `railyard plan --rights` are enough for every step of a host, and for no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from components.preflight.cluster import sudoers
from components.remote.host_session import HostAnswer, run_on_host
from lab.keys import client_secrets
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    folder = tmp_path_factory.mktemp("logins") / "lab"
    with running_hosts("logins-over-ssh", folder, only=("gpu01",)) as running:
        yield running


def _as_user(lab: HostLab, command: str) -> HostAnswer:
    endpoint = lab.plan("gpu01").endpoint
    secrets = client_secrets(lab.stack)
    return asyncio.run(run_on_host(endpoint, secrets, command, deadline_s=60))


def test_a_host_is_set_watched_and_undone_with_exactly_the_printed_lines(lab: HostLab) -> None:
    plan = lab.plan("gpu01")
    user = plan.endpoint.user
    (line,) = sudoers(lab.spec, user, asks=False)
    assert _as_user(lab, "sudo -n cat /etc/shadow").exit_status == 0
    lab.sh(plan, f"printf '%s\n' '{line}' >/etc/sudoers.d/90-{user}")
    for refused in ("cat /etc/shadow", "sh -c id", "systemctl restart ssh", "reboot"):
        answer = _as_user(lab, f"sudo -n {refused}")
        assert answer.exit_status == 1
        assert "password is required" in answer.stderr
    applied = lab.apply(plan)
    assert applied.exit_status == 0, applied.stderr
    assert lab.drift(plan) == ()
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr

"""Ways to switches: keys, the password of `enable` and of sudo, jump hosts, and old algorithms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.fabric import device
from components.fabric.edit import read_baseline
from components.fabric.state import diff_states
from components.fabric.systems import linux, system_of
from components.remote.step import Endpoint, env_name
from components.remote.switch_session import open_session
from tests.over_ssh.real_sshd import (
    ASKING,
    NOT_ASKING,
    PASSWORD,
    RealSshd,
    Server,
    new_key,
    private,
    public,
    real_sshd,
)
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
KEY = new_key()
ENABLE = "open sesame"
KEY_SECRETS = {"switch_key": private(KEY, "moon"), "key_passphrase": "moon", "enable": ENABLE}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SwitchRoom]:
    with switch_room("eos", tmp_path) as room:
        yield room


def _by_key(room: SwitchRoom) -> Endpoint:
    """The same switch after somebody gave its user a key, and `enable` a password."""
    room.switch.set_login(public(KEY), ENABLE)
    return replace(
        room.endpoint,
        password_secret=None,
        private_key_secret="switch_key",
        passphrase_secret="key_passphrase",
        enable_secret="enable",
    )


def test_an_update_by_key_and_enable(room: SwitchRoom) -> None:
    endpoint = _by_key(room)
    environ = {env_name(name): value for name, value in KEY_SECRETS.items()}
    there = replace(room, endpoint=endpoint)
    baseline = read_baseline(device.run_baseline(there.request(), environ))
    evidence = json.loads(device.run_apply(there.request(baseline=baseline), environ))
    assert evidence["changed"]
    observed = device.observe_switch(endpoint, room.system, room.desired, KEY_SECRETS)
    assert diff_states(observed, room.desired) == ()


def test_a_wrong_password_of_enable_is_named_and_changes_nothing(room: SwitchRoom) -> None:
    endpoint, first = _by_key(room), room.switch.snapshot()
    with pytest.raises(DeviceError, match="refuses the password of the secret enable: % Bad"):
        device.observe_switch(
            endpoint, room.system, room.desired, {**KEY_SECRETS, "enable": "close sesame"}
        )
    assert room.switch.snapshot() == first


def test_a_key_that_the_switch_does_not_know_is_named(room: SwitchRoom) -> None:
    endpoint = _by_key(room)
    secrets = {**KEY_SECRETS, "switch_key": private(new_key(), "moon")}
    with pytest.raises(DeviceError, match="refuses the key of user admin; check the secret switch"):
        device.observe_switch(endpoint, room.system, room.desired, secrets)


# Behind a jump host.


@pytest.fixture(scope="module")
def bastions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealSshd, RealSshd]]:
    folder, key = tmp_path_factory.mktemp("bastions"), public(KEY)
    lines = ("AllowTcpForwarding yes", "PermitTTY no", "ForceCommand /bin/false")
    with (
        real_sshd(folder, Server("bastion", key, lines=lines)) as outer,
        real_sshd(folder, Server("inner", key, lines=lines)) as inner,
    ):
        yield outer, inner


def _hops(*servers: RealSshd) -> tuple[Endpoint, ...]:
    return tuple(
        replace(
            each.endpoint(),
            kind="jump",
            private_key_secret="switch_key",
            passphrase_secret="key_passphrase",
        )
        for each in servers
    )


def test_sessions_that_are_open_together_share_the_way(
    room: SwitchRoom, bastions: tuple[RealSshd, RealSshd]
) -> None:
    outer, inner = bastions
    before = outer.logins, inner.logins
    endpoint = replace(room.endpoint, jump=_hops(*bastions))
    profile, secrets = system_of("eos").session, room.secrets | KEY_SECRETS
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(open_session(endpoint, profile, secrets, 20)) for _ in range(3)
        ]
        assert all("Arista" in session.run("show version") for session in sessions)
        assert (outer.logins, inner.logins) == (before[0] + 1, before[1] + 1)
    room.observe()
    with open_session(endpoint, profile, secrets, 20) as session:
        assert "Arista" in session.run("show version"), "a way that was given back is made again"


def test_a_jump_host_with_another_key_is_named(
    room: SwitchRoom, bastions: tuple[RealSshd, RealSshd]
) -> None:
    (hop,) = _hops(bastions[0])
    wrong = replace(hop, host_key=public(new_key()))
    endpoint = replace(room.endpoint, jump=(wrong,))
    with pytest.raises(HostKeyError, match=r"bastion .*: the host key is not the pinned one"):
        open_session(endpoint, system_of("eos").session, room.secrets | KEY_SECRETS, 20)


# The sudo of a switch that is a Linux machine, on Debian's own.


@pytest.mark.parametrize("sudoers", [ASKING, NOT_ASKING])
def test_a_terminal_may_use_sudo_after_the_password(tmp_path: Path, sudoers: str) -> None:
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), sudoers)) as switch:
        endpoint = replace(switch.endpoint(), kind="switch", sudo_secret="sudo")
        secrets = {"ssh_private_key": private(KEY), "sudo": PASSWORD}
        with open_session(endpoint, linux.SESSION, secrets, 20) as session:
            assert session.run("sudo id -un") == "root\n"
            assert session.run("true") == ""


def test_a_sudo_that_refuses_is_named(tmp_path: Path) -> None:
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), ASKING)) as switch:
        endpoint = replace(switch.endpoint(), kind="switch", sudo_secret="sudo")
        secrets = {"ssh_private_key": private(KEY), "sudo": "wrong"}
        with pytest.raises(DeviceError, match="the secret sudo: sudo: 1 incorrect password"):
            open_session(endpoint, linux.SESSION, secrets, 20)


def test_a_sudo_that_forgets_at_once_is_named(tmp_path: Path) -> None:
    forgetful = f"Defaults timestamp_timeout=0\n{ASKING}"
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), forgetful)) as switch:
        endpoint = replace(switch.endpoint(), kind="switch", sudo_secret="sudo")
        secrets = {"ssh_private_key": private(KEY), "sudo": PASSWORD}
        with pytest.raises(DeviceError, match="sudo: a password is required"):
            open_session(endpoint, linux.SESSION, secrets, 20)


# A switch with SHA-1 alone.


OLD = ("HostKeyAlgorithms ssh-rsa", "KexAlgorithms diffie-hellman-group14-sha1")


@pytest.mark.parametrize("lines", [OLD, OLD[:1], OLD[1:]])
def test_sha_1_is_taken_where_the_file_says_so_alone(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), lines=lines)) as switch:
        usual = replace(switch.endpoint(algorithm="ssh-rsa"), kind="switch")
        secrets = {"ssh_private_key": private(KEY)}
        with pytest.raises(UnreachableError, match="legacy_algorithms: true"):
            open_session(usual, linux.SESSION, secrets, 20)
        old = replace(usual, legacy_algorithms=True)
        with open_session(old, linux.SESSION, secrets, 20) as session:
            assert session.run("id -un") == "deploy\n"


def test_old_algorithms_do_not_let_another_key_pass(tmp_path: Path) -> None:
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), lines=OLD)) as switch:
        endpoint = replace(
            switch.endpoint(), kind="switch", legacy_algorithms=True,
            host_key=public(new_key("ssh-rsa")),
        )  # fmt: skip
        with pytest.raises(HostKeyError, match="the host key is not the pinned one"):
            open_session(endpoint, linux.SESSION, {"ssh_private_key": private(KEY)}, 20)


def test_an_rsa_host_key_of_a_new_switch_is_checked_by_sha_2(tmp_path: Path) -> None:
    lines = ("HostKeyAlgorithms rsa-sha2-512",)
    with real_sshd(tmp_path, Server("leaf-01", public(KEY), lines=lines)) as switch:
        endpoint = replace(switch.endpoint(algorithm="ssh-rsa"), kind="switch")
        with open_session(
            endpoint, linux.SESSION, {"ssh_private_key": private(KEY)}, 20
        ) as session:
            assert session.run("id -un") == "deploy\n"

"""Ways to hosts, on Debian's own sshd, sudo and ssh-agent: jump hosts, keys, agents, passwords."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh
import pytest

from components.core.errors import DeviceError, HostKeyError, UnreachableError, UsageError
from components.remote.host_session import HostAnswer, connect_to_host, run_on_host
from components.remote.send import run_steps
from components.remote.ssh import JumpHosts
from components.remote.step import (
    Endpoint,
    env_name,
    render_endpoint,
    render_remote_command,
)
from standins.command.inputs import Connection
from standins.command.remote import connect
from tests.over_ssh.real_sshd import (
    ASKING,
    NOT_ASKING,
    PASSWORD,
    USER,
    RealSshd,
    Server,
    new_key,
    private,
    public,
    real_sshd,
)

pytestmark = pytest.mark.lab
KEY = new_key()
SECRETS = {"ssh_private_key": private(KEY), "sudo": PASSWORD}
FORWARDS_ONLY = ("AllowTcpForwarding yes", "PermitTTY no", "ForceCommand /bin/false")
FORWARDS_NOTHING = ("AllowTcpForwarding no",)
FORWARDS_ELSEWHERE = ("PermitOpen 127.0.0.9:22", "MaxSessions 0")
"""It forwards to one address alone, and opens no session."""
STATE = "mtu_bytes=9000\nname=gpu01\n"


@dataclass
class Site:
    """A host whose sudo asks, one whose sudo does not, and servers that forward all or little."""

    asking: RealSshd
    trusting: RealSshd
    bastion: RealSshd
    inner: RealSshd
    narrow: RealSshd


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("reach")
    key = public(KEY)
    with (
        real_sshd(folder, Server("asking", key, ASKING, FORWARDS_NOTHING)) as asking,
        real_sshd(folder, Server("trusting", key, NOT_ASKING)) as trusting,
        real_sshd(folder, Server("bastion", key, lines=FORWARDS_ONLY)) as bastion,
        real_sshd(folder, Server("inner", key, lines=FORWARDS_ONLY)) as inner,
        real_sshd(folder, Server("narrow", key, lines=FORWARDS_ELSEWHERE)) as narrow,
    ):
        yield Site(asking, trusting, bastion, inner, narrow)


def _run(
    endpoint: Endpoint, command: str = "id -un", stdin: str = "", **secrets: str
) -> HostAnswer:
    return asyncio.run(
        run_on_host(endpoint, SECRETS | secrets, command, stdin=stdin, deadline_s=20)
    )


def _hop(server: RealSshd, address: str = "127.0.0.1") -> Endpoint:
    return replace(server.endpoint(address), kind="jump")


# Keys and addresses.


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_each_kind_of_host_key_is_checked_on_both_families(
    site: Site, algorithm: str, address: str
) -> None:
    assert _run(site.trusting.endpoint(address, algorithm)).stdout == "deploy\n"


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ssh-rsa"])
def test_another_key_of_the_same_kind_is_refused(site: Site, algorithm: str) -> None:
    other = public(site.asking.host_keys[algorithm])
    with pytest.raises(HostKeyError, match="the host key is not the pinned one; nothing was sent"):
        _run(replace(site.trusting.endpoint(), host_key=other))


def test_an_ipv6_address_is_in_brackets_where_a_port_follows(site: Site) -> None:
    with pytest.raises(DeviceError, match=rf"deploy@\[::1\]:{site.trusting.port}\) refused our"):
        _run(site.trusting.endpoint("::1"), ssh_private_key=private(new_key()))


def test_a_passphrase_opens_the_key_and_nothing_else_does(site: Site) -> None:
    sealed = private(KEY, "moon")
    endpoint = replace(site.trusting.endpoint(), passphrase_secret="key_passphrase")
    assert _run(endpoint, ssh_private_key=sealed, key_passphrase="moon").stdout == "deploy\n"
    before = site.trusting.connections
    with pytest.raises(DeviceError, match="key_passphrase does not open the private key"):
        _run(endpoint, ssh_private_key=sealed, key_passphrase="sun")
    with pytest.raises(DeviceError, match="has a passphrase, but the file names none"):
        _run(site.trusting.endpoint(), ssh_private_key=sealed)
    assert site.trusting.connections == before, "nothing was sent"


# The agent.


@contextmanager
def _agent(folder: Path, *keys: asyncssh.SSHKey) -> Generator[str]:
    """OpenSSH's own agent, with these keys."""
    path = folder / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert "SSH_AUTH_SOCK" in process.stdout.readline(), "it listens when it says so"
        for key in keys:
            subprocess.run(
                ["ssh-add", "-q", "-"],
                input=private(key), env={**os.environ, "SSH_AUTH_SOCK": str(path)},
                text=True, check=True, timeout=30,
            )  # fmt: skip
        yield str(path)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _by_agent(server: RealSshd) -> Endpoint:
    return replace(server.endpoint(), private_key_secret=None, agent=True)


def test_the_agent_logs_in_to_the_host_and_to_the_jump_host(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = replace(_by_agent(site.trusting), jump=(_by_agent(site.bastion),))
    with _agent(tmp_path, new_key("ssh-rsa"), KEY) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        assert asyncio.run(run_on_host(endpoint, {}, "id -un", deadline_s=20)).stdout == "deploy\n"


def test_no_agent_a_dead_one_and_one_without_keys_are_three_things(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.trusting.connections
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(DeviceError, match=r"no SSH agent runs here: SSH_AUTH_SOCK is not set"):
        _run(_by_agent(site.trusting))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    with pytest.raises(DeviceError, match=r"nothing answers at SSH_AUTH_SOCK=.*/gone"):
        _run(_by_agent(site.trusting))
    with _agent(tmp_path) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        with pytest.raises(DeviceError, match=r"is empty.*\n.*ssh-add FILE"):
            _run(_by_agent(site.trusting))
    assert site.trusting.connections == before, "nothing was sent"


# Jump hosts.


def test_many_hosts_behind_a_jump_host_take_one_login_there(site: Site) -> None:
    before = site.bastion.logins
    ways = [
        replace(server.endpoint(address), jump=(_hop(site.bastion),))
        for server in (site.asking, site.trusting)
        for address in ("127.0.0.1", "::1")
    ]

    async def look() -> list[str]:
        async with aclosing(JumpHosts(SECRETS)) as jumps:

            async def one(endpoint: Endpoint) -> str:
                async with connect_to_host(endpoint, SECRETS, jumps=jumps) as session:
                    return (await session.run("id -un", deadline_s=20)).stdout

            return await asyncio.gather(*map(one, ways))

    assert asyncio.run(look()) == ["deploy\n"] * len(ways)
    assert site.bastion.logins == before + 1


def test_a_chain_goes_through_each_in_order(site: Site) -> None:
    counts = site.bastion.logins, site.inner.logins
    endpoint = replace(site.trusting.endpoint(), jump=(_hop(site.bastion), _hop(site.inner, "::1")))
    assert _run(endpoint).stdout == "deploy\n"
    assert (site.bastion.logins, site.inner.logins) == (counts[0] + 1, counts[1] + 1)


def test_a_jump_hosts_key_is_pinned_too(site: Site) -> None:
    wrong = replace(_hop(site.bastion), host_key=public(new_key()))
    before = site.trusting.connections
    with pytest.raises(HostKeyError, match=r"bastion .*: the host key is not the pinned one"):
        _run(replace(site.trusting.endpoint(), jump=(wrong,)))
    assert site.trusting.connections == before


def _failure(endpoint: Endpoint) -> list[str]:
    """The lines of what is said of a way that does not open."""
    with pytest.raises(UnreachableError) as caught:
        _run(endpoint)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name", ["asking", "narrow"])
def test_a_jump_host_that_refuses_to_forward_is_named(site: Site, name: str) -> None:
    """By AllowTcpForwarding or PermitOpen: code 1, and the words `open failed`.

    OpenSSH 9.6p1, server_request_direct_tcpip and server_input_channel_open of serverloop.c, and
    channel_connect_to_port of channels.c. Its client prints the code: `channel 0: open failed:
    administratively prohibited: open failed`, and then `stdio forwarding failed` (ssh.c).
    """
    server: RealSshd = getattr(site, name)
    said, fix = _failure(replace(site.trusting.endpoint(), jump=(_hop(server),)))
    assert said.startswith(f"trusting (deploy@127.0.0.1:{site.trusting.port} by {name}): ")
    assert f"the jump host {name} (deploy@127.0.0.1:{server.port}) refuses to forward to" in said
    assert said.endswith(
        f"127.0.0.1:{site.trusting.port}: administratively prohibited: open failed"
    )
    assert "AllowTcpForwarding" in fix
    assert "PermitOpen" in fix


def test_an_address_that_a_jump_host_does_not_reach_is_another_thing(site: Site) -> None:
    """Code 2, and the error of its connect (channel_post_connecting of channels.c)."""
    nowhere = replace(site.trusting.endpoint(), port=1, jump=(_hop(site.bastion),))
    said, fix = _failure(nowhere)
    assert f"the jump host bastion (deploy@127.0.0.1:{site.bastion.port}) does not reach" in said
    assert said.endswith("127.0.0.1:1: Connection refused")
    assert "AllowTcpForwarding" not in fix


def test_the_jump_host_that_stops_a_chain_is_named(site: Site) -> None:
    chain = (_hop(site.asking), _hop(site.inner))
    said, _ = _failure(replace(site.trusting.endpoint(), jump=chain))
    assert said.startswith(f"inner (deploy@127.0.0.1:{site.inner.port} by asking): ")
    assert "the jump host asking " in said
    assert f"refuses to forward to 127.0.0.1:{site.inner.port}" in said


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_host_that_opens_no_session_has_not_lost_the_connection(
    site: Site, *, is_behind: bool
) -> None:
    """Code 2, and the words `open failed` (server_request_session of serverloop.c)."""
    host = site.narrow.endpoint()
    said, fix = _failure(replace(host, jump=(_hop(site.bastion),)) if is_behind else host)
    assert said.endswith("accepted the login, but opens no session: open failed")
    assert "MaxSessions" in fix
    assert "jump host" not in said + fix


def test_a_command_on_a_connection_that_is_gone_says_so(site: Site) -> None:
    """The first one kills the process of sshd that serves it; asyncssh opens no channel then."""

    async def run() -> None:
        async with connect_to_host(site.trusting.endpoint(), SECRETS) as session:
            with pytest.raises(UnreachableError, match="the connection was lost"):
                await session.run("kill -9 $PPID", deadline_s=20)
            with pytest.raises(UnreachableError, match="lost: SSH connection closed"):
                await session.run("true", deadline_s=20)

    asyncio.run(run())


# sudo.


def _as_root(server: RealSshd) -> Endpoint:
    return replace(server.endpoint(), sudo_secret="sudo")


AS_ROOT = render_remote_command("id -un; cat", 20)
ONE_LINE = "sudo -n timeout -k 10 20 sh -c 'id -un; cat'"
"""The same as a step has it: its commands are single lines."""


@pytest.mark.parametrize("name", ["asking", "trusting"])
def test_the_password_goes_to_sudo_and_the_state_to_the_script(site: Site, name: str) -> None:
    """A sudo that asks for nothing must not hand the password on to the script."""
    answer = _run(_as_root(getattr(site, name)), AS_ROOT, STATE)
    assert (answer.stdout, answer.exit_status) == (f"root\n{STATE}", 0)
    assert PASSWORD not in answer.stdout + answer.stderr


def test_the_password_is_in_no_argument_and_no_environment(site: Site) -> None:
    """Looked for in /proc, as root, while the command runs."""
    look = render_remote_command("cat /proc/[0-9]*/cmdline /proc/self/environ | tr '\\0' '\\n'", 20)
    answer = _run(_as_root(site.asking), look)
    assert "railyard-asks-" in answer.stdout, "sudo itself is among them"
    assert PASSWORD not in answer.stdout


def test_a_wrong_password_runs_nothing_and_is_asked_once(site: Site, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(DeviceError, match=r"sudo refuses the password of deploy \(secret sudo\)"):
        _run(_as_root(site.asking), render_remote_command(f"touch {made}", 20), sudo="wrong")
    assert not made.exists()


def test_without_the_password_the_line_for_sudoers_is_the_answer(site: Site) -> None:
    answer = _run(site.asking.endpoint(), AS_ROOT, STATE)
    assert answer.exit_status == 1
    assert "a password is required" in answer.stderr


def test_what_the_command_says_and_how_it_ends_comes_back(site: Site) -> None:
    answer = _run(_as_root(site.asking), render_remote_command("echo oops >&2; exit 3", 20))
    assert (answer.stdout, answer.stderr, answer.exit_status) == ("", "oops\n", 3)


# `railyard device steps`: what steps of hosts call.


def _environ(endpoint: Endpoint) -> dict[str, str]:
    return {env_name(name): SECRETS[name] for name in endpoint.secret_names}


def _text(endpoint: Endpoint, line: str, stdin: str = "") -> str:
    return f"# step it\n# on {render_endpoint(endpoint)}\n# create {line}\n# seconds 20\n{stdin}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ended_the_command_is_named(site: Site, number: signal.Signals) -> None:
    answer = _run(site.trusting.endpoint(), f"echo begun; exec sh -c 'kill -{int(number)} $$'")
    assert (answer.stdout, answer.exit_status) == ("begun\n", 128 + number)
    assert f"signal {int(number)} ended the command there" in answer.stderr


def test_a_step_runs_by_our_own_client(site: Site) -> None:
    endpoint = replace(_as_root(site.asking), jump=(_hop(site.bastion), _hop(site.inner)))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("railyard")), "device", "steps", "it"],
        input=_text(endpoint, ONE_LINE, STATE),
        env={"PATH": os.environ["PATH"], **_environ(endpoint)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (f"root\n{STATE}", 0), done.stderr
    trusting = site.trusting.endpoint()
    failing = run_steps(_text(trusting, "echo no >&2; exit 7"), "it", _environ(trusting))
    assert (failing.stderr, failing.exit_status) == ("no\n", 7)


def test_a_secret_that_did_not_come_is_named(site: Site) -> None:
    endpoint = _as_root(site.asking)
    environ = _environ(endpoint)
    del environ[env_name("sudo")]
    with pytest.raises(UsageError, match="RAILYARD_SECRET_SUDO"):
        run_steps(_text(endpoint, ONE_LINE, STATE), "it", environ)


def test_no_secret_is_in_the_text_of_an_endpoint(site: Site) -> None:
    endpoint = replace(_as_root(site.asking), jump=(_hop(site.bastion),))
    text = render_endpoint(endpoint)
    assert not re.search("PRIVATE KEY|" + re.escape(PASSWORD), text)


# The command provider, as its stand-in plays it: one proxy, an agent, and SHA-1 alone for RSA.


def _provider(server: RealSshd, algorithm: str = "ssh-ed25519") -> Connection:
    return Connection(
        host="127.0.0.1", port=server.port, user=USER, password=None, private_key=None,
        private_key_password=None, agent_socket_path=None, dial_error_limit=0,
        host_key=public(server.host_keys[algorithm]), per_dial_timeout_s=20, proxy=None,
    )  # fmt: skip


async def _through(proxy: Connection, target: Connection) -> str:
    bastion = await connect(proxy, None)
    host = await connect(target, bastion)
    try:
        return str((await host.run("id -un", encoding="utf-8")).stdout)
    finally:
        host.close()
        bastion.close()


def test_the_provider_finds_the_agent_and_goes_through_one_proxy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _agent(tmp_path, KEY) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        found = asyncio.run(_through(_provider(site.bastion), _provider(site.trusting)))
        assert found == "deploy\n"
        with pytest.raises((asyncssh.Error, OSError)):  # which is why RSA goes by our own client
            asyncio.run(_through(_provider(site.bastion), _provider(site.trusting, "ssh-rsa")))


def test_the_provider_opens_a_key_with_its_passphrase(site: Site) -> None:
    sealed = replace(
        _provider(site.trusting), private_key=private(KEY, "moon"), private_key_password="moon"
    )
    bastion = replace(_provider(site.bastion), private_key=private(KEY))
    assert asyncio.run(_through(bastion, sealed)) == "deploy\n"

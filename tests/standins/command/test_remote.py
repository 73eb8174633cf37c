from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from concurrent import futures
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from standins.values import UNKNOWN, Properties, Value, has_secret, is_secret, reveal, seal
from tests.standins.command.protocol import REMOTE, PluginError, PluginProcess, text
from tests.standins.command.ssh_host import PASSWORD, USER, SshHost, make_key

QUIET: Properties = {"logging": "none", "addPreviousOutputInEnv": False}


def step(connection: Properties, **inputs: str) -> Properties:
    return {**QUIET, "connection": seal(connection), **inputs}


def test_the_check_fills_in_defaults_and_marks_secrets(plugin: PluginProcess) -> None:
    checked = plugin.client.check(
        REMOTE, {"create": "true", "connection": {"host": "10.0.0.1", "password": "p"}}
    )
    assert checked.failures == {}
    assert is_secret(checked.inputs["connection"])
    assert reveal(checked.inputs["connection"]) == {
        "host": "10.0.0.1",
        "password": "p",
        "user": "root",
        "port": 22,
        "dialErrorLimit": 10,
        "perDialTimeout": 15,
    }


def test_a_connection_is_required_and_so_is_its_host(plugin: PluginProcess) -> None:
    assert set(plugin.client.check(REMOTE, {"create": "true"}).failures) == {"connection"}
    failures = plugin.client.check(REMOTE, {"create": "true", "connection": {"user": "x"}}).failures
    assert len(failures) == 1
    assert "host" in " ".join([*failures, *failures.values()])


def test_a_failed_check_still_hides_the_private_key(plugin: PluginProcess) -> None:
    wrong: Properties = {"host": "h", "privateKey": "KEY", "bogus": 1}
    checked = plugin.client.check(REMOTE, {"create": "true", "connection": wrong})
    assert checked.failures
    assert has_secret(checked.inputs["connection"])


def test_output_status_and_state(plugin: PluginProcess, connection: Properties) -> None:
    inputs = step(connection, create="printf 'a\\n\\n'; echo warn >&2")
    created = plugin.client.create(REMOTE, inputs, name="gpu01-converge")
    assert (created.state["stdout"], created.state["stderr"]) == ("a\n", "warn")
    assert created.id.startswith("gpu01-converge")
    assert len(created.id) == len("gpu01-converge") + 8
    assert is_secret(created.state["connection"])


def test_stdin_reaches_the_script_to_its_last_byte(
    plugin: PluginProcess, connection: Properties
) -> None:
    desired = "".join(f"key{number}=value\n" for number in range(20_000))
    created = plugin.client.create(REMOTE, step(connection, create="wc -c", stdin=desired))
    assert int(text(created.state["stdout"])) == len(desired)


def test_large_output_comes_back_whole(plugin: PluginProcess, connection: Properties) -> None:
    created = plugin.client.create(REMOTE, step(connection, create="seq 1 100000"))
    assert text(created.state["stdout"]).splitlines()[-1] == "100000"


def test_a_failure_names_status_command_and_output(
    plugin: PluginProcess, connection: Properties
) -> None:
    with pytest.raises(PluginError) as caught:
        plugin.client.create(REMOTE, step(connection, create="echo broken >&2; exit 7"))
    message = str(caught.value)
    assert message.startswith('Process exited with status 7: running "echo broken >&2; exit 7":\n')
    assert "broken" in message


def test_a_preview_dials_nobody(plugin: PluginProcess) -> None:
    nobody: Properties = {"host": "127.0.0.1", "port": 1, "dialErrorLimit": 0}
    created = plugin.client.create(REMOTE, step(nobody, create="true"), preview=True)
    assert created.state["stdout"] == UNKNOWN


def test_a_pinned_host_key_that_differs_is_refused_and_nothing_runs(
    plugin: PluginProcess, connection: Properties, tmp_path: Path
) -> None:
    other = make_key("ssh-ed25519").export_public_key().decode().strip()
    inputs = step({**connection, "hostKey": other}, create=f"touch {tmp_path}/ran")
    with pytest.raises(PluginError, match="host key mismatch"):
        plugin.client.create(REMOTE, inputs)
    assert not (tmp_path / "ran").exists()


def test_a_key_of_another_algorithm_is_refused(
    plugin: PluginProcess, connection: Properties
) -> None:
    other = make_key("ecdsa-sha2-nistp256").export_public_key().decode()
    with pytest.raises(PluginError, match="ssh: handshake failed"):
        plugin.client.create(REMOTE, step({**connection, "hostKey": other.strip()}, create="true"))


def test_without_a_host_key_any_host_is_taken(
    plugin: PluginProcess, connection: Properties
) -> None:
    open_door = {key: value for key, value in connection.items() if key != "hostKey"}
    created = plugin.client.create(REMOTE, step(open_door, create="echo in"))
    assert created.state["stdout"] == "in"


def test_a_host_key_that_is_no_key_is_an_error(
    plugin: PluginProcess, connection: Properties
) -> None:
    with pytest.raises(PluginError, match="failed to parse host key"):
        plugin.client.create(REMOTE, step({**connection, "hostKey": "nonsense"}, create="true"))


def test_a_password_logs_in(plugin: PluginProcess, ssh_host: SshHost) -> None:
    inputs = step(_by_password(ssh_host, PASSWORD), create="echo in")
    assert plugin.client.create(REMOTE, inputs).state["stdout"] == "in"
    assert ssh_host.logins[-1] == "password"


def test_keyboard_interactive_gets_the_password(
    plugin: PluginProcess, kbdint_host: SshHost
) -> None:
    inputs = step(_by_password(kbdint_host, PASSWORD), create="echo in")
    assert plugin.client.create(REMOTE, inputs).state["stdout"] == "in"
    assert kbdint_host.logins == ["keyboard-interactive"]


def test_a_wrong_password_is_tried_again_as_often_as_allowed(
    plugin: PluginProcess, ssh_host: SshHost
) -> None:
    ssh_host.logins.clear()
    wrong = {**_by_password(ssh_host, "wrong"), "dialErrorLimit": 2}
    with pytest.raises(PluginError, match=r"after 2 failed attempts: ssh: .*unable to authen"):
        plugin.client.create(REMOTE, step(wrong, create="true"))
    assert ssh_host.logins.count("password") == 3


def test_a_refused_connection_is_told_with_the_number_of_attempts(plugin: PluginProcess) -> None:
    nobody: Properties = {"host": "127.0.0.1", "port": _free_port(), "dialErrorLimit": 1}
    with pytest.raises(
        PluginError, match=r"after 1 failed attempts: dial tcp 127.0.0.1:\d+: .*connection refused"
    ):
        plugin.client.create(REMOTE, step(nobody, create="true"))


def test_a_host_that_comes_up_while_dialling_is_reached(
    plugin: PluginProcess, connection: Properties
) -> None:
    """The first dials are refused; the port opens as a way to the real host later."""
    port = _free_port()
    late = {**connection, "port": port, "dialErrorLimit": 20}
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(plugin.client.create, REMOTE, step(late, create="echo up"))
        with pytest.raises(futures.TimeoutError):
            running.result(timeout=0.4)
        with _forward(port, connection["port"]):
            assert running.result(timeout=20).state["stdout"] == "up"


def test_environment_that_sshd_refuses_is_an_error_before_anything_runs(
    plugin: PluginProcess, connection: Properties, tmp_path: Path
) -> None:
    inputs: Properties = {
        **step(connection, create=f"touch {tmp_path}/ran"),
        "environment": {"RAIL": "rail-0"},
    }
    with pytest.raises(PluginError, match='could not set environment variable "RAIL"'):
        plugin.client.create(REMOTE, inputs)
    assert not (tmp_path / "ran").exists()


def test_previous_output_that_sshd_refuses_is_only_a_warning(
    plugin: PluginProcess, connection: Properties
) -> None:
    inputs = {**step(connection, create="echo again"), "addPreviousOutputInEnv": True}
    created = plugin.client.create(REMOTE, inputs)
    plugin.engine.messages.clear()
    assert plugin.client.update(REMOTE, created, inputs).state["stdout"] == "again"
    said = " ".join(message.message for message in plugin.engine.messages)
    assert "PULUMI_COMMAND_STDOUT" in said


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        ({"create": "echo 2"}, False),
        ({"delete": "echo gone"}, False),
        ({"stdin": "mtu=9000"}, False),
        ({"triggers": ["x"]}, True),
    ],
)
def test_changed_inputs_update_and_triggers_replace(
    plugin: PluginProcess, connection: Properties, changed: Properties, *, replaces: bool
) -> None:
    olds = step(connection, create="echo 1")
    created = plugin.client.create(REMOTE, olds)
    compared = plugin.client.diff(REMOTE, created, olds, {**olds, **changed})
    assert compared.changed
    assert compared.replaces is replaces
    assert {path.partition("[")[0] for path in compared.paths} == set(changed)


def test_a_changed_connection_is_an_update_in_place(
    plugin: PluginProcess, connection: Properties
) -> None:
    olds = step(connection, create="echo 1")
    created = plugin.client.create(REMOTE, olds)
    news = step({**connection, "dialErrorLimit": 5}, create="echo 1")
    compared = plugin.client.diff(REMOTE, created, olds, news)
    assert compared.changed
    assert not compared.replaces


def test_delete_goes_to_the_old_host_with_the_old_stdin(
    plugin: PluginProcess, connection: Properties, tmp_path: Path
) -> None:
    proof = tmp_path / "proof"
    inputs = step(connection, create="true", delete=f"cat > {proof}", stdin="mtu_bytes=9000\n")
    created = plugin.client.create(REMOTE, inputs)
    plugin.client.delete(REMOTE, created)
    assert proof.read_text() == "mtu_bytes=9000\n"


def test_without_a_delete_text_nobody_is_dialled(plugin: PluginProcess) -> None:
    nobody: Properties = {"host": "127.0.0.1", "port": 1, "dialErrorLimit": 0}
    created = plugin.client.create(REMOTE, step(nobody, update="true"))
    plugin.client.delete(REMOTE, created)


def test_a_host_that_is_gone_blocks_its_delete(plugin: PluginProcess) -> None:
    nobody: Properties = {"host": "127.0.0.1", "port": _free_port(), "dialErrorLimit": 0}
    created = plugin.client.create(REMOTE, step(nobody, delete="true"))
    with pytest.raises(PluginError, match="connection refused"):
        plugin.client.delete(REMOTE, created)


def test_an_update_runs_with_the_new_stdin(plugin: PluginProcess, connection: Properties) -> None:
    created = plugin.client.create(REMOTE, step(connection, create="cat", stdin="old"))
    updated = plugin.client.update(REMOTE, created, step(connection, create="cat", stdin="new"))
    assert updated.state["stdout"] == "new"


def test_a_connection_cut_in_the_middle_is_an_error_without_state(
    plugin: PluginProcess, connection: Properties
) -> None:
    cut = "kill -9 $PPID_OF_NOBODY 2>/dev/null; echo half; kill -KILL $$"
    with pytest.raises(PluginError, match=r"from signal KILL"):
        plugin.client.create(REMOTE, step(connection, create=cut))


def test_many_hosts_at_once(plugin: PluginProcess, connection: Properties) -> None:
    count = 32
    with futures.ThreadPoolExecutor(count) as pool:
        running = [
            pool.submit(plugin.client.create, REMOTE, step(connection, create=f"echo {number}"))
            for number in range(count)
        ]
        said = {text(one.result(timeout=60).state["stdout"]) for one in running}
    assert said == {str(number) for number in range(count)}


def _by_password(host: SshHost, password: str) -> Properties:
    return {
        "host": "127.0.0.1",
        "port": host.port,
        "user": USER,
        "password": seal(password),
        "hostKey": host.host_key,
        "dialErrorLimit": 0,
    }


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _forward(port: int, target: Value) -> Generator[None]:
    """Open a port that leads to another one on loopback."""
    assert isinstance(target, int)
    loop = asyncio.new_event_loop()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", port))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)

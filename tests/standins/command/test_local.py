from __future__ import annotations

import threading
from concurrent import futures
from pathlib import Path

import psutil
import pytest

from standins.values import UNKNOWN, Properties, Value, has_secret, is_secret, seal
from tests.standins.command.protocol import (
    LOCAL,
    Created,
    PluginError,
    PluginProcess,
    text,
)

QUIET: Properties = {"logging": "none", "addPreviousOutputInEnv": False}


def create(plugin: PluginProcess, **inputs: Value) -> Created:
    return plugin.client.create(LOCAL, {**QUIET, **inputs})


def test_it_plays_the_version_that_the_python_package_asks_for(plugin: PluginProcess) -> None:
    assert plugin.client.version() == "1.2.1"


def test_output_is_kept_without_its_last_newline(plugin: PluginProcess) -> None:
    created = create(plugin, create="printf 'one\\n\\n'; printf 'two\\n' >&2")
    assert created.state["stdout"] == "one\n"
    assert created.state["stderr"] == "two"
    assert created.state["create"] == "printf 'one\\n\\n'; printf 'two\\n' >&2"


def test_the_id_is_the_name_and_eight_hex_digits(plugin: PluginProcess) -> None:
    created = plugin.client.create(LOCAL, {"create": "true", **QUIET}, name="leaf-01-apply")
    name, digits = created.id[:-8], created.id[-8:]
    assert name == "leaf-01-apply"
    assert set(digits) <= set("0123456789abcdef")


def test_stdin_environment_and_directory_reach_the_command(
    plugin: PluginProcess, tmp_path: Path
) -> None:
    created = create(
        plugin,
        create='cat; echo "$RAIL"; pwd; echo "${HOME:+has home}"',
        stdin="from stdin\n",
        environment={"RAIL": "rail-0"},
        dir=str(tmp_path),
    )
    assert text(created.state["stdout"]).splitlines() == [
        "from stdin",
        "rail-0",
        str(tmp_path),
        "has home",
    ]


def test_an_own_interpreter_runs_the_text(plugin: PluginProcess) -> None:
    created = create(plugin, create="print(6 * 7)", interpreter=["python3", "-c"])
    assert created.state["stdout"] == "42"


def test_no_create_text_is_a_step_that_does_nothing(plugin: PluginProcess) -> None:
    assert create(plugin, delete="true").state["stdout"] == ""


def test_a_failure_names_status_command_and_output_and_leaves_no_state(
    plugin: PluginProcess,
) -> None:
    with pytest.raises(PluginError) as caught:
        create(plugin, create="echo half; echo broken >&2; exit 3")
    message = str(caught.value)
    assert message.startswith('exit status 3: running "echo half; echo broken >&2; exit 3":\n')
    assert "half" in message
    assert "broken" in message


def test_a_command_ended_by_a_signal_is_told_so(plugin: PluginProcess) -> None:
    with pytest.raises(PluginError, match=r"signal: killed: running"):
        create(plugin, create="kill -KILL $$")


def test_a_missing_directory_is_an_error(plugin: PluginProcess) -> None:
    with pytest.raises(PluginError, match="/no/such/directory"):
        create(plugin, create="true", dir="/no/such/directory")


def test_a_preview_runs_nothing_and_leaves_the_outputs_unknown(
    plugin: PluginProcess, tmp_path: Path
) -> None:
    inputs: Properties = {"create": f"touch {tmp_path}/ran", **QUIET}
    created = plugin.client.create(LOCAL, inputs, preview=True)
    assert created.state["stdout"] == UNKNOWN
    assert created.state["stderr"] == UNKNOWN
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"create": "echo 2"}, "create"),
        ({"delete": "echo gone"}, "delete"),
        ({"stdin": "more"}, "stdin"),
        ({"environment": {"A": "2"}}, "environment.A"),
        ({"logging": "stdout"}, "logging"),
        ({"update": "echo again"}, "update"),
    ],
)
def test_any_changed_input_is_an_update_in_place(
    plugin: PluginProcess, changed: Properties, path: str
) -> None:
    olds: Properties = {"create": "echo 1", "environment": {"A": "1"}, **QUIET}
    created = plugin.client.create(LOCAL, olds)
    compared = plugin.client.diff(LOCAL, created, olds, {**olds, **changed})
    assert compared.changed
    assert not compared.replaces
    assert compared.paths == {path}


def test_equal_inputs_are_no_difference(plugin: PluginProcess) -> None:
    olds: Properties = {"create": "echo 1", "stdin": seal("token"), **QUIET}
    created = plugin.client.create(LOCAL, olds)
    assert not plugin.client.diff(LOCAL, created, olds, dict(olds)).changed


def test_a_changed_secret_is_one_difference_at_its_own_path(plugin: PluginProcess) -> None:
    olds: Properties = {"create": "echo 1", "environment": {"T": seal("a")}, **QUIET}
    news: Properties = {**olds, "environment": {"T": seal("b")}}
    created = plugin.client.create(LOCAL, olds)
    assert plugin.client.diff(LOCAL, created, olds, news).paths == {"environment.T"}


def test_triggers_as_a_whole_replace(plugin: PluginProcess) -> None:
    olds: Properties = {"create": "echo 1", **QUIET}
    created = plugin.client.create(LOCAL, olds)
    compared = plugin.client.diff(LOCAL, created, olds, {**olds, "triggers": ["a"]})
    assert compared.replaces


def test_a_changed_trigger_element_is_named_for_the_engine_to_replace(
    plugin: PluginProcess,
) -> None:
    olds: Properties = {"create": "echo 1", "triggers": ["a", "b"], **QUIET}
    created = plugin.client.create(LOCAL, olds)
    compared = plugin.client.diff(LOCAL, created, olds, {**olds, "triggers": ["a", "c"]})
    assert compared.paths == {"triggers[1]"}


def test_an_update_runs_update_and_without_one_create(plugin: PluginProcess) -> None:
    created = create(plugin, create="echo created")
    with_update: Properties = {"create": "echo created", "update": "echo updated", **QUIET}
    assert plugin.client.update(LOCAL, created, with_update).state["stdout"] == "updated"
    without: Properties = {"create": "echo created twice", **QUIET}
    assert plugin.client.update(LOCAL, created, without).state["stdout"] == "created twice"


def test_a_changed_delete_text_runs_create_again(plugin: PluginProcess, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    olds: Properties = {"create": f"echo run >> {runs}", **QUIET}
    created = plugin.client.create(LOCAL, olds)
    plugin.client.update(LOCAL, created, {**olds, "delete": "true"})
    assert runs.read_text().splitlines() == ["run", "run"]


def test_the_previous_output_reaches_the_next_run_unless_switched_off(
    plugin: PluginProcess,
) -> None:
    say = 'echo "was: ${PULUMI_COMMAND_STDOUT:-nothing}"'
    on: Properties = {"create": "echo first", "update": say, "logging": "none"}
    created = plugin.client.create(LOCAL, on)
    assert plugin.client.update(LOCAL, created, on).state["stdout"] == "was: first"
    off: Properties = {**on, "addPreviousOutputInEnv": False}
    assert plugin.client.update(LOCAL, created, off).state["stdout"] == "was: nothing"


def test_a_preview_of_an_update_knows_the_output_only_if_nothing_changed(
    plugin: PluginProcess, tmp_path: Path
) -> None:
    olds: Properties = {"create": "echo kept", **QUIET}
    created = plugin.client.create(LOCAL, olds)
    same = plugin.client.update(LOCAL, created, dict(olds), preview=True)
    assert same.state["stdout"] == "kept"
    changed: Properties = {**olds, "create": f"touch {tmp_path}/ran"}
    other = plugin.client.update(LOCAL, created, changed, preview=True)
    assert other.state["stdout"] == UNKNOWN
    assert not (tmp_path / "ran").exists()


def test_delete_runs_the_old_text_with_the_old_stdin(plugin: PluginProcess, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    created = create(plugin, create="true", delete=f"cat > {proof}", stdin="old desire")
    plugin.client.delete(LOCAL, created)
    assert proof.read_text() == "old desire"


def test_a_failed_delete_is_an_error(plugin: PluginProcess) -> None:
    created = create(plugin, create="true", delete="exit 9")
    with pytest.raises(PluginError, match="exit status 9"):
        plugin.client.delete(LOCAL, created)


def test_without_a_delete_text_delete_succeeds(plugin: PluginProcess) -> None:
    plugin.client.delete(LOCAL, create(plugin, create="true"))


def test_read_echoes_the_state(plugin: PluginProcess) -> None:
    created = create(plugin, create="echo state", stdin=seal("token"))
    assert plugin.client.read(LOCAL, created) == created


def test_secret_inputs_stay_secret_and_outputs_are_plain(plugin: PluginProcess) -> None:
    created = create(plugin, create='cat; echo "$T"', stdin=seal("a"), environment={"T": seal("b")})
    assert is_secret(created.state["stdin"])
    assert has_secret(created.state["environment"])
    assert not has_secret(created.state["stdout"])
    assert created.state["stdout"] == "ab"


def test_an_unknown_field_is_a_check_failure(plugin: PluginProcess) -> None:
    checked = plugin.client.check(LOCAL, {"create": "true", "craete": "true"})
    assert set(checked.failures) == {"craete"}


def test_a_wrong_type_is_a_check_failure(plugin: PluginProcess) -> None:
    assert set(plugin.client.check(LOCAL, {"create": ["true"]}).failures) == {"create"}


def test_unknown_inputs_pass_the_check_unchanged(plugin: PluginProcess) -> None:
    checked = plugin.client.check(LOCAL, {"create": UNKNOWN, "stdin": seal(UNKNOWN)})
    assert checked.failures == {}
    assert checked.inputs["create"] == UNKNOWN


def test_lines_are_shown_while_the_command_runs_and_none_with_logging_none(
    plugin: PluginProcess,
) -> None:
    plugin.client.create(LOCAL, {"create": "echo shown; echo also >&2"})
    lines = {message.message for message in plugin.engine.messages if message.ephemeral}
    assert {"shown", "also"} <= lines
    plugin.engine.messages.clear()
    plugin.client.create(LOCAL, {"create": "echo hidden", "logging": "none"})
    assert plugin.engine.messages == []


def test_many_commands_run_at_once(plugin: PluginProcess, tmp_path: Path) -> None:
    """Each of forty commands waits for all the others, so that fewer at a time would never end."""
    count = 40
    arrived = tmp_path / "arrived"
    arrived.touch()
    meet = f"echo in >> {arrived}; while [ $(wc -l < {arrived}) -lt {count} ]; do sleep 0.1; done"
    text_ = f"timeout 25 sh -c '{meet}'"
    with futures.ThreadPoolExecutor(count) as pool:
        running = [
            pool.submit(plugin.client.create, LOCAL, {"create": text_, **QUIET})
            for _ in range(count)
        ]
        assert len([one.result(timeout=30) for one in running]) == count


def test_cancel_ends_running_commands(own_plugin: PluginProcess, tmp_path: Path) -> None:
    started = tmp_path / "started"
    text_ = f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 60"
    with futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(own_plugin.client.create, LOCAL, {"create": text_, **QUIET})
        _until(started)
        pid = int(started.read_text())
        own_plugin.client.cancel()
        with pytest.raises(PluginError, match="signal: "):
            running.result(timeout=10)
    assert not psutil.pid_exists(pid)


def _until(path: Path) -> None:
    """Wait for a file with a deadline."""
    pause = threading.Event()
    for _ in range(1000):
        if path.exists():
            return
        pause.wait(0.01)
    raise AssertionError(f"{path} did not appear in 10 s")

"""The same contract once more through the real engine, where the two meet."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from lab.engine.plugin_cache import render_program_shim
from tests.engine.runner import EngineRunner
from tests.standins.command.ssh_host import USER, SshHost

pytestmark = pytest.mark.engine

LOCAL_STEP = """
import pulumi
from pulumi_command import local
config = pulumi.Config()
step = local.Command(
    "step",
    create=config.get("create") or "echo one",
    update=config.get("update"),
    delete=config.get("delete"),
    stdin=config.get("stdin"),
    triggers=config.get_object("triggers"),
    environment={"TOKEN": config.get_secret("token") or ""},
    add_previous_output_in_env=False,
    logging="none",
    opts=pulumi.ResourceOptions(
        delete_before_replace=True,
        additional_secret_outputs=["stdout"] if config.get("hide") else [],
    ),
)
pulumi.export("stdout", step.stdout)
"""

REMOTE_STEP = """
import json, pathlib, pulumi
from pulumi_command import remote
login = json.loads(pathlib.Path("login.json").read_text())
steps = [
    remote.Command(
        f"gpu{number:02}",
        connection=remote.ConnectionArgs(
            host="127.0.0.1", port=login["port"], user=login["user"],
            private_key=login["key"], host_key=login["host_key"], dial_error_limit=2,
        ),
        create="cat", delete=f"cat > {login['proof']}-{number}", stdin=f"mtu_bytes={number}",
        add_previous_output_in_env=False, logging="none",
    )
    for number in range(login["count"])
]
pulumi.export("said", pulumi.Output.all(*[step.stdout for step in steps]))
"""


@pytest.fixture
def engine(session_engine: EngineRunner) -> EngineRunner:
    chosen = os.environ.get("RAILYARD_COMMAND_PLUGIN")
    if chosen:
        folder = session_engine.settings().home / "plugins" / "resource-command-v1.2.1"
        (folder / "pulumi-resource-command").write_text(render_program_shim(Path(chosen)))
    return session_engine


def test_create_quiet_second_run_update_and_destroy(engine: EngineRunner, tmp_path: Path) -> None:
    folder = engine.project("local-life", LOCAL_STEP)
    proof = tmp_path / "proof"
    first = engine.up(folder, config={"stdin": "one", "delete": f"cat > {proof}"})
    assert (first.rc, first.changes, first.diagnostics) == (0, {"create": 1}, ())
    assert engine.up(folder).changes == {}
    looked = engine.preview(folder, config={"stdin": "two"})
    assert looked.changes == {"update": 1}
    assert engine.up(folder).changes == {"update": 1}
    done = engine.destroy(folder)
    assert (done.rc, done.changes) == (0, {"delete": 1})
    assert proof.read_text() == "two"


def test_a_changed_trigger_replaces_delete_first(engine: EngineRunner, tmp_path: Path) -> None:
    folder = engine.project("triggers", LOCAL_STEP)
    log = tmp_path / "log"
    texts = {"create": f"echo create >> {log}", "delete": f"echo delete >> {log}"}
    engine.up(folder, config={**texts, "triggers": '["a"]'})
    looked = engine.preview(folder, config={"triggers": '["b"]'})
    assert ("replace", "step") in looked.steps
    assert engine.up(folder).rc == 0
    assert log.read_text().split() == ["create", "delete", "create"]


def test_an_error_leaves_no_state_and_the_next_run_creates(engine: EngineRunner) -> None:
    folder = engine.project("half", LOCAL_STEP)
    failed = engine.up(folder, config={"create": "echo half; exit 5"})
    assert failed.rc != 0
    assert "exit status 5" in failed.errors
    assert not [
        r for r in engine.export(folder)["deployment"]["resources"] if "Command" in r["type"]
    ]
    assert engine.up(folder, config={"create": "echo whole"}).changes == {"create": 1}


def test_a_failed_update_keeps_the_old_state_and_runs_again(engine: EngineRunner) -> None:
    folder = engine.project("failed-update", LOCAL_STEP)
    engine.up(folder, config={"create": "echo kept"})
    assert engine.up(folder, config={"update": "exit 6"}).rc != 0
    assert engine.outputs(folder)["stdout"] == "kept"
    assert engine.up(folder, config={"update": "echo mended"}).changes == {"update": 1}
    assert engine.outputs(folder)["stdout"] == "mended"


def test_secrets_are_not_readable_in_state_or_preview(engine: EngineRunner) -> None:
    folder = engine.project("secrets", LOCAL_STEP)
    engine.call(folder, "config", "set", "--secret", "token", "k3s-t0ken", "--stack", "dev")
    done = engine.up(folder, config={"create": 'echo "$TOKEN"', "hide": "yes"})
    assert done.rc == 0
    assert engine.outputs(folder)["stdout"] == "k3s-t0ken"
    readable = json.dumps(engine.export(folder)) + done.stdout
    readable += engine.preview(folder, config={"stdin": "x"}).stdout
    assert "k3s-t0ken" not in readable


def test_a_refresh_sees_nothing(engine: EngineRunner) -> None:
    folder = engine.project("refresh", LOCAL_STEP)
    engine.up(folder)
    done = engine.refresh(folder)
    assert (done.rc, done.changes) == (0, {})


def test_unknown_output_makes_the_next_step_unknown_only_when_it_changes(
    engine: EngineRunner,
) -> None:
    program = LOCAL_STEP + (
        'after = local.Command("after", create="cat", stdin=step.stdout, logging="none",\n'
        "    add_previous_output_in_env=False)\n"
    )
    folder = engine.project("unknowns", program)
    engine.up(folder)
    assert engine.preview(folder).changes == {}
    changed = engine.preview(folder, config={"create": "echo two"})
    assert set(changed.steps) == {("update", "step"), ("update", "after")}


def test_thirty_two_hosts_over_ssh_and_back(
    engine: EngineRunner, ssh_host: SshHost, tmp_path: Path
) -> None:
    folder = engine.project("hosts", REMOTE_STEP)
    count = 32
    login = {
        "port": ssh_host.port,
        "user": USER,
        "key": ssh_host.private_key,
        "host_key": ssh_host.host_key,
        "proof": str(tmp_path / "proof"),
        "count": count,
    }
    (folder / "login.json").write_text(json.dumps(login))
    done = engine.up(folder, "dev", {}, "--parallel", str(count))
    assert (done.rc, done.changes) == (0, {"create": count}), done.errors
    assert engine.outputs(folder)["said"] == [f"mtu_bytes={number}" for number in range(count)]
    state = json.dumps(engine.export(folder))
    assert "OPENSSH PRIVATE KEY" not in state
    assert engine.preview(folder).changes == {}
    assert engine.destroy(folder).changes == {"delete": count}
    assert len(list(tmp_path.glob("proof-*"))) == count


def test_ctrl_c_ends_the_running_command_and_nothing_stays(
    engine: EngineRunner, tmp_path: Path
) -> None:
    flag = tmp_path / "pid"
    folder = engine.project("interrupted", LOCAL_STEP)
    slow = f"echo $$ > {flag}.new; mv {flag}.new {flag}; exec sleep 60"
    engine.configure(folder, "dev", {"create": slow})
    process = engine.start(folder, "up", "--yes", "--skip-preview", "--stack", "dev")
    pause = threading.Event()
    for _ in range(3000):
        if flag.exists():
            break
        pause.wait(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    family.append(psutil.Process(int(flag.read_text())))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "Traceback" not in output
    _gone, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert engine.export(folder)["deployment"].get("pending_operations") in (None, [])

"""How the plugin process lives and dies; for the stand-in, that it never outlives its engine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.standins.command.conftest import plugin_command
from tests.standins.command.protocol import LOCAL, PluginError, PluginProcess

# A parent that starts a plugin, tells its pid and then sits there like a busy engine.
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
    "print(child.pid, child.stdout.readline().strip(), flush=True)\n"
    "time.sleep(60)\n"
)


def test_it_prints_one_port_and_listens_on_loopback_only(own_plugin: PluginProcess) -> None:
    listening = [
        one.laddr
        for one in psutil.Process(own_plugin.process.pid).net_connections(kind="inet")
        if one.status == psutil.CONN_LISTEN
    ]
    assert {address[0].removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.skipif(
    "RAILYARD_COMMAND_PLUGIN" in os.environ,
    reason="the real plugin finds out by a health check of its own, some seconds later",
)
def test_it_dies_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *plugin_command()], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline().split()[0])
    plugin = psutil.Process(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=60)
    plugin.wait(timeout=60)


def test_sigint_from_the_engine_ends_it_at_once(own_plugin: PluginProcess) -> None:
    own_plugin.process.send_signal(signal.SIGINT)
    own_plugin.process.wait(timeout=20)


def test_a_running_child_ends_with_the_plugin(own_plugin: PluginProcess, tmp_path: Path) -> None:
    flag = tmp_path / "pid"
    command = f"sleep 60 & echo $! > {flag}.new; mv {flag}.new {flag}; wait"
    running = threading.Thread(
        target=lambda: _ignore(own_plugin, command), name="create", daemon=True
    )
    running.start()
    pause = threading.Event()
    for _ in range(1000):
        if flag.exists():
            break
        pause.wait(0.01)
    grandchild = psutil.Process(int(flag.read_text()))
    own_plugin.client.cancel()
    own_plugin.process.terminate()
    own_plugin.process.wait(timeout=20)
    if "RAILYARD_COMMAND_PLUGIN" in os.environ:
        grandchild.kill()  # exec.CommandContext ends the direct child only
    grandchild.wait(timeout=30)


def _ignore(plugin: PluginProcess, command: str) -> None:
    """Run a create that is cut off; how the call ends is of no interest here."""
    with contextlib.suppress(PluginError):
        plugin.client.create(LOCAL, {"create": command, "logging": "none"})

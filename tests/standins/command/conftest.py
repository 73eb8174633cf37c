"""Fixtures of the command plugin's contract suite.

The suite runs against the executable named by RAILYARD_COMMAND_PLUGIN, the real
pulumi-resource-command where one is at hand, or else against the lab's stand-in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from standins.values import Properties, seal
from tests.engine.fixtures import session_engine
from tests.standins.command.protocol import PluginProcess
from tests.standins.command.ssh_host import USER, SshHost, SshServerThread

__all__ = ["session_engine"]


def plugin_command() -> list[str]:
    chosen = os.environ.get("RAILYARD_COMMAND_PLUGIN")
    return [chosen] if chosen else [sys.executable, "-m", "standins.command"]


@pytest.fixture(scope="session")
def shared_plugin() -> Iterator[PluginProcess]:
    process = PluginProcess(plugin_command())
    yield process
    process.stop()


@pytest.fixture
def plugin(shared_plugin: PluginProcess) -> PluginProcess:
    shared_plugin.engine.messages.clear()
    return shared_plugin


@pytest.fixture
def own_plugin() -> Iterator[PluginProcess]:
    """A plugin process that the test may cancel or kill."""
    process = PluginProcess(plugin_command())
    yield process
    process.stop()


@pytest.fixture(scope="session")
def ssh_host() -> Iterator[SshHost]:
    server = SshServerThread()
    yield server.host
    server.stop()


@pytest.fixture(scope="session")
def kbdint_host() -> Iterator[SshHost]:
    server = SshServerThread(kbdint=True)
    yield server.host
    server.stop()


@pytest.fixture
def connection(ssh_host: SshHost) -> Properties:
    """A connection that works: pinned host key, private key, no retries."""
    return {
        "host": "127.0.0.1",
        "port": ssh_host.port,
        "user": USER,
        "privateKey": seal(ssh_host.private_key),
        "hostKey": ssh_host.host_key,
        "dialErrorLimit": 0,
        "perDialTimeout": 5,
    }

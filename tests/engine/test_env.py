from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.engine.env import EnvSettings, plan_environment, render_env, write_env
from lab.engine.install import Engine
from lab.engine.language.packages import parse_plugin_file, required_packages
from lab.engine.plugin_cache import MARK
from tests.engine.test_install import fake_program


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvSettings:
    """A project with a blank in its path, and no plugins of the user."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = fake_program(tmp_path / "cache", "pulumi", "v3.250.0")
    return EnvSettings(
        project=tmp_path / "my site",
        stack="dev",
        python=Path("/venv/bin/python"),
        engine=Engine(program, "built", "3.250.0"),
        variables={"KUBECONFIG": "/lab/kube config"},
    )


def test_a_shell_that_sourced_the_file_finds_the_engine_once(settings: EnvSettings) -> None:
    write_env(settings)
    script = (
        f". '{settings.file}'; . '{settings.file}'; command -v pulumi;"
        ' echo "$PULUMI_BACKEND_URL";'
        ' echo "$KUBECONFIG"; echo "${SSH_AUTH_SOCK-none}"; echo "$PATH"'
    )
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": "/usr/bin:/bin", "SSH_AUTH_SOCK": "/stale"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        str(settings.bin / "pulumi"),
        f"file://{settings.backend}",
        "/lab/kube config",
        "none",
        f"{settings.bin}:/usr/bin:/bin",
    ]


def test_the_file_and_the_environment_of_children_agree(settings: EnvSettings) -> None:
    planned = plan_environment(settings, {"PATH": "/bin", "PULUMI_ACCESS_TOKEN": "x", "LANG": "C"})
    assert planned["PATH"] == f"{settings.bin}:/bin"
    assert planned["LANG"] == "C"
    assert "PULUMI_ACCESS_TOKEN" not in planned
    text = render_env(settings)
    for name in set(planned) - {"PATH", "LANG"}:
        assert f"export {name}=" in text


def test_shims_stand_where_the_engine_looks_last(settings: EnvSettings) -> None:
    report = write_env(settings)
    plugins = settings.home / "plugins"
    shim = plugins / "resource-command-v1.2.1" / "pulumi-resource-command"
    assert "-m standins.command" in shim.read_text()
    assert (plugins / "language-python-v3.250.0" / "pulumi-language-python").exists()
    assert any("stand-in for version 1.2.1" in notice for notice in report.notices)
    assert write_env(settings) == report


def test_a_real_plugin_in_the_cache_is_kept_and_named(settings: EnvSettings) -> None:
    folder = settings.home / "plugins" / "resource-command-v1.2.1"
    real = fake_program(folder, "pulumi-resource-command", "real")
    report = write_env(settings)
    assert MARK not in real.read_text()
    assert f"pulumi-resource-command: the real plugin in {folder}" in report.notices


def test_a_real_plugin_on_path_wins(
    settings: EnvSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_program(tmp_path / "path", "pulumi-resource-command", "real")
    monkeypatch.setenv("PATH", f"{real.parent}:/usr/bin:/bin")
    report = write_env(settings)
    assert f"pulumi-resource-command: the real one at {real}" in report.notices
    assert not (settings.home / "plugins" / "resource-command-v1.2.1").exists()


def test_a_real_plugin_of_the_user_is_called(settings: EnvSettings, tmp_path: Path) -> None:
    folder = tmp_path / "nobody" / ".pulumi" / "plugins" / "resource-command-v1.2.1"
    real = fake_program(folder, "pulumi-resource-command", "real")
    write_env(settings)
    shim = settings.home / "plugins" / "resource-command-v1.2.1" / "pulumi-resource-command"
    assert f"exec {real}" in shim.read_text()


def test_the_host_that_comes_with_a_real_cli_is_left_to_the_engine(
    settings: EnvSettings, tmp_path: Path
) -> None:
    beside = fake_program(tmp_path / "cache", "pulumi-language-python", "real")
    report = write_env(settings)
    assert f"pulumi-language-python: the real one at {beside}" in report.notices
    assert not (settings.home / "plugins" / "language-python-v3.250.0").exists()


def test_required_packages_come_from_the_installed_distributions() -> None:
    found = {package.name: package.version for package in required_packages()}
    assert found["command"] == "1.2.1"
    assert found["kubernetes"].startswith("4.34.")


def test_a_plain_component_package_asks_for_no_plugin() -> None:
    assert parse_plugin_file('{"resource": false, "name": "x"}') is None

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.core.errors import RailyardError
from lab.cache import cache_root
from lab.engine import install
from lab.engine.go import REQUIREMENT, find_go, go_version, parse_go_version
from lab.engine.install import MODULE, VERSION, find_cached, find_on_path, module_key


def fake_program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return file


def test_a_pulumi_on_path_of_the_pinned_release_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_program(tmp_path / "bin", "pulumi", "v3.250.7")
    monkeypatch.setenv("PATH", f"{program.parent}:/bin")
    found = find_on_path(tmp_path / "cache")
    assert found is not None
    assert (found.pulumi, found.origin, found.version) == (program, "path", "3.250.7")


def test_another_release_on_path_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = fake_program(tmp_path / "bin", "pulumi", "v3.100.0")
    monkeypatch.setenv("PATH", f"{program.parent}:/bin")
    assert find_on_path(tmp_path / "cache") is None
    said = capsys.readouterr().out
    assert str(program) in said
    assert "3.100.0" in said
    assert "3.250" in said


def test_a_link_into_the_cache_is_no_engine_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_program(tmp_path / "cache" / "engine", "pulumi", f"v{VERSION}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    assert find_on_path(tmp_path / "cache") is None


def test_a_built_engine_is_found_again_without_go(tmp_path: Path) -> None:
    assert find_cached(tmp_path) is None
    built = fake_program(tmp_path / "engine" / f"{module_key()}-go1.26", "pulumi", f"v{VERSION}")
    found = find_cached(tmp_path)
    assert found is not None
    assert (found.pulumi, found.origin) == (built, "built")


def test_a_build_that_fails_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    go = fake_program(folder, "go", "go version go1.26.8 linux/amd64")
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    go.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo "go version go1.26.8 linux/amd64" && exit 0\n'
        "echo 'dial tcp: no route to host' >&2; exit 1\n"
    )

    def no_installer(cache: Path) -> None:
        del cache

    monkeypatch.setattr(install, "_run_installer", no_installer)
    with pytest.raises(RailyardError) as caught:
        install.ensure_engine(tmp_path / "cache")
    assert "no route to host" in str(caught.value)
    assert "GOPROXY" in str(caught.value)
    assert find_cached(tmp_path / "cache") is None


def test_the_cache_is_outside_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILYARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert cache_root() == Path("/x/cache/railyard")
    monkeypatch.setenv("RAILYARD_CACHE", "/y")
    assert cache_root() == Path("/y")


def test_the_module_pins_the_release_and_names_no_proxy() -> None:
    module = (MODULE / "go.mod").read_text()
    assert re.search(
        rf"github\.com/pulumi/pulumi/pkg/v3 v{re.escape(VERSION)}$", module, re.MULTILINE
    )
    requirement = REQUIREMENT.read_text()
    assert requirement.count("--hash=sha256:") >= 2
    for text in (module, requirement):
        assert "://" not in text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("command not found", None),
    ],
)
def test_go_says_its_version(text: str, version: tuple[int, int] | None) -> None:
    assert parse_go_version(text) == version


def test_an_old_go_is_passed_over_for_the_cached_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_program(tmp_path / "bin", "go", "go version go1.21.0 linux/amd64")
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")
    cached = fake_program(
        tmp_path / "cache" / "go" / "1.26.6" / "go" / "bin", "go", "go version go1.26.6 linux/amd64"
    )
    assert find_go(tmp_path / "cache") == cached
    assert go_version(cached) == (1, 26)

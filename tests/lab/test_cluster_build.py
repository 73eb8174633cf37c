"""The lab's Kubernetes is built in one call of Go, whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from lab.cluster.build import MANIFESTS, PROGRAMS, build_folder, ensure_binaries
from lab.engine.progress import estimate

GO = """#!{python}
import json, os, pathlib, re, sys
if sys.argv[1] == "version":
    print("go version go1.26.8 linux/amd64")
elif sys.argv[1] == "mod":
    print(json.dumps({{"Dir": {modules!r}}}))
else:
    with open({log!r}, "a") as log:
        log.write(json.dumps([sys.argv[2:], os.environ.get("GOGC")]) + "\\n")
    if os.path.exists({log!r} + ".fail"):
        sys.exit("no route to host")
    place = sys.argv[sys.argv.index("-o") + 1]
    for package in sys.argv[sys.argv.index("-o") + 2:]:
        name = [each for each in package.split("/") if not re.fullmatch(r"v\\d+", each)][-1]
        pathlib.Path(place, name).write_text(package)
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go that writes its calls into this file, and makes programs as Go names them."""
    modules, log, folder = (tmp_path / name for name in ("modules", "calls", "bin"))
    for manifest in MANIFESTS:
        (modules / manifest.path).parent.mkdir(parents=True, exist_ok=True)
        (modules / manifest.path).write_text(manifest.name)
    folder.mkdir()
    go = folder / "go"
    go.write_text(GO.format(python=sys.executable, modules=str(modules), log=str(log)))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def read(calls: Path) -> list[tuple[list[str], str]]:
    return [(words, gogc) for words, gogc in map(json.loads, calls.read_text().splitlines())]


def test_all_programs_are_built_in_one_call_each_under_its_name(
    calls: Path, tmp_path: Path
) -> None:
    paths = ensure_binaries(tmp_path / "cache")
    assert {each.name for each in PROGRAMS} < paths.keys()
    for program in PROGRAMS:
        assert paths[program.name].read_text() == program.package
    [(words, gogc)] = read(calls)
    assert gogc == "off"
    assert "-gcflags=all=-c=1 -dwarf=false -l" in words
    for program in PROGRAMS:
        assert f"-ldflags={program.package}=-s -w {program.stamp}".strip() in words


def test_what_is_there_is_not_built_again(calls: Path, tmp_path: Path) -> None:
    paths = ensure_binaries(tmp_path / "cache")
    ensure_binaries(tmp_path / "cache")
    paths["helm"].unlink()
    ensure_binaries(tmp_path / "cache")
    first, second = read(calls)
    assert len(first[0]) > len(second[0])
    assert [word for word in second[0] if word.endswith("cmd/helm")] == ["helm.sh/helm/v3/cmd/helm"]


def test_a_build_that_fails_leaves_no_program(calls: Path, tmp_path: Path) -> None:
    Path(f"{calls}.fail").touch()
    with pytest.raises(DeviceError, match="no route to host") as caught:
        ensure_binaries(tmp_path / "cache")
    assert "go env GOPROXY" in str(caught.value)
    left = {path.name for path in build_folder(tmp_path / "cache").iterdir()}
    assert left == {manifest.name for manifest in MANIFESTS}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("a\n" * 10, ", 10 of 40 packages, 90 s left or less"),
        ("go: downloading b v1\n" * 30 + "a\n" * 10, ", 10 of 40 packages, 90 s left or less"),
        ("a\n" * 40, ""),
    ],
)
def test_the_time_that_is_left_is_estimated_from_the_lines(
    tmp_path: Path, log: str, said: str
) -> None:
    with (tmp_path / "log").open("w+") as file:
        file.write(log)
        file.flush()
        assert estimate(file.fileno(), 40, 30.0) == said
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == len(log)  # its writer goes on there

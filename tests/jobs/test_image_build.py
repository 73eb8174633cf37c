"""`railyard image build` with builders that write down their calls, and with a real one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.catalogue.upstream import PROBE_IMAGE_BASE, SOURCES
from components.cli.job import image_app as app
from components.core.errors import RailyardError
from components.jobs.image_build import BUILDERS, choose_builder, context_folder

ROOT = Path(__file__).parents[2]
DIGEST = f"sha256:{'ab' * 32}"
FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >>"{folder}/calls"
case "$1" in
  {verb}) echo '{says}' >&2; exit {code} ;;
  image) echo '["docker.io/nvidia/cuda@{digest}"]' ;;
  inspect) echo '{digest}' ;;
  *) echo "step 1 of $1" ;;
esac
"""


def fake(
    folder: Path, name: str = "docker", verb: str = "none", says: str = "", code: int = 0
) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    file = folder / "bin" / name
    file.write_text(FAKE.format(folder=folder, verb=verb, says=says, code=code, digest=DIGEST))
    file.chmod(0o755)


def build(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[str, RailyardError | None]:
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    done = CliRunner().invoke(app, ["build", *words])
    error = done.exception
    return done.output, error if isinstance(error, RailyardError) else None


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("name", BUILDERS)
def test_the_base_is_pinned_and_the_image_built_and_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fake(tmp_path, name)
    tag = "registry.example.com/railyard-probe:1"
    output, error = build(tmp_path, monkeypatch, "--tag", tag, "--push", "--builder", name)
    assert error is None
    pull, look, made, pushed = calls(tmp_path)
    assert pull == f"{name} pull {PROBE_IMAGE_BASE}"
    assert "inspect" in look
    assert f"--build-arg BASE=docker.io/nvidia/cuda@{DIGEST} -t {tag} " in made
    assert pushed == f"{name} push {tag}"
    assert "step 1 of build" in output, "its output is passed on"
    assert f"the base {PROBE_IMAGE_BASE} is docker.io/nvidia/cuda@{DIGEST}" in output


def test_a_base_with_a_digest_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path)
    base = f"registry.example.com:5000/cuda@{DIGEST}"
    build(tmp_path, monkeypatch, "--tag", "a.example.com/x:1", "--base", base)
    (made,) = calls(tmp_path)
    assert f"BASE={base}" in made


def test_the_tag_of_a_site_is_its_jobs_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path)
    output, _ = build(tmp_path, monkeypatch, str(ROOT / "examples/dgx-roce/site.yaml"))
    assert output.endswith("railyard: built 192.168.100.10:5000/nccl-roce-test:1\n")
    assert not any(call.startswith("docker push") for call in calls(tmp_path))


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "name the image once"),
        (["--tag", "a.example.com/x"], "--tag a.example.com/x is not pinned"),
        (["--tag", "a.example.com/x:latest"], "is not pinned"),
        (["--tag", "a.example.com/x:1", "--base", "ubuntu"], "--base ubuntu is not pinned"),
        (["--tag", "a.example.com/x:1", "--base", "b:5000/u:latest"], "is not pinned"),
        (["--tag", "a.example.com/x:1", "--builder", "podman"], "podman is not on PATH"),
    ],
)
def test_what_floats_or_is_not_there_is_refused_before_anything_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], what: str
) -> None:
    fake(tmp_path)
    _, error = build(tmp_path, monkeypatch, *words)
    assert error is not None
    assert error.exit_code == 2
    assert what in str(error)
    assert not (tmp_path / "calls").exists()


NO_DAEMON = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon"
    " running?"
)
REFUSALS = [
    ("pull", NO_DAEMON, "its daemon does not run", "start it", 4),
    ("pull", "Error response from daemon: manifest for nvidia/cuda:9 not found: manifest unknown",
     "docker.io does not have this image", "name and tag", 1),
    ("push", "unauthorized: authentication required", "reg.example.com wants a login",
     "docker login reg.example.com", 1),
    ("push", "denied: requested access to the resource is denied",
     "reg.example.com denied it to this login", "who may", 1),
    ("push", "dial tcp: lookup reg.example.com: no such host", "reg.example.com does not answer",
     "proxies", 4),
    ("build", "curl: (7) Connection refused", "could not build", "read its output", 1),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSALS)
def test_a_refusal_says_who_refused_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: tuple[str, str, str, str, int]
) -> None:
    verb, says, what, fix, code = row
    fake(tmp_path, verb=verb, says=says, code=1)
    _, error = build(tmp_path, monkeypatch, "--tag", "reg.example.com/probe:1", "--push")
    assert error is not None
    assert what in str(error)
    assert fix in str(error)
    assert says in str(error)
    assert error.exit_code == code
    assert verb == "push" or not any(call.startswith("docker push") for call in calls(tmp_path))


def test_without_any_builder_the_way_by_hand_is_said(tmp_path: Path) -> None:
    with pytest.raises(RailyardError, match=r"docker, podman, buildah, nerdctl are not on PATH"):
        choose_builder(None, path=str(tmp_path))


@pytest.mark.skipif(shutil.which("docker") is None, reason="NOT RUN: no docker on this machine")
def test_a_real_docker_without_a_daemon_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client's words; a daemon is not needed, and one that runs is not used."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/railyard.sock")
    done = CliRunner().invoke(app, ["build", "--tag", "reg.example.com/p:1", "--builder", "docker"])
    assert isinstance(done.exception, RailyardError)
    assert "its daemon does not run" in str(done.exception)


def test_the_recipe_has_the_sources_of_the_catalogue_and_no_base_of_its_own() -> None:
    with context_folder() as folder:
        text = (folder / "Dockerfile").read_text()
    assert re.findall(r"(?m)^ARG BASE(.*)\nFROM (.*)$", text) == [("", "${BASE}")]
    for source in SOURCES:
        name = source.name.upper().replace("-", "_")
        assert f"ARG {name}_TAG={source.tag}\nARG {name}_COMMIT={source.commit}\n" in text
        assert source.repository in text


def test_the_shell_of_the_recipe_parses() -> None:
    with context_folder() as folder:
        text = (folder / "Dockerfile").read_text()
    steps = re.findall(r"(?ms)^RUN (.*?[^\\])$", text)
    assert len(steps) == 5
    for step in steps:
        done = subprocess.run(["/bin/bash", "-n"], input=step, text=True, timeout=10, check=False)
        assert done.returncode == 0, step

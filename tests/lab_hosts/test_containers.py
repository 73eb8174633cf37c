"""The parts of the lab's Docker, MPI and SSH that need no running host."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.authorized_keys import find_key, parse_line
from lab.hosts.docker_state import full_reference, registry_host, repository
from lab.hosts.go_template import Json, TemplateError, render
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.docker_build import Build, read_build
from lab.hosts.tools.mpirun import Request, Slots, parse, place_ranks
from lab.hosts.tools.package_state import dpkg_query
from lab.hosts.tools.packages import install, installed, plan_apt, remove
from lab.hosts.tools.perftest import split_server
from tests.lab_hosts.conftest import make_host

KEY = "ssh-ed25519 AAAAC3Nza"


@pytest.mark.parametrize(
    ("line", "address", "command"),
    [
        (KEY, "127.0.0.1", None),
        (f'restrict,from="127.9.0.1,10.0.0.0/8",command="/bin/a \\"b c\\"" {KEY} me', "10.1.2.3",
         '/bin/a "b c"'),
        (f'from="!10.0.0.1,10.0.0.*" {KEY}', "10.0.0.2", None),
    ],
)  # fmt: skip
def test_a_key_line_lets_in_and_forces(line: str, address: str, command: str | None) -> None:
    found = find_key([line], "AAAAC3Nza", address)
    assert found is not None
    assert found.command == command


@pytest.mark.parametrize(
    ("line", "address"),
    [
        (f'from="10.0.0.0/8" {KEY}', "127.0.0.1"),
        (f'from="!10.0.0.1,10.0.0.*" {KEY}', "10.0.0.1"),
        (f"# {KEY}", "127.0.0.1"),
        ("ssh-ed25519 BBBB", "127.0.0.1"),
        ("restrict", "127.0.0.1"),
    ],
)
def test_a_key_line_keeps_out(line: str, address: str) -> None:
    assert find_key([line], "AAAAC3Nza", address) is None


def test_options_may_hold_commas_and_blanks_in_quotes() -> None:
    found = parse_line(f'command="a, b",no-pty {KEY}')
    assert found is not None
    assert found.command == "a, b"


VALUE: Json = {"State": {"Running": True}, "Labels": {"a.b": "c"}, "Tags": ["x", "y"], "Size": 7}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.State.Running}} {{ .Size }}", "true 7"),
        ('{{index .Labels "a.b"}}{{index .Labels "none"}}', "c"),
        ("{{json .Labels}}", '{"a.b":"c"}'),
        ("{{range .Tags}}[{{.}}]{{end}}!", "[x][y]!"),
        ("{{if .State.Running}}up{{end}}", "up"),
        ("{{.Tags}}", "[x y]"),
    ],
)
def test_templates_print_as_gos(template: str, text: str) -> None:
    assert render(template, VALUE) == text


@pytest.mark.parametrize("template", ["{{.Missing}}", "{{frob .Size}}", "{{index .Tags 5}}"])
def test_templates_refuse_what_is_not_there(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, VALUE)


@pytest.mark.parametrize(
    ("name", "full", "host"),
    [
        ("a/b", "a/b:latest", "docker.io"),
        ("r.example.com/a/b:1", "r.example.com/a/b:1", "r.example.com"),
        ("localhost:5000/a@sha256:1", "localhost:5000/a@sha256:1", "localhost:5000"),
    ],
)
def test_image_references(name: str, full: str, host: str) -> None:
    assert full_reference(name) == full
    assert registry_host(name) == host
    assert repository(full) == name.partition("@")[0].removesuffix(":1")


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    host = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    host.boot("gpu01")
    return host


def call(model: HostModel, tool: str, *argv: str, uid: int = 0) -> ToolCall:
    return ToolCall(tool, argv, uid, uid, "/", model, model.nvram_path.parent)


DOCKERFILE = """\
# comment
ARG BASE=one:1
FROM ${BASE} AS first
ENV A="b"
COPY here /x
RUN one && \\
    two
FROM first
"""


def build(model: HostModel, text: str, *argv: str) -> Build | ToolResult:
    folder = model.nvram_path.parent / "context"
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(text)
    (folder / "here").write_text("1")
    return read_build(call(model, "docker", *argv, str(folder)), Path)


def test_a_build_knows_its_bases_and_follows_its_arguments(model: HostModel) -> None:
    found = build(model, DOCKERFILE, "--tag", "x:1", "--label", "l=1", "--build-arg", "BASE=two:2")
    assert isinstance(found, Build)
    assert (found.bases, found.tags) == (("two:2",), ("x:1",))
    assert (found.image.env, found.image.labels) == ({"A": "b"}, {"l": "1"})
    other = build(model, DOCKERFILE, "--build-arg", "BASE=three:3")
    assert isinstance(other, Build)
    assert other.image.id != found.image.id


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM a\nFROBNICATE\n", "unknown instruction: FROBNICATE"),
        ("RUN a\nFROM b\n", "no build stage"),
        ("FROM a\nCOPY gone /x\n", '"/gone": not found'),
        ("ARG A\n", "no instructions"),
    ],
)
def test_a_wrong_dockerfile_is_refused(model: HostModel, text: str, reason: str) -> None:
    found = build(model, text)
    assert isinstance(found, ToolResult)
    assert found.rc == 1
    assert reason in found.err


def mpirun(model: HostModel, *argv: str, uid: int = 0) -> Request | ToolResult:
    return parse(call(model, "mpirun", *argv, uid=uid))


def test_mpiruns_command_line_is_taken_apart(model: HostModel) -> None:
    found = mpirun(
        model, "--allow-run-as-root", "-H", "a,b:2", "--mca", "btl", "self", "-np", "3", "-x",
        "NCCL_DEBUG=INFO", "prog", "-x", "y",
    )  # fmt: skip
    assert isinstance(found, Request)
    assert found.hosts == (Slots("a", 1), Slots("b", 2))
    assert (found.count, found.env) == (3, {"NCCL_DEBUG": "INFO"})
    assert (found.command, found.mca) == (("prog", "-x", "y"), ("-mca", "btl", "self"))
    assert place_ranks(found.hosts, 3) == ((0,), (1, 2))
    assert place_ranks(found.hosts, 2) == ((0,), (1,))


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("-H", "a", "-np", "1", "hostname"), "attempt to run as root"),
        (("--allow-run-as-root", "-H", "a", "-np", "2", "hostname"), "not enough slots"),
        (("--allow-run-as-root", "--frob", "hostname"), 'unknown option "--frob"'),
        (("--allow-run-as-root", "-H", "a"), "could not find anything to do"),
    ],
)
def test_mpirun_refuses_in_open_mpis_words(
    model: HostModel, argv: tuple[str, ...], reason: str
) -> None:
    found = mpirun(model, *argv)
    assert isinstance(found, ToolResult)
    assert found.rc != 0
    assert reason in found.err


def test_a_perftest_command_line_names_its_server() -> None:
    assert split_server(("-d", "mlx5_0", "-x", "3", "--report_gbits")) == ("", 18515)
    assert split_server(("-d", "mlx5_0", "-p", "7", "-a", "10.0.0.1")) == ("10.0.0.1", 7)


def test_a_package_comes_and_goes_with_its_programs(model: HostModel) -> None:
    root = model.nvram_path.parent
    assert install(root, "docker.io") == ["containerd", "docker.io"]
    assert install(root, "docker.io") == []
    assert (
        dpkg_query(call(model, "dpkg-query", "-W", "-f", "${Version}", "docker.io")).out
        == (installed(root)["docker.io"])
    )
    assert (root / "usr/local/lib/railyard-lab/bin/docker").is_symlink()
    assert remove(root, "docker.io")
    assert not (root / "usr/local/lib/railyard-lab/bin/docker").is_symlink()
    assert dpkg_query(call(model, "dpkg-query", "-W", "docker.io")).rc == 1


def test_apt_refuses_what_it_does_not_have(model: HostModel) -> None:
    missing = plan_apt(call(model, "apt-get", "-y", "install", "frob")).answer
    assert missing is not None
    assert (missing.rc, "Unable to locate package frob" in missing.err) == (100, True)
    plain = plan_apt(call(model, "apt-get", "-y", "install", "docker.io", uid=1000)).answer
    assert plain is not None
    assert "are you root?" in plain.err

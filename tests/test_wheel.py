"""The built wheel in an environment and a folder of its own: what a user installs works there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from components.catalogue.operator_versions import AS_OF
from components.core.record import record
from tests.docs.markdown import blocks

ROOT = Path(__file__).parents[1]
PRODUCT = ("components", "stacks", "railyard_rdma")
SOURCES = (
    *PRODUCT,
    *("setup.py", "MANIFEST.in", "pyproject.toml", "README.md", "LICENSE"),
    *("requirements.lock", "examples", ".github/workflows/preview.yml"),
)
SITE = "examples/dgx-roce/site.yaml"
TESTS = ROOT / "docs" / "howto" / "test-your-stack.md"

PROGRAM = '''
"""A program of a user's own: the switches of a site, and nothing else."""

import sys
from pathlib import Path

import pulumi

from railyard_rdma.checks.site import load_checked_site
from railyard_rdma.fabric import Fabric
from railyard_rdma.fabric.fabric_plan import plan_fabric
from railyard_rdma.remote.component import Remote
from railyard_rdma.testing import Run, record_program


def program() -> None:
    spec = load_checked_site(Path("site.yaml")).spec_or_raise()
    remote = Remote(secrets=pulumi.Config("railyard"), notes={})
    fabric = Fabric("fabric", plan_fabric(spec), remote)
    pulumi.export("switches_ready", fabric.ready.gate.urn)


run = Run(config={"switch_password": "made up"}, secrets=("switch_password",))
graph = record_program(run, program)
print(graph.named("leaf-01-apply").text("create"))
print(sys.modules["railyard_rdma"].__file__)
'''


def _program(page: Path) -> str:
    """The Python program of a page."""
    [text] = [block.text for block in blocks(page) if block.language == "python"]
    return text


@record
class Installed:
    """The wheel, and the environment that it is installed in."""

    wheel: Path
    environment: Path

    def call(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.environment / "bin" / program), *arguments],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def python(self, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run code with the folder first on the path, as `python -m` and `pulumi` do."""
        return self.call("python", "-W", "ignore", "-c", code, folder=folder)


def _run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _sources() -> set[str]:
    """What git knows, or would take, of the product."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def copy_sources(folder: Path) -> None:
    """Copy what a build reads, as git has it: links stay links."""
    for name in _sources():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build and install; the other packages are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    copy_sources(source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index")
    _run(*pip, *build, "--wheel-dir", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    (packages,) = environment.glob("lib/*/site-packages")
    # A line of a .pth is a folder on the path; the .pth files in that folder are not read, so our
    # own editable installation is not there.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = ("--python", environment / "bin" / "python", "install", "--no-deps", "--no-index")
    _run(*pip, *install, wheel, cwd=folder)
    return Installed(wheel, environment)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copyfile(ROOT / SITE, tmp_path / "site.yaml")
    (tmp_path / SITE).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / SITE, tmp_path / SITE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_the_wheel_holds_the_product_and_nothing_else(installed: Installed) -> None:
    held = zipfile.ZipFile(installed.wheel).namelist()
    product = {name for name in _sources() if name.startswith(tuple(f"{p}/" for p in PRODUCT))}
    wanted = {
        re.sub("^components/", "railyard_rdma/", re.sub("^stacks/", "railyard_rdma/stacks/", name))
        for name in product
    }
    assert {name for name in held if ".dist-info/" not in name} == wanted
    (top,) = [n for n in held if n.endswith("/top_level.txt")]
    assert zipfile.ZipFile(installed.wheel).read(top) == b"railyard_rdma\n"


def test_the_wheel_asks_for_no_tool_of_development(installed: Installed) -> None:
    (name,) = [n for n in zipfile.ZipFile(installed.wheel).namelist() if n.endswith("/METADATA")]
    text = zipfile.ZipFile(installed.wheel).read(name).decode()
    needed = set(re.findall(r"^Requires-Dist: ([\w.-]+)", text, re.MULTILINE))
    assert {"pulumi", "pydantic", "typer", "asyncssh"} <= needed
    assert not needed & {"netmiko", "ruff", "pyright", "hypothesis", "setuptools"}
    assert "Project-URL: Documentation, https://" in text


def test_what_the_judge_needs_comes_without_an_extra_and_the_rest_with_one(
    installed: Installed, project: Path
) -> None:
    (name,) = [n for n in zipfile.ZipFile(installed.wheel).namelist() if n.endswith("/METADATA")]
    text = zipfile.ZipFile(installed.wheel).read(name).decode()
    lines = re.findall(r"^Requires-Dist: ([\w.-]+)(.*)$", text, re.MULTILINE)
    always = {package for package, rest in lines if "extra ==" not in rest}
    assert always == {"pydantic", "typer", "PyYAML"}
    refused = (
        "import sys\nsys.modules['asyncssh'] = None\n"
        "sys.argv = ['railyard', 'audit', 'site.yaml']\n"
        "from railyard_rdma.cli.main import main\nmain()"
    )
    told = installed.call("python", "-c", refused, folder=project)
    assert (told.returncode, "railyard-rdma[site]" in told.stderr) == (2, True), told.stderr


def _needed(ours: metadata.Distribution, extra: str) -> set[str]:
    """The distributions that pip would install with ours."""
    walked: set[tuple[str, frozenset[str]]] = set()

    def walk(requires: list[str], extras: frozenset[str]) -> None:
        for needed in map(Requirement, requires):
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": each}) for each in extras | {""}):
                found = (canonicalize_name(needed.name), frozenset(needed.extras))
                if found not in walked:
                    walked.add(found)
                    other = ours if found[0] == ours.name else metadata.distribution(found[0])
                    walk(other.requires or [], found[1])

    walk(ours.requires or [], frozenset({extra}))
    return {name for name, _ in walked} - {ours.name}


@pytest.fixture
def with_extra(installed: Installed, tmp_path: Path) -> Callable[[str], Installed]:
    """An environment that has the wheel and the packages of one extra, and no others."""

    def make(extra: str) -> Installed:
        environment = tmp_path / f"with-{extra}"
        _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
        (packages,) = environment.glob("lib/*/site-packages")
        (ours,) = installed.environment.glob("lib/*/site-packages")
        (dist_info,) = ours.glob("*.dist-info")
        (packages / "railyard_rdma").symlink_to(ours / "railyard_rdma")
        (packages / dist_info.name).symlink_to(dist_info)
        for program in ("railyard", "railyard-judge"):
            text = (installed.environment / "bin" / program).read_text()
            command = environment / "bin" / program
            command.write_text(text.replace(str(installed.environment), str(environment)))
            command.chmod(0o755)
        for name in _needed(metadata.Distribution.at(dist_info), extra):
            found = metadata.distribution(name)
            for part in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                with suppress(FileExistsError):
                    (packages / part).symlink_to(Path(str(found.locate_file(part))))
        return Installed(installed.wheel, environment)

    return make


@pytest.mark.parametrize(
    ("extra", "command", "status", "said"),
    [
        ("judge", ("railyard-judge", "perftest", "empty.log"), 4, "the log is empty"),
        ("report", ("railyard", "report", "site"), 2, "lacks the acceptance report of stack site"),
        ("site", ("railyard", "check", "site.yaml"), 1, "the rules hold"),
        ("site", ("python", "-W", "ignore", "program.py"), 0, "railyard device apply"),
        ("testing", ("python", "-m", "pytest", "-q", "-W", "ignore"), 0, "3 passed"),
    ],
)
def test_an_extra_brings_what_its_name_says(
    with_extra: Callable[[str], Installed],
    project: Path,
    extra: str,
    command: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    (project / "empty.log").write_text("")
    (project / "test_stack.py").write_text(_program(TESTS))
    done = with_extra(extra).call(command[0], *command[1:], folder=project)
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


EVERY_MODULE = """
import importlib, pkgutil, sys
import components, railyard_rdma, stacks

assert (components.OWNER, stacks.OWNER) == ("the user", "the user")
names = [m.name for m in pkgutil.walk_packages(railyard_rdma.__path__, "railyard_rdma.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
ours = [n for n in sys.modules if n.startswith(("components.", "stacks."))]
print(len(names), ours)
"""
FAILING = """
from pathlib import Path
from railyard_rdma.project.one_package import one_package
list(one_package(Path("no/such/folder")))
"""


@pytest.fixture
def beside(project: Path) -> Path:
    """A project with folders of its own that have the names of our repository's."""
    for name in ("components", "stacks", "lab"):
        (project / name).mkdir()
        (project / name / "__init__.py").write_text('OWNER = "the user"\n')
    (project / "lab" / "cli.py").write_text("raise SystemExit('the lab of the user was imported')")
    return project


def test_it_works_beside_folders_with_the_names_of_ours(installed: Installed, beside: Path) -> None:
    walked = installed.python(EVERY_MODULE, beside)
    assert walked.returncode == 0, walked.stderr
    number, ours = walked.stdout.split(maxsplit=1)
    assert (int(number) > 300, ours.strip()) == (True, "[]")
    (beside / "empty.log").write_text("")
    (beside / "test_stack.py").write_text(_program(TESTS))
    module = ("python", "-W", "ignore", "-m")  # puts the folder first on the path
    for command, status, said in (
        ((*module, "railyard_rdma", "check", "site.yaml"), 1, "the rules hold"),
        ((*module, "railyard_rdma", "lab", "status"), 2, "No such command 'lab'"),
        ((*module, "railyard_rdma.cli.judge", "perftest", "empty.log"), 4, "the log is empty"),
        ((*module, "pytest", "-q"), 0, "3 passed"),
        (("python", "-W", "ignore", "program.py"), 0, "railyard device apply"),
        (("railyard", "check", "site.yaml"), 1, "the rules hold"),
        (("railyard-judge", "perftest", "empty.log"), 4, "the log is empty"),
    ):
        done = installed.call(command[0], *command[1:], folder=beside)
        assert done.returncode == status, (command, done.stdout + done.stderr)
        assert said in done.stdout + done.stderr


def test_a_traceback_shows_the_line_of_the_installed_file(
    installed: Installed, beside: Path
) -> None:
    done = installed.python(FAILING, beside)
    (packages,) = installed.environment.glob("lib/*/site-packages")
    shown = re.search(
        r'File "(\S+one_package\.py)", line (\d+), in one_package\n +(.+)', done.stderr
    )
    assert shown is not None, done.stderr
    file = packages / "railyard_rdma" / "project" / "one_package.py"
    assert Path(shown[1]) == file
    assert file.read_text().splitlines()[int(shown[2]) - 1].strip() == shown[3]


def test_the_version_names_commit_and_catalogue(installed: Installed, project: Path) -> None:
    said = installed.call("railyard", "--version", folder=project).stdout
    assert said == f"railyard 0.1.0, commit unknown, catalogue of {AS_OF}\n"
    commit = "0123456789ab"
    (packages,) = installed.environment.glob("lib/*/site-packages")
    (packages / "railyard_rdma" / "commit.txt").write_text(f"{commit}\n")
    shown = installed.call("railyard", "--version", "--format", "json", folder=project).stdout
    (packages / "railyard_rdma" / "commit.txt").unlink()
    wanted = {"version": "0.1.0", "commit": commit, "catalogue": str(AS_OF)}
    assert json.loads(shown) == wanted


def test_a_file_is_checked_and_planned_elsewhere(installed: Installed, project: Path) -> None:
    checked = installed.call("railyard", "check", "site.yaml", folder=project)
    assert (checked.returncode, checked.stderr) == (1, "")  # its artefacts are not pinned
    assert "the rules hold" in checked.stdout
    for flags in ((), ("--scripts",)):
        planned = installed.call("railyard", "plan", "site.yaml", *flags, folder=project)
        assert (planned.returncode, planned.stderr) == (0, "")
        assert "hostname=gpu02" in planned.stdout
    assert "rmdir" in planned.stdout  # a script of the hosts came with the wheel


def test_a_project_begins_in_another_folder(installed: Installed, tmp_path: Path) -> None:
    for example in ("dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s"):
        begun = installed.call("railyard", "init", example, "--example", example, folder=tmp_path)
        assert (begun.returncode, begun.stderr) == (0, "")
        folder = tmp_path / example
        assert not any(path.is_symlink() for path in folder.rglob("*"))
        checked = installed.call("railyard", "check", "Pulumi.site.yaml", folder=folder)
        assert checked.returncode == 1
        assert "marked as the example's" in checked.stdout
        assert (folder / ".github" / "workflows" / "preview.yml").is_file()


def test_the_lab_is_no_command_where_it_is_not_installed(
    installed: Installed, project: Path
) -> None:
    helped = installed.call("railyard", "--help", folder=project)
    assert "check" in helped.stdout
    assert "lab" not in helped.stdout
    called = installed.call("railyard", "lab", "status", folder=project)
    assert called.returncode == 2
    assert "No such command 'lab'" in called.stderr


@pytest.mark.parametrize(
    ("beside", "command"),
    [
        (None, "railyard"),
        ("venv", "venv/bin/railyard"),
        (".venv", ".venv/bin/railyard"),
    ],
)
def test_a_program_of_a_user_uses_one_component(
    installed: Installed, project: Path, beside: str | None, command: str
) -> None:
    if beside is not None:
        (project / beside).symlink_to(installed.environment)
    done = installed.call("python", "-W", "ignore", "program.py", folder=project)
    assert (done.returncode, done.stderr) == (0, "")
    step, module = done.stdout.splitlines()
    assert step == f"{command} device apply"
    assert module.startswith(str(installed.environment))

"""The built wheel in an environment and a folder of its own: what a user installs works there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("components", "stacks", "pyproject.toml", "requirements.in", "README.md", "LICENSE")
SITE = "examples/dgx-roce/site.yaml"

PROGRAM = '''
"""A program of a user's own: the switches of a site, and nothing else."""

import sys
from pathlib import Path

import pulumi

from components.checks.site import load_checked_site
from components.fabric import Fabric
from components.fabric.fabric_plan import plan_fabric
from components.remote.component import Remote
from components.testing import Run, record_program


def program() -> None:
    spec = load_checked_site(Path("site.yaml")).spec_or_raise()
    remote = Remote(secrets=pulumi.Config("railyard"), notes={})
    fabric = Fabric("fabric", plan_fabric(spec), remote)
    pulumi.export("switches_ready", fabric.ready.gate.urn)


run = Run(config={"switch_password": "made up"}, secrets=("switch_password",))
graph = record_program(run, program)
print(graph.named("leaf-01-apply").text("create"))
print(sys.modules["components"].__file__)
'''


@dataclass(frozen=True, slots=True)
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build and install; the other packages are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in _sources():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
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
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_the_wheel_holds_the_product_and_nothing_else(installed: Installed) -> None:
    held = zipfile.ZipFile(installed.wheel).namelist()
    product = {name for name in _sources() if name.startswith(("components/", "stacks/"))}
    assert {name for name in held if ".dist-info/" not in name} == product


def test_the_wheel_asks_for_no_tool_of_development(installed: Installed) -> None:
    (name,) = [n for n in zipfile.ZipFile(installed.wheel).namelist() if n.endswith("/METADATA")]
    metadata = zipfile.ZipFile(installed.wheel).read(name).decode()
    needed = set(re.findall(r"^Requires-Dist: ([\w.-]+)", metadata, re.MULTILINE))
    assert {"pulumi", "pydantic", "typer", "asyncssh"} <= needed
    assert not needed & {"netmiko", "pytest", "ruff", "pyright", "hypothesis", "setuptools"}


def test_what_the_judge_needs_comes_without_an_extra_and_the_rest_with_one(
    installed: Installed, project: Path
) -> None:
    (name,) = [n for n in zipfile.ZipFile(installed.wheel).namelist() if n.endswith("/METADATA")]
    metadata = zipfile.ZipFile(installed.wheel).read(name).decode()
    lines = re.findall(r"^Requires-Dist: ([\w.-]+)(.*)$", metadata, re.MULTILINE)
    always = {package for package, rest in lines if "extra ==" not in rest}
    assert always == {"pydantic", "typer", "PyYAML"}
    assert always <= {package for package, rest in lines if 'extra == "site"' in rest}
    (project / "empty.log").write_text("")
    judged = installed.call("railyard-judge", "perftest", "empty.log", folder=project)
    assert (judged.returncode, "the log is empty" in judged.stdout) == (4, True)
    refused = (
        "import sys\nsys.modules['ruamel'] = sys.modules['ruamel.yaml'] = None\n"
        "sys.argv = ['railyard', 'check', 'site.yaml']\n"
        "from components.cli.main import main\nmain()"
    )
    told = installed.call("python", "-c", refused, folder=project)
    assert (told.returncode, "railyard-rdma[site]" in told.stderr) == (2, True), told.stderr


def test_a_file_is_checked_and_planned_elsewhere(installed: Installed, project: Path) -> None:
    checked = installed.call("railyard", "check", "site.yaml", folder=project)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "no problems" in checked.stdout
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

"""A real site on the lab's engine is refused; the lab's own is not, whatever it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from components.core.errors import UsageError
from components.model.cluster import ClusterSpec
from components.project.engine import (
    lab_findings,
    look_at_engine,
    refuse_lab_parts,
    wanted_versions,
)
from components.project.lab_marks import (
    LAB_PASSPHRASE,
    devices_outside_lab,
    has_lab_passphrase,
    is_lab_backend,
    is_stand_in,
)
from lab.clean import STATES, clean
from lab.engine.env import PASSPHRASE
from lab.engine.plugin_cache import MARK, STAND_INS, render_module_shim, render_program_shim
from tests.golden.site import load_example
from tests.graph.example_sites import example_run
from tests.graph.whole_program import record_refusal

ROOT = Path(__file__).parents[2]
SITE = load_example("dgx-roce")


def put_plugin(folder: Path, name: str, text: str) -> Path:
    """One plugin in Pulumi's own folder."""
    version = wanted_versions()[name]
    file = folder / "plugins" / f"resource-{name}-v{version}" / f"pulumi-resource-{name}"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PULUMI_HOME": str(folder), **more}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_product_and_the_lab_mean_the_same_marks(tmp_path: Path) -> None:
    assert LAB_PASSPHRASE == PASSPHRASE
    for module in (*STAND_INS.values(), "lab.engine.language"):
        file = tmp_path / module
        file.write_text(render_module_shim(Path(sys.executable), module))
        assert MARK in file.read_text()
        assert is_stand_in(file)


def test_a_real_plugin_is_none_also_through_a_link_of_the_lab(tmp_path: Path) -> None:
    binary = tmp_path / "pulumi-resource-command"
    binary.write_bytes(b"\x7fELF" + bytes(8192))
    link = tmp_path / "link"
    link.write_text(render_program_shim(binary))
    assert not is_stand_in(binary)
    assert not is_stand_in(link)
    assert not is_stand_in(tmp_path / "none")


@pytest.mark.parametrize("name", ["command", "kubernetes"])
def test_each_stand_in_is_refused_with_its_place_and_the_way_out(
    elsewhere: Path, name: str
) -> None:
    shim = render_module_shim(Path(sys.executable), STAND_INS[name])
    file = put_plugin(elsewhere, name, shim)
    (found,) = lab_findings(SITE, "prod", is_lab=False, environ=environ(elsewhere))
    assert found.actual == str(file)
    assert f"pulumi plugin install resource {name} v" in found.fix


def test_a_stand_in_on_path_wins_over_the_folder_as_in_the_engine(elsewhere: Path) -> None:
    put_plugin(elsewhere, "command", "a real one")
    on_path = elsewhere / "bin" / "pulumi-resource-command"
    on_path.parent.mkdir()
    on_path.write_text(render_module_shim(Path(sys.executable), "standins.command"))
    on_path.chmod(0o755)
    known = environ(elsewhere) | {"PATH": f"{on_path.parent}:/usr/bin"}
    (found,) = lab_findings(SITE, "prod", is_lab=False, environ=known)
    assert found.actual == str(on_path)


def test_the_committed_dev_file_is_known_by_its_salt_alone() -> None:
    salt = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["encryptionsalt"]
    assert has_lab_passphrase({}, salt)
    assert not has_lab_passphrase({"PULUMI_CONFIG_PASSPHRASE": "my own"}, salt)
    assert not has_lab_passphrase({}, "")
    assert not has_lab_passphrase({}, salt.replace(":v1:", ":v1:AA", 1))


def test_the_passphrase_is_found_in_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.write_text("railyard-lab\n")
    assert has_lab_passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}, "")
    file.write_text("another\n")
    assert not has_lab_passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}, "")


def test_the_state_beside_the_lab_is_known_also_without_its_mark(tmp_path: Path) -> None:
    checkout = tmp_path / "clone"
    (checkout / "lab" / "engine").mkdir(parents=True)
    (checkout / "lab" / "engine" / "env.py").touch()
    backend = checkout / ".pulumi" / "backend"
    assert is_lab_backend(f"file://{backend}")
    assert not is_lab_backend(f"file://{tmp_path}/state")
    assert not is_lab_backend("s3://bucket/.pulumi/backend")
    marked = tmp_path / "marked"
    marked.mkdir()
    (marked / "railyard-lab").touch()
    assert is_lab_backend(f"file://{marked}")


def test_a_login_or_the_project_names_the_backend_too(elsewhere: Path) -> None:
    backend = elsewhere / "states"
    backend.mkdir()
    (backend / "railyard-lab").touch()
    (elsewhere / "credentials.json").write_text(f'{{"current": "file://{backend}"}}')
    (found,) = lab_findings(SITE, "prod", is_lab=False, environ=environ(elsewhere))
    assert (found.rule, found.actual) == ("lab-backend", f"file://{backend}")
    (elsewhere / "Pulumi.yaml").write_text("name: x\nbackend: {url: s3://ours}\n")
    assert lab_findings(SITE, "prod", is_lab=False, environ=environ(elsewhere)) == ()


def test_all_of_them_are_told_at_once_and_nothing_is_touched(elsewhere: Path) -> None:
    put_plugin(elsewhere, "command", render_module_shim(Path("python"), "standins.command"))
    backend = elsewhere / "b"
    backend.mkdir()
    (backend / "railyard-lab").touch()
    known = environ(
        elsewhere,
        PULUMI_CONFIG_PASSPHRASE="railyard-lab",
        PULUMI_BACKEND_URL=f"file://{backend}",
    )
    with pytest.raises(UsageError, match="Nothing was touched") as raised:
        refuse_lab_parts(SITE, "dev", is_lab=False, environ=known)  # the name counts for nothing
    for words in ("is the lab's substitute", "which is public", "which `make clean` deletes"):
        assert words in str(raised.value)


def test_the_labs_own_stack_may_have_all_of_it(elsewhere: Path) -> None:
    put_plugin(elsewhere, "command", render_module_shim(Path("python"), "standins.command"))
    known = environ(elsewhere, PULUMI_CONFIG_PASSPHRASE="railyard-lab")
    assert lab_findings(played_site(), "any-name", is_lab=True, environ=known) == ()


def played_site() -> ClusterSpec:
    """The dev stack's site, as it is committed."""
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    return ClusterSpec.model_validate(document["config"]["railyard:cluster"])


def test_real_devices_are_no_lab_whatever_the_stack_says(elsewhere: Path) -> None:
    assert devices_outside_lab(played_site()) == ()
    with pytest.raises(UsageError, match="says that it is of the lab, and is not") as raised:
        refuse_lab_parts(SITE, "prod", is_lab=True, environ=environ(elsewhere))
    assert "leaf-01 at 192.168.1.5" in str(raised.value)
    assert "remove `railyard:lab` from Pulumi.prod.yaml" in str(raised.value)


def test_the_program_refuses_before_its_first_resource(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del elsewhere
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "railyard-lab")
    refused, graph = record_refusal(example_run("shared-rdma"))
    assert "stack shared-rdma does not belong to the lab, but would use parts of the lab" in refused
    assert list(graph.resources) == []


def put_state(checkout: Path, name: str) -> Path:
    file = checkout / STATES / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    return file


def test_make_clean_deletes_no_state_that_is_not_the_labs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".lab" / "dev").mkdir(parents=True)
    (tmp_path / ".lab" / "dev" / "lab.json").write_text("{}")
    put_state(tmp_path, "railyard/dev.json")
    put_state(tmp_path, "railyard/dev.json.bak")
    real = put_state(tmp_path, "railyard/site1.json.gz")
    assert clean(tmp_path) == 2
    assert real.is_file()
    assert (tmp_path / ".lab").is_dir()
    said = capsys.readouterr().err
    assert "the state of railyard/site1" in said
    assert "Nothing was deleted" in said
    real.unlink()
    other = put_state(tmp_path, "another/dev.json")
    assert clean(tmp_path) == 2
    other.unlink()
    assert clean(tmp_path) == 0
    assert not (tmp_path / ".lab").exists()
    assert not (tmp_path / ".pulumi").exists()


def test_make_clean_is_that_program_and_needs_no_environment() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nclean: down")[2].split("\n")[1]
    assert recipe.strip() == "@python3 lab/clean.py"
    code = "import runpy; runpy.run_path('lab/clean.py')"
    done = subprocess.run(
        ["python3", "-I", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_engine_is_found_as_pulumi_finds_it(elsewhere: Path) -> None:
    program = elsewhere / "cli" / "pulumi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho v3.251.0\n")
    program.chmod(0o755)
    (program.parent / "pulumi-language-python").touch()
    known = environ(elsewhere) | {"PATH": f"{program.parent}:/usr/bin:/bin"}
    engine = look_at_engine(known, elsewhere)
    assert (engine.version, engine.program) == ("3.251.0", program)
    assert engine.language == program.parent / "pulumi-language-python"
    assert [plugin.program for plugin in engine.plugins] == [None, None]

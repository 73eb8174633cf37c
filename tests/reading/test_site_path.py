"""A stack that names its site as a file: what it may name, and how each mistake is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.checks.render import render_text
from components.checks.site import check_config_value, load_checked_site
from components.core.errors import SpecError
from components.reading.load import Loaded, load_config_value, load_site
from components.reading.site_path import SITE_KEY, config_file, read_site
from tests.checks.cases import ROOT

TEXT = (ROOT / "examples" / "dgx-roce" / "site.yaml").read_text(encoding="utf-8")
NAMES = ("switch_password", "ssh_private_key", "k3s_token", "k3s_agent_token")
SECRETS = "".join(f"  railyard:{name}:\n    secure: v1:abc\n" for name in NAMES)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with stack files of its own in a folder, and a site in each place."""
    folder = tmp_path / "project"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: x\n")
    (folder / "site.yaml").write_text(TEXT, encoding="utf-8")
    (folder / "stacks" / "site.yaml").write_text(TEXT, encoding="utf-8")
    (tmp_path / "outside.yaml").write_text(TEXT, encoding="utf-8")
    return folder


def put_stack(folder: Path, written: str, more: str = SECRETS) -> Path:
    path = folder / "Pulumi.prod.yaml"
    path.write_text(f"config:\n  railyard:observe: always\n  {SITE_KEY}: {written}\n{more}")
    return path


def both_ways(stack: Path, site: str) -> tuple[Loaded, Loaded]:
    """As the commands read the file, and as the program gets its values from the engine."""
    return load_site(stack), load_config_value(None, stack, site)


@pytest.mark.parametrize(
    ("folder", "written"),
    [
        (".", "site.yaml"),
        (".", "./stacks/../site.yaml"),
        (".", "stacks/site.yaml"),
        ("stacks", "site.yaml"),
        ("stacks", "../site.yaml"),
    ],
)
def test_a_file_of_the_project_is_the_site(project: Path, folder: str, written: str) -> None:
    stack = put_stack(project / folder, written)
    assert load_checked_site(stack).problems == ()
    assert check_config_value(None, stack, written).problems == ()
    plain = load_site(ROOT / "examples" / "dgx-roce" / "site.yaml").spec
    for loaded in both_ways(stack, written):
        assert loaded.spec == plain
        assert loaded.secrets is not None
        assert loaded.secrets.encrypted == set(NAMES)


def test_a_link_within_the_project_is_followed(project: Path) -> None:
    (project / "link.yaml").symlink_to("stacks/site.yaml")
    assert load_checked_site(put_stack(project, "link.yaml")).problems == ()


def test_without_a_project_the_stack_files_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "site.yaml").write_text(TEXT)
    (tmp_path / "a" / "site.yaml").write_text(TEXT)
    assert load_site(put_stack(tmp_path / "a", "site.yaml")).spec is not None
    assert load_site(put_stack(tmp_path / "a", "../site.yaml")).spec is None


def test_problems_have_the_sites_name_and_line(project: Path) -> None:
    site = project / "site.yaml"
    site.write_text(TEXT.replace("vlan: 112", "vlan: 5000"))
    stack = put_stack(project, "site.yaml")
    for loaded in both_ways(stack, "site.yaml"):
        [problem] = loaded.problems
        assert problem.where[0].file == str(site)
        assert "vlan: 5000" in site.read_text().splitlines()[problem.line - 1]


def test_problems_name_the_site_as_one_would_from_here(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "stacks" / "site.yaml").write_text("name: Not A Label\n")
    stack = put_stack(project / "stacks", "site.yaml")
    for named in (stack, Path("stacks/Pulumi.prod.yaml")):
        assert load_site(named).problems[0].where[0].file == "stacks/site.yaml"


def test_problems_of_the_stack_file_keep_its_name(project: Path) -> None:
    stack = put_stack(project, "site.yaml", SECRETS + "  railyard:observ: never\n")
    checked = load_checked_site(stack)
    assert checked.spec is None
    [problem] = checked.problems
    assert (problem.rule, problem.where[0].file) == ("stack-key", str(stack))
    assert problem.line == len(stack.read_text().splitlines())


def test_a_double_key_of_the_stack_file_is_said_too(project: Path) -> None:
    stack = put_stack(project, "site.yaml", SECRETS + "  railyard:observe: never\n")
    assert [each.rule for each in load_checked_site(stack).problems] == ["duplicate-key"]


@pytest.mark.parametrize(
    ("written", "what", "fix"),
    [
        ("gone.yaml", "does not exist", "create the file"),
        ("stacks", "is a directory", "stacks/site.yaml"),
        ("../outside.yaml", "leads out of the project's folder", "move the site into the project"),
        ("stacks/../../outside.yaml", "leads out of the project", "move the site"),
        ("link.yaml", "out of the project's folder through a symbolic link", "move the site"),
        ("folder/outside.yaml", "through a symbolic link", "move the site"),
        ("loop.yaml", "symbolic links lead to themselves", "name the file itself"),
        ("{project}/site.yaml", "the absolute path", "relative to the stack's file"),
        ("/etc/passwd", "the absolute path", "relative to the stack's file"),
        ("empty.yaml", "the file is empty", "start from examples"),
        ("comment.yaml", "the file is empty", "start from examples"),
        ("list.yaml", "holds no settings", "start from examples"),
        ("binary.yaml", "not UTF-8 text (byte 6)", "save the site as UTF-8"),
        ("broken.yaml", "the text is not YAML", "colons"),
        ("Pulumi.prod.yaml", "is the file of a stack itself", "begins with `name:`"),
        ("bare.yaml", "is the file of a stack itself", "begins with `name:`"),
        ("pipe", "not a regular file", "name a file"),
        ('""', "is empty, and the path of a file is expected", "site.yaml"),
        ("[site.yaml]", "the path of a file is expected", "site.yaml"),
        ("{secure: v1:abc}", "a secret or a list of settings", "site.yaml"),
        ("5", "the path of a file is expected", "site.yaml"),
    ],
)
def test_each_mistake_has_its_own_words(project: Path, written: str, what: str, fix: str) -> None:
    put_mistakes(project)
    written = written.replace("{project}", str(project))
    checked = load_checked_site(put_stack(project, written))
    assert checked.spec is None
    [problem] = checked.problems
    assert what in problem.what
    assert fix in problem.fix
    assert problem.line > 0
    assert "Nothing was touched" in render_text(checked.problems)
    if written[0] not in '"[{5':
        [same] = check_config_value(None, project / "Pulumi.prod.yaml", written).problems
        assert (same.rule, same.what, same.fix) == (problem.rule, problem.what, problem.fix)


def put_mistakes(project: Path) -> None:
    (project / "link.yaml").symlink_to("../outside.yaml")
    (project / "folder").symlink_to("..", target_is_directory=True)
    (project / "loop.yaml").symlink_to("loop.yaml")
    (project / "empty.yaml").write_text("")
    (project / "comment.yaml").write_text("# nothing\n")
    (project / "list.yaml").write_text("- a\n")
    (project / "binary.yaml").write_bytes(b"name: \xff\n")
    (project / "broken.yaml").write_text("name: [a\n")
    (project / "bare.yaml").write_text("railyard:cluster: {name: a}\n")
    os.mkfifo(project / "pipe")


def test_a_file_that_may_not_be_read_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    stack = put_stack(project, "site.yaml")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(Exception, match=r"site\.yaml cannot be read: Permission denied"):
        read_site("site.yaml", stack)


@pytest.mark.parametrize("given", ["file", "engine"])
def test_both_keys_or_neither_are_refused(project: Path, given: str) -> None:
    cluster = "  railyard:cluster: {name: a}\n"
    stack = put_stack(project, "site.yaml", cluster)
    both = load_site(stack) if given == "file" else load_config_value({}, stack, "site.yaml")
    assert [problem.rule for problem in both.problems] == ["site-file"]
    assert "both `railyard:site` and `railyard:cluster`" in both.problems[0].what
    stack.write_text("config:\n  railyard:observe: never\n")
    neither = load_site(stack) if given == "file" else load_config_value(None, stack)
    assert "neither `railyard:site` nor `railyard:cluster`" in neither.problems[0].what
    assert "railyard:site: site.yaml" in neither.problems[0].fix


def test_the_file_of_a_stack_may_lie_elsewhere(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = str(project / "stacks" / "Pulumi.prod.yaml")
    monkeypatch.setenv("RAILYARD_CONFIG_FILE", elsewhere)
    assert str(config_file("prod")) == elsewhere
    assert str(config_file("other")) == "Pulumi.other.yaml"


def test_the_report_of_a_wrong_path_is_one_error(project: Path) -> None:
    checked = load_checked_site(put_stack(project, "gone.yaml"))
    with pytest.raises(SpecError, match=r"site-file: .*gone\.yaml, but the file"):
        checked.spec_or_raise()

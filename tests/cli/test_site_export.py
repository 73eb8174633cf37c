"""`railyard site export --operator`: what it prints from a real clone, and what it refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.core.errors import UsageError
from components.project.operator import refuse_old, refuse_old_definition
from lab.cluster.api import ApiError
from lab.cluster.plane import ControlPlane
from tests.cli.conftest import Call
from tests.schemas.judge import judge, raw_kinds
from tests.schemas.test_api_server import (
    define,
    definitions_of_charts,
    make_namespace,
    try_on_server,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
REPO = "https://git.example.org/ops/sites.git"
STACK = "pulumi.com/v1 Stack"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "site")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a clone, all of it pushed; the current folder."""
    clone = tmp_path / "clone"
    found = clone / "sites" / "prod"
    found.mkdir(parents=True)
    (found / "site.yaml").write_text((EXAMPLES / "dgx-roce/site.yaml").read_text())
    (found / "Pulumi.yaml").write_text("name: prod\nruntime: python\n")
    (found / "requirements.txt").write_text("")
    (found / "Pulumi.prod.yaml").write_text(
        "config:\n  railyard:site: site.yaml\n  railyard:switch_password:\n    secure: v1:canary\n"
    )
    git(clone, "init", "--quiet", "--initial-branch", "main")
    git(clone, "init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    git(clone, "remote", "add", "origin", str(tmp_path / "remote.git"))
    commit(clone)
    git(clone, "push", "--quiet", "origin", "main")
    git(clone, "remote", "set-url", "origin", REPO)
    monkeypatch.chdir(found)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://states")
    return found


def exported(railyard: Call, *options: str, stack: str = "prod") -> list[Any]:
    done = railyard("site", "export", stack, "--operator", *options)
    assert (done.code, done.err) == (0, "")
    assert "canary" not in done.out
    return [*yaml.safe_load_all(done.out)]


def spec_of(objects: Sequence[Any], name: str) -> Any:  # noqa: ANN401 - fields of the operator
    return next(
        each["spec"]
        for each in objects
        if each["kind"] == "Stack" and each["metadata"]["name"] == name
    )


def test_a_site_without_units_is_one_stack(railyard: Call, project: Path) -> None:
    objects = exported(railyard)
    assert [each["kind"] for each in objects] == ["ServiceAccount", "ClusterRoleBinding", "Stack"]
    assert [what for each in objects for what in judge(each)] == []
    spec = spec_of(objects, "prod")
    assert spec["projectRepo"] == REPO
    assert spec["commit"] == git(project, "rev-parse", "HEAD")
    assert (spec["repoDir"], spec["backend"]) == ("sites/prod", "s3://states")
    assert spec["config"] == {"railyard:site": "site.yaml"}
    assert spec["secretsRef"]["railyard:switch_password"] == {
        "type": "Secret",
        "secret": {"name": "railyard-prod", "key": "switch_password"},
    }
    assert [*spec["envRefs"]] == ["PULUMI_CONFIG_PASSPHRASE"]
    assert "prerequisites" not in spec
    assert "gitAuth" not in spec


UNITS = """
stacks:
  units:
    a: {leaves: [leaf-01, leaf-02, leaf-03, leaf-04]}
    b: {leaves: [leaf-05, leaf-06, leaf-07, leaf-08]}
  canary: 0
  at_once: 2
"""


def split(project: Path, units: str = UNITS) -> None:
    """Make it the site of two spines and two units."""
    (project / "site.yaml").write_text((EXAMPLES / "spine-leaf/site.yaml").read_text() + units)
    commit(project)


def test_a_site_of_two_units_is_four_stacks_in_order(railyard: Call, project: Path) -> None:
    split(project)
    objects = exported(railyard, "--repo", REPO)
    assert [what for each in objects for what in judge(each)] == []
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Stack"]
    assert names == ["prod-spines", "prod-a", "prod-b", "prod-cluster"]
    after = {
        name: [
            (each["name"], each["requirement"]["succeededWithinDuration"])
            for each in spec_of(objects, name).get("prerequisites", [])
        ]
        for name in names
    }
    assert after == {
        "prod-spines": [],
        "prod-a": [("prod-spines", "24h")],
        "prod-b": [("prod-spines", "24h")],
        "prod-cluster": [("prod-spines", "24h"), ("prod-a", "24h"), ("prod-b", "24h")],
    }
    for name in names:
        spec = spec_of(objects, name)
        assert spec["stack"] == name
        piece = name.removeprefix("prod-")
        assert spec["config"] == {"railyard:site": "site.yaml", "railyard:piece": piece}


def test_a_piece_gets_only_its_own_secrets(railyard: Call, project: Path) -> None:
    split(project)
    objects = exported(railyard, "--repo", REPO)
    keys = {name: [*spec_of(objects, name)["secretsRef"]] for name in ("prod-spines", "prod-a")}
    assert keys["prod-spines"] == ["railyard:switch_password"]
    assert "railyard:ssh_private_key" in keys["prod-a"]
    assert "railyard:k3s_token" not in keys["prod-a"]
    cluster = spec_of(objects, "prod-cluster")["secretsRef"]
    assert {"railyard:k3s_token", "railyard:switch_password"} <= {*cluster}, "it proves all hops"


def test_canaries_come_one_by_one(railyard: Call, project: Path) -> None:
    split(project, UNITS.replace("canary: 0", "canary: 1"))
    spec = spec_of(exported(railyard, "--repo", REPO), "prod-b")
    assert [each["name"] for each in spec["prerequisites"]] == ["prod-a"]


def test_the_comment_names_every_key_of_the_secret(railyard: Call, project: Path) -> None:
    assert project.is_dir()
    done = railyard("site", "export", "prod", "--operator", "--git-token")
    head = done.out.partition("---")[0]
    files = {word.partition("=")[2] for word in head.split() if word.startswith("--from-file=")}
    assert files == {
        "GIT_TOKEN", "PULUMI_CONFIG_PASSPHRASE", "k3s_agent_token", "k3s_token",
        "ssh_private_key", "switch_password",
    }  # fmt: skip
    assert done.out.count("\n#") + 1 == len(head.splitlines()), "every line is a comment"


@pytest.mark.parametrize(
    ("address", "options", "auth"),
    [
        (REPO, [], None),
        (REPO, ["--git-token"], ("accessToken", "GIT_TOKEN")),
        ("git@git.example.org:ops/sites.git", [], ("sshAuth", "GIT_SSH_PRIVATE_KEY")),
        ("ssh://git@git.example.org/ops/sites.git", [], ("sshAuth", "GIT_SSH_PRIVATE_KEY")),
    ],
)
def test_the_login_of_git_is_a_reference(
    railyard: Call, project: Path, address: str, options: list[str], auth: tuple[str, str] | None
) -> None:
    git(project, "remote", "set-url", "origin", address)
    objects = exported(railyard, *options)
    assert [what for each in objects for what in judge(each)] == []
    found = spec_of(objects, "prod").get("gitAuth")
    if auth is None:
        assert found is None
        return
    ((kind, reference),) = found.items()
    value = reference.get("sshPrivateKey", reference)
    assert (kind, value["secret"]["key"]) == auth


@pytest.mark.parametrize(
    ("backend", "line", "variables"),
    [
        ("s3://states", "", ["PULUMI_CONFIG_PASSPHRASE"]),
        ("s3://states", "secretsprovider: awskms://alias/x\n", []),
        ("https://app.pulumi.com", "", ["PULUMI_ACCESS_TOKEN"]),
        (
            "https://app.pulumi.com",
            "encryptionsalt: v1:x\n",
            ["PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE"],
        ),
        (
            "postgres://railyard:canary@db/states",
            "",
            ["PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"],
        ),
    ],
)
def test_the_engine_gets_what_opens_its_states(
    railyard: Call,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    line: str,
    variables: list[str],
) -> None:
    with (project / "Pulumi.prod.yaml").open("a") as file:
        file.write(line)
    commit(project)
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    spec = spec_of(exported(railyard, "--repo", REPO), "prod")
    assert [*spec["envRefs"]] == variables if variables else "envRefs" not in spec
    assert spec.get("backend") == (None if "@" in backend else backend)
    assert spec.get("secretsProvider") == (
        line.partition(": ")[2].strip() or None if "provider" in line else None
    )


def test_a_secret_of_the_environment_becomes_a_variable(railyard: Call, project: Path) -> None:
    site = project / "site.yaml"
    site.write_text(site.read_text().replace("{secret: switch_password}", "{env: SWITCH_PASSWORD}"))
    commit(project)
    spec = spec_of(exported(railyard, "--repo", REPO), "prod")
    assert spec["envRefs"]["SWITCH_PASSWORD"]["secret"]["key"] == "SWITCH_PASSWORD"
    assert "railyard:switch_password" not in spec["secretsRef"]


def test_options_change_the_workspace(railyard: Call, project: Path) -> None:
    assert project.is_dir()
    objects = exported(railyard, "--preview", "--namespace", "ops", "--image", "registry/pulumi:1")
    spec = spec_of(objects, "prod")
    assert spec["preview"] is True
    assert spec["workspaceTemplate"]["spec"]["image"] == "registry/pulumi:1"
    assert {each["metadata"].get("namespace", "ops") for each in objects} == {"ops"}


def refused(railyard: Call, *options: str, stack: str = "prod") -> str:
    done = railyard("site", "export", stack, *options)
    assert (done.code, done.out) == (2, "")
    assert "  fix    " in done.err
    return done.err


def test_a_project_outside_of_git_is_refused(
    railyard: Call, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    project.rename(outside)
    monkeypatch.chdir(outside)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert "is in no git repository with a commit" in refused(railyard, "--operator")


def test_all_reasons_why_the_operator_lacks_the_program_are_listed(
    railyard: Call, project: Path
) -> None:
    git(project, "rm", "--quiet", "--cached", "requirements.txt")
    git(project, "commit", "--quiet", "--message", "without")
    (project / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
    text = refused(railyard, "--operator")
    assert "the commit lacks requirements.txt" in text
    assert "railyard init . --package" in text
    assert "without your changes of Pulumi.yaml" in text
    assert "no remote branch has the commit" in text


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/srv/git/sites.git", "by https and SSH alone, not /srv/git/sites.git"),
        ("http://git.example.org/ops.git", "by https and SSH alone"),
        ("file:///srv/git/sites.git", "by https and SSH alone"),
        ("https://canary@git.example.org/ops.git", "contains a login"),
        ("https://me:canary@git.example.org/ops.git", "contains a login"),
    ],
)
def test_an_address_that_the_cluster_cannot_use_is_refused(
    railyard: Call, project: Path, address: str, said: str
) -> None:
    git(project, "remote", "set-url", "origin", address)
    text = refused(railyard, "--operator")
    assert said in text
    assert "  where  the remote `origin` of git" in text
    assert "canary" not in text
    assert said in refused(railyard, "--operator", "--repo", address)


def test_a_clone_without_a_remote_is_refused(railyard: Call, project: Path) -> None:
    git(project, "remote", "remove", "origin")
    assert "has no remote" in refused(railyard, "--operator")


def test_states_in_a_folder_are_refused(
    railyard: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.is_dir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///srv/states")
    assert "file:///srv/states, which no pod has" in refused(railyard, "--operator")
    spec = spec_of(exported(railyard, "--backend", "file:///states"), "prod")
    assert spec["backend"] == "file:///states"


def test_the_form_must_be_named(railyard: Call, project: Path) -> None:
    assert project.is_dir()
    assert "add --operator" in refused(railyard)


@pytest.mark.parametrize("config", ["[a]", "5"])
def test_a_configuration_that_is_no_mapping_is_refused(
    railyard: Call, project: Path, config: str
) -> None:
    (project / "Pulumi.prod.yaml").write_text(f"config: {config}\n")
    done = railyard("site", "export", "prod", "--operator", "--backend", "s3://states")
    assert done.code == 2
    assert "is no mapping" in done.err


def test_an_unknown_stack_is_refused(railyard: Call, project: Path) -> None:
    assert project.is_dir()
    assert "Pulumi.none.yaml cannot be read" in refused(railyard, "--operator", stack="none")


def test_a_piece_is_no_site(railyard: Call, project: Path) -> None:
    text = "config:\n  railyard:site: site.yaml\n  railyard:piece: a\n"
    (project / "Pulumi.prod-a.yaml").write_text(text)
    assert "name the site: prod" in refused(railyard, "--operator", stack="prod-a")


def test_a_unit_without_a_leaf_is_refused_with_its_line(railyard: Call, project: Path) -> None:
    split(project, UNITS.replace("leaf-08", "leaf-09"))
    done = railyard("site", "export", "prod", "--operator")
    assert (done.code, done.out) == (1, "")
    assert "leaf-09" in done.err
    assert "site.yaml:" in done.err


def test_a_name_that_the_operator_refuses_is_refused_here(railyard: Call, project: Path) -> None:
    name = "a" * 43
    (project / f"Pulumi.{name}.yaml").write_text("config:\n  railyard:site: site.yaml\n")
    text = refused(railyard, "--operator", stack=name)
    assert name in text
    assert "at most 42 characters" in text


@pytest.mark.parametrize("version", ["1.16.0", "v2.0.0-beta.1", "2.7.9"])
def test_an_old_release_is_refused(railyard: Call, project: Path, version: str) -> None:
    assert project.is_dir()
    text = refused(railyard, "--operator", "--operator-version", version)
    assert f"the operator {version} is too old" in text
    assert "  where  --operator-version" in text
    assert "helm upgrade" in text


def test_a_word_is_no_release(railyard: Call, project: Path) -> None:
    assert project.is_dir()
    assert "'new' is not a release" in refused(railyard, "--operator", "--operator-version", "new")


@pytest.mark.parametrize("version", ["2.8.0", "v2.9.0", "2.10.0-rc.1", "3.0.0"])
def test_a_newer_release_is_accepted(version: str) -> None:
    refuse_old(version)


def definition() -> Any:  # noqa: ANN401 - a Kubernetes object
    """The operator's definition as an API server returns it."""
    schema = deepcopy(raw_kinds()[STACK])
    versions: list[Any] = [
        {"name": "v1alpha1", "schema": {}},
        {"name": "v1", "schema": {"openAPIV3Schema": schema}},
    ]
    return {"spec": {"versions": versions}}


def test_the_definition_of_the_tested_release_is_accepted() -> None:
    refuse_old_definition(definition(), "a cluster")


@pytest.mark.parametrize(
    ("part", "field"), [("spec", "workspaceTemplate"), ("status", "projectInfo")]
)
def test_a_definition_without_newer_fields_is_refused(part: str, field: str) -> None:
    old = definition()
    schema = old["spec"]["versions"][1]["schema"]["openAPIV3Schema"]
    del schema["properties"][part]["properties"][field]
    with pytest.raises(
        UsageError, match=rf"too old: its Stacks have no {part}\.{field}(.|\n)*a cluster"
    ):
        refuse_old_definition(old, "a cluster")


def test_a_definition_without_v1_is_refused() -> None:
    with pytest.raises(UsageError, match="too old"):
        refuse_old_definition({"spec": {"versions": [{"name": "v1alpha1"}]}}, "a cluster")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("workspaceTemplate", "spec", "images"), "x"),
        (("prerequisites",), [{"requirement": None}]),
        (("envRefs", "X"), {"secret": {"name": "a", "key": "b"}}),
        (("preview",), "yes"),
    ],
)
def test_the_definition_refuses_a_wrong_field(
    railyard: Call, project: Path, place: tuple[str, ...], value: object
) -> None:
    assert project.is_dir()
    body = exported(railyard)[-1]
    assert judge(body) == []
    at = body["spec"]
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    assert judge(body) != []


@pytest.mark.cluster
def test_the_api_server_accepts_each_object_and_its_definition_is_judged(
    railyard: Call, project: Path, plane: ControlPlane
) -> None:
    split(project)
    admin = ("--repo", REPO, "--kubeconfig", str(plane.kubeconfig))
    assert "has no Pulumi Kubernetes Operator" in refused(railyard, "--operator", *admin)
    name = "stacks.pulumi.com"
    new = definitions_of_charts()[name]
    old = deepcopy(new)
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    define(plane.admin, {name: old})
    text = refused(railyard, "--operator", *admin)
    assert "no status.projectInfo" in text
    assert f"  where  {name} in the cluster of {plane.kubeconfig}" in text

    define(plane.admin, {name: new})
    make_namespace(plane.admin, "railyard")
    objects = exported(railyard, *admin)
    for body in objects:
        try_on_server(plane.admin, body)
    stack = objects[-1]
    with pytest.raises(ApiError, match="no more than 42 characters"):
        try_on_server(plane.admin, {**stack, "metadata": {**stack["metadata"], "name": "a" * 43}})

"""`railyard init`: a whole project or nothing, and what is an example's asks to be changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.sites import TWO_RAILS, site_text
from components.checks.site import CheckedSite, load_checked_site
from components.core.errors import UsageError
from components.project.engine import advise_state
from components.project.wheel import pack_wheel
from components.project.write import EXAMPLES, project_name, write_project
from components.reading.load import MARK
from tests.cli.conftest import Call, railyard

ROOT = Path(__file__).parents[2]
PACKED = cache(pack_wheel)
"""The code does not change while tests run, and packing it was most of what they took."""
FILES = {
    *("Pulumi.yaml", "Pulumi.site.yaml", "__main__.py", "site.yaml", "requirements.txt"),
    *(".gitignore", ".github/workflows/preview.yml", f"vendor/{PACKED().name}"),
}
__all__ = ["railyard"]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine; the project goes into its folder `x`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("components.cli.init.pack_wheel", PACKED)
    for name in ("PULUMI_HOME", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def pinned(folder: Path) -> dict[str, str]:
    """Package to version, of the requirements of a project."""
    text = (folder / "requirements.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_project_is_written_whole(railyard: Call, machine: Path) -> None:
    done = railyard("init", "x")
    assert (done.code, done.err) == (0, "")
    assert written(machine / "x") == FILES
    project = yaml.safe_load((machine / "x" / "Pulumi.yaml").read_text())
    ours = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    for key in ("runtime", "main"):
        assert project[key] == ours[key]
    assert project["name"] == "x"
    stack = yaml.safe_load((machine / "x" / "Pulumi.site.yaml").read_text())
    assert stack == {"config": {"railyard:site": "site.yaml"}}
    body = (ROOT / "__main__.py").read_text().partition('"""\n\n')[2]
    assert (machine / "x" / "__main__.py").read_text().partition('"""\n\n')[2] == body


@pytest.mark.parametrize("example", EXAMPLES)
def test_check_names_each_value_that_is_still_the_examples(
    railyard: Call, machine: Path, example: str
) -> None:
    assert railyard("init", "x", "--example", example).code == 0
    site = machine / "x" / "site.yaml"
    marked = [
        number for number, line in enumerate(site.read_text().splitlines(), 1) if MARK in line
    ]
    assert marked
    told = railyard("check", "x/Pulumi.site.yaml")
    assert told.code == 1
    named = {int(line) for line in re.findall(r"site\.yaml:(\d+)  ", told.out)}
    assert named >= set(marked)
    shipped = (ROOT / "examples" / example / "site.yaml").read_text()
    assert yaml.safe_load(site.read_text()) == yaml.safe_load(shipped)
    for lines in site.read_text().splitlines():  # each address of a machine asks to be changed
        if re.search(r"\b(address|host_key|project|pci|uid|etc_hosts): ", lines):
            assert MARK in lines, lines
        if "netdev: " in lines:
            assert "name in `ip -br link` (netdev)" in lines


def unmarked(site: Path) -> CheckedSite:
    """Check a site as if the user had found every value of the example right."""
    site.write_text(re.sub(rf"\s+{MARK}.*", "", site.read_text()))
    return load_checked_site(site)


def test_every_example_of_the_repository_is_offered() -> None:
    assert set(EXAMPLES) == {path.parent.name for path in (ROOT / "examples").glob("*/site.yaml")}


@pytest.mark.parametrize(
    ("example", "rails", "hosts"),
    [
        *(("dgx-roce", rails, hosts) for rails, hosts in ((1, 2), (2, 16), (8, 3), (1, 31))),
        *(("rail-optimised", rails, hosts) for rails, hosts in ((8, 7), (2, 12), (4, 2))),
        *(("mixed-fabric", 4, 16), ("mixed-fabric", 8, 5), ("shared-rdma", 1, 31)),
    ],
)
def test_a_site_of_other_numbers_passes_check(
    railyard: Call, machine: Path, example: str, rails: int, hosts: int
) -> None:
    numbers = ("--rails", str(rails), "--hosts", str(hosts))
    assert railyard("init", "x", "--example", example, *numbers).code == 0
    site = machine / "x" / "site.yaml"
    spec = unmarked(site).spec_or_raise()
    assert (len(spec.rails), len(spec.workers)) == (rails, hosts)
    assert all(len(host.nics) == rails for host in spec.workers)
    assert ("host_templates:" in site.read_text()) == (hosts > 2)


@pytest.mark.parametrize(
    ("example", "rails", "gpus", "numa"),
    [
        ("rail-optimised", 4, 4, [0, 0, 1, 1]),
        ("rail-optimised", 8, 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("dgx-roce", 4, 8, [0, 0, 1, 1]),
        ("dgx-roce", 1, 8, [0]),
    ],
)
def test_the_cards_of_other_rails_are_spread_over_the_processors(
    railyard: Call, machine: Path, example: str, rails: int, gpus: int, numa: list[int]
) -> None:
    numbers = ("--rails", str(rails), "--hosts", "2")
    assert railyard("init", "x", "--example", example, *numbers).code == 0
    spec = unmarked(machine / "x" / "site.yaml").spec_or_raise()
    assert {host.gpus for host in spec.workers} == {gpus}
    assert [nic.numa for nic in spec.workers[0].nics] == numa


def test_the_pool_of_a_cloud_has_the_asked_workers(railyard: Call, machine: Path) -> None:
    assert railyard("init", "x", "--example", "crusoe-k3s", "--hosts", "9").code == 0
    assert len(unmarked(machine / "x" / "site.yaml").spec_or_raise().workers) == 9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hosts", "17"), "leaf-01 (SN2700) has 32 ports for hosts, and 17 hosts"),
        (("--rails", "0"), "--rails and --hosts take 1 to 4096"),
        (("--hosts", "9999"), "--rails and --hosts take 1 to 4096"),
        (("--rails", "11", "--hosts", "1"), "more than the cards of a host"),
        (("--example", "mixed-fabric", "--rails", "3"), "leaf-04 would have no rail"),
        (("--example", "spine-leaf", "--hosts", "4"), "cannot be counted up"),
        (("--example", "quantum-ib", "--hosts", "4"), "cannot be counted up"),
        (("--example", "shared-rdma", "--rails", "2"), "has a problem: the plugin lacks"),
        (("--discovered", "no.json"), "no.json: cannot be read"),
        (("--discovered", "list.json"), "not what `railyard discover --format json` prints"),
        (("--discovered", "none.json"), "no host in the file has cards"),
    ],
)
def test_numbers_that_do_not_fit_write_nothing(
    railyard: Call, machine: Path, options: tuple[str, ...], words: str
) -> None:
    (machine / "list.json").write_text("[]")
    (machine / "none.json").write_text('{"hosts": []}')
    done = railyard("init", "x", *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Nothing was written." in done.err or "fix" in done.err
    assert not (machine / "x").exists()


def test_hosts_that_were_read_are_the_workers(railyard: Call, machine: Path) -> None:
    def host(name: str, number: int, *buses: str) -> dict[str, object]:
        cards = [
            {"rail": None, "pci": f"0000:{bus}:00.0", "netdev": f"enp{place}s0", "numa": place}
            for place, bus in enumerate(buses)
        ]
        key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
        ssh = {
            "address": f"10.7.0.{number}",
            "user": "ops",
            "host_key": f"{key} {name}",
            "private_key": {"secret": "ssh_private_key"},
        }
        return {"name": name, "ssh": ssh, "gpus": [{}] * 8, "cards": cards}

    found = [host("n1", 1, "0a", "0b"), host("n2", 2, "0a", "0b"), host("n3", 7, "1a", "1b")]
    (machine / "found.json").write_text(json.dumps({"hosts": [*found, host("mgmt", 9)]}))
    assert railyard("init", "x", "--discovered", "found.json").code == 0
    site = machine / "x" / "site.yaml"
    spec = unmarked(site).spec_or_raise()
    assert [host.name for host in spec.workers] == ["n1", "n2", "n3"]
    assert [host.address for host in spec.workers] == ["10.7.0.1", "10.7.0.2", "10.7.0.7"]
    assert [host.nics[1].pci for host in spec.workers] == ["0000:0b:00.0"] * 2 + ["0000:1b:00.0"]
    assert [*yaml.safe_load(site.read_text())["host_templates"]] == ["gpu", "gpu-2"]


def test_without_its_marks_a_site_is_checked_as_any_other(railyard: Call, machine: Path) -> None:
    railyard("init", "x")
    site = machine / "x" / "site.yaml"
    site.write_text(re.sub(rf"\s+{MARK}.*", "", site.read_text()))
    assert load_checked_site(site).spec is not None


def test_a_mark_in_a_comment_alone_is_no_value(machine: Path) -> None:
    site = machine / "site.yaml"
    text = (ROOT / "examples" / "dgx-roce" / "site.yaml").read_text()
    site.write_text(f"# About marks: a line ends with\n# address: 1.2.3.4  {MARK}yours\n{text}")
    assert load_checked_site(site).spec is not None


def test_a_folder_with_one_of_its_files_is_left_as_it_is(railyard: Call, machine: Path) -> None:
    folder = machine / "x"
    folder.mkdir()
    (folder / "site.yaml").write_text("mine\n")
    (folder / ".gitignore").symlink_to("nowhere")
    done = railyard("init", "x")
    assert (done.code, done.out) == (2, "")
    assert "x has site.yaml, .gitignore already. Nothing was written." in done.err
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "site.yaml"]
    assert (folder / "site.yaml").read_text() == "mine\n"


def test_other_files_of_a_folder_stay(railyard: Call, machine: Path) -> None:
    (machine / "x" / ".git").mkdir(parents=True)
    (machine / "x" / "README.md").write_text("ours\n")
    assert railyard("init", "x").code == 0
    assert written(machine / "x") == FILES | {"README.md"}


def test_a_write_that_fails_half_way_leaves_nothing(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link
    calls: list[object] = []

    def link(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UsageError, match=r"No space left on device\. Nothing was written"):
        write_project(machine / "new" / "x", {"a": b"1", "b/c": b"2", "d": b"3"})
    assert not (machine / "new").exists()
    assert len(calls) == 3


def test_a_file_that_came_in_between_is_not_lost(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: Path, target: Path) -> None:
        if target.name == "b":
            target.write_text("somebody else's\n")
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    (machine / "x").mkdir()
    with pytest.raises(UsageError, match="Nothing was written"):
        write_project(machine / "x", {"a": b"1", "b": b"2"})
    assert written(machine / "x") == {"b"}
    assert (machine / "x" / "b").read_text() == "somebody else's\n"


def test_the_next_steps_name_versions_plugins_and_secrets(railyard: Call) -> None:
    said = railyard("init", "x", "--example", "esxi-roce", "--stack", "rack7").out
    pins = pinned(Path("x"))
    assert f"pulumi-v{pins['pulumi']}-linux-x64.tar.gz" in said
    for plugin in ("command", "kubernetes"):
        assert f"pulumi plugin install resource {plugin} v{pins[f'pulumi-{plugin}']}" in said
    assert "pulumi stack init rack7" in said
    for secret in ("ngc_api_key", "registry_password", "ssh_private_key", "switch_password"):
        assert f"pulumi config set --secret -s rack7 railyard:{secret}\n" in said
    assert said.index("railyard pin Pulumi.rack7.yaml") < said.index("railyard preflight rack7")


def test_the_login_of_instances_is_a_secret_to_set_too(railyard: Call) -> None:
    said = railyard("init", "x", "--example", "crusoe-k3s", "--stack", "rack7").out
    for secret in ("crusoe_access_key", "ssh_private_key", "k3s_token"):
        assert f"railyard:{secret}" in said


def test_the_workflow_installs_the_package_and_is_else_ours(railyard: Call) -> None:
    railyard("init", "x", "--stack", "rack7")
    text = Path("x/.github/workflows/preview.yml").read_text()
    workflow, ours = (
        yaml.safe_load(each)
        for each in (text, (ROOT / ".github" / "workflows" / "preview.yml").read_text())
    )
    assert workflow["env"]["STACK"] == "${{ vars.RAILYARD_STACK || 'rack7' }}"
    install = [
        "python -m venv .venv",
        ".venv/bin/pip install --require-hashes -r requirements.txt",
    ]
    for job in ("plan", "comment", "state"):
        steps, own = (each["jobs"][job]["steps"] for each in (workflow, ours))
        different = [a for a, b in zip(steps, own, strict=True) if a != b]
        assert [step["run"].splitlines() for step in different] == [install] * (job != "comment")


def test_check_says_what_lacks_and_then_nothing(railyard: Call, machine: Path) -> None:
    railyard("init", "x")
    lacking = railyard("init", "x", "--check")
    assert lacking.code == 1
    assert lacking.out.count("  fix    ") == 3  # the CLI, and two plugins
    pins = pinned(Path("x"))
    program = machine / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho v{pins['pulumi']}\n")
    program.chmod(0o755)
    (program.parent / "pulumi-language-python").write_bytes(b"\x7fELF")
    for name in ("command", "kubernetes"):
        folder = machine / ".pulumi" / "plugins" / f"resource-{name}-v{pins[f'pulumi-{name}']}"
        folder.mkdir(parents=True)
        (folder / f"pulumi-resource-{name}").write_bytes(b"\x7fELF")
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "PULUMI_BACKEND_URL": "s3://ours"}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        good = railyard("init", "x", "--check")
        assert (good.code, good.err) == (0, "")
        assert "states at s3://ours: this machine has everything" in good.out
        program.write_text("#!/bin/sh\necho v3.99.0\n")
        old = railyard("init", "x", "--check")
        assert old.code == 1
        assert "is     3.99.0" in old.out


@pytest.mark.parametrize(
    ("resources", "backend", "wanted"),
    [
        (500, "s3://ours", []),
        (
            1_000,
            "file:///srv/states",
            ["1,000 resources", "12 GiB", "PULUMI_DIY_BACKEND_ZSTD=true"],
        ),
        (1_000, "s3://ours", ["PULUMI_DIY_BACKEND_ZSTD=true", "near this machine"]),
        (1_501, "postgres://db/s", ["several stacks", "PULUMI_SKIP_CHECKPOINTS=true"]),
        (9_000, "https://api.pulumi.com", []),
    ],
)
def test_advice_on_the_state_goes_by_resources_and_backend(
    resources: int, backend: str, wanted: list[str]
) -> None:
    said = advise_state(resources, backend)
    assert [words for words in wanted if words not in said] == []
    assert bool(said) is bool(wanted)


@pytest.mark.parametrize(("hosts", "is_advised"), [(20, False), (300, True)])
def test_check_counts_the_resources_of_the_site(
    railyard: Call, machine: Path, hosts: int, *, is_advised: bool
) -> None:
    railyard("init", "x")
    (machine / "x" / "site.yaml").write_text(site_text(hosts, TWO_RAILS))
    said = railyard("init", "x", "--check").out
    assert ("With checkpoints a first update writes about" in said) is is_advised


def test_check_gives_no_advice_on_a_site_that_is_not_readable(
    railyard: Call, machine: Path
) -> None:
    railyard("init", "x")
    (machine / "x" / "site.yaml").write_text("name: [")
    done = railyard("init", "x", "--check")
    assert (done.code, done.err) == (1, "")
    assert "resources" not in done.out


@pytest.mark.parametrize(
    ("folder", "name"), [("rack 7", "rack-7"), ("..", "site"), ("a.b", "a.b"), ("ü", "site")]
)
def test_a_project_is_called_as_its_folder_where_pulumi_takes_that(folder: str, name: str) -> None:
    assert project_name(folder) == name


def test_no_index_is_asked_for_railyard(railyard: Call, machine: Path) -> None:
    railyard("init", "x")
    lines = (machine / "x" / "requirements.txt").read_text().splitlines()
    assert not [line for line in lines if re.match(r"railyard[\w-]*\s*(==|@|>|~|$)", line)]
    (own,) = [line for line in lines if line.startswith("./vendor/")]
    path, _, digest = own.partition(" --hash=sha256:")
    assert hashlib.sha256((machine / "x" / path).read_bytes()).hexdigest() == digest
    pins = [line for line in lines if re.match(r"[a-z0-9]", line)]
    assert all(re.fullmatch(r"[a-z0-9-]+==\S+ \\", line) for line in pins)
    assert len(pins) > 40


def test_pip_takes_the_vendored_wheel_by_its_hash_alone(railyard: Call, machine: Path) -> None:
    railyard("init", "x")
    folder = machine / "x"
    line = next(
        line
        for line in (folder / "requirements.txt").read_text().splitlines()
        if line.startswith("./vendor/")
    )
    (folder / "own.txt").write_text(f"{line}\n")

    def install() -> subprocess.CompletedProcess[str]:
        command = (
            *(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps"),
            *("--require-hashes", "--disable-pip-version-check"),
            *("--target", "installed", "-r", "own.txt"),
        )
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )

    taken = install()
    assert taken.returncode == 0, taken.stderr
    assert (folder / "installed" / "railyard_rdma" / "stacks" / "program.py").is_file()
    wheel = folder / line.partition(" ")[0]
    wheel.write_bytes(wheel.read_bytes() + b" ")
    refused = install()
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_equal_code_gives_an_equal_wheel() -> None:
    assert pack_wheel() == pack_wheel()


def test_another_release_is_brought_into_a_project(railyard: Call, machine: Path) -> None:
    railyard("init", "x")
    folder = machine / "x"
    site = (folder / "site.yaml").read_text()
    (folder / "requirements.txt").write_text("old\n")
    (folder / "vendor" / "railyard_rdma-0.0.9-py3-none-any.whl").write_bytes(b"old")
    (folder / "vendor" / "theirs.whl").write_bytes(b"theirs")
    done = railyard("init", "x", "--package")
    assert (done.code, done.err) == (0, "")
    assert "took railyard_rdma-0.0.9-py3-none-any.whl away" in done.out
    assert written(folder) == FILES | {"vendor/theirs.whl"}
    assert (folder / "requirements.txt").read_text().count("--hash=sha256:") > 50
    assert (folder / "site.yaml").read_text() == site
    refused = railyard("init", "elsewhere", "--package")
    assert refused.code == 2
    assert "elsewhere lacks a Pulumi.yaml, so it is not a project" in refused.err
    assert not (machine / "elsewhere").exists()


def test_a_project_installs_all_that_railyard_needs() -> None:
    """Held to the packages' own metadata, so that a new dependency is not forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    walked = set[tuple[str, frozenset[str]]]()

    def walk(requires: list[str], extras: frozenset[str]) -> None:
        for needed in map(Requirement, requires):
            marker = needed.marker
            found = (canonicalize_name(needed.name), frozenset(needed.extras))
            asked = marker is None or any(marker.evaluate({"extra": e}) for e in extras | {""})
            if asked and found not in walked:
                walked.add(found)
                walk(metadata.distribution(found[0]).requires or [], found[1])

    walk([*project["dependencies"], *project["optional-dependencies"]["site"]], frozenset())
    listed = ROOT / "components" / "project" / "template" / "runtime.txt"
    assert listed.read_text().split() == sorted({name for name, _ in walked})


@pytest.mark.parametrize("name", ["", "a b", "x/y"])
def test_a_name_that_is_none_writes_nothing(railyard: Call, machine: Path, name: str) -> None:
    assert railyard("init", "x", "--stack", name).code == 2
    assert not (machine / "x").exists()


def test_the_lock_obeys_the_ranges_and_names_no_host() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, re.MULTILINE))
    extras = project["optional-dependencies"]
    ranges = [Requirement(each) for each in (*project["dependencies"], *chain(*extras.values()))]
    ranges = [each for each in ranges if each.name != project["name"]]
    assert [e for e in ranges if pins[canonicalize_name(e.name)] not in e.specifier] == []
    assert [e for e in ranges if not any(s.operator == ">=" for s in e.specifier)] == []
    assert [e for e in ranges if any(s.operator == "==" for s in e.specifier)] == []
    for file in ROOT.rglob("*.lock"):
        if ".venv" not in file.parts:
            assert "://" not in file.read_text()

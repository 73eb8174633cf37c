"""`railyard check` and `railyard schema` as a user calls them: exit codes, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.reading.load import CONFIG_KEY, load_site, parse_site
from components.reading.schema import render_schema
from components.reading.yaml_text import parse_yaml
from tests.checks.cases import CASES, CLEAN, ROOT
from tests.checks.json_schema import find_schema_errors
from tests.cli.conftest import Call


def _site(folder: Path, case: str) -> str:
    path = folder / "site.yaml"
    path.write_text(CASES[case].text(), encoding="utf-8")
    return str(path)


def test_clean_file_is_exit_0(railyard: Call) -> None:
    done = railyard("check", str(ROOT / "examples" / "dgx-roce" / "site.yaml"))
    assert (done.code, done.err) == (0, "")
    assert "no problems" in done.out
    assert "3 hosts, 1 switch, 2 rails" in done.out


def test_warnings_alone_keep_the_line_of_what_was_read(railyard: Call, tmp_path: Path) -> None:
    done = railyard("check", _site(tmp_path, "kubespray-variable--left"))
    assert done.code == 0
    assert "1 warning. Nothing was touched." in done.out
    assert "good but for warnings (" in done.out


def test_a_wrong_choice_is_told_without_the_words_of_an_exception(railyard: Call) -> None:
    done = railyard("check", "site.yaml", "--format", "xml")
    assert done.code == 2
    assert "'--format': 'xml' is not one of 'text', 'json'" in done.err


def test_problems_are_exit_1_and_on_stdout(railyard: Call, tmp_path: Path) -> None:
    site = _site(tmp_path, "mtu-chain")
    done = railyard("check", site)
    assert (done.code, done.err) == (1, "")
    assert f"{site}:20  switches[0].ports" in done.out
    assert done.out.endswith("1 problem. Nothing was touched.\n")


def test_json_has_the_same_problems(railyard: Call, tmp_path: Path) -> None:
    done = railyard("check", _site(tmp_path, "mtu-chain"), "--format", "json")
    assert done.code == 1
    report = json.loads(done.out)
    assert (report["errors"], report["warnings"]) == (1, 0)
    [problem] = report["problems"]
    assert problem["rule"] == "mtu-chain"
    assert [place["line"] for place in problem["where"]] == [4, 20]
    assert problem["where"][1]["path"] == 'switches[0].ports["1/2"].mtu_bytes'


def test_warnings_alone_are_exit_0(railyard: Call, tmp_path: Path) -> None:
    done = railyard("check", _site(tmp_path, "gpu-direct"))
    assert done.code == 0
    assert "gpu-direct (warning)" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nothing.yaml"), "nothing.yaml: there is no such file."),
        (("check",), "Missing argument"),
        (("chek", "x.yaml"), "No such command 'chek'"),
        (("check", "x.yaml", "--format", "xml"), "xml"),
    ],
)
def test_wrong_usage_is_exit_2(railyard: Call, arguments: tuple[str, ...], words: str) -> None:
    done = railyard(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_help_lists_the_commands(railyard: Call) -> None:
    done = railyard("--help")
    assert done.code == 0
    assert "check" in done.out
    assert "schema" in done.out


def test_a_command_does_not_import_pulumi_or_other_commands() -> None:
    code = (
        "import sys; sys.argv[1:] = ['schema']\n"
        "from components.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print(sorted({'pulumi', 'asyncssh', 'components.cli.check'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("case", "errors"),
    [("unknown-key", ["prority", "vfs_", "acceptence"]), ("missing-key", ["vlan", "image"])],
)
def test_schema_refuses_other_keys_and_missing_ones(case: str, errors: list[str]) -> None:
    value = parse_yaml(CASES[case].text(), "x").value
    found = find_schema_errors(render_schema(), value)
    assert sorted(text.split()[-1] for text in found) == sorted(errors)


_SITES = sorted(
    path for path in (ROOT / "examples").glob("*/*.yaml") if load_site(path).spec is not None
)


@pytest.mark.parametrize("path", _SITES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_schema_takes_every_example(path: Path) -> None:
    value = parse_yaml(path.read_text(encoding="utf-8"), "x").value
    assert isinstance(value, dict)
    config = value.get("config")
    site = config[CONFIG_KEY] if isinstance(config, dict) else value
    assert find_schema_errors(render_schema(), site) == []


def test_schema_takes_a_release_that_is_a_number() -> None:
    text = (ROOT / "examples" / "dgx-roce" / "site.yaml").read_text(encoding="utf-8")
    text = text.replace("release: 3.9.2504", "release: 202405")
    assert find_schema_errors(render_schema(), parse_yaml(text, "x").value) == []


def test_every_example_is_among_those() -> None:
    folders = {path.parent for path in (ROOT / "examples").glob("*/site.yaml")}
    assert {path.parent for path in _SITES} == folders


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('pci: "0000:05:00.0"', 'pci: "05:00.0"'),
        ("numa: 0}", "numa: 0, link_gt_s: 12}"),
        ("numa: 0}", "numa: 0, gpu_pci: [card0]}"),
        ("peermem: true", 'peermem: true, kernel: {sysctls: {vm.swappiness: "1;2"}}'),
        ("peermem: true", "peermem: true, kernel: {sysctls: {vm.swappiness: true}}"),
    ],
)
def test_schema_refuses_what_the_model_refuses(old: str, new: str) -> None:
    clean = CLEAN.read_text(encoding="utf-8")
    assert find_schema_errors(render_schema(), parse_yaml(clean, "x").value) == []
    text = clean.replace(old, new, 1)
    assert parse_site(text, "x").spec is None
    assert find_schema_errors(render_schema(), parse_yaml(text, "x").value) != []


def test_schema_is_printed(railyard: Call) -> None:
    done = railyard("schema")
    assert done.code == 0
    assert json.loads(done.out) == render_schema()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('gdr_level: "2"', 'gdr_level: "NVL"'),
        ("version: v1.36.3+k3s1", "version: v1.36.3"),
        ("binary: /opt/mirror/k3s", "binary: http://mirror/k3s"),
        ("registry_mirror: 192.168.100.10:5000", "registry_mirror: 192.168.100.10:99999"),
        ("version: v26.3.3", 'version: "26.x"'),
        ("release: 3.9.2504", 'release: "-1"'),
        ("host_key: ssh-ed25519 ", "host_key: ssh-dss "),
        ("os: onyx", "routing: {asn: 65101, router_id: 10.255.0.300}\n    os: onyx"),
        ("gpus: 8", 'hca_guids: ["0c42:a103:00b4:db"]\n    gpus: 8'),
    ],
)
def test_an_editor_refuses_what_the_model_refuses(old: str, new: str) -> None:
    text = CLEAN.read_text(encoding="utf-8")
    assert old in text
    value = parse_yaml(text.replace(old, new, 1), "site.yaml").value
    assert find_schema_errors(render_schema(), value) != []


def test_an_editor_offers_the_known_models() -> None:
    assert '"enum": ["AS9716-32D", ' in json.dumps(render_schema())

"""`railyard check` and `railyard schema` as a user calls them: exit codes, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from components.model.problem import Json
from components.model.schema import render_schema
from components.model.yaml_text import parse_yaml
from tests.checks.invalid_files import ROOT

_CALL = "from components.cli import main; main()"


def _railyard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _CALL, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_clean_file_is_exit_0() -> None:
    done = _railyard("check", "examples/dgx-roce/site.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no problems" in done.stdout
    assert "3 hosts, 1 switch, 2 rails" in done.stdout


def test_problems_are_exit_1_and_on_stdout() -> None:
    done = _railyard("check", "tests/invalid/mtu-chain.yaml")
    assert (done.returncode, done.stderr) == (1, "")
    assert "tests/invalid/mtu-chain.yaml:20  switches[0].ports" in done.stdout
    assert done.stdout.endswith("1 problem. Nothing was touched.\n")


def test_json_has_the_same_problems() -> None:
    done = _railyard("check", "tests/invalid/mtu-chain.yaml", "--format", "json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["errors"], report["warnings"]) == (1, 0)
    [problem] = report["problems"]
    assert problem["rule"] == "mtu-chain"
    assert [place["line"] for place in problem["where"]] == [4, 20]
    assert problem["where"][1]["path"] == 'switches[0].ports["1/2"].mtu_bytes'


def test_warnings_alone_are_exit_0() -> None:
    done = _railyard("check", "tests/invalid/gpu-direct.yaml")
    assert done.returncode == 0
    assert "gpu-direct (warning)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nothing.yaml"), "nothing.yaml: there is no such file."),
        (("check",), "Missing argument"),
        (("chek", "x.yaml"), "No such command 'chek'"),
        (("check", "x.yaml", "--format", "xml"), "xml"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...], words: str) -> None:
    done = _railyard(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands() -> None:
    done = _railyard("--help")
    assert done.returncode == 0
    assert "check" in done.stdout
    assert "schema" in done.stdout


def test_a_command_does_not_import_pulumi_or_other_commands() -> None:
    code = (
        "import sys; sys.argv[1:] = ['schema']\n"
        "from components.cli import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print(sorted({'pulumi', 'netmiko', 'components.cli_check'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr.strip() == "[]"


def _find_schema_errors(schema: Json, value: Json, root: dict[str, Json]) -> list[str]:
    """Judge the few keywords that our schema uses on mappings; enough to meet every key."""
    assert isinstance(schema, dict)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found: Json = root
        for part in reference.removeprefix("#/").split("/"):
            assert isinstance(found, dict)
            found = found[part]
        return _find_schema_errors(found, value, root)
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        errors = [_find_schema_errors(choice, value, root) for choice in choices]
        return [] if [] in errors else errors[0]
    if isinstance(value, list):
        items = schema.get("items")
        return [e for item in value for e in _find_schema_errors(items, item, root)]
    if not isinstance(value, dict):
        kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool}
        kind = kinds.get(str(schema.get("type")))
        return [f"{value!r} is no {kind}"] if kind and not isinstance(value, kind) else []
    return _find_mapping_errors(schema, value, root)


def _find_mapping_errors(
    schema: dict[str, Json], value: dict[str, Json], root: dict[str, Json]
) -> list[str]:
    if schema.get("type") not in {None, "object"}:
        return [f"{value!r} is a mapping"]
    known, other = schema.get("properties") or {}, schema.get("additionalProperties", True)
    required = schema.get("required") or []
    assert isinstance(known, dict)
    assert isinstance(required, list)
    errors = [f"no {key}" for key in required if key not in value]
    for key, item in value.items():
        if key not in known and other is False:
            errors.append(f"unknown {key}")
        elif not isinstance(known.get(key, other), bool):
            errors += _find_schema_errors(known.get(key, other), item, root)
    return errors


@pytest.mark.parametrize(
    ("file", "errors"),
    [
        ("examples/dgx-roce/site.yaml", []),
        ("tests/invalid/clean.yaml", []),
        ("tests/invalid/unknown-key.yaml", ["prority", "vfs_", "acceptence"]),
        ("tests/invalid/missing-key.yaml", ["vlan", "image"]),
    ],
)
def test_schema_describes_what_users_write(file: str, errors: list[str]) -> None:
    value = parse_yaml((ROOT / file).read_text(encoding="utf-8"), "x").value
    found = _find_schema_errors(dict(render_schema()), value, render_schema())
    assert sorted(text.split()[-1] for text in found) == sorted(errors)


def test_schema_is_printed() -> None:
    done = _railyard("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == render_schema()

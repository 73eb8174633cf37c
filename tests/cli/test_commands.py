"""What `railyard` shows, completes and imports before a command is chosen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.core import TyperGroup

from components.acceptance.collect import probe_runs as collect
from components.acceptance.evidence import Evidence
from components.acceptance.handover import (
    AcceptRequest,
    hand_over,
    parse_named,
    render_accept_request,
    tell,
)
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import keep_evidence
from components.catalogue.operator_versions import AS_OF
from components.cli.group import Entry, list_commands, load_command
from components.plan.make import make_plan
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES, load_example
from tests.lab_physics.site import Site, take_evidence

ROOT = EXAMPLES.parent
COMMANDS = {entry.name: entry for entry in list_commands()}

RECORDED = {
    "device": {"apply", "restore", "observe", "judge", "reboot", "reboot-hosts", "baseline"}
    | {"steps", "undo-steps", "restore-release", "drain-nodes", "apply-drained"}
    | {"keep-cluster", "leave-cluster"},
    "cloud": {"preflight", "claim", "image", "ensure", "await", "remove", "sweep"},
    "payload": {"keys"},
    "evidence": {"collect", "gate"},
}
"""What steps of states call: spellings that no version may drop."""


def _sentence(text: str) -> str:
    return re.sub(r"\s+", " ", text.partition("\n\n")[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_has_the_first_sentence_of_a_commands_help(name: str) -> None:
    assert _sentence(load_command(COMMANDS[name]).help or "") == COMMANDS[name].summary


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_shows_the_users_commands_with_whole_sentences(railyard: Call, flag: str) -> None:
    done = railyard(flag)
    assert (done.code, done.err) == (0, "")
    listed = done.out.partition("Commands:\n")[2]
    for entry in COMMANDS.values():
        assert (f"\n  {entry.name} " in f"\n{listed}") is not entry.hidden
        assert (entry.summary in _sentence(listed)) is not entry.hidden
    assert {entry.name for entry in COMMANDS.values() if entry.hidden} == {*RECORDED} - {"cloud"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_verb_explains_itself_whole(railyard: Call, name: str) -> None:
    done = railyard(name, "-h")
    assert done.code == 0
    assert not re.search(r"\w\.\.\.$", done.out, re.MULTILINE)
    command = load_command(COMMANDS[name])
    for verb in command.commands if isinstance(command, TyperGroup) else ():
        assert railyard(name, verb, "-h").out.startswith(f"Usage: railyard {name} {verb} ")


@pytest.mark.parametrize("name", RECORDED)
def test_what_states_have_recorded_can_be_called(name: str) -> None:
    command = load_command(COMMANDS[name])
    assert isinstance(command, TyperGroup)
    assert RECORDED[name] <= {*command.commands}
    shown = {verb for verb, each in command.commands.items() if not each.hidden}
    assert COMMANDS[name].hidden or not shown & RECORDED[name]


def test_the_version_is_that_of_the_package(railyard: Call) -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    said = json.loads(railyard("--version", "--format", "json").out)
    assert (said["version"], said["catalogue"]) == (written, str(AS_OF))
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    commit = said["commit"].removesuffix("-dirty")
    assert len(commit) >= 12
    assert head.startswith(commit)
    line = f"railyard {written}, commit {said['commit']}, catalogue of {AS_OF}\n"
    assert railyard("--version").out == line


def test_a_command_that_is_not_there_gets_a_near_name(railyard: Call) -> None:
    done = railyard("drfit")
    assert done.code == 2
    assert "Did you mean 'drift', 'audit'?" in done.err


def test_a_command_without_its_package_is_not_listed() -> None:
    assert not Entry("x", "", "no_such_package.cli").installed
    assert not Entry("x", "", "components.no_such_module").installed
    assert COMMANDS["lab"].installed


def test_completion_knows_commands_verbs_and_stacks(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stack in ("dev", "prod.eu"):
        (tmp_path / f"Pulumi.{stack}.yaml").touch()
    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_RAILYARD_COMPLETE", "complete_bash")

    def complete(words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        done = railyard()
        assert (done.code, done.err) == (0, "")
        return done.out.split()

    assert complete("railyard d") == ["draw", "drift", "discover"]
    assert complete("railyard judge n") == ["nccl", "node"]
    assert complete("railyard cloud ") == ["export"]
    assert complete("railyard drift ") == ["dev", "prod.eu"]
    assert complete("railyard accept p") == ["prod.eu"]


def test_completion_can_be_installed_from_the_top_level_alone(railyard: Call) -> None:
    assert "--install-completion" in railyard("--help").out
    assert "--install-completion" not in railyard("judge", "--help").out


_IMPORTED = """
import json, sys
sys.argv[0] = "railyard"
from components.cli.main import main
try:
    main()
except SystemExit:
    pass
ours = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("components.")}
theirs = {
    name.split(".")[0]
    for name, module in sys.modules.items()
    if getattr(module, "__spec__", None) is not None  # a stand-in is not imported
} - set(sys.stdlib_module_names)
print(json.dumps([sorted(ours), sorted(theirs)]), file=sys.stderr)
"""


def _imported(*arguments: str) -> tuple[set[str], set[str]]:
    """The rooms, and the packages of others, that a command has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    ours, theirs = json.loads(done.stderr)
    return set(ours), {name for name in theirs if not name.startswith("_")}


LIBYAML = {"yaml", "cython_runtime"}
TYPER = {"typer", "shellingham", "annotated_doc", "components"}


def test_help_imports_no_room() -> None:
    ours, theirs = _imported("--help")
    assert ours == {"components.cli", "components.core"}
    assert theirs <= TYPER


def test_check_imports_what_reads_and_judges_a_file() -> None:
    ours, theirs = _imported("check", "examples/dgx-roce/site.yaml")
    rooms = "artefacts catalogue checks cli core fabric hosts jobs kubernetes model operators"
    rooms += " pod_network project reading remote"
    assert ours <= {f"components.{room}" for room in rooms.split()}
    pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_inspection"}
    assert theirs <= {*TYPER, *pydantic, "typing_extensions", "ruamel", *LIBYAML}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project; `pulumi` only writes down how it was called."""
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$*" >> calls\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize("stack", ["run", "gate"])
def test_a_stack_may_have_the_name_of_an_old_verb(railyard: Call, folder: Path, stack: str) -> None:
    done = railyard("accept", stack)
    assert done.code == 4  # this engine proves nothing
    assert f"--stack {stack} " in (folder / "calls").read_text()


def test_the_gate_judges_the_evidence_that_its_digest_names(railyard: Call, folder: Path) -> None:
    found = take_evidence(Site()).model_copy(update={"run": 7})
    named = tell(judge_evidence(found), "dev", keep_evidence("dev", found))
    done = railyard("evidence", "gate", "--fail", "--stack", "dev", stdin=named)
    assert (done.code, done.err) == (0, "")
    assert "acceptance passed" in done.out
    assert (folder / ".railyard" / "dev" / "run-0007" / "report.html").is_file()
    assert not (folder / "calls").exists()


def test_evidence_is_collected_for_the_request_that_its_digest_names(
    railyard: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collected(request: AcceptRequest, number: int, *_others: object) -> Evidence:
        assert request.stack == "dev"
        return take_evidence(Site()).model_copy(update={"run": number})

    monkeypatch.setattr(collect, "collect_evidence", collected)
    plan = make_plan(load_example("dgx-roce"), "dev")
    request = AcceptRequest(plan.digest, plan.stack, "lab", plan.acceptance)
    asked = hand_over(request, render_accept_request(request), keep=True)
    done = railyard("evidence", "collect", "--number", "3", stdin=asked)
    assert (done.code, done.err) == (0, "")
    assert parse_named(done.out).run == 3
    assert not (folder / "calls").exists()

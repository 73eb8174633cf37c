"""`railyard site split|join|list`, with a `pulumi` that keeps stacks in a file."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from components.cli import site, stack
from components.cli.stack import archive_of, run_pulumi
from components.core.errors import UsageError
from components.plan.make import make_plan
from components.plan.pieces import names_of_piece, pieces_of, plan_piece
from components.update.secrets import secret_names
from tests.cli import fake_engine
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES
from tests.plan.test_pieces import split_site

PIECES = ["prod-spines", "prod-a", "prod-b", "prod-cluster"]
Store = Callable[..., dict[str, Any]]
_SPLIT: dict[str, str] = {}
"""What the engine keeps before a split to what it keeps afterwards."""


def record(name: str, kind: str = "command:local:Command") -> dict[str, Any]:
    return {"urn": f"urn:pulumi:prod::site::{kind}::{name}", "type": kind, "custom": True}


@cache
def state_of_site() -> dict[str, Any]:
    """A state with every switch and host, the stages, and an object of the cluster."""
    spec = split_site()
    whole = make_plan(spec, "prod")
    names = [
        n
        for each in pieces_of(spec, "prod")
        for n in sorted(names_of_piece(plan_piece(whole, each)))
    ]
    root = record("site-prod", "pulumi:pulumi:Stack") | {"custom": False}
    stages = [
        record(f"{stage}-ready", "pulumi:index:Stash") for stage in ("fabric", "hosts", "reboots")
    ]
    return {"resources": [root, *map(record, names), *stages, record("jobs")]}


@cache
def texts_of_project() -> dict[str, str]:
    """The files of a project with the stack `prod`, and what its engine keeps."""
    document = yaml.safe_load((EXAMPLES / "spine-leaf" / "site.yaml").read_text())
    stacks = split_site().stacks
    assert stacks is not None
    document["stacks"] = stacks.model_dump(mode="json")
    texts = {
        "site.yaml": yaml.safe_dump(document, sort_keys=False),
        "Pulumi.yaml": "name: site\nruntime: python\n",
    }
    written: dict[str, object] = {"railyard:site": "site.yaml"}
    written |= {f"railyard:{name}": {"secure": "v1:x"} for name in secret_names(split_site())}
    for name in ("prod", *PIECES):
        piece = {"railyard:piece": name[5:]} if name != "prod" else {}
        texts[f"Pulumi.{name}.yaml"] = yaml.safe_dump({"config": {**written, **piece}})
    config = {"railyard:site": {"value": "site.yaml"}}
    prod = {"config": config, "state": state_of_site()}
    kept: dict[str, Any] = {"stacks": {"prod": prod}, "changes": {}, "fails": []}
    return {**texts, "store.json": json.dumps(kept)}


@pytest.fixture
def store_of_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A project with the stack `prod`; the call changes what the engine keeps, and returns it."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pulumi"
    program.write_text(f"#!{sys.executable}\n{Path(fake_engine.__file__).read_text()}")
    program.chmod(0o755)
    for name, text in texts_of_project().items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("RAILYARD_CONFIG_FILE", raising=False)

    def change(**values: object) -> dict[str, Any]:
        found = json.loads(Path("store.json").read_text()) | values
        Path("store.json").write_text(json.dumps(found))
        return found

    return change


@pytest.fixture
def store(store_of_process: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same, with the engine in this process, which takes a tenth of the time."""

    def play(
        arguments: list[str], *, stdin: str | None = None, **_more: object
    ) -> CompletedProcess[str]:
        code, out, err = fake_engine.play(arguments, lambda: stdin or "")
        return CompletedProcess(arguments, code, out, err)

    monkeypatch.setattr(stack, "run_pulumi", play)
    return store_of_process


def split(railyard: Call) -> None:
    """The site, split by the command; played once for each content of the store."""
    file = Path("store.json")
    before = file.read_text()
    if before not in _SPLIT:
        assert railyard("site", "split", "prod").code == 0
        _SPLIT[before] = file.read_text()
    file.write_text(_SPLIT[before])


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {
        name: len(each["state"].get("resources") or []) for name, each in found["stacks"].items()
    }


def names(found: dict[str, Any], stack: str) -> set[str]:
    return {
        each["urn"].rpartition("::")[2] for each in found["stacks"][stack]["state"]["resources"]
    }


def test_a_split_gives_each_stack_its_records_and_empties_the_old_one(
    railyard: Call, store: Store
) -> None:
    before = names(store(), "prod") - {"site-prod"}
    done = railyard("site", "split", "prod")
    assert (done.code, done.err) == (0, "")
    after = store()
    assert counts(after)["prod"] == 0
    found = {name: names(after, name) for name in PIECES}
    assert set().union(*found.values()) - {f"site-{each}" for each in PIECES} == before
    assert "gpu09-host" in found["prod-b"]
    assert "spine-01-apply" in found["prod-spines"]
    assert {"jobs", "mgmt01-host"} <= found["prod-cluster"]
    assert after["stacks"]["prod-b"]["config"]["railyard:piece"] == {"value": "b"}
    (backup,) = Path(".railyard/prod").glob("before-split-*/prod.json")
    assert backup.stat().st_mode & 0o077 == 0
    assert len(json.loads(backup.read_text())["deployment"]["resources"]) == len(before) + 1


def test_a_join_brings_the_records_back(railyard: Call, store_of_process: Store) -> None:
    store = store_of_process
    before = names(store(), "prod")
    assert railyard("site", "split", "prod").code == 0
    done = railyard("site", "join", "prod")
    assert (done.code, done.err) == (0, "")
    after = store()
    assert [*after["stacks"]] == ["prod"]
    assert names(after, "prod") == before
    assert len(after["stacks"]["prod"]["state"]["resources"]) == len(before)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"changes": {"prod-b": ["gpu09-host"]}}, "an update of prod-b would change gpu09-host"),
        ({"fails": ["prod-cluster"]}, "an update of prod-cluster failed:\nerror: update failed"),
    ],
)
def test_a_failed_split_leaves_the_stack_as_it_was(
    railyard: Call, store: Store, fault: dict[str, Any], words: str
) -> None:
    before = store(**fault)["stacks"]
    done = railyard("site", "split", "prod")
    assert done.code == 1
    assert words in done.err
    assert "Nothing was changed: prod is as it was before." in done.err
    assert store()["stacks"] == before


def test_a_failed_split_keeps_the_empty_stacks_that_were_there(
    railyard: Call, store: Store
) -> None:
    stacks = store()["stacks"]
    stacks["prod-a"] = {"config": {"railyard:piece": {"value": "a"}}, "state": {}}
    before = store(stacks=stacks, fails=["prod-cluster"])["stacks"]
    assert railyard("site", "split", "prod").code == 1
    assert store()["stacks"] == before


def test_a_failed_join_leaves_all_stacks_as_they_were(railyard: Call, store: Store) -> None:
    split(railyard)
    before = store(changes={"prod": ["leaf-01-apply"]})["stacks"]
    done = railyard("site", "join", "prod")
    assert done.code == 1
    assert "an update of prod would change leaf-01-apply" in done.err
    after = store()["stacks"]
    assert {n: after[n] for n in PIECES} == {n: before[n] for n in PIECES}
    assert counts(store())["prod"] == 0


def test_a_stack_with_waiting_changes_is_not_split(railyard: Call, store: Store) -> None:
    store(changes={"prod": ["gpu01-reboot", "gpu02-reboot"]})
    done = railyard("site", "split", "prod")
    assert done.code == 2
    assert (
        "stack prod is not up to date: an update would change gpu01-reboot, gpu02-reboot."
        in done.err
    )
    assert "pulumi up --stack prod" in done.err
    assert [*store()["stacks"]] == ["prod"]


def test_without_a_backup_nothing_is_split(railyard: Call, store: Store) -> None:
    Path(".railyard").write_text("a file, so it can hold no backup\n")
    done = railyard("site", "split", "prod")
    assert done.code == 2
    assert "the backup of the states cannot be written: Not a directory" in done.err
    assert [*store()["stacks"]] == ["prod"]


def test_unfinished_work_is_completed_first(railyard: Call, store: Store) -> None:
    stacks = store()["stacks"]
    pending = {"type": "updating", "resource": record("leaf-02-apply")}
    stacks["prod"]["state"]["pending_operations"] = [pending]
    store(stacks=stacks)
    done = railyard("site", "split", "prod")
    assert done.code == 2
    assert "did not finish its work on leaf-02-apply" in done.err


def test_a_new_site_gets_empty_stacks(railyard: Call, store: Store) -> None:
    stacks = store()["stacks"]
    stacks["prod"]["state"] = {}
    store(stacks=stacks)
    done = railyard("site", "split", "prod")
    assert (done.code, done.err) == (0, "")
    assert "run `railyard site up prod`" in done.out
    assert counts(store()) == dict.fromkeys(["prod", *PIECES], 0)
    assert "nothing to do" in railyard("site", "split", "prod").out


def test_a_split_that_was_ended_by_force_does_not_double_the_site(
    railyard: Call, store: Store
) -> None:
    stacks = store()["stacks"]
    stacks["prod-a"] = stacks["prod"]
    store(stacks=stacks)
    done = railyard("site", "split", "prod")
    assert done.code == 2
    assert "prod-a has resources, and so has prod: the site would exist twice." in done.err
    assert "pulumi stack rm --force prod-a" in done.err


def test_after_a_join_that_was_ended_by_force_the_rest_is_removed(
    railyard: Call, store: Store
) -> None:
    whole = store()["stacks"]["prod"]
    split(railyard)
    stacks = store()["stacks"]
    del stacks["prod-spines"]
    store(stacks=stacks | {"prod": whole})
    done = railyard("site", "join", "prod")
    assert done.code == 2
    assert "prod-a, prod-b, prod-cluster has resources, and so has prod" in done.err
    assert "pulumi stack rm --force prod-a" in done.err


@pytest.mark.parametrize("command", ["join", "up", "preview", "drift"])
def test_a_stack_that_is_gone_is_named(railyard: Call, store: Store, command: str) -> None:
    split(railyard)
    stacks = store()["stacks"]
    del stacks["prod-b"]
    store(stacks=stacks)
    done = railyard("site", command, "prod")
    assert done.code == 2
    assert "prod-b" in done.err
    assert "\n  fix    " in done.err


def test_the_stack_of_another_site_is_not_taken_for_a_piece(railyard: Call, store: Store) -> None:
    """Its configuration would get `railyard:piece`, or the message would say to remove it."""
    stacks = store()["stacks"]
    state = stacks["prod"]["state"]
    stacks["prod-a"] = {"config": {"railyard:site": {"value": "other.yaml"}}, "state": state}
    Path("Pulumi.prod-a.yaml").write_text("config: {railyard:site: other.yaml}\n")
    empty: dict[str, Any] = {}
    for own, other in ((state, state), (empty, state), (empty, empty)):
        stacks["prod"]["state"], stacks["prod-a"]["state"] = own, other
        before = store(stacks=stacks)["stacks"]
        for command in ("split", "join", "up", "preview"):
            done = railyard("site", command, "prod")
            assert done.code == 2
            assert "stack prod-a exists, and its configuration lacks railyard:piece a" in done.err
            assert "give the unit a another name" in done.err
            assert "rm --force" not in done.err
        assert store()["stacks"] == before


@pytest.mark.parametrize("command", ["split", "join", "up", "preview", "drift"])
def test_a_renamed_unit_is_not_set_up_twice(railyard: Call, store: Store, command: str) -> None:
    split(railyard)
    before = store()["stacks"]
    text = Path("site.yaml").read_text()
    renamed = text.replace("    a:\n      leaves:", "    aa:\n      leaves:")
    assert renamed != text
    Path("site.yaml").write_text(renamed)
    done = railyard("site", command, "prod")
    assert done.code == 2
    assert "resources of this site, and the file has no such unit." in done.err
    assert "railyard site join prod" in done.err
    assert store()["stacks"] == before


@pytest.mark.parametrize("command", ["up", "preview", "drift"])
def test_a_site_that_is_not_split_yet_is_not_run_in_pieces(
    railyard: Call, store: Store, command: str
) -> None:
    stacks = store()["stacks"]
    for name in PIECES:
        config = {"railyard:piece": {"value": name.removeprefix("prod-")}}
        stacks[name] = {"config": config, "state": {}}
    store(stacks=stacks)
    done = railyard("site", command, "prod")
    assert done.code == 2
    assert "stack prod has resources, so it is not split." in done.err
    assert "railyard site split prod" in done.err


@pytest.mark.parametrize(("command", "code"), [("drift", 4), ("preview", 1)])
def test_one_refused_stack_does_not_hide_the_others(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch, command: str, code: int
) -> None:
    store()
    split(railyard)
    asked: list[str] = []

    def refuse(stack: str) -> tuple[int, str]:
        asked.append(stack)
        raise UsageError(f"the secrets of {stack} cannot be decrypted")

    monkeypatch.setattr(
        site, {"drift": "look_for_drift", "preview": "preview_stack"}[command], refuse
    )
    done = railyard("site", command, "prod")
    assert (done.code, asked) == (code, PIECES)
    assert "prod-b: the secrets of prod-b cannot be decrypted" in done.err
    assert "prod-b        FAILED, see above" in done.out


@pytest.mark.parametrize("command", ["preview", "up", "drift"])
def test_an_old_secret_of_a_stack_is_named(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    split(railyard)
    stacks = store()["stacks"]
    sealed = {"value": "made-up-old", "secret": True}
    for name in ("prod", *PIECES):
        stacks[name]["config"]["railyard:switch_password"] = dict(sealed)
    stacks["prod"]["config"]["railyard:switch_password"]["value"] = "made-up-new"
    stacks["prod-a"]["config"]["railyard:switch_password"]["value"] = "made-up-new"
    store(stacks=stacks)
    monkeypatch.setattr(site, f"_{command}", Mock(return_value=(0, "done")))
    done = railyard("site", command, "prod")
    assert done.code == 0
    assert "prod-b has another value of switch_password than prod" in done.err
    assert "pulumi config set --secret railyard:switch_password --stack prod-b" in done.err
    assert "prod-a has" not in done.err
    assert "made-up" not in done.out + done.err


def test_a_split_says_that_each_stack_has_its_own_secrets(railyard: Call, store: Store) -> None:
    assert "Each has its own copy of every secret." in railyard("site", "split", "prod").out
    assert [*store()["stacks"]] == ["prod", *PIECES]


@pytest.mark.parametrize("command", ["join", "up", "split"])
def test_a_split_site_whose_file_lost_its_units_is_no_site_of_one_stack(
    railyard: Call, store: Store, command: str
) -> None:
    """`pulumi up` on its empty stack would set up everything a second time."""
    split(railyard)
    document = yaml.safe_load(Path("site.yaml").read_text())
    del document["stacks"]
    Path("site.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    before = store()["stacks"]
    done = railyard("site", command, "prod")
    assert done.code == 2
    assert "of this site, and the file has no such unit" in done.err
    assert "put the unit back into `stacks`" in done.err
    assert "pulumi up" not in done.err
    assert store()["stacks"] == before


def test_a_site_without_units_has_no_pieces(railyard: Call, store: Store) -> None:
    store()
    document = yaml.safe_load(Path("site.yaml").read_text())
    del document["stacks"]
    Path("site.yaml").write_text(yaml.safe_dump(document))
    for command in ("split", "join", "up", "list"):
        done = railyard("site", command, "prod")
        assert done.code == 2
        assert "its file has no `stacks`" in done.err


def test_the_stack_of_one_piece_is_not_the_site(railyard: Call, store: Store) -> None:
    store()
    split(railyard)
    done = railyard("site", "up", "prod-a")
    assert done.code == 2
    assert (
        "stack prod-a is the piece a of the site prod.\n  fix    name the stack of the site: prod"
        in done.err
    )


def test_the_evidence_of_a_piece_is_kept_under_the_name_of_the_site(store: Store) -> None:
    store()
    names = ("prod-cluster", "prod", "another")
    assert [archive_of(name) for name in names] == ["prod", "prod", "another"]


def test_a_configuration_elsewhere_is_refused(
    railyard: Call, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store()
    monkeypatch.setenv("RAILYARD_CONFIG_FILE", str(Path("Pulumi.prod.yaml").absolute()))
    done = railyard("site", "split", "prod")
    assert done.code == 2
    assert "unset RAILYARD_CONFIG_FILE" in done.err


def test_an_engine_that_does_not_end_is_reported(store: Store) -> None:
    store()
    Path("bin/pulumi").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    with pytest.raises(UsageError, match="stack ls did not end within"):
        run_pulumi(["stack", "ls"], deadline_s=0.1)


def test_an_update_has_no_deadline(
    railyard: Call, store_of_process: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of_process()
    deadlines: dict[str, float | None] = {}

    def note(
        arguments: list[str],
        *,
        environment: dict[str, str] | None = None,
        stdin: str | None = None,
        deadline_s: float | None,
    ) -> CompletedProcess[str]:
        if arguments[0] in {"preview", "up"}:
            deadlines[arguments[0]] = deadline_s
        return run_pulumi(arguments, environment=environment, stdin=stdin, deadline_s=deadline_s)

    monkeypatch.setattr(site.stacks, "run_pulumi", note)
    assert railyard("site", "split", "prod").code == 0
    assert deadlines == {"preview": 3600, "up": None}


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises; a shell in the background passes on that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupted_update_ends_by_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store()
    os.mkfifo("said")
    Path("bin/pulumi").write_text(
        "#!/bin/sh\nread begin\nkill -INT $PPID\nread words <said\necho $words >state\n"
    )

    def say(text: str, *, err: bool) -> None:
        assert err
        Path("said").write_text(f"{text}\n")

    monkeypatch.setattr(stack, "say", say)
    with pytest.raises(KeyboardInterrupt):
        run_pulumi(["up"], stdin="begin\n", deadline_s=None)
    words = "interrupted: waiting until pulumi up has ended\n"
    assert Path("state").read_text() == words


def test_the_stacks_are_listed_in_order(railyard: Call, store: Store) -> None:
    store()
    done = railyard("site", "list", "prod")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[1] for line in lines] == PIECES
    assert lines[1] == "2  prod-a  switches, hosts: leaf-[01-04],gpu[01-08]"

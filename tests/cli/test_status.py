"""`railyard status`: one page, the worst first, from one look."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence, dump_evidence
from components.acceptance.handover import EVIDENCE_STEP, tell
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import digest_of
from components.cli import status as cli_status
from components.cli.status import Entry, Part, Status, render_text
from components.core.errors import DeviceError
from components.drift.device_drift import Unreachable
from components.kubernetes.live.look import Asked, ClusterLook
from components.kubernetes.live.read import Key
from components.kubernetes.live.why import NotReady
from components.update.audit import as_planned
from tests.cli.conftest import Call
from tests.cli.put_stack import PLAN, SeeFacts, evidence, gives, put_evidence, put_pulumi, put_stack
from tests.docs.markdown import ROOT, outputs
from tests.docs.terminal import draw_terminal

PLACE = ".railyard/dev/run-0007/evidence.json"


def prove(folder: Path, found: Evidence, *, here: bool = True) -> None:
    """Record a proof in the state, with its text in the archive or on another machine."""
    if here:
        put_evidence(folder, found, PLACE)
    printed = tell(judge_evidence(found), "dev", digest_of(dump_evidence(found)))
    state = json.loads((folder / "export.json").read_text())
    outputs = {"stdin": "plan_digest = 'x'", "stdout": printed}
    urn = f"urn:pulumi:dev::railyard::x$command:x:Command::{EVIDENCE_STEP}"
    state["deployment"]["resources"].append({"urn": urn, "outputs": outputs})
    (folder / "export.json").write_text(json.dumps(state))


def proof(days: int = 3) -> Evidence:
    ended = datetime.now(UTC) - timedelta(days=days)
    return evidence(7).model_copy(
        update={"finished_at": ended.isoformat(), "plan_digest": PLAN.digest}
    )


@pytest.fixture
def site(folder: Path, see: SeeFacts) -> SeeFacts:
    """A stack that is well, with a proof of three days."""
    put_stack(folder)
    resources = [
        {"urn": f"urn:pulumi:dev::r::command:x:Command::{name}", "outputs": {"stdin": step.stdin}}
        for name, step in as_planned(PLAN).steps.items()
        if name != EVIDENCE_STEP
    ]
    (folder / "export.json").write_text(json.dumps({"deployment": {"resources": resources}}))
    prove(folder, proof())
    see(**{each.device: each.desired for each in PLAN.watched})
    return see


@pytest.fixture
def applied_objects(folder: Path, site: SeeFacts) -> None:
    """The same stack with an object in a cluster."""
    del site
    state = json.loads((folder / "export.json").read_text())
    urn = "urn:pulumi:dev::r::kubernetes:core/v1:Namespace::space"
    state["deployment"]["resources"].append({"urn": urn, "outputs": {}})
    (folder / "export.json").write_text(json.dumps(state))


def parts(railyard: Call, *options: str) -> dict[str, Part]:
    done = railyard("status", "dev", "--format", "json", *options)
    found = json.loads(done.out)
    assert (found["schema_version"], found["exit_code"]) == (1, done.code)
    return {each["name"]: Part(**each) for each in found["parts"]}


def test_a_stack_that_is_well_is_exit_0(railyard: Call, site: SeeFacts) -> None:
    del site
    done = railyard("status", "dev")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("dev: look at versions\ndgx-roce, ")
    shown = done.out.split("\n\n")[1].splitlines()
    assert shown[0] == "WARNING  versions no pins"
    assert "PASSED   devices  4 of 4 answered" in shown
    assert "  leaf-01, mgmt01, gpu[01-02]" in shown
    assert "PASSED   drift    4 devices as last applied" in shown
    assert "PASSED   proof    run 7, 3 days old: 3 of 3 passed" in shown
    rail = "  rail-0       perftest: 1 of 1 passed, least 92.31 Gb/s at 65536 B, MTU 4096"
    assert rail in shown
    assert "  rail-[0-1]   nccl: 1 of 1 passed, least 22.86 GB/s at 1 GiB" in shown


PAGE = ROOT / "docs" / "howto" / "status.md"
PICTURE = ROOT / "docs" / "images" / "status.svg"
_NOW = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


def test_the_page_shows_what_is_printed(
    railyard: Call,
    site: SeeFacts,
    applied_objects: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`RAILYARD_GOLDENS=1` writes it into the page, and draws the picture."""
    del applied_objects
    pod = "pod multus-7x2 on gpu02: multus ImagePullBackOff: registry.k8s.io: i/o timeout"
    waiting = (NotReady("DaemonSet kube-system/multus", "2 of 3 pods are ready", (pod,)),)
    monkeypatch.setattr(cli_status, "connect", gives(None))
    monkeypatch.setattr(cli_status, "find_not_ready", gives(waiting))
    desired = PLAN.switches[0].desired
    ports = desired.ports | {"1/2": desired.ports["1/2"].model_copy(update={"mtu_bytes": 1500})}
    reason = "gpu02 (root@192.168.100.12:22): connection refused; nothing listens there"
    k3s = {each.device: each.desired for each in PLAN.watched if each.device.endswith(" k3s")}
    gone = {"gpu02": Unreachable(reason), "gpu02 k3s": Unreachable(reason)}
    site(**k3s | {"leaf_01": desired.model_copy(update={"ports": ports})} | gone)
    done = railyard("status", "dev")
    assert (done.code, done.err) == (4, "")
    printed = _NOW.sub("2026-11-30 02:10 UTC", done.out)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted = _NOW.sub("2026-11-30 02:10 UTC", railyard("status", "dev").out)
    assert re.sub(r"\x1b\[\d+m", "", painted) == printed
    picture = draw_terminal("railyard status dev", painted)
    if os.environ.get("RAILYARD_GOLDENS"):
        PICTURE.write_text(picture)
        text = PAGE.read_text()
        head, _, rest = text.partition("$ railyard status dev\n")
        PAGE.write_text(f"{head}$ railyard status dev\n{printed}```{rest.partition('```')[2]}")
    (shown,) = outputs(PAGE)
    assert "".join(f"{line}\n" for line in shown.lines) == printed
    assert PICTURE.read_text() == picture


def test_the_worst_comes_first_and_decides_the_exit_code(railyard: Call, site: SeeFacts) -> None:
    desired = PLAN.switches[0].desired
    ports = desired.ports | {"1/2": desired.ports["1/2"].model_copy(update={"mtu_bytes": 1500})}
    site(
        leaf_01=desired.model_copy(update={"ports": ports}),
        gpu01=Unreachable("gpu01 (root@10.0.0.11:22): no answer within 10 s"),
        gpu02=Unreachable("gpu02 (root@10.0.0.12:22): no answer within 10 s"),
    )
    done = railyard("status", "dev")
    assert done.code == 4
    shown = done.out.split("\n\n")[1].splitlines()
    assert shown[:7] == [
        "FAILED   drift    1 of 2 devices",
        "  leaf-01      drift: 1 setting differs from the last update",
        "               mtu_bytes of port 1/2 is 1500, want 9216",
        "  fix    `railyard drift dev` lists all of it, `pulumi up -s dev` repairs it",
        "ERROR    devices  2 of 4 answered",
        "  gpu[01-02]   gpu01 (root@10.0.0.11:22): no answer within 10 s",
        "  leaf-01, mgmt01",
    ]
    found = parts(railyard)
    assert (found["drift"].exit_code, found["devices"].exit_code) == (3, 4)


def test_a_cluster_that_differs_is_shown_while_no_device_answers(
    railyard: Call, site: SeeFacts
) -> None:
    silent = Unreachable("no answer within 10 s")
    site.cluster = ClusterLook(Asked(), beside=(Key("v1", "ResourceQuota", "default", "none"),))
    site(**dict.fromkeys(("leaf_01", *(each.device for each in PLAN.watched)), silent))
    found = parts(railyard)
    assert (found["drift"].verdict, found["drift"].exit_code) == ("failed", 3)
    assert found["drift"].summary == "the cluster"
    assert "ResourceQuota default/none" in str(found["drift"].entries)


@pytest.mark.parametrize(
    ("waiting", "code", "line"),
    [
        ((), 0, "PASSED   cluster  all objects and Helm releases are ready"),
        (
            (NotReady("DaemonSet kube-system/multus", "1 of 2 pods are ready", ("pod a: new",)),),
            1,
            "               pod a: new",
        ),
        ("no server answers", 4, "               no server answers"),
    ],
)
def test_the_cluster_is_what_railyard_ready_says(
    railyard: Call,
    applied_objects: None,
    monkeypatch: pytest.MonkeyPatch,
    waiting: tuple[NotReady, ...] | str,
    code: int,
    line: str,
) -> None:
    del applied_objects

    def found(*_: object) -> tuple[NotReady, ...]:
        if isinstance(waiting, str):
            raise DeviceError(waiting)
        return waiting

    monkeypatch.setattr(cli_status, "connect", gives(None))
    monkeypatch.setattr(cli_status, "find_not_ready", found)
    done = railyard("status", "dev")
    assert done.code == code
    assert line in done.out.splitlines()


@pytest.mark.parametrize(
    ("days", "digest", "words"),
    [
        (40, PLAN.digest, "expected a proof of the last 30 days"),
        (3, "another", f"expected a proof of plan {PLAN.digest}"),
    ],
)
def test_a_proof_that_no_longer_holds_is_not_called_passed(
    railyard: Call, folder: Path, site: SeeFacts, days: int, digest: str, words: str
) -> None:
    del site
    prove(folder, proof(days).model_copy(update={"plan_digest": digest}))
    found = parts(railyard)["proof"]
    assert (found.verdict, found.exit_code, found.fix) == ("error", 1, "railyard accept dev")
    assert words in str(found.entries)


def test_a_proof_on_another_machine_is_known_by_the_state(
    railyard: Call, folder: Path, site: SeeFacts
) -> None:
    del site
    (folder / PLACE).unlink()
    found = parts(railyard)["proof"]
    assert (found.verdict, found.exit_code) == ("warning", 0)
    assert found.summary == "run 7, 3 days old: 3 of 3 passed"
    assert "the archive is on the machine that proved the stack" in str(found.entries)


def test_a_new_stack_has_nothing_applied_and_no_proof(
    railyard: Call, folder: Path, see: SeeFacts
) -> None:
    put_stack(folder)
    (folder / "export.json").write_text('{"deployment": {}}')
    see()
    found = parts(railyard)
    assert (found["update"].summary, found["update"].verdict) == (
        "nothing was applied yet",
        "warning",
    )
    assert (found["proof"].summary, found["proof"].exit_code) == ("never proven", 1)
    assert (found["drift"].verdict, found["cluster"].verdict) == ("skipped", "skipped")


def test_without_a_look_no_device_is_asked(
    railyard: Call, site: SeeFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    del site
    monkeypatch.delattr(cli_status, "observe_site")
    done = railyard("status", "dev", "--no-look")
    assert done.code == 0
    assert done.out.count("not looked at") == 3
    assert "PASSED   proof    run 7, 3 days old" in done.out


def test_an_update_under_way_is_named_and_nothing_is_called_well(
    railyard: Call, folder: Path, site: SeeFacts
) -> None:
    del site
    state = json.loads((folder / "export.json").read_text())
    resource = {"urn": "urn:pulumi:dev::r::command:Command::gpu01-host"}
    state["deployment"]["pending_operations"] = [{"type": "updating", "resource": resource}]
    (folder / "export.json").write_text(json.dumps(state))
    done = railyard("status", "dev")
    assert done.code == 4
    assert "ERROR    update   not finished\n" in done.out
    assert "An update of stack dev is running, now on gpu01-host (updating)" in done.out


def test_an_edited_file_is_named(railyard: Call, folder: Path, site: SeeFacts) -> None:
    del site
    config = json.loads((folder / "config.json").read_text())
    changed = config["railyard:cluster"]["value"].replace('"vfs": 8', '"vfs": 4')
    config["railyard:cluster"]["value"] = changed
    (folder / "config.json").write_text(json.dumps(config))
    found = parts(railyard)["update"]
    assert (found.verdict, found.fix) == ("warning", "pulumi preview -s dev")
    assert "gpu01" in found.entries[0]["names"]  # type: ignore[index] - as JSON has it


def test_an_unknown_stack_is_exit_2(railyard: Call, folder: Path) -> None:
    put_pulumi(folder, "echo \"error: no stack named 'dev' found\" >&2; exit 255")
    done = railyard("status", "dev")
    assert (done.code, done.out) == (2, "")
    assert "no stack named 'dev' found" in done.err


def test_a_thousand_hosts_fit_on_one_page() -> None:
    hosts = tuple(f"gpu{number:04}" for number in range(1, 1001))
    services = tuple(f"{host} k3s" for host in hosts)
    odd = tuple(host for host in hosts if int(host[3:]) % 2)
    shown = render_text(
        Status(
            "prod",
            "site",
            "2026-01-01 00:00",
            (
                Part(
                    "drift", "failed", "x", (Entry(odd, ("m",) * 9), *[Entry(("a",), ("b",))] * 9)
                ),
                Part(
                    "devices", "passed", "1000 of 1000 answered", (Entry((*hosts, *services), ()),)
                ),
            ),
        )
    )
    lines = shown.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert "  gpu[0001-1000], gpu[0001-1000] k3s" in lines
    assert "… (500 in all)" in shown
    assert shown.count("    and 3 more") == 1
    assert shown.count("    and 4 more") == 1


def test_a_terminal_obeys_nothing_that_a_device_says() -> None:
    part = Part("drift", "failed", "x", (Entry(("a",), ("\x1b[2J and a very " + "long " * 30,)),))
    shown = render_text(Status("dev", "site", "", (part,)))
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown

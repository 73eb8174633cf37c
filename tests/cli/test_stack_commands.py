"""The commands about a stack, with a stand-in for the Pulumi CLI on PATH."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from components.cli.stack import read_config
from components.drift.device_drift import Unreachable
from components.kubernetes.live.look import Asked, ClusterLook
from components.kubernetes.live.read import Key, Live
from tests.cli.conftest import Call
from tests.cli.put_stack import PLAN, SeeFacts, evidence, put_evidence, put_pulumi, put_stack
from tests.golden.site import EXAMPLES

LAST = ".railyard/dev/run-0007/evidence.json"
NEXT = ".railyard/dev/run-0008/evidence.json"


def test_the_selected_stack_is_the_default(railyard: Call, folder: Path) -> None:
    put_pulumi(folder, 'case "$1 $2" in "stack --show-name") echo prod;; *) exit 1;; esac')
    for command in (["accept"], ["report", "--no-open"], ["drift"], ["preview"], ["preflight"]):
        railyard(*command)
    calls = (folder / "calls").read_text()
    assert calls.count("stack --show-name --non-interactive") == 5
    assert calls.count("--stack prod") >= 5


def test_without_a_selected_stack_the_ways_to_one_are_named(railyard: Call, folder: Path) -> None:
    put_pulumi(folder, "echo 'error: no stack selected' >&2; exit 255")
    done = railyard("drift")
    assert (done.code, done.out) == (2, "")
    assert "error: no stack selected\n  fix    name the stack, or run `pulumi stack" in done.err
    assert railyard("drift", "-h").code == 0


def test_without_the_cli_the_way_to_it_is_told(railyard: Call, folder: Path) -> None:
    del folder
    done = railyard("accept", "dev")
    assert done.code == 2
    assert "pulumi is not on PATH" in done.err
    assert ". .lab/dev/env.sh" in done.err


def test_a_new_proof_is_judged(railyard: Call, folder: Path) -> None:
    put_evidence(folder, evidence(7), LAST)
    put_evidence(folder, evidence(8), "new.json")
    put_pulumi(folder, f"mkdir -p $(dirname {NEXT}); cp new.json {NEXT}")
    done = railyard("accept", "dev")
    assert (done.code, done.err) == (0, "")
    assert "acceptance passed" in done.out
    assert "run-0008" in done.out
    (call,) = (folder / "calls").read_text().splitlines()
    assert call.startswith("up --yes")
    assert call.endswith("accept=always")
    assert "--target **acceptance-evidence" in call


def test_a_failed_gate_is_the_verdicts_exit_code(railyard: Call, folder: Path) -> None:
    broken = evidence(8).model_copy(update={"probes": ()})
    put_evidence(folder, broken, "new.json")
    put_pulumi(folder, f"mkdir -p $(dirname {NEXT}); cp new.json {NEXT}; exit 255")
    assert railyard("accept", "dev").code == 4


@pytest.mark.parametrize("status", [0, 255])
def test_an_old_report_is_never_shown_for_a_proof_that_did_not_run(
    railyard: Call, folder: Path, status: int
) -> None:
    put_evidence(folder, evidence(7), LAST)
    put_pulumi(folder, f"echo 'error: gpu01 is not reachable' >&2; exit {status}")
    done = railyard("accept", "dev")
    assert (done.code, done.out) == (4, "")
    assert f"acceptance did not run; pulumi ended with status {status}" in done.err
    assert "gpu01 is not reachable" in done.err


def test_the_last_report_is_shown(railyard: Call, folder: Path) -> None:
    put_evidence(folder, evidence(7), LAST)
    done = railyard("report", "dev", "--no-open")
    assert done.code == 0
    assert "acceptance passed" in done.out
    assert (folder / LAST).with_name("report.html").is_file()


def test_the_last_report_is_compared_with_another_run(railyard: Call, folder: Path) -> None:
    put_evidence(folder, evidence(6), LAST.replace("0007", "0006"))
    put_evidence(folder, evidence(7), LAST)
    done = railyard("report", "dev", "--no-open", "--against", "6")
    assert done.code == 0
    assert "against run 6 of 20" in done.out
    assert "  no verdict changed, and no speed by 3 %" in done.out
    assert "Against run 6" in (folder / LAST).with_name("report.html").read_text()
    done = railyard("report", "dev", "--no-open", "--against", "3")
    assert (done.code, done.out) == (2, "")
    assert "run 3 of stack dev is not on this machine" in done.err
    assert "take one of: 6, 7" in done.err


def test_a_stack_without_a_report_says_how_to_get_one(railyard: Call, folder: Path) -> None:
    del folder
    done = railyard("report", "dev", "--no-open")
    assert (done.code, done.out) == (2, "")
    assert "run: pulumi up -s dev" in done.err


def test_no_drift_is_exit_0(railyard: Call, folder: Path, see: SeeFacts) -> None:
    put_stack(folder)
    see()
    done = railyard("drift", "dev")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("no drift") == 4


def test_a_configuration_elsewhere_counts_for_the_stack_that_it_is_named_after(
    railyard: Call, folder: Path, see: SeeFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_stack(folder)
    see()
    for name, wanted in (("Pulumi.dev.yaml", True), ("Pulumi.other.yaml", False)):
        monkeypatch.setenv("RAILYARD_CONFIG_FILE", f"/elsewhere/{name}")
        (folder / "calls").unlink(missing_ok=True)
        assert railyard("drift", "dev").code == 0
        calls = (folder / "calls").read_text()
        assert ("--config-file /elsewhere/Pulumi.dev.yaml" in calls) is wanted


def name_site(folder: Path, written: str) -> None:
    """The same stack, with its site as a file beside its own one."""
    config = {"railyard:site": {"value": written}, "railyard:switch_password": {"value": "pw"}}
    (folder / "config.json").write_text(json.dumps(config))
    names = ("switch_password", "ssh_private_key", "k3s_token", "k3s_agent_token")
    secrets = "".join(f"  railyard:{name}: {{secure: v1:abc}}\n" for name in names)
    (folder / "Pulumi.dev.yaml").write_text(f"config:\n  railyard:site: {written}\n{secrets}")


def test_a_stack_that_names_its_site_is_read_from_there(
    railyard: Call, folder: Path, see: SeeFacts
) -> None:
    put_stack(folder)
    name_site(folder, "sites/dgx.yaml")
    see()
    refused = railyard("drift", "dev")
    assert refused.code == 1
    assert "sites/dgx.yaml, but the file sites/dgx.yaml does not exist" in refused.err
    assert "Pulumi.dev.yaml:2" in refused.err
    (folder / "sites").mkdir()
    site = (EXAMPLES / "dgx-roce" / "site.yaml").read_text()
    (folder / "sites" / "dgx.yaml").write_text(site)
    clean = railyard("drift", "dev")
    assert (clean.code, clean.err) == (0, "")


def test_drift_is_exit_3_and_names_the_setting(railyard: Call, folder: Path, see: SeeFacts) -> None:
    put_stack(folder)
    desired = PLAN.switches[0].desired
    ports = desired.ports | {"1/2": desired.ports["1/2"].model_copy(update={"mtu_bytes": 1500})}
    see(leaf_01=desired.model_copy(update={"ports": ports}))
    done = railyard("drift", "dev")
    assert done.code == 3
    assert "mtu_bytes of port 1/2 is 1500, want 9216" in done.out
    data = json.loads(railyard("drift", "dev", "--format", "json").out)
    assert data["exit_code"] == 3
    assert data["devices"][0]["differences"][0]["desired"] == "9216"


@pytest.mark.parametrize(
    ("pending", "lock", "words"),
    [
        (["gpu02-k3s"], "other", "is running, now on gpu02-k3s (updating) (process 7 of ann@other"),
        ([], "other", "is running (process 7 of ann@other since 14:02)"),
        (["gpu02-k3s"], None, "is running, now on gpu02-k3s (updating), or was ended by force"),
        ([], "gone", "was ended by force while it worked (process 4194305 of ann@"),
        ([f"gpu{n:02}-host" for n in range(9)], None, "gpu04-host (updating) and 4 more, or"),
    ],
)
def test_an_update_that_runs_is_named_and_nothing_is_called_no_drift(
    railyard: Call, folder: Path, see: SeeFacts, pending: list[str], lock: str | None, words: str
) -> None:
    put_stack(folder)
    operations = [
        {"type": "updating", "resource": {"urn": f"urn:pulumi:dev::r::command:Command::{name}"}}
        for name in pending
    ]
    state = json.loads((folder / "export.json").read_text())
    state["deployment"]["pending_operations"] = operations
    (folder / "export.json").write_text(json.dumps(state))
    if lock is not None:
        place = folder / "backend/.pulumi/locks/organization/railyard/dev/a.json"
        place.parent.mkdir(parents=True)
        held = {"pid": 7, "username": "ann", "hostname": "other", "timestamp": "14:02"}
        if lock == "gone":  # no number of a process is above 4194304 on Linux
            held |= {"pid": 4_194_305, "hostname": socket.gethostname()}
        place.write_text(json.dumps(held))
    (folder / "Pulumi.yaml").write_text(f"backend: {{url: 'file://{folder}/backend'}}\n")
    see()
    done = railyard("drift", "dev")
    assert done.code == 4
    assert words in done.out
    data = json.loads(railyard("drift", "dev", "--format", "json").out)
    assert (data["exit_code"], data["under_way"]) == (4, done.out.splitlines()[-1])


@pytest.mark.parametrize(("project", "code"), [("railyard", 4), ("other", 0)])
def test_a_lock_of_a_stack_of_that_name_in_another_project_is_not_ours(
    railyard: Call, folder: Path, see: SeeFacts, project: str, code: int
) -> None:
    put_stack(folder)
    place = folder / f"backend/.pulumi/locks/organization/{project}/dev/a.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"pid": 7, "username": "ann", "hostname": "other"}))
    text = f"name: railyard\nbackend: {{url: 'file://{folder}/backend'}}\n"
    (folder / "Pulumi.yaml").write_text(text)
    see()
    assert railyard("drift", "dev").code == code


def test_an_unreachable_device_wins_and_drift_is_still_listed(
    railyard: Call, folder: Path, see: SeeFacts
) -> None:
    put_stack(folder)
    desired = PLAN.switches[0].desired
    see(leaf_01=desired.model_copy(update={"vlans": ()}), gpu01=Unreachable("gpu01: no answer"))
    done = railyard("drift", "dev")
    assert done.code == 4
    assert "vlan_111 of switch is absent" in done.out
    assert "unreachable: gpu01: no answer" in done.out


ATTACHMENT = Key("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "default", "sriov111")


@pytest.mark.parametrize(
    ("cluster", "code", "line"),
    [
        (ClusterLook(Asked()), 0, "no drift"),
        (
            ClusterLook(
                Asked(),
                Live(((ATTACHMENT, {"spec": {"vlan": 111}}, {"spec": {"vlan": 999}}),)),
            ),
            3,
            "NetworkAttachmentDefinition default/sriov111: spec.vlan is 999, want 111",
        ),
        (Unreachable("the cluster did not answer"), 4, "unreachable: the cluster did not answer"),
    ],
)
def test_the_cluster_is_read_as_devices_are(
    railyard: Call,
    folder: Path,
    see: SeeFacts,
    cluster: ClusterLook | Unreachable,
    code: int,
    line: str,
) -> None:
    put_stack(folder)
    see.cluster = cluster
    see()
    done = railyard("drift", "dev")
    assert (done.code, done.out.splitlines()[-1]) == (code, f"cluster      {line}")
    data = json.loads(railyard("drift", "dev", "--format", "json").out)
    assert data["exit_code"] == code
    assert bool(data["cluster"]["objects"]) is (code == 3)


def test_a_site_that_is_only_a_word_gets_a_report(railyard: Call, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"railyard:cluster": {"value": "site.yaml"}}))
    put_pulumi(folder, "cat config.json")
    done = railyard("drift", "dev")
    assert (done.code, done.out) == (1, "")
    assert "site.yaml" in done.err


def test_a_structured_site_and_its_secrets_are_read_alike(folder: Path) -> None:
    written: dict[str, dict[str, object]] = {
        "railyard:cluster": {"value": '{"name": "x"}', "objectValue": {"name": "x"}},
        "railyard:switch_password": {"value": "pw", "secret": True},
        "other:thing": {"value": "not ours"},
    }
    (folder / "config.json").write_text(json.dumps(written))
    put_pulumi(folder, "cat config.json")
    config = read_config("dev")
    assert json.loads(config.values["cluster"]) == {"name": "x"}
    assert config.secrets == {"switch_password": "pw"}
    assert "pw" not in repr(config)


def test_a_stack_that_does_not_exist_is_exit_2(railyard: Call, folder: Path) -> None:
    put_pulumi(folder, "echo \"error: no stack named 'dev' found\" >&2; exit 255")
    done = railyard("drift", "dev")
    assert (done.code, done.out) == (2, "")
    assert "no stack named 'dev' found" in done.err

"""The generic config updater of the emulated SONiC, and why our driver does without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.switches.sonic.cli import Session
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.sonic_lab import make_switch


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def shell(switch: SonicSwitch) -> Session:
    return switch.session()


PATCH = "sudo config apply-patch /tmp/p.json"


def test_a_patch_is_all_or_nothing(switch: SonicSwitch, shell: Session) -> None:
    patch = [
        {"op": "add", "path": "/VLAN", "value": {"Vlan30": {"vlanid": "30"}}},
        {"op": "replace", "path": "/PORT/Ethernet0/mtu", "value": "9000"},
        {"op": "remove", "path": "/QUEUE/Ethernet0|6"},
    ]
    shell.run(f"echo '{json.dumps(patch)}' > /tmp/p.json")
    assert shell.run(PATCH) == "Patch applied successfully.\n"
    db = switch.stored.running
    assert (db["PORT"]["Ethernet0"]["mtu"], "Ethernet0|6" in db["QUEUE"]) == ("9000", False)
    held = json.dumps(db)
    patch = [
        {"op": "add", "path": "/VLAN/Vlan40", "value": {"vlanid": "40"}},
        {"op": "add", "path": "/QUEUE/Ethernet0|6", "value": {"scheduler": "none-such"}},
    ]
    shell.run(f"echo '{json.dumps(patch)}' > /tmp/p.json")
    answer = shell.run(PATCH)
    assert "Given patch will produce invalid config" in answer
    assert 'of value "none-such" points to a non-existing leaf' in answer
    assert (shell.status, json.dumps(switch.stored.running)) == (1, held)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (
            '[{"op":"add","path":"/WRED_PROFILE/X","value":{"ecn":"ecn_all"}}]',
            "WRED_PROFILE table is illegal- validating function generic_config_updater.",
        ),
        ('[{"op":"remove","path":"/BUFFER_POOL/egress_lossless_pool"}]', "BUFFER_POOL table"),
        ('[{"op":"remove","path":"/SCHEDULER/none"}]', "can't remove a non-existent object 'none'"),
        ('[{"op":"add","path":"/NONE/x","value":{}}]', "member 'NONE' not found"),
        ('[{"op":"replace","path":"/QUEUE","value":{}}]', "result in empty tables"),
        ('[{"op":"move","path":"/QUEUE"}]', "Unknown operation"),
        ("[{]", "Invalid patch"),
    ],
)
def test_patches_that_are_refused(shell: Session, patch: str, words: str) -> None:
    shell.run(f"echo '{patch}' > /tmp/p.json")
    answer = shell.run(PATCH)
    assert answer.startswith("Failed to apply patch due to:")
    assert words in answer
    assert "Error: " in answer
    assert shell.status == 1


def test_a_rollback_meets_the_same_guard(switch: SonicSwitch, shell: Session) -> None:
    """Why we do not restore by one: a profile of ours could not be rolled away."""
    assert shell.run("sudo config checkpoint before") == "Checkpoint created successfully.\n"
    shell.run("sudo config interface mtu Ethernet0 9000")
    assert shell.run("sudo config rollback before") == "Config rolled back successfully.\n"
    assert switch.port_view("Ethernet0").mtu_bytes == 9100
    shell.run(
        """sudo sonic-cfggen -a '{"WRED_PROFILE":{"RAILYARD":{"ecn":"ecn_all"}}}' --write-to-db"""
    )
    assert "Modification of WRED_PROFILE table is illegal" in shell.run(
        "sudo config rollback before"
    )
    assert json.loads(shell.run("sudo config list-checkpoints")) == ["before"]
    assert "deleted" in shell.run("sudo config delete-checkpoint before")

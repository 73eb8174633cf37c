"""`railyard audit`: what it prints when devices do not answer, and where SARIF points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.problem import Finding
from components.update.audit import Audit
from tests.cli.conftest import Call
from tests.cli.put_stack import gives

EXAMPLE = Path(__file__).parents[2] / "examples/dgx-roce/site.yaml"


def closed(tmp_path: Path) -> Path:
    """The example with all devices on loopback, where nothing listens."""
    site = tmp_path / "site.yaml"
    text = EXAMPLE.read_text().replace("192.168.", "127.168.").replace("10.0.", "127.10.")
    site.write_text(text)
    return site


def test_without_secrets_it_asks_for_all_of_them(railyard: Call, tmp_path: Path) -> None:
    done = railyard("audit", str(closed(tmp_path)))
    assert done.code == 2
    assert "RAILYARD_SECRET_SWITCH_PASSWORD, to log in to leaf-01" in done.err
    assert "RAILYARD_SECRET_SSH_PRIVATE_KEY, to log in to" in done.err


def test_sarif_points_at_each_device_that_is_unread(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILYARD_SECRET_SWITCH_PASSWORD", "p")
    monkeypatch.setenv("RAILYARD_SECRET_SSH_PRIVATE_KEY", "no key")
    site = closed(tmp_path)
    done = railyard("audit", str(site), "--format", "sarif")
    assert done.code == 4
    run = json.loads(done.out)["runs"][0]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"].startswith("Each device of the file")
    explained = railyard("explain", rule["id"])
    assert (explained.code, "`railyard audit FILE` prints" in explained.out) == (0, True)
    results = run["results"]
    leaf = next(each for each in results if each["message"]["text"].startswith("leaf-01: "))
    line = leaf["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert "leaf-01" in site.read_text().splitlines()[line - 1]
    assert {each["ruleId"] for each in results} == {"audit-unread"}


@pytest.mark.parametrize("device", ["esx02", "leaf-01", "vm03", "vm03 docker"])
def test_sarif_points_at_each_kind_of_device(
    railyard: Call, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    found = Audit("esxi-roce", (), (Finding("it differs", device=device, rule="setting"),))
    monkeypatch.setattr("components.cli.audit.run_audit", gives(found))
    site = EXAMPLE.parents[1] / "esxi-roce/site.yaml"
    (result,) = json.loads(railyard("audit", str(site), "--format", "sarif").out)["runs"][0][
        "results"
    ]
    line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert device.partition(" ")[0] in site.read_text().splitlines()[line - 1]

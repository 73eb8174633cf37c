"""What was made in the cloud is a site that brings its own instances."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from components.checks.site import check_site
from components.cli.main import main
from components.cloud.instances import export_bring_your_own
from components.core.errors import UsageError
from components.model.environments import BringYourOwn
from components.reading.load import load_site
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import HOST_KEY, Stack, printed, site


def test_the_cloud_s_answer_is_a_valid_site(
    cloud: CrusoeCloud, made: Stack, tmp_path: Path
) -> None:
    spec = site(cloud.endpoint)
    facts = {host.name: printed(made, f"{host.name}-await") for host in spec.hosts}
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(export_bring_your_own(spec, facts)), encoding="utf-8")
    loaded = load_site(file)
    assert loaded.problems == ()
    assert loaded.spec is not None
    assert [each.rule for each in check_site(loaded.spec) if each.severity == "error"] == []
    assert loaded.spec.cloud is not None
    assert isinstance(loaded.spec.cloud.instances, BringYourOwn)
    for host in loaded.spec.hosts:
        own = facts[host.name]
        assert (host.way.address, host.node_ip) == (own["public_ip"], own["private_ip"])
        assert host.way.host_key == HOST_KEY
    assert loaded.spec.kubernetes == spec.kubernetes
    assert loaded.spec.jobs == spec.jobs


def test_what_is_not_made_yet_is_named(cloud: CrusoeCloud) -> None:
    with pytest.raises(UsageError, match="nothing is known yet of crusoe-k3s-0, crusoe-k3s-1"):
        export_bring_your_own(site(cloud.endpoint), {})


def test_a_site_without_made_instances_has_nothing_to_export() -> None:
    root = Path(__file__).parents[2]
    spec = load_site(root / "examples" / "dgx-roce" / "site.yaml").spec
    assert spec is not None
    with pytest.raises(UsageError, match="does not make cloud instances"):
        export_bring_your_own(spec, {})


def test_the_command_exports_what_the_state_recorded(
    cloud: CrusoeCloud, made: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    spec = site(cloud.endpoint)
    written = spec.model_copy(update={"hosts": ()}).model_dump(mode="json", exclude_defaults=True)
    secrets = ("crusoe_access_key", "crusoe_secret_key", "k3s_token", "ssh_private_key")
    config: dict[str, dict[str, object]] = {
        f"railyard:{name}": {"value": "x", "secret": True} for name in secrets
    }
    config["railyard:cluster"] = {"objectValue": written}
    urn = "urn:pulumi:crusoe-k3s::railyard::railyard:cloud:Instances$command:local:Command::"
    resources = [
        {"urn": f"{urn}{name}", "outputs": {"stdin": kept.stdin, "stdout": kept.stdout}}
        for name, kept in made.steps.items()
    ]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    state = {"deployment": {"resources": resources}}
    (tmp_path / "export.json").write_text(json.dumps(state), encoding="utf-8")
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ncase $1 in config) cat config.json;; *) cat export.json;; esac\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", ["railyard", "cloud", "export", "crusoe-k3s"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.err.count("Traceback")) == (0, 0), said.err
    file = tmp_path / "brought.yaml"
    file.write_text(said.out, encoding="utf-8")
    loaded = load_site(file)
    assert loaded.spec is not None
    assert [host.way.host_key for host in loaded.spec.hosts] == [HOST_KEY] * 6

"""`railyard discover` and the look at preview, against emulated hosts over real SSH."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from components.drift.applied import Applied
from components.hosts.host_plan import HostPlan
from components.hosts.look import judge_placement, parse_look
from components.plan.make import make_plan
from components.update.decide import judge_drift
from components.update.observe import observe_site
from lab.cluster.artefact import checksums
from lab.keys import client_key
from lab.site import load_document, overlay
from tests.over_ssh.host_lab import EXAMPLE, PROJECT, HostLab, running_hosts

pytestmark = pytest.mark.lab
STACK = "discover-over-ssh"
HOSTS = ("gpu01", "gpu02")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    with running_hosts(STACK, tmp_path_factory.mktemp("look") / "lab", only=HOSTS) as running:
        for name in HOSTS:  # a port that is down does not tell its speed
            ports = "for card in /sys/class/net/enp*; do ip link set dev ${card##*/} up; done"
            running.sh(running.plan(name), ports)
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": [], "gpu02": []}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The example with the lab's addresses; what discovery can find is taken out of gpu01."""
    document = overlay(load_document(EXAMPLE), STACK, checksums())
    hosts = cast("list[dict[str, object]]", document["hosts"])
    del hosts[1]["nics"], hosts[1]["gpus"]
    path = tmp_path / "site.yaml"
    path.write_text("# the site\n" + yaml.safe_dump(document, sort_keys=False))
    (tmp_path / "key").write_text(client_key(STACK).private_openssh)
    return path


def railyard(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    call = "from components.cli.main import main; main()"
    identity = str(site.with_name("key"))
    return subprocess.run(
        [
            sys.executable,
            "-c",
            call,
            "discover",
            *words,
            "--file",
            str(site),
            "--identity",
            identity,
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def look(lab: HostLab, plan: HostPlan) -> tuple[str, ...]:
    """What a preview would say of a host's cards and GPUs."""
    answer = lab.run(plan, plan.watched.observe, plan.desired.render() + plan.watched.looks)
    assert answer.exit_status == 0, answer.stderr
    seen = parse_look(answer.stdout.splitlines())
    return tuple(found.text for found in judge_placement(plan.placement, seen))


@pytest.mark.usefixtures("lab")
def test_what_is_found_is_shown_then_written_and_then_still(site: Path) -> None:
    before = site.read_text()
    shown = railyard(site, *HOSTS)
    assert shown.returncode == 3, shown.stderr
    assert site.read_text() == before
    assert "netdev: enp5s0, model: ConnectX-5" in shown.stdout
    assert "rail-0  0000:05:00.0  enp5s0  ConnectX-5  100 Gbit/s 4X EDR" in shown.stdout
    written = railyard(site, *HOSTS, "--write")
    assert written.returncode == 0, written.stdout + written.stderr
    after = site.read_text()
    assert after.startswith("# the site\n")
    hosts = yaml.safe_load(after)["hosts"]
    assert hosts[1]["gpus"] == 8
    assert [card["pci"] for card in hosts[1]["nics"]] == ["0000:05:00.0", "0000:84:00.0"]
    assert hosts[2]["nics"][0]["gpu_path"] == "PIX"
    again = railyard(site, *HOSTS, "--write")
    assert again.returncode == 0
    assert "nothing to add" in again.stdout
    assert site.read_text() == after


@pytest.mark.usefixtures("lab")
def test_json_has_cards_pairs_and_distances(site: Path) -> None:
    done = railyard(site, "gpu01", "--format", "json")
    body = json.loads(done.stdout)
    assert body["exit_code"] == done.returncode == 3
    [host] = body["hosts"]
    assert [card["link_width"] for card in host["cards"]] == [16, 16]
    assert len(host["pairs"]) == 8
    assert host["distances"]["0000:86:00.0 0000:05:00.0"] == "SYS"


@pytest.mark.usefixtures("lab")
def test_who_is_not_there_does_not_keep_the_others(site: Path) -> None:
    done = railyard(site, "gpu01", "mgmt01", "gpu77", "--write")
    assert done.returncode == 4
    assert "mgmt01" in done.stdout
    assert "is not reachable" in done.stdout
    assert "gpu77 is not a host of" in done.stdout
    assert "nics" in yaml.safe_load(site.read_text())["hosts"][1]
    assert "Traceback" not in done.stdout + done.stderr


def test_another_host_key_is_refused(site: Path) -> None:
    text = site.read_text().splitlines()
    keys = [line for line in text if "host_key:" in line]
    site.write_text("\n".join(text).replace(keys[2], keys[1]))
    done = railyard(site, "gpu01")
    assert done.returncode == 4
    assert "the host key is not the pinned one" in done.stdout


def test_a_new_host_needs_its_key_and_becomes_an_entry(lab: HostLab, site: Path) -> None:
    ssh = lab.plan("gpu02").endpoint
    document = yaml.safe_load(site.read_text())
    del document["hosts"][2]
    site.write_text(yaml.safe_dump(document, sort_keys=False))
    word = f"{ssh.user}@{ssh.address}:{ssh.port}"
    refused = railyard(site, word)
    assert refused.returncode == 2
    assert f"ssh-keyscan -p {ssh.port} {ssh.address}" in refused.stdout
    done = railyard(site, word, "--host-key", ssh.host_key, "--write")
    assert done.returncode == 0, done.stdout + done.stderr
    [*_, host] = yaml.safe_load(site.read_text())["hosts"]
    assert (host["name"], host["role"], host["gpus"]) == ("gpu02", "worker", 8)
    assert host["ssh"]["host_key"] == ssh.host_key
    assert len(host["nics"]) == 2


def test_without_a_key_nobody_is_asked(site: Path) -> None:
    site.with_name("key").unlink()
    done = railyard(site, "gpu01")
    assert done.returncode == 2
    assert "the private key cannot be read" in done.stderr


def test_a_preview_is_quiet_where_all_is_as_the_file_says(lab: HostLab) -> None:
    assert look(lab, lab.plan("gpu01")) == ()


def test_a_narrow_or_slow_link_is_told_until_it_is_mended(lab: HostLab) -> None:
    plan = lab.plan("gpu02")
    lab.fault("gpu02", "link-width", "enp5s0", "8")
    lab.fault("gpu02", "link-speed", "enp132s0", "2.5")
    width, speed = look(lab, plan)
    assert "0000:05:00.0 (enp5s0, rail-0) runs with 8 PCIe lanes, want 16: reseat" in width
    assert "0000:84:00.0 (enp132s0, rail-1) runs its PCIe link at 2.5 GT/s, want 8" in speed
    lab.ask(op="reboot", device="gpu02")
    assert look(lab, plan) == (width, speed)
    lab.fault("gpu02", "link-width", "enp5s0", "16")
    lab.fault("gpu02", "link-speed", "enp132s0", "8")
    assert look(lab, plan) == ()


def test_drift_of_the_site_has_the_placement_beside_the_settings(lab: HostLab) -> None:
    plan = make_plan(lab.spec.model_copy(update={"switches": ()}), STACK)
    secrets = {"ssh_private_key": client_key(STACK).private_openssh}
    lab.fault("gpu01", "link-width", "enp5s0", "4")
    seen = observe_site(plan, secrets, Applied({}))
    drifts = {drift.device: drift for drift in judge_drift(plan, Applied({}), seen)}
    lab.fault("gpu01", "link-width", "enp5s0", "16")
    [found] = drifts["gpu01"].placement
    assert "4 PCIe lanes" in found.text
    assert not found.refused
    assert drifts["gpu02"].placement == ()

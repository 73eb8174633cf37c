"""Guests of the ESXi example over real SSH: ATS, Docker, PF addresses; and MPI between them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import cast

import pytest

from components.hosts.host_plan import HostPlan
from components.remote.host_session import HostAnswer
from lab.hosts.tools.packages import put_package
from lab.keys import host_key
from tests.over_ssh.host_lab import PACKAGE_PATHS, PROJECT, HostLab, running_hosts

pytestmark = pytest.mark.lab
STACK = "guests-over-ssh"
CARD = "nic.0000:0b:00.0"
FOLDER = "/home/nvidia/.ssh/ssh_container"
IMAGE = "nvcr.io/nvaie/tensorflow:21.07-tf1-py3"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    example = PROJECT / "examples/esxi-roce/site.yaml"
    root = tmp_path_factory.mktemp("guests") / "lab"
    with running_hosts(STACK, root, None, example, ("vm01", "vm02")) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"vm01": [], "vm02": []}


@pytest.fixture
def vm01(lab: HostLab) -> HostPlan:
    """A guest that is as planned; other tests may have left it drifted."""
    plan = lab.plan("vm01")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    return plan


@pytest.fixture
def fresh(lab: HostLab) -> HostPlan:
    """A guest as it was installed; where another test applied to it, that is taken back."""
    plan = lab.plan("vm02")
    if lab.sh(plan, "command -v docker || true"):
        undone = lab.undo(plan)
        assert undone.exit_status == 0, undone.stderr
        lab.sh(plan, "apt-get purge -y docker.io")
        lab.ask(op="reboot", device="vm02")
    return plan


def prove(lab: HostLab, plan: HostPlan) -> HostAnswer:
    assert plan.verify is not None
    return lab.run(plan.verify, plan.verify.apply, plan.verify.desired)


def evidence(answer: HostAnswer) -> dict[str, object]:
    return json.loads(answer.stdout)


def test_ats_is_set_proven_after_the_reset_and_put_back(lab: HostLab, fresh: HostPlan) -> None:
    plan = fresh
    before = cast("dict[str, object]", lab.snapshot("vm02"))
    first = lab.apply(plan)
    assert first.exit_status == 0, first.stderr
    assert evidence(first)["firmware"] == {"0000:0b:00.0": "20.35.2000"}
    assert evidence(first)["firmware_needs"] == "reboot"
    assert lab.drift(plan) == ()
    second = evidence(lab.apply(plan))
    assert (second["changed"], second["firmware_needs"]) == ([], "reboot")  # still to come
    early = prove(lab, plan)
    assert early.exit_status == 1
    assert "off now: the ESXi host must reboot" in early.stderr
    lab.ask(op="reboot", device="vm02")  # without its hypervisor: the cards are reset
    assert lab.drift(plan) == ()
    proven = prove(lab, plan)
    assert proven.exit_status == 0, proven.stderr
    assert evidence(lab.apply(plan))["firmware_needs"] == "nothing"
    assert '"ats_active":"on"' in proven.stdout
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert sorted(cast("list[str]", evidence(undone)["left"])) == [
        "docker.engine", "docker.service", f"{CARD}.ats_current",
    ]  # fmt: skip
    after = cast("dict[str, object]", lab.snapshot("vm02"))
    for part in ("nics", "firmware", "modules", "hostname", "sysctl"):
        assert after[part] == before[part]
    files = cast("dict[str, str]", after["files"])
    old = cast("dict[str, str]", before["files"])
    assert {p: t for p, t in files.items() if not p.startswith(PACKAGE_PATHS)} == {
        path: text for path, text in old.items() if not path.startswith(PACKAGE_PATHS)
    }
    assert plan.left_by_destroy.stays == (
        "docker.io (stopped and disabled if its last container is gone)",
        "the home folder of its account",
    )
    service = lab.sh(plan, "systemctl is-enabled docker; systemctl is-active docker; true")
    assert service.split() == ["disabled", "inactive"]


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ("mlxconfig -d 0000:0b:00.0 -y set ATS_ENABLED=0", "ats of nic 0000:0b:00.0 is off"),
        ("ip addr del 192.168.111.11/24 dev ens224", "address of nic 0000:0b:00.0 is absent"),
        ("ip link set dev ens224 down", "link of nic 0000:0b:00.0 is down"),
        ("echo '{}' >/etc/docker/daemon.json", "default_runtime of docker is absent/nvidia"),
        ("systemctl stop docker", "service of docker is enabled/inactive"),
    ],
)
def test_drift_is_seen_in_words_and_repaired(
    lab: HostLab, vm01: HostPlan, by_hand: str, words: str
) -> None:
    lab.sh(vm01, by_hand)
    assert [str(difference) for difference in lab.drift(vm01) if words in str(difference)]
    answer = lab.apply(vm01, f"{vm01.converge.desired}repair=1: {words}\n")
    assert answer.exit_status == 0, answer.stderr
    assert lab.drift(vm01) == ()


def test_another_card_model_is_refused_naming_both(lab: HostLab, vm01: HostPlan) -> None:
    wanted = f"{CARD}.model=ConnectX-6"
    answer = lab.apply(vm01, vm01.converge.desired.replace(wanted, f"{wanted} Dx"))
    assert answer.exit_status == 1
    assert "is a ConnectX-6 (device 101b, mst mt4123)" in answer.stderr
    assert "the file says ConnectX-6 Dx (device 101d, mst mt4125)" in answer.stderr
    assert "changed before this: nothing" in answer.stderr


def test_an_address_of_the_systems_own_is_not_taken_away(lab: HostLab) -> None:
    plan = lab.plan("vm02")
    assert lab.undo(plan).exit_status == 0  # before Railyard an address is the system's own
    lab.sh(plan, "ip addr add 10.9.9.9/24 dev ens224")
    answer = lab.apply(plan)
    assert answer.exit_status == 1
    assert "ens224 has 10.9.9.9/24 from the system's own configuration" in answer.stderr
    lab.sh(plan, "ip addr del 10.9.9.9/24 dev ens224")
    assert lab.undo(plan).exit_status == 0
    again = lab.apply(plan)
    assert again.exit_status == 0, again.stderr


def test_the_old_peer_memory_module_is_named(lab: HostLab, vm01: HostPlan) -> None:
    put_package(lab.root / "hosts/vm01", "nvidia-peer-memory-dkms", "1.3")
    lab.sh(vm01, "modprobe -r nvidia_peermem; modprobe nv_peer_mem")
    answer = lab.apply(vm01)
    assert answer.exit_status == 1
    assert "the old module nv_peer_mem is loaded" in answer.stderr
    lab.sh(vm01, "modprobe -r nv_peer_mem")
    assert lab.apply(vm01).exit_status == 0


def in_container(lab: HostLab, plan: HostPlan, command: str) -> HostAnswer:
    return lab.run(plan, f"docker exec mpicont /bin/bash -c {shlex.quote(command)}", "")


@pytest.fixture
def other(lab: HostLab, vm01: HostPlan) -> Iterator[HostPlan]:
    """A second guest as planned; what a test runs on the two is taken away."""
    plan = lab.plan("vm02")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    yield plan
    keys = "/home/nvidia/.ssh/authorized_keys"
    for each in (vm01, plan):
        lab.sh(each, f"docker rm -f mpicont; rm -rf {FOLDER} /home/nvidia/mpicont.sh\n"
               f"[ ! -e {keys}.old ] || mv {keys}.old {keys}")  # fmt: skip


def test_mpirun_reaches_the_other_host_by_ssh_or_says_why_not(
    lab: HostLab, vm01: HostPlan, other: HostPlan
) -> None:
    run = f"docker pull {IMAGE} >/dev/null; docker run -d --gpus=all --net=host --name=mpicont"
    run += f" --device=/dev/infiniband -v {FOLDER}:/root/.ssh {IMAGE} sleep infinity"
    public = lab.sh(vm01, (
        f"mkdir -p {FOLDER} && ssh-keygen -q -t ed25519 -N '' -f {FOLDER}/id && {run} >&2\n"
        f"printf 'Host *\\n User nvidia\\n Port 2222\\n IdentityFile /root/.ssh/id\\n'"
        f" >{FOLDER}/config && chmod 600 {FOLDER}/* && cat {FOLDER}/id.pub"
    ))  # fmt: skip
    hello = "mpirun --allow-run-as-root -H vm01,vm02 -np 2 hostname"
    unpinned = in_container(lab, vm01, hello)
    assert unpinned.exit_status == 1
    assert "Host key verification failed" in unpinned.stderr
    assert "ORTE was unable to reliably start one or more daemons" in unpinned.stderr
    key = host_key(f"{STACK}/vm02").public_openssh
    lab.sh(vm01, f"echo '[vm02]:2222 {key}' >{FOLDER}/known_hosts")
    assert "Permission denied (publickey)" in in_container(lab, vm01, hello).stderr
    script = (PROJECT / "components/containers/scripts/mpicont.sh").read_text()
    entry = f'restrict,from="{{}}",command="/home/nvidia/mpicont.sh" {public.strip()}'
    keys = "/home/nvidia/.ssh/authorized_keys"
    lab.sh(other, f"{run}\ncat >/home/nvidia/mpicont.sh <<'EOF'\n{script}EOF\n"
           f"chmod 755 /home/nvidia/mpicont.sh; cp {keys} {keys}.old\n"
           f"echo {shlex.quote(entry.format('192.0.2.1'))} >>{keys}")  # fmt: skip
    assert "Permission denied (publickey)" in in_container(lab, vm01, hello).stderr
    allowed = entry.format(lab.spec.hosts[0].way.address)
    lab.sh(other, f"cp {keys}.old {keys}; echo {shlex.quote(allowed)} >>{keys}")
    assert in_container(lab, vm01, hello).stdout == "vm01\nvm02\n"
    own = 'test "$(uname -n)" = vm01 || { echo "no card on $(uname -n)" >&2; exit 1; }; exec "$@"'
    measured = hello.replace("hostname", f"sh -c {shlex.quote(own)} rank all_reduce_perf -b 8")
    refused = in_container(lab, vm01, measured)
    assert (refused.exit_status, refused.stderr.splitlines()[0]) == (1, "no card on vm02")
    lab.sh(other, "docker stop mpicont")
    stopped = in_container(lab, vm01, hello)
    assert stopped.exit_status == 1
    assert "is not running" in stopped.stderr

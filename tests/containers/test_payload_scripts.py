"""The room's scripts under a real /bin/sh: the law of idempotence, drift, repair and undo."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.cli.evidence import make_keys
from components.core.key_values import parse_state
from components.model.jobs import RegistryLogin
from components.model.units import SecretRef
from tests.containers.fake_docker import PASSWORD, save
from tests.containers.machine import Machine
from tests.containers.site import load_plan, load_spec

IMAGE = "registry.example.com/nvaie/multinode:21.07"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine", load_plan())


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Set up once; each test that breaks it leaves it repaired."""
    machine = Machine(tmp_path_factory.mktemp("settled") / "machine", load_plan())
    machine.set_up()
    assert machine.drift() == set()
    shutil.copytree(machine.root, _kept(machine))
    return machine


def _kept(machine: Machine) -> Path:
    return machine.root.with_name("kept")


@pytest.fixture
def ready(settled: Machine) -> Iterator[Machine]:
    """The same, for tests that leave it otherwise: it is as it was set up, before and after."""
    yield Machine(settled.root, settled.plan)
    shutil.rmtree(settled.root)
    shutil.copytree(_kept(settled), settled.root)


def stored(keys: str, name: str) -> str:
    return base64.b64decode(parse_state(keys).values[name]).decode()


def test_set_up_twice_changes_nothing_the_second_time(machine: Machine) -> None:
    assert "container.state" in machine.set_up()
    assert machine.drift() == set()
    before = machine.files()
    assert machine.set_up() == []
    assert machine.files() == before


def test_the_container_runs_with_the_guides_flags(ready: Machine) -> None:
    args = " ".join(ready.docker["containers"]["mpicont"]["args"])
    assert args.startswith(
        "run --detach --gpus=all --net=host --uts=host --ipc=host --ulimit stack=67108864 "
        "--ulimit memlock=-1 --ulimit nofile=1048576 --shm-size=1g --name=mpicont "
        "--device=/dev/infiniband "
        f"-v {ready.home}/.ssh/ssh_container:/root/.ssh "
    )
    assert args.endswith(f"{IMAGE} sleep infinity")


def test_keys_are_where_they_belong_and_open_what_they_should(machine: Machine) -> None:
    keys = make_keys("lab")
    machine.store_secrets(keys)
    machine.set_up()
    ssh = machine.home / ".ssh"
    for file, name in (
        ("id_ed25519_host", "host.private"),
        ("ssh_container/id_ed25519_cont", "container.private"),
    ):
        assert (ssh / file).read_text() == stored(keys, name)
        assert (ssh / file).stat().st_mode & 0o777 == 0o600
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(ssh / "ssh_container/id_ed25519_cont")],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout.split()  # fmt: skip
    lines = (ssh / "authorized_keys").read_text().splitlines()
    inner = next(line for line in lines if shown[1] in line)
    assert inner.startswith('restrict,from="192.168.4.11,192.168.4.12,192.168.4.13,192.168.4.14",')
    assert 'command="~/.ssh/mpicont.sh"' in inner
    assert os.access(ssh / "mpicont.sh", os.X_OK)


def test_ssh_reads_the_config_as_meant(machine: Machine) -> None:
    ssh = machine.home / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "config").write_text("ForwardAgent yes\nHost *\n  StrictHostKeyChecking no\n")
    machine.set_up()

    def option(config: Path, host: str) -> dict[str, str]:
        text = subprocess.run(
            ["ssh", "-G", "-F", str(config), host],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip
        return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)

    ours = option(ssh / "config", "vm02")
    assert ours["hostname"] == "192.168.4.12"
    assert ours["stricthostkeychecking"] == "true"
    assert ours["hostkeyalias"] == "vm02"
    assert ours["bindaddress"] == "192.168.4.11"
    assert option(ssh / "config", "elsewhere")["stricthostkeychecking"] == "false"
    assert option(ssh / "config", "elsewhere")["forwardagent"] == "yes"
    inner = option(ssh / "ssh_container" / "config", "192.168.4.13")
    assert (inner["user"], inner["port"], inner["hostkeyalias"]) == ("nvidia", "22", "vm03")
    assert inner["identityfile"] == "/root/.ssh/id_ed25519_cont"
    assert inner["stricthostkeychecking"] == "true"


@pytest.mark.parametrize(
    "broken",
    [
        {
            "key.host": "rm .ssh/id_ed25519_host",
            "key.container": "chmod 644 .ssh/ssh_container/id_ed25519_cont",
            "host_config.digest": "sed -i 's/HostName .*4.12/HostName 10.0.0.1/' .ssh/config",
            "mpicont.digest": "echo 'exec sh' >>.ssh/mpicont.sh",
        },
        {
            "key.container_public": "echo x >>.ssh/ssh_container/id_ed25519_cont.pub",
            "authorized_keys.container.digest": "sed -i /railyard-container/d .ssh/authorized_keys",
            "host_config.bind": "sed -i 's/BindAddress .*/BindAddress 10.0.0.1/' .ssh/config",
            "mpicont.mode": "chmod 777 .ssh/mpicont.sh",
        },
        {
            "authorized_keys.host.digest": "sed -i s/restrict,// .ssh/authorized_keys",
            "container_config.digest": "echo more >>.ssh/ssh_container/config",
            "known_hosts.digest": "rm .ssh/known_hosts_railyard",
            "folder.host": "chmod 777 .ssh",
        },
    ],
    ids=" ".join,
)
def test_drift_is_seen_and_repaired(settled: Machine, broken: Mapping[str, str]) -> None:
    clean, containers = settled.files(), settled.docker["containers"]
    for break_it in broken.values():
        subprocess.run(["/bin/sh", "-c", break_it], cwd=settled.home, timeout=60, check=True)
    assert broken.keys() <= settled.drift()
    stdin = f"{settled.host.container.desired}repair=1: {', '.join(broken)}\n"
    assert settled.apply(settled.host.container, stdin) != []
    # What was clean has no drift, so that the same bytes and the same container have none either.
    assert (settled.files(), settled.docker["containers"]) == (clean, containers)


@pytest.mark.parametrize("change", ["gone", "stopped", "other flags", "old image"])
def test_a_container_that_is_not_as_planned_is_replaced(ready: Machine, change: str) -> None:
    state = ready.docker
    container = state["containers"]["mpicont"]
    match change:
        case "gone":
            del state["containers"]["mpicont"]
        case "stopped":
            container["state"] = "exited"
        case "other flags":
            container["labels"]["railyard.flags"] = "--gpus=none"
        case _:
            container["image"] = "sha256:old"
    ready.set_docker(state)
    assert ready.drift() & {"container.state", "container.flags", "container.image"}
    assert ready.set_up() == ["container.state"]
    assert ready.drift() == set()


def test_a_container_of_somebody_else_is_left_alone(ready: Machine) -> None:
    state = ready.docker
    state["containers"]["mpicont"]["labels"]["railyard.stack"] = "other"
    ready.set_docker(state)
    done = ready.run(ready.host.container.apply, ready.host.container.desired)
    assert done.returncode == 1
    assert "docker rm -f mpicont first" in done.stderr


def test_a_new_build_is_pulled_and_run(ready: Machine) -> None:
    containers = load_spec().containers
    assert containers is not None
    assert containers.build is not None
    base = {"base": "nvcr.io/nvaie/tensorflow:22.01-tf1-py3"}
    newer = load_plan(build=containers.build.model_copy(update=base))
    assert newer.image is not None
    ready.plan = newer
    assert ready.drift() == {"container.build"}
    assert ready.apply(newer.image) == ["image", "pushed"]
    assert ready.apply(newer.hosts[0].container) == ["container.state"]
    assert ready.drift() == set()


def test_a_worker_pulls_what_the_first_one_pushed(settled: Machine, tmp_path: Path) -> None:
    first, plan = settled, settled.plan
    second = Machine(tmp_path / "second", plan)
    second.store_secrets(make_keys("lab"))
    shutil.copy(first.root / "registry.state", second.root / "registry.state")
    second.apply(plan.hosts[0].container)
    assert second.drift() == set()
    verbs = [call[0] for call in second.docker["calls"] if call[0] in {"login", "pull", "logout"}]
    assert verbs == ["login", "pull", "logout"]
    assert not list((second.root / "tmp").iterdir()), "a login is left behind"


def test_a_build_logs_in_to_both_registries(tmp_path: Path) -> None:
    build = load_spec().containers
    assert build is not None
    assert build.build is not None
    login = RegistryLogin(user="$oauthtoken", password=SecretRef(secret="ngc_api_key"))
    machine = Machine(
        tmp_path / "machine", load_plan(build=build.build.model_copy(update={"login": login}))
    )
    machine.set_up()
    calls = [call for call in machine.docker["calls"] if call[0] in {"login", "build", "logout"}]
    assert [(call[0], call[-1]) for call in calls if call[0] != "build"] == [
        ("login", "registry.example.com"),
        ("login", "nvcr.io"),
        ("logout", "nvcr.io"),
        ("logout", "registry.example.com"),
    ]
    before_build = [call[0] for call in calls].index("build")
    assert [call[0] for call in calls[:before_build]] == ["login", "login"]
    machine.take_down()
    assert machine.files() == {}


def test_another_image_under_the_tag_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", load_plan())
    machine.store_secrets(make_keys("lab"))
    stranger = {IMAGE: {"id": "sha256:x", "labels": {"railyard.build": "other"}}}
    save(str(machine.root / "registry.state"), stranger)
    done = machine.run(machine.host.container.apply, machine.host.container.desired)
    assert done.returncode == 1
    assert "is the build 'other'" in done.stderr


def test_a_refused_login_says_so_and_not_the_password(machine: Machine) -> None:
    machine.apply(machine.host.stores[1], "wrong-password")
    assert machine.plan.image is not None
    done = machine.run(machine.plan.image.apply, machine.plan.image.desired)
    assert done.returncode == 1
    assert "registry.example.com refuses the login of nvaie" in done.stderr
    assert "wrong-password" not in done.stderr + done.stdout


def test_a_lost_key_store_is_named_with_the_way_out(ready: Machine) -> None:
    (ready.root / "lib/lab/payload/keys").unlink()
    assert "key.stored" in ready.drift()
    done = ready.run(ready.host.container.apply, ready.host.container.desired)
    assert done.returncode == 1
    assert "--replace" in done.stderr


def test_files_of_somebody_else_are_not_overwritten(machine: Machine) -> None:
    (machine.home / ".ssh").mkdir(mode=0o700)
    (machine.home / ".ssh/id_ed25519_host").write_text("precious")
    machine.store_secrets(make_keys("lab"))
    before = machine.files()
    done = machine.run(machine.host.container.apply, machine.host.container.desired)
    assert done.returncode == 1
    assert "is not of this stack" in done.stderr
    assert machine.files() == before


text_files = st.none() | st.text(alphabet="abc #=*\n", max_size=40).map(
    lambda text: f"Host x\n{text}"
)


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(config=text_files, authorized=text_files, mode=st.sampled_from([None, 0o700, 0o755]))
def test_undo_brings_every_byte_back(
    machine: Machine, config: str | None, authorized: str | None, mode: int | None
) -> None:
    machine.forget()
    ssh = machine.home / ".ssh"
    if mode is not None:
        ssh.mkdir()
        ssh.chmod(mode)
        for name, text in (("config", config), ("authorized_keys", authorized)):
            if text is not None:
                (ssh / name).write_text(text)
    before = machine.files()
    machine.set_up()
    assert machine.drift() == set()
    machine.take_down()
    assert machine.files() == before
    assert machine.docker["containers"] == {}
    assert machine.docker["images"] == {}


def test_undo_keeps_what_was_added_by_hand(ready: Machine) -> None:
    with (ready.home / ".ssh/authorized_keys").open("a") as file:
        file.write("ssh-ed25519 AAAA friend\n")
    (ready.home / ".ssh/ssh_container/mine").write_text("x")
    assert ready.undo(ready.host.container)["left"] == ["folder.container", "folder.host"]
    assert (ready.home / ".ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA friend\n"


def test_undo_twice_and_without_a_baseline(ready: Machine) -> None:
    ready.undo(ready.host.container)
    assert ready.undo(ready.host.container)["changed"] == []


def test_secrets_are_stored_for_root_alone(machine: Machine) -> None:
    machine.store_secrets(make_keys("lab"))
    for name in ("keys", "registry-password"):
        assert (machine.root / "lib/lab/payload" / name).stat().st_mode & 0o777 == 0o600
    assert machine.apply(machine.host.stores[1], PASSWORD) == []
    done = machine.run(machine.host.stores[1].apply, "")
    assert done.returncode == 1
    assert "is empty" in done.stderr


@pytest.mark.parametrize("fault", ["missing", "altered"])
def test_without_its_list_of_workers_a_host_is_left_alone(machine: Machine, fault: str) -> None:
    (peers,) = machine.host.container.reads
    place = machine.root / "tools" / peers.digest / "tool"
    place.unlink()
    if fault == "altered":
        place.write_text(peers.text.replace("vm02", "vm03"))
    machine.store_secrets(make_keys("lab"))
    before = machine.files()
    done = machine.run(machine.host.container.apply, machine.host.container.desired)
    assert done.returncode == 1
    assert f"{place} is missing, altered or cut short" in done.stderr
    assert machine.files() == before

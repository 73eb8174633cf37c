"""Two balancers with the real keepalived and HAProxy of Debian, each in a network of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.kubernetes.planes.balancers import (
    CA_FILE,
    CHECK,
    HEALTH_SOCKET,
    render_haproxy,
    render_keepalived,
)
from components.kubernetes.planes.node_files import kubernetes_tool, numbered_lines
from components.model.cluster import ClusterSpec
from components.model.kubernetes import VirtualAddress
from lab import debian
from lab.cluster.process import wait_until
from tests.golden.site import load_example

pytestmark = pytest.mark.lab
SHARED = "10.77.0.20"
SERVER = "10.77.0.1"
ADDRESSES = {
    "lb-0": "10.77.0.21",
    "lb-1": "10.77.0.22",
    "third": "10.77.0.28",
    "other": "10.77.0.29",
}
MOVE_S = 120.0
"""Three announcements of a second each are missed, or two checks; the machine may be busy."""
DEADLINE_S = 120


def site() -> ClusterSpec:
    """Three servers at one address that answers, and two balancers."""
    spec = load_example("dgx-roce")
    shared = VirtualAddress.model_validate({"address": SHARED})
    assert spec.k3s is not None
    server = spec.hosts[0]
    hosts = [server.model_copy(update={"name": f"cp-{n}", "node_ip": SERVER}) for n in range(3)]
    hosts += [
        server.model_copy(update={"name": name, "role": "balancer", "node_ip": ADDRESSES[name]})
        for name in ("lb-0", "lb-1")
    ]
    plane = spec.k3s.model_copy(update={"virtual_address": shared})
    return spec.model_copy(update={"hosts": tuple(hosts), "kubernetes": plane})


@dataclass
class Network:
    """A namespace, held open by a process that does nothing."""

    name: str
    holder: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Wait until the process is in its own network."""
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        ours = Path("/proc/self/ns/net").readlink()
        place = Path(f"/proc/{self.holder.pid}/ns/net")
        wait_until("a network", lambda: place.readlink() != ours, DEADLINE_S)

    def enter(self, *words: str) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "-n", *words]

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.enter(*words),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def ip(self, *words: str) -> str:
        done = self.run("ip", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass
class Balancer:
    """One machine: files of its own, and two programs."""

    folder: Path
    network: Network
    programs: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, subprocess.Popen[bytes]]
    )

    def start(self, name: str, *words: str) -> None:
        tree = debian.whole_folder(packages=debian.BALANCER_PACKAGES)
        argv = self.network.enter(
            *("bwrap", "--die-with-parent", "--unshare-pid", "--cap-add", "ALL"),
            *("--ro-bind", str(tree / "usr"), "/usr", "--symlink", "usr/bin", "/bin"),
            *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
            *("--bind", str(self.folder / "etc"), "/etc", "--bind", str(self.folder / "run")),
            *("/run", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *words),
        )
        with (self.folder / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def start_all(self) -> None:
        self.start("haproxy", "/usr/sbin/haproxy", "-db", "-f", "/etc/railyard/haproxy.cfg")
        self.start_keepalived()

    def start_keepalived(self) -> None:
        file = "--use-file=/etc/railyard/keepalived/keepalived.conf"
        words = ("--dont-fork", "--log-console", "--vrrp", file)
        self.start("keepalived", "/usr/sbin/keepalived", *words)

    @property
    def has_address(self) -> bool:
        return f" {SHARED}/32 " in self.network.ip("-o", "-4", "addr", "show")

    def signal_haproxy(self, number: signal.Signals) -> None:
        """To the program itself, which is a child of bwrap."""
        outer = self.programs["haproxy"].pid
        inner = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        leaf = Path(f"/proc/{inner[0]}/task/{inner[0]}/children").read_text().split() or inner
        os.kill(int(leaf[0]), number)


def make_balancer(folder: Path, spec: ClusterSpec, name: str, network: Network) -> Balancer:
    tree = debian.whole_folder(packages=debian.BALANCER_PACKAGES)
    (folder / "etc/railyard/keepalived").mkdir(parents=True)
    (folder / HEALTH_SOCKET.lstrip("/")).parent.mkdir(parents=True)
    shutil.copytree(tree / "etc/keepalived", folder / "etc/keepalived")
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    host = next(each for each in spec.balancers if each.name == name)
    assert spec.k3s is not None
    text = render_haproxy(spec, host, spec.k3s).replace(f"{CHECK} ca-file {CA_FILE}", "verify none")
    (folder / "etc/railyard/haproxy.cfg").write_text(text.replace(" check\n", "\n"))
    keepalived = folder / "etc/railyard/keepalived"
    assert spec.k3s.virtual_address is not None
    text = render_keepalived(spec, host, spec.k3s.virtual_address)
    (keepalived / "keepalived.conf").write_text(text)
    (keepalived / "interface.conf").write_text("$INTERFACE=eth0\n")
    return Balancer(folder, network)


@dataclass
class Room:
    """A switch, whoever is plugged in, and what answers behind the balancers."""

    switch: Network
    balancers: dict[str, Balancer]

    def plug(self, name: str, network: Network) -> None:
        pid = str(network.holder.pid)
        end = ("name", "eth0", "netns", pid)
        self.switch.ip("link", "add", "name", name, "type", "veth", "peer", *end)
        self.switch.ip("link", "set", name, "master", "br0", "up")
        network.ip("link", "set", "lo", "up")
        network.ip("link", "set", "eth0", "up")
        network.ip("addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")

    def answers(self) -> bool:
        words = ("-s", "--max-time", "2", "-o", "/dev/null", "-w", "%{http_code}")
        return self.switch.run("curl", *words, f"http://{SHARED}:6443/").stdout == "200"

    def wait_holder(self, name: str) -> None:
        others = [each for key, each in self.balancers.items() if key != name]
        here = self.balancers[name]

        def moved() -> bool:
            return here.has_address and not any(each.has_address for each in others)

        wait_until(f"{name} to have the address", moved, MOVE_S)
        wait_until("the API at the address", self.answers, MOVE_S)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder, spec = tmp_path_factory.mktemp("balancers"), site()
    with ExitStack() as kept:

        def network(name: str) -> Network:
            made = Network(name)
            kept.callback(end, made.holder)
            return made

        switch = network("switch")
        for words in (("link", "add", "name", "br0", "type", "bridge"),
                      ("addr", "add", f"{SERVER}/24", "dev", "br0"),
                      ("link", "set", "br0", "up"), ("link", "set", "lo", "up")):  # fmt: skip
            switch.ip(*words)
        (folder / "www").mkdir()
        argv = switch.enter(sys.executable, "-m", "http.server", "6443", "--bind", SERVER)
        server = subprocess.Popen(
            argv, cwd=folder / "www", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        kept.callback(end, server)
        found = Room(switch, {})
        for name in ("lb-0", "lb-1"):
            made = network(name)
            found.plug(name, made)
            found.balancers[name] = make_balancer(folder / name, spec, name, made)
            found.balancers[name].start_all()
            for program in found.balancers[name].programs.values():
                kept.callback(end, program)
            # It keeps what it has: with both at once, the first whose check succeeds would win.
            wait_until("lb-0 to begin", lambda: found.balancers["lb-0"].has_address, MOVE_S)
        yield found


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(DEADLINE_S)


def test_the_address_is_where_haproxy_answers_and_stays_there(room: Room) -> None:
    room.wait_holder("lb-0")
    room.balancers["lb-0"].signal_haproxy(signal.SIGSTOP)  # it hangs: its port still connects
    room.wait_holder("lb-1")
    room.balancers["lb-0"].signal_haproxy(signal.SIGCONT)
    log = room.balancers["lb-0"].folder / "keepalived.log"
    wait_until("lb-0 to be well", lambda: "succeeded" in log.read_text().split("failed")[-1], 120)
    room.wait_holder("lb-1")  # each move ends all connections
    room.switch.ip("link", "set", "lb-1", "down")  # the whole machine, as the others see it
    wait_until("lb-0 to take over", lambda: room.balancers["lb-0"].has_address, MOVE_S)
    wait_until("the API at the address", room.answers, MOVE_S)


OTHER_ROUTER = """\
global_defs {
    vrrp_version 3
}
vrrp_instance theirs {
    state MASTER
    interface eth0
    virtual_router_id 51
    priority 100
    advert_int 1
    virtual_ipaddress {
        10.77.0.31/32
    }
}
"""
"""Of another pair in the same network, announced to all, as keepalived does by default."""


def tcpdump_in(folder: Path) -> Path:
    """A folder with Debian's tcpdump, which stays root: this machine may lack its user."""
    tree = debian.whole_folder(packages=debian.BALANCER_PACKAGES) / "usr"
    (loader,) = tree.glob("lib64/ld-linux-*")
    (libraries,) = tree.glob("lib/*-linux-gnu")
    file = folder / "bin/tcpdump"
    file.parent.mkdir()
    file.write_text(
        f'#!/bin/sh\nexec {loader} --library-path {libraries} {tree}/bin/tcpdump -Z root "$@"\n'
    )
    file.chmod(0o755)
    return file.parent


def looked(network: Network, shared: str, path: str = os.environ["PATH"]) -> list[str]:
    """What the look of a third balancer says of others, where this one shall have an address."""
    spec = site()
    wanted = VirtualAddress.model_validate({"address": shared})
    lines = render_keepalived(spec, spec.balancers[1], wanted)
    peer = f"        {ADDRESSES['lb-0']}\n"
    lines = lines.replace(peer, f"{peer}        {ADDRESSES['lb-1']}\n")
    stdin = "".join(f"{k}={v}\n" for k, v in numbered_lines("keepalived.conf", lines).items())
    stdin += f"address={ADDRESSES['third']}\nvirtual_address={shared}\n"
    words = ("sh", "-c", kubernetes_tool().text, "tool", "keepalived_observe")
    done = network.run("env", f"PATH={path}", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("others.")]


def test_who_else_has_the_address_or_the_number_is_named(room: Room, tmp_path: Path) -> None:
    with ExitStack() as kept:
        networks: dict[str, Network] = {}
        for name in ("third", "other"):
            networks[name] = Network(name)
            kept.callback(end, networks[name].holder)
            room.plug(name, networks[name])
        third, other = networks["third"], networks["other"]
        holders = room.balancers.values()
        wait_until("one to have it", lambda: any(each.has_address for each in holders), MOVE_S)
        assert looked(third, SHARED) == []  # a balancer of ours has it
        assert looked(third, "10.77.0.40") == []  # nobody has it

        other.ip("addr", "add", "10.77.0.30/32", "dev", "eth0")
        mac = other.ip("-br", "link", "show", "eth0").split()[2]
        router = make_balancer(tmp_path / "other", site(), "lb-1", other)
        (router.folder / "etc/railyard/keepalived/keepalived.conf").write_text(OTHER_ROUTER)
        router.start_keepalived()
        kept.callback(end, router.programs["keepalived"])
        assert looked(third, "10.77.0.30") == [f"others.address={mac}"]
        path = f"{tcpdump_in(tmp_path)}:{os.environ['PATH']}"
        assert looked(third, "10.77.0.30", path) == [
            f"others.address={mac}",
            f"others.router={ADDRESSES['other']}",
        ]

"""The filter before the API by Debian's own nft, between two network namespaces."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from components.kubernetes.planes.balancers import render_rules
from components.kubernetes.planes.node_files import kubernetes_call
from components.model.kubernetes import K3sPlane
from components.remote.host_session import run_on_host
from components.remote.step import render_sent_call
from lab import debian
from tests.over_ssh.real_sshd import Server, new_key, private, public, real_sshd

pytestmark = pytest.mark.lab
DEADLINE_S = 60
PLAY = """
import json, socket, sys
def reach(source, target, port):
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family) as link:
        link.settimeout(0.4)
        link.bind((source, 0))
        try:
            link.connect((target, port))
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return str(error)
        return "connected"
def serve():
    kept = []
    for port in (6443, 22):
        link = socket.socket(socket.AF_INET6)
        link.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        link.bind(("::", port))
        link.listen(64)
        kept.append(link)
    print("listening", flush=True)
    sys.stdin.read()
if sys.argv[1] == "serve":
    serve()
else:
    print(json.dumps([reach(*each) for each in json.loads(sys.argv[2])]))
"""
SETUP = """
set -e
ip link set lo up
nsenter -t "$peer" -n ip link set lo up
ip link add v0 type veth peer name v1 netns "$peer"
ip addr add 10.9.0.1/16 dev v0 && ip -6 addr add fd09::1/64 dev v0 nodad && ip link set v0 up
nsenter -t "$peer" -n sh -ec 'for a in 10.9.0.2 10.9.1.2; do ip addr add $a/16 dev v1; done
  ip -6 addr add fd09::2/64 dev v1 nodad; ip link set v1 up'
"""
ASKED = (
    ("10.9.0.2", "10.9.0.1", 6443),
    ("10.9.1.2", "10.9.0.1", 6443),
    ("10.9.1.2", "10.9.0.1", 22),
    ("fd09::2", "fd09::1", 6443),
    ("fd09::2", "fd09::1", 22),
)
OWN = (("10.9.0.1", "10.9.0.1", 6443), ("127.0.0.1", "127.0.0.1", 6443))
OPEN = ["connected"] * 5


def rules(*networks: str) -> str:
    plane = K3sPlane(
        plane="k3s", version="v1.36.3+k3s1", api_from=tuple(map(IPv4Network, networks))
    )
    return render_rules(plane)


class Room:
    """A server's namespace, in which all of this runs, and a client's beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "play.py").write_text(PLAY)
        sleep = ["unshare", "--net", "sleep", "infinity"]
        self.client = subprocess.Popen(sleep)
        self.server = subprocess.Popen(sleep)
        self.listener: subprocess.Popen[str] | None = None

    def start(self) -> None:
        for process in (self.client, self.server):
            self._await_own_network(process.pid)
        self.sh(f"peer={self.client.pid}\n{SETUP}")
        argv = [*self._enter(self.server), sys.executable, str(self.folder / "play.py"), "serve"]
        self.listener = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.listener.stdout is not None
        assert self.listener.stdout.readline() == "listening\n"

    def stop(self) -> None:
        for process in (self.listener, self.client, self.server):
            if process is not None:
                process.kill()
                process.wait(timeout=DEADLINE_S)

    def _await_own_network(self, pid: int) -> None:
        """`unshare` runs its command once it has the namespace."""
        command = Path(f"/proc/{pid}/comm")
        while command.read_text() != "sleep\n":
            assert Path(f"/proc/{pid}").exists()

    def _enter(self, process: subprocess.Popen[bytes]) -> list[str]:
        return ["nsenter", "-t", str(process.pid), "-n"]

    def sh(self, script: str) -> str:
        return self._run([*self._enter(self.server), "sh", "-c", script])

    def _run(self, argv: list[str]) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def nft(self, *words: str) -> str:
        folder = debian.folder_of(packages=debian.FILTER_PACKAGES)
        libraries = ":".join(
            str(path.parent) for path in sorted(folder.glob("usr/lib/*/libnftables.so.1"))
        )
        program = f"LD_LIBRARY_PATH={shlex.quote(libraries)} {folder}/usr/sbin/nft"
        return self.sh(f"{program} {shlex.join(words)}")

    def load(self, text: str) -> None:
        file = self.folder / "rules"
        file.write_text(text)
        self.nft("-c", "-f", str(file))
        self.nft("-f", str(file))

    def reach(self, asked: tuple[tuple[str, str, int], ...], *, inside: bool = False) -> list[str]:
        where = self._enter(self.server if inside else self.client)
        play = [sys.executable, str(self.folder / "play.py"), "ask", json.dumps(asked)]
        return json.loads(self._run([*where, *play]))


def test_the_kernel_lets_in_who_is_named_and_touches_no_other_port(tmp_path: Path) -> None:
    assert debian.folder_of(packages=debian.FILTER_PACKAGES).is_dir(), "run make setup"
    room = Room(tmp_path)
    try:
        room.start()
        assert room.reach(ASKED) == OPEN
        room.load(rules("10.9.0.0/24"))
        silent = "no answer"
        assert room.reach(ASKED) == ["connected", silent, "connected", silent, "connected"]
        assert room.reach(OWN, inside=True) == ["connected", "connected"]
        listed = room.nft("list", "table", "inet", "railyard_api")
        assert "elements = { 10.9.0.0/24, 10.42.0.0/16 }" in listed
        # Another list takes its place as a whole, and the same one twice lists the same.
        room.load(rules("10.9.1.0/24"))
        assert room.reach(ASKED[:3]) == [silent, "connected", "connected"]
        first = room.nft("list", "table", "inet", "railyard_api")
        room.load(rules("10.9.1.0/24"))
        assert room.nft("list", "table", "inet", "railyard_api") == first
        room.nft("delete", "table", "inet", "railyard_api")
        assert room.reach(ASKED) == OPEN
    finally:
        room.stop()


def test_a_host_sees_where_its_session_comes_from(tmp_path: Path) -> None:
    """By Debian's own sshd, and behind its sudo, which takes the variable away."""
    key = new_key()
    with real_sshd(tmp_path, Server("server", public(key))) as server:
        for address, seen in (("127.0.0.1", "127.0.0.1"), ("::1", "::1")):
            command = render_sent_call(kubernetes_call("api_filter_observe"), DEADLINE_S)
            asking = run_on_host(
                server.endpoint(address),
                {"ssh_private_key": private(key)},
                command,
                stdin="stack=dev\n",
                deadline_s=DEADLINE_S,
            )
            answer = asyncio.run(asking)
            assert answer.exit_status == 0, answer.stderr
            assert f"peer={seen}\n" in answer.stdout
            assert "table=absent\n" in answer.stdout

"""Several steps of one resource: which of them run, on what connection, what a failure undoes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from components.core.errors import DeviceError, UsageError
from components.drift.applied import applied_from_outputs
from components.remote import send
from components.remote.host_session import HostAnswer, HostSession
from components.remote.send import run_steps
from components.remote.sending import Part, read_records, render_parts, split_parts
from components.remote.step import Endpoint, RemoteStep, env_name, render_endpoint
from components.remote.tools import ToolCall, make_tool

OWN = Endpoint("gpu01", "host", "127.41.0.11", 22, "nvidia", "ssh-ed25519 AAAA", agent=True)
SERVER = replace(OWN, device="mgmt01", address="127.41.0.10")
ENVIRON = {env_name("k3s_token"): "the token"}
TOOL = make_tool("kubernetes", "true\n")


def part(name: str, on: Endpoint = OWN, **fields: str) -> Part:
    known = {"create": f"do {name}", "delete": f"undo {name}", "seconds": "60"}
    return replace(Part(name, render_endpoint(on), stdin=f"node={name}\n"), **known | fields)


NODE = (
    part("gpu01-k3s-token", secret="k3s_token", stdin=""),
    part("gpu01-k3s"),
    part("gpu01-node", SERVER),
)


def text_of(*parts: Part) -> str:
    """The lines that `render_parts` writes."""
    lines: list[str] = []
    for each in parts:
        keys = {"step": each.step, "on": each.on, "create": each.create, "delete": each.delete}
        keys |= {"seconds": each.seconds, "secret": each.secret}
        lines += [f"# {key} {value}\n" for key, value in keys.items() if value] + [each.stdin]
    return "".join(lines)


@dataclass
class Hosts:
    """Hosts that only remember what they were asked, and fail at some lines."""

    fails: Mapping[str, int] = field(default_factory=dict[str, int])
    lost: str = ""
    """The line at which the connection is lost."""
    connected: list[str] = field(default_factory=list[str])
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def connect(
        self, stack: AsyncExitStack, endpoint: Endpoint, secrets: Mapping[str, str]
    ) -> HostSession:
        del stack, secrets
        self.connected.append(endpoint.device)
        return cast("HostSession", self)

    async def run(self, line: str, *, stdin: str, deadline_s: float) -> HostAnswer:
        assert deadline_s == 80
        self.ran.append((line, stdin))
        if line == self.lost:
            raise DeviceError("the connection was lost")
        return HostAnswer(f"did {line}\n", "no\n", self.fails.get(line, 0))

    @property
    def lines(self) -> list[str]:
        return [line for line, _ in self.ran]


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    made = Hosts()
    monkeypatch.setattr(send, "connect_patiently", made.connect)
    return made


def apply(parts: tuple[Part, ...], was: str = "") -> HostAnswer:
    return run_steps(text_of(*parts), "gpu01-k3s", ENVIRON | {"PULUMI_COMMAND_STDOUT": was})


def test_all_steps_run_in_order_on_one_connection_to_each_host(hosts: Hosts) -> None:
    done = apply(NODE)
    assert done.exit_status == 0
    assert hosts.connected == ["gpu01", "mgmt01"]
    assert hosts.ran == [
        ("do gpu01-k3s-token", "the token"),
        ("do gpu01-k3s", "node=gpu01-k3s\n"),
        ("do gpu01-node", "node=gpu01-node\n"),
    ]
    assert "the token" not in done.stdout


def test_only_a_changed_step_and_a_secret_run_again(hosts: Hosts) -> None:
    was = apply(NODE).stdout
    hosts.ran.clear()
    token, install, node = NODE
    again = apply((token, install, replace(node, stdin="node=other\n")), was)
    assert hosts.lines == ["do gpu01-k3s-token", "do gpu01-node"]
    hosts.ran.clear()
    moved = replace(install, on=render_endpoint(replace(OWN, host_key="ssh-ed25519 BBBB")))
    apply((token, moved, replace(node, stdin="node=other\n")), again.stdout)
    assert hosts.lines == ["do gpu01-k3s-token", "do gpu01-k3s"]


def test_the_output_of_each_step_stays_until_it_runs_again(hosts: Hosts) -> None:
    """The last update's identity of a host is in the output of its settings."""
    was = apply(NODE).stdout
    printed = {name: text for name, (_, text) in read_records(was.rstrip("\n")).items()}
    assert printed["gpu01-k3s"] == "did do gpu01-k3s\n"
    hosts.ran.clear()
    again = apply(NODE, was.rstrip("\n"))
    assert hosts.lines == ["do gpu01-k3s-token"]
    assert again.stdout == was
    outputs = {"command:local:Command::gpu01-k3s": {"stdin": text_of(*NODE), "stdout": was}}
    step = applied_from_outputs(outputs).steps["gpu01-k3s"]
    assert (step.stdin, step.stdout) == ("node=gpu01-k3s\n", "did do gpu01-k3s")


def test_a_step_that_is_gone_is_undone(hosts: Hosts) -> None:
    was = apply(NODE).stdout
    hosts.ran.clear()
    hosts.connected.clear()
    assert apply(NODE[1:], was).exit_status == 0
    assert hosts.ran == [("undo gpu01-k3s-token", "")]
    assert hosts.connected == ["gpu01"]


@pytest.mark.parametrize("how", ["fails", "lost"])
def test_a_first_run_that_fails_leaves_nothing_of_what_came_before(hosts: Hosts, how: str) -> None:
    """The state does not have the resource then, so no `destroy` would undo it."""
    if how == "fails":
        hosts.fails = {"do gpu01-k3s": 7}
        done = apply(NODE)
        assert (done.exit_status, done.stderr) == (7, "no\n")
    else:
        hosts.lost = "do gpu01-k3s"
        with pytest.raises(DeviceError, match="lost"):
            apply(NODE)
    assert hosts.lines == ["do gpu01-k3s-token", "do gpu01-k3s", "undo gpu01-k3s-token"]


def test_what_works_already_stays_if_a_later_step_fails(hosts: Hosts) -> None:
    hosts.fails = {"do gpu01-node": 1}
    assert apply(NODE).exit_status == 1
    assert not [line for line in hosts.lines if line.startswith("undo")]


def test_an_update_that_fails_undoes_nothing(hosts: Hosts) -> None:
    was = apply(NODE).stdout
    hosts.fails = {"do gpu01-k3s": 1}
    hosts.ran.clear()
    changed = tuple(replace(each, stdin=f"{each.stdin}more=1\n") for each in NODE)
    assert apply(changed, was).exit_status == 1
    assert hosts.lines == ["do gpu01-k3s-token", "do gpu01-k3s"]


def test_an_undo_goes_backwards_and_stops_at_a_failure(hosts: Hosts) -> None:
    assert run_steps(text_of(*NODE), "", ENVIRON).exit_status == 0
    assert hosts.lines == ["undo gpu01-node", "undo gpu01-k3s", "undo gpu01-k3s-token"]
    hosts.ran.clear()
    hosts.fails = {"undo gpu01-node": 5}
    assert run_steps(text_of(*NODE), "", ENVIRON).exit_status == 5
    assert hosts.lines == ["undo gpu01-node"]
    hosts.ran.clear()
    without = (NODE[0], replace(NODE[1], delete=""))
    assert run_steps(text_of(*without), "", ENVIRON).exit_status == 0
    assert hosts.lines == ["undo gpu01-k3s-token"]


def test_one_step_alone_prints_its_own_output(hosts: Hosts) -> None:
    assert apply((NODE[1],)) == HostAnswer("did do gpu01-k3s\n", "", 0)
    assert hosts.connected == ["gpu01"]


def test_a_text_without_a_step_is_refused(hosts: Hosts) -> None:
    with pytest.raises(UsageError, match="has no step of a host"):
        run_steps("node=gpu01\n", "gpu01-k3s", ENVIRON)
    assert hosts.connected == []


def test_steps_come_back_as_they_were_written() -> None:
    call, undo = ToolCall(TOOL, "install"), ToolCall(TOOL, "remove")
    install = RemoteStep("gpu01-k3s", OWN, "sh", "b=2\na= # x\n", call, 60, undo=undo)
    token = replace(install, name="gpu01-k3s-token", desired="", secret_stdin="k3s_token")
    first, second = split_parts(render_parts([(token, "1: lost"), (install, "2: it fell")]))
    assert (first.secret, first.stdin, second.secret) == ("k3s_token", "", "")
    assert second.stdin == "b=2\na= # x\nrepair=2: it fell\n"
    assert second.on == render_endpoint(OWN)
    assert (second.create.split()[-3:], second.seconds) == (
        [TOOL.digest, "install", "keep=gpu01-k3s"], "60",
    )  # fmt: skip
    assert split_parts(install.desired) == ()

"""A host's tools through the real engine: state, repair, upgrade, and stacks from before tools.

The program has the `Hosts` component and nothing else; the host is a lab host over real SSH.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.hosts.scripts import host_tool
from components.model.cluster import ClusterSpec
from components.remote.tools import TOOLS_FOLDER
from lab.keys import client_key
from tests.engine.runner import EngineRunner, Result
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.engine
ROOT: Final = Path(__file__).parents[2]
LAB: Final = "host-tools"
HOST: Final = "mgmt01"
RAILS_LAB: Final = "host-rails"
RAILS: Final = ROOT / "examples/rail-optimised/site.yaml"
WORKER: Final = "gpu01"
"""Of that site: eight cards with VFs."""
STATE_BYTES: Final = 12 * 1024
"""Of one host, inputs and outputs together: what a site of 1,000 hosts can carry."""
PROGRAM: Final = f"""
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
import pulumi
from pulumi_command import remote
import components.hosts.scripts as scripts
from components.remote.handoffs import FabricReady, gate
from components.hosts.component import Hosts
from components.model.cluster import ClusterSpec
from components.update.observe import observe_site
from stacks.own_state import read_own_state
from components.plan.make import make_plan
from components.remote.component import Remote, connection_of
from components.remote.step import render_remote_command
from components.update.decide import intend

config = pulumi.Config("railyard")
if config.get("version") == "next":
    before = scripts._file
    scripts._file = lambda name: before(name) + (":\\n" if name == "verify.sh" else "")
spec = ClusterSpec.model_validate_json(Path("site.json").read_text())
whole = make_plan(spec, "dev")
hosts = tuple(host for host in whole.hosts if host.name == config.require("host"))
plan = replace(whole, switches=(), hosts=hosts, kubernetes=None, payload=None, reboots=())
applied = read_own_state()
key = config.require("ssh_private_key")
seen = observe_site(plan, {{"ssh_private_key": key}}, applied)
noted = intend(plan, applied, seen, "changed")
fabric = FabricReady(gate("fabric", None, []))
Hosts("hosts", noted.plan.hosts, Remote(config, noted.notes), fabric)
for name, note in noted.notes.items():
    pulumi.log.info(f"{{name}}: {{note}}")
"""


@dataclass
class Stack:
    """A project with one host."""

    engine: EngineRunner
    lab: HostLab
    folder: Path
    host: str
    before: object
    """The host's files before the first update."""

    def write(self, spec: ClusterSpec) -> None:
        (self.folder / "site.json").write_text(spec.model_dump_json())

    def up(self, version: str = "now") -> Result:
        values = {"railyard:version": version, "railyard:host": self.host}
        done = self.engine.up(self.folder, "dev", values)
        assert done.rc == 0, done.stderr + done.errors
        return done

    def destroy(self) -> None:
        """Afterwards the host must be as it was, to the byte."""
        done = self.engine.destroy(self.folder)
        assert done.rc == 0, done.stderr + done.errors
        assert self.lab.snapshot(self.host) == self.before

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        state = self.engine.export(self.folder)
        found = cast("list[Mapping[str, Any]]", state["deployment"].get("resources") or [])
        return {each["urn"].rsplit("::", 1)[-1]: each for each in found}

    @property
    def tools(self) -> list[str]:
        """Digests of what lies on the host."""
        return self.sh(f"ls {TOOLS_FOLDER}").split()

    def sh(self, script: str) -> str:
        return self.lab.sh(self.lab.plan(self.host), script)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Resource name to the bytes of its inputs and outputs in the state."""
        return {
            name: len(json.dumps({"inputs": each.get("inputs"), "outputs": each.get("outputs")}))
            for name, each in self.resources.items()
        }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    with running_hosts(LAB, tmp_path_factory.mktemp("hosts") / "lab", only=(HOST,)) as running:
        yield running


@pytest.fixture(scope="module")
def kept(session_engine: EngineRunner, lab: HostLab) -> Iterator[Stack]:
    with new_stack(session_engine, lab, HOST) as made:
        yield made


@pytest.fixture
def stack(kept: Stack) -> Stack:
    """One host with a good update behind it; a test leaves it so, or destroyed."""
    if not kept.resources:
        kept.up()
    return kept


@contextmanager
def new_stack(engine: EngineRunner, lab: HostLab, host: str) -> Generator[Stack]:
    """A new stack; it is destroyed at the end."""
    before = lab.snapshot(host)
    folder = engine.project(lab.stack, PROGRAM)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    secret = ("config", "set", "--secret", "railyard:ssh_private_key")
    key = f"\n{client_key(lab.stack).private_openssh}"  # else it begins as an option
    done = engine.call(folder, *secret, key, "--stack", "dev")
    assert done.returncode == 0, done.stderr
    made = Stack(engine, lab, folder, host, before)
    made.write(lab.spec)
    yield made
    if made.resources:
        made.destroy()


def test_a_host_costs_little_state_and_none_of_it_is_a_script(stack: Stack) -> None:
    found = stack.resources
    assert max(stack.sizes.values()) <= STATE_BYTES, stack.sizes
    # The engine notes where in the program a resource was made: here outside of its folder.
    whole = json.dumps([(each.get("inputs"), each.get("outputs")) for each in found.values()])
    for line in (line for line in host_tool().text.splitlines() if len(line) > 20):
        assert json.dumps(line)[1:-1] not in whole
    assert str(ROOT) not in whole
    assert str(stack.folder) not in whole
    names = found["hosts"]["inputs"]["names"]
    assert names == {
        host.name: host.address
        for host in stack.lab.spec.hosts
        if host.role != "worker" or host.name == stack.host
    }
    assert sum(json.dumps(each).count("names") for each in found.values()) < 12
    assert stack.up().changes == {}
    check_one_host_more(stack)


def test_a_host_of_eight_rails_costs_no_more(engine: EngineRunner, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    with (
        running_hosts(RAILS_LAB, folder, example=RAILS, only=(WORKER,)) as lab,
        new_stack(engine, lab, WORKER) as stack,
    ):
        stack.up()
        assert max(stack.sizes.values()) <= STATE_BYTES, stack.sizes
        assert stack.up().changes == {}


def check_one_host_more(stack: Stack) -> None:
    """The engine finds nothing to do on a host where another worker comes."""
    spec = stack.lab.spec
    more = spec.hosts[-1].model_copy(update={"name": "gpu99"})
    larger = spec.model_copy(update={"hosts": (*spec.hosts, more)})
    stack.write(larger)
    assert stack.up().changes == {}
    stack.write(spec)


def test_a_missing_or_altered_tool_is_sent_again(stack: Stack) -> None:
    tool = f"{TOOLS_FOLDER}/{host_tool().digest}/tool"
    for harm in (f"echo ':' >>{tool}", f"rm -r {TOOLS_FOLDER}"):
        stack.sh(harm)
        done = stack.up()
        assert done.steps == (("update", f"{HOST}-host"),)
        assert "missing or altered on the host: host" in str(done.diagnostics)
        assert stack.up().changes == {}, "the note does not flap"
        assert host_tool().digest in stack.tools


def test_destroy_without_the_tool_is_refused_in_words_and_up_mends_it(stack: Stack) -> None:
    stack.sh(f"rm -r {TOOLS_FOLDER}")
    refused = stack.engine.destroy(stack.folder)
    assert refused.rc != 0
    path = f"{TOOLS_FOLDER}/{host_tool().digest}/tool"
    assert f"railyard: {path} is missing, nothing was run: pulumi up" in refused.errors
    stack.up()
    stack.destroy()


def test_undo_runs_the_recorded_version_after_an_upgrade(stack: Stack) -> None:
    mine = stack.tools
    assert stack.up("next").changes == {"update": 1}
    assert host_tool().digest in mine
    assert host_tool().digest not in stack.tools, "no step needs it any more"
    assert len(stack.tools) == len(mine)
    stack.destroy()

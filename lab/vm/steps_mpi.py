"""The story's steps about containers without Kubernetes: the ESXi site's payload, with real Docker.

The site is `examples/esxi-roce`, cut to the two guests and with what they have: their addresses and
keys, and an image of the lab's registry in place of one that wants a GPU driver's archives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import yaml

from components.acceptance.collect.probe_runs import run_host_probe
from components.acceptance.probes.probe_job import plan_payload_probes
from components.checks.site import load_checked_site
from components.cli.evidence import make_keys
from components.containers.container_plan import HostPayload, PayloadPlan, plan_payload
from components.core.errors import DeviceError
from components.core.key_values import diff_states, parse_state
from components.model.cluster import ClusterSpec
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall
from lab.keys import client_secrets
from lab.pods.site import ClusterSite
from lab.steps import run_step_on_host
from lab.vm.guest import demand, run_as_root
from lab.vm.judging import StoryError, require_nothing
from lab.vm.node import GuestNode

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "esxi-roce" / "site.yaml"
STEP_DEADLINE_S: Final = 900.0
LEFT_OUT: Final = {
    "containers.build": "its base is NVIDIA's, with drivers and CUDA; the image has Open MPI alone",
    "containers.login": "the lab's registry asks for none",
    "--gpus": "Docker is satisfied by a hook that does nothing: there is no GPU",
}
"""Of the example's site, to why."""
_Answer = TypeVar("_Answer")
_HOME: Final = "cd /home/ops; find .ssh -type f -exec sha256sum {} + | sort; stat -c '%a %U' .ssh"
_CONTAINERS: Final = "docker ps -a --format '{{.Names}}'"


def cut_site(folder: Path, site: ClusterSite[GuestNode]) -> ClusterSpec:
    """The example's site with two hosts, which are the guests.

    Raises:
        DeviceError: The product's checks refuse it.
    """
    text = EXAMPLE.read_text()
    for number, host in enumerate(site.spec.workers, 1):
        text = text.replace(f"vm{number:02}", host.name)
    document = cast("dict[str, Any]", yaml.safe_load(text))
    count = len(site.spec.workers)
    document["hosts"] = document["hosts"][:count]
    for host, guest in zip(document["hosts"], site.spec.workers, strict=True):
        address, key = guest.way.address, guest.way.host_key
        host["ssh"] |= {"address": address, "user": guest.way.user, "host_key": key}
    esxi = document["environment"]
    esxi["hypervisors"] = esxi["hypervisors"][:count]
    ports = document["switches"][0]["ports"]
    document["switches"][0]["ports"] = dict(list(ports.items())[:count])
    del document["containers"]["build"], document["containers"]["login"]
    document["containers"]["image"] = document["jobs"]["image"] = site.job_image
    file = folder / "esxi.yaml"
    file.write_text(yaml.safe_dump(document))
    checked = load_checked_site(file)
    if checked.spec is None:
        raise DeviceError("\n".join(problem.what for problem in checked.problems))
    return checked.spec


@dataclass(slots=True)
class Mpi:
    """The steps, and what was seen."""

    site: ClusterSite[GuestNode]
    spec: ClusterSpec | None = None
    planned: PayloadPlan | None = None
    keys: str = ""
    homes: list[str] = field(default_factory=list[str])

    @property
    def _plan(self) -> PayloadPlan:
        if self.planned is None:
            raise StoryError("the payload was not planned")
        return self.planned

    def start_docker(self) -> str:
        """Docker of the distribution, as it is installed."""
        self.spec = cut_site(self.site.folder, self.site)
        self.planned = plan_payload(self.spec, "vm")
        self.keys = make_keys("vm")
        self.homes = [demand(node.endpoint, _HOME) for node in self.site.nodes]
        asked = (
            "systemctl start docker; docker version --format '{{.Server.Version}}'; runc --version"
        )
        seen = self._on_each(lambda node: demand(node.endpoint, asked).split("\n")[:2])
        names = [node.name for node in self.site.nodes]
        return "\n".join(
            [
                *(
                    f"{name}: Docker {', '.join(words)}"
                    for name, words in zip(names, seen, strict=True)
                ),
                *(f"not as in the example: {what} ({why})" for what, why in LEFT_OUT.items()),
            ]
        )

    def converge(self) -> str:
        """Keys, SSH files and the container by the real script; a second run changes nothing."""
        changed = self._converge()
        require_nothing(
            "changed by a second run", [key for keys in self._converge() for key in keys]
        )
        for watched in self._plan.watched:
            answer = self._run(watched.step, watched.observe, watched.desired.render())
            found = diff_states(parse_state(answer), watched.desired)
            require_nothing(f"drift of {watched.device}", [str(each) for each in found])
        shown = zip(self._plan.watched, changed, strict=True)
        return "\n".join(f"{each.device}: changed {', '.join(keys)}" for each, keys in shown)

    def _converge(self) -> list[list[str]]:
        def apply(host: HostPayload) -> list[str]:
            for step in host.stores:
                self._run(step, step.apply, self.keys)
            said = self._run(host.container, host.container.apply, host.container.desired)
            return cast("list[str]", json.loads(said)["changed"])

        with ThreadPoolExecutor(len(self._plan.hosts)) as pool:
            return list(pool.map(apply, self._plan.hosts))

    def launch(self) -> str:
        """Acceptance's first probe: `mpirun` in one container starts a program in all."""
        if self.spec is None:
            raise StoryError("the payload was not planned")
        probe = next(
            each for each in plan_payload_probes(self.spec) if each.probe.kind == "mpi_hosts"
        )
        timed = replace(probe, deadline_s=probe.deadline_s * self.site.patience)
        ran = asyncio.run(run_host_probe(timed, client_secrets("vm")))
        if not ran.succeeded or sorted(ran.log.split()) != sorted(probe.probe.nodes):
            raise StoryError(f"mpirun: {ran.reason}\n{ran.log}")
        return f"{' '.join(probe.command)}\n{ran.log.strip()}"

    def refuse(self) -> str:
        """The container's key starts Open MPI's daemon and nothing else."""
        first, second = self.site.nodes
        words = f"docker exec mpicont ssh -x {second.addresses.management} 'cat /etc/shadow'"
        answer = run_as_root(first.endpoint, words)
        said = answer.stdout + answer.stderr
        if answer.exit_status != 1 or "'cat' is something else" not in said or "root:" in said:
            raise StoryError(f"the container's key opens more than it should: {answer}")
        return said.strip()

    def undo(self) -> str:
        """The container goes, and the home folder is as it was."""

        def undo(host: HostPayload) -> str:
            steps = (host.container, *host.stores)
            return "; ".join(self._run(step, step.undo, step.desired).strip() for step in steps)

        with ThreadPoolExecutor(len(self._plan.hosts)) as pool:
            said = list(pool.map(undo, self._plan.hosts))
        homes = [demand(node.endpoint, _HOME) for node in self.site.nodes]
        if homes != self.homes:
            raise StoryError(f"home folders were\n{self.homes}\nand are\n{homes}")
        left = self._on_each(lambda node: demand(node.endpoint, _CONTAINERS).strip())
        require_nothing("containers", [name for name in left if name])
        self._on_each(lambda node: demand(node.endpoint, _STOP))
        return "\n".join(said)

    def _run(self, step: RemoteStep, call: ToolCall | str | None, stdin: str) -> str:
        if not isinstance(call, ToolCall):
            raise DeviceError(f"{step.name}: a host runs a verb of a tool")
        timed = replace(step, deadline_s=STEP_DEADLINE_S)
        answer = run_step_on_host(timed, call, stdin, client_secrets("vm"))
        if answer.exit_status != 0:
            raise DeviceError(
                f"{step.name} ended with {answer.exit_status}: {answer.stderr[-800:]}"
            )
        return answer.stdout

    def _on_each(self, work: Callable[[GuestNode], _Answer]) -> list[_Answer]:
        with ThreadPoolExecutor(len(self.site.nodes)) as pool:
            return list(pool.map(work, self.site.nodes))


_STOP: Final = (
    "systemctl stop docker.service docker.socket containerd.service; ip link del docker0;"
    " iptables -P FORWARD ACCEPT"
)
"""Docker's own table would drop what pods forward."""

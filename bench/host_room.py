"""N emulated GPU hosts over real SSH, and what they count: connections and processes.

The site is the one of the DeepOps example, with its workers as often as is asked for.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from pydantic import TypeAdapter

from components.core.record import record, replace
from components.hosts.host_plan import HostPlan, plan_hosts
from components.model.cluster import ClusterSpec
from lab import control
from lab.hosts.lab_file import LabFile
from lab.keys import client_secrets, host_key
from lab.site import SSH_PORT, Document, lab_file, load_document, replace_charts

ROOT: Final = Path(__file__).parents[1]
EXAMPLE: Final = ROOT / "examples" / "dgx-roce" / "site.yaml"
STACK: Final = "bench"
BLOCK: Final = 212
"""Second part of the benchmark's loopback addresses, above those of the stacks (41 to 191)."""
A_BLOCK: Final = 200
"""Hosts in one /24."""


@record
class Counted:
    """What all hosts together were asked for since their start."""

    connections: int
    """SSH connections that were let in."""
    processes: int
    """Processes and threads that were started in the hosts."""


@record
class HostRoom:
    """The running hosts, what each shall look like, and how to log in."""

    labs: tuple[Path, ...]
    spec: ClusterSpec
    plans: tuple[HostPlan, ...]
    secrets: dict[str, str]

    def of_each(self, what: str) -> dict[str, object]:
        """What the labs know of each host by this name: `counted` or `unmodelled`."""
        answers = [control.request(lab / "control.sock", {"op": what}) for lab in self.labs]
        return {
            host: value
            for answer in answers
            for host, value in cast("dict[str, object]", answer[what]).items()
        }

    def fault(self, host: str, *words: str) -> None:
        """Cause a fault on a host; `railyard lab fault` lists them."""
        number = [plan.name for plan in self.plans].index(host)
        lab = self.labs[number % len(self.labs)]
        control.request(lab / "control.sock", {"op": "fault", "device": host, "args": [*words]})

    def counted(self) -> Counted:
        """Since the start of the labs."""
        hosts = list(cast("dict[str, dict[str, int]]", self.of_each("counted")).values())
        return Counted(
            sum(host["connections"] for host in hosts), sum(host["processes"] for host in hosts)
        )


def site_document(hosts: int) -> Document:
    """The DeepOps example with that many workers, at addresses of the benchmark's own."""
    site = copy.deepcopy(load_document(EXAMPLE))
    worker = cast("list[Document]", site["hosts"])[1]
    site["hosts"] = [_worker(worker, number) for number in range(hosts)]
    site["switches"] = []
    return site


def fleet_document(hosts: int, block: int = BLOCK) -> Document:
    """The same site as `railyard check` wants it: the first host is the control plane.

    Hosts find each other by DNS: a list of all names on each host grows with the square.

    Args:
        hosts: Their number.
        block: Second part of their addresses, if they are reached through a relay.
    """
    site = site_document(hosts)
    cast("list[Document]", site["hosts"])[0]["role"] = "control_plane"
    replace_charts(cast("Document", site["operators"]))
    pods = {"pod_cidr": "10.128.0.0/10", "service_cidr": "10.192.0.0/16"}
    site["kubernetes"] = cast("Document", site["kubernetes"]) | pods
    for number, rail in enumerate(cast("list[Document]", site["rails"])):
        rail["subnet"] = f"10.{16 * number}.0.0/12"
    defaults = cast("Document", site["host_defaults"])
    site["host_defaults"] = defaults | {"manage": {"hostname": True}}
    for host in cast("list[Document]", site["hosts"]):
        ssh = cast("Document", host["ssh"])
        ssh["address"] = str(ssh["address"]).replace(f".{BLOCK}.", f".{block}.", 1)
    return site


def _worker(worker: Document, number: int) -> Document:
    name = f"gpu{number + 1:03}"
    block, place = divmod(number, A_BLOCK)
    ssh = cast("Document", worker["ssh"]) | {
        "address": f"127.{BLOCK}.{block}.{10 + place}",
        "port": SSH_PORT,
        "host_key": host_key(f"{STACK}/{name}").public_openssh,
    }
    return copy.deepcopy(worker) | {"name": name, "ssh": ssh}


@contextmanager
def running_room(hosts: int, root: Path, site: Document | None = None) -> Generator[HostRoom]:
    """Start that many new hosts below `root`, or those of a site, and stop them.

    One lab is one process, which plays `/sys` of its hosts: a lab for each core, or the tools would
    wait for it while cores idle.
    """
    spec = ClusterSpec.model_validate(site or site_document(hosts))
    whole = lab_file(spec, STACK, (ROOT, root / "cache", Path(sys.executable)))
    count = min(len(os.sched_getaffinity(0)), hosts)
    labs = [
        replace(whole, root=root / str(number), hosts=whole.hosts[number::count])
        for number in range(count)
    ]
    try:
        for lab in labs:
            lab.root.mkdir(parents=True)
            file = lab.root / "lab.json"
            file.write_bytes(TypeAdapter(LabFile).dump_json(lab))
            control.start(file)
        plans = plan_hosts(spec, STACK)
        roots = tuple(lab.root for lab in labs)
        yield HostRoom(roots, spec, plans, client_secrets(STACK))
    finally:
        for lab in labs:
            control.stop(lab.root)

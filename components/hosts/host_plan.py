"""The wanted state of each host, and the one step that establishes it.

Everything is decided here and in the modules of its topics; the scripts only compare and change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from components.artefacts.resolve import sent_files
from components.core.key_values import HostState, parse_state
from components.core.plain_text import has_placeholder
from components.core.record import field, record, replace
from components.core.to_json import HIDDEN, OMIT_EMPTY
from components.drift.device_drift import Watched
from components.hosts import software
from components.hosts.harms import Guarded, plan_guards, repaired_settings
from components.hosts.keys.ask import Leftovers, find_row, leftovers
from components.hosts.look import LOOK_LINE, Placement, plan_placement
from components.hosts.scripts import boot_files_digest, host_call, through_proxy
from components.hosts.settings import (
    below,
    kernel_settings,
    qos_settings,
    routed_cards,
    routing_settings,
    sriov_settings,
)
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, HostDefaults
from components.model.owners import runs_docker, toolkit_owner, vfs_by_operator
from components.model.worker_kinds import crusoe_of
from components.remote.endpoint import host_endpoint
from components.remote.sending import plan_files, plan_sending
from components.remote.step import Endpoint, RemoteStep
from components.remote.tools import Tool, make_tool

TOOLKIT_PARAMETERS: Final = frozenset({"toolkit_key", "toolkit_key_sha256"})
"""Stdin lines that say how to install the toolkit; they are not settings."""
DOCKER_DEADLINE_S: Final = 900.0
"""Seconds if Docker may have to be installed: some hundred MB of packages."""
FIRMWARE_DEADLINE_S: Final = 30.0
"""Additional seconds for each card with firmware settings: three queries of all parameters and two
calls that set; the time of one card is a guess."""
VERIFY_DEADLINE_S: Final = 120.0
PARAMETERS: Final = frozenset({"stack", "repair"}) | software.DRIVER_PARAMETERS | TOOLKIT_PARAMETERS
"""Stdin lines that say how to do this run; they are not settings of the host."""
_TOPICS: Final = (
    software.driver_settings, software.firmware_settings, sriov_settings, qos_settings,
    kernel_settings, routing_settings,
)  # fmt: skip


def toolkit_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The runtime for GPUs, before Docker and K3s: K3s exits without its configured runtime."""
    owner, asked = toolkit_owner(spec), spec.host_defaults.toolkit
    if not _runs_gpus(spec, host) or owner not in {"host", "present"}:
        return {}
    if owner == "present":
        return {"toolkit.runtime": "present"}
    kept = {"docker.toolkit": "present"}
    if asked and asked.repository:
        kept["toolkit.repository"] = software.repository_text(asked.repository)
    return kept | ({"toolkit.version": asked.version} if asked and asked.version else {})


def toolkit_parameters(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The key that signs the repository: a parameter of the step, not a setting."""
    asked = spec.host_defaults.toolkit
    if asked is None or asked.repository is None or not _runs_gpus(spec, host):
        return {}
    repository = asked.repository
    return {"toolkit_key": repository.key, "toolkit_key_sha256": repository.key_sha256}


def _runs_gpus(spec: ClusterSpec, host: Host) -> bool:
    """Whether containers with GPUs run here, in our own Kubernetes or in Docker."""
    ours = spec.k3s is not None or runs_docker(spec)
    return ours and host.gpus > 0 and host.role != "balancer"


@record
class HostPlan:
    """One host: its wanted state, and the steps that establish it."""

    name: str
    endpoint: Endpoint
    desired: HostState
    steps: tuple[RemoteStep, ...]
    verify: RemoteStep | None = None
    """Checks that succeed only after everything on the host was restarted; it runs after that."""
    placement: Placement = field(default_factory=Placement, metadata=OMIT_EMPTY)
    """Cards and GPUs that must be plugged in; checked, and never set."""
    tools: tuple[Tool, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Tools that steps of other rooms need on this host, besides those of its own steps."""

    files: RemoteStep | None = field(default=None, metadata=OMIT_EMPTY)
    """The step that puts files on the host that the host does not fetch itself."""
    guarded: Guarded = field(default_factory=Guarded, metadata=HIDDEN)
    """The facts by which settings outside the plan are judged; the plan shows them elsewhere."""

    @property
    def sending(self) -> RemoteStep:
        """The step that puts all tools on the host, before all other steps."""
        own = (tool for step in self.steps for tool in step.tools)
        return plan_sending(self.endpoint, (*own, *self.tools))

    @property
    def all_steps(self) -> tuple[RemoteStep, ...]:
        """The steps after its tools: its files first."""
        return (*((self.files,) if self.files else ()), *self.steps)

    @property
    def converge(self) -> RemoteStep:
        """The step that applies the host's settings."""
        return self.steps[0]

    @property
    def left_by_destroy(self) -> Leftovers:
        """The things that an undo leaves here, for good or until a restart."""
        return leftovers(self.desired.values)

    @property
    def watched(self) -> Watched:
        """The host, for observe and drift."""
        looks = LOOK_LINE if self.placement else ""
        observe = host_call("observe")
        watched = Watched(self.name, self.converge, self.desired, observe, PARAMETERS, looks)
        return replace(watched, beside=self.guarded.asked())

    @property
    def watched_verify(self) -> Watched | None:
        """The check, for observe and drift: when it no longer holds, it is run again."""
        if self.verify is None:
            return None
        lines = parse_state(self.verify.desired).values
        proven = HostState({key: value for key, value in lines.items() if key not in PARAMETERS})
        call = host_call("observe")
        return Watched(f"{self.name} ats", self.verify, proven, call, PARAMETERS)


def names_of(plans: Iterable[HostPlan]) -> dict[str, str]:
    """Host to address, as in the hosts' `/etc/hosts`: shown once for the whole site."""
    lists = {tool.text for plan in plans for tool in plan.converge.reads if tool.name == "names"}
    lines = [line.split() for text in lists for line in text.splitlines()]
    return {name: address for address, name in lines}


def plan_hosts(spec: ClusterSpec, stack: str | None = None) -> tuple[HostPlan, ...]:
    """Plan every host that Railyard logs in to; other hosts are neither set nor read.

    `stack` names the folder of the recorded previous values; default the cluster's name.
    """
    all_names, stack, found = host_names(spec), stack or spec.name, list[HostPlan]()
    for host in spec.reached:
        names = all_names.get(host.name)
        desired = with_boot_unit(host_settings(spec, host, names))
        package = software.driver_parameters(spec, host)
        lines = {"stack": stack} | package | toolkit_parameters(spec, host)
        former, call = spec.renamed.hosts.get(host.name), host_call("converge")
        call = replace(call, arguments=(f"renamed_from={former}",)) if former else call
        wanted = HostState({**desired.values, **lines}).render_short()
        settings, endpoint = spec.settings_of(host), host_endpoint(host)
        docker = {"docker.engine", "docker.toolkit"} & desired.values.keys()
        least_s = software.DRIVER_DEADLINE_S if package else DOCKER_DEADLINE_S if docker else 0.0
        ports = len(host.nics) + len(host.hca_sriov) if settings.firmware.sets_anything else 0
        least_s = max(least_s, float(spec.deadlines.host.converge_s))
        deadline_s = least_s + FIRMWARE_DEADLINE_S * ports
        step = RemoteStep(
            f"{host.name}-host", endpoint, "sh", wanted, through_proxy(spec, call),
            deadline_s, undo=host_call("undo"), reads=(names,) if names else (),
        )  # fmt: skip
        verify = None
        if settings.firmware.ats and host.nics:
            # `lspci` and the firmware say whether ATS works in a virtual machine.
            ats = {"stack": stack}
            for nic in host.nics:
                ats |= below(f"nic.{nic.pci}", {"ats_current": "on", "ats_active": "on"})
            verify = RemoteStep(
                f"{host.name}-ats", endpoint, "sh", HostState(ats).render_short(),
                host_call("verify"), VERIFY_DEADLINE_S, why_no_undo="it only looks",
            )  # fmt: skip
        found.append(HostPlan(
            host.name, endpoint, desired, (step,), verify, plan_placement(spec, host),
            files=plan_files(endpoint, sent_files(spec, host)), guarded=plan_guards(spec, host),
        ))  # fmt: skip
    return tuple(found)


def host_names(spec: ClusterSpec) -> Mapping[str, Tool]:
    """By host, the names for its `/etc/hosts`.

    If pods run the jobs, they find each other by the cluster's DNS: a host knows itself and all
    hosts except the other workers, so a new worker does not change other hosts. If containers run
    in the host's network, `mpirun` looks up every worker by name.

    Empty if the file does not ask for it, if Railyard creates the instances, or if an address is
    not known yet: instances come and go, and their cloud's DNS knows them.
    """
    if not spec.host_defaults.manage.etc_hosts:
        return {}
    if crusoe_of(spec) or any(has_placeholder(host.address) for host in spec.hosts):
        return {}
    all_named = spec.containers is not None
    named = [host for host in spec.reached if all_named or host.role != "worker"]
    shared = _names_tool(named)
    return {
        host.name: shared if all_named or host.role != "worker" else _names_tool([*named, host])
        for host in spec.reached
    }


def _names_tool(hosts: Iterable[Host]) -> Tool:
    by_name = sorted(hosts, key=lambda host: host.name)
    return make_tool("names", "".join(f"{host.address} {host.name}\n" for host in by_name))


def host_settings(spec: ClusterSpec, host: Host, names: Tool | None) -> Mapping[str, str]:
    """The settings of all topics for one host with its `host_names`, without the boot unit."""
    state = repaired_settings(spec, host) | _identity(spec.host_defaults, host, names)
    if host.role != "balancer" and not host.is_outside and runs_docker(spec):
        # Containers run in Docker, with NVIDIA's runtime as default on hosts with GPUs.
        state |= {"docker.engine": "present", "docker.service": "enabled/active"}
        if host.gpus:
            state["docker.runtime"] = "nvidia-container-runtime"
            state["docker.default_runtime"] = "nvidia"
    state |= toolkit_settings(spec, host)
    # mlx5 keeps the port down until its network device is set up, and netplan sets up only devices
    # in its files; VFs and macvlans on a PF in state down do not get a carrier. The SR-IOV network
    # operator sets the PF's MTU itself before it makes VFs.
    let_go = host.role == "worker" and vfs_by_operator(spec)
    subnets = {nic.pci: subnet.network for _, subnet, nic in routed_cards(spec, host)}
    for nic in host.nics:
        mtu = {} if let_go else {"mtu_bytes": str(nic.mtu_bytes or spec.rdma.mtu_bytes)}
        # The PF's name is verified, or, with `rail_names`, written for the next boot.
        name = {"netdev": nic.netdev}
        if spec.host_defaults.rail_names:
            name = {"boot_name": nic.netdev} | ({"boot_rdma": nic.rdma} if nic.rdma else {})
        port = name | mtu | {"link": "up"}
        if (network := subnets.get(nic.pci)) is not None:
            port["address"] = f"{nic.address}/{network.prefixlen}"
        port |= {"network_manager": "off"} if spec.host_defaults.manage.network_manager else {}
        state |= below(f"nic.{nic.pci}", port)
    for topic in _TOPICS:
        state |= topic(spec, host)
    return state


def _identity(defaults: HostDefaults, host: Host, names: Tool | None) -> dict[str, str]:
    state: dict[str, str] = {}
    if defaults.manage.hostname:
        state["hostname"] = host.name
    if defaults.user is not None:
        state[f"user.{defaults.user.name}.uid"] = str(defaults.user.uid)
    if defaults.manage.etc_hosts and names is None:
        state[f"hosts.{host.name}"] = host.address
    elif names is not None:
        state["hosts_block"] = f"{len(names.text.splitlines())} names {names.digest}"
    return state


def with_boot_unit(settings: Mapping[str, str]) -> HostState:
    """The settings, and the unit that restores those that a reboot loses."""
    if lost := {key: value for key, value in settings.items() if find_row(key).lost}:
        files = boot_files_digest(HostState(lost).render())
        unit = below("unit.railyard-nics", {"files": files, "enabled": "enabled"})
        return HostState({**settings, **unit})
    return HostState(settings)

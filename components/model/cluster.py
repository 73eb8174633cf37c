"""`ClusterSpec`: the whole site, as the user wrote it and with defaults filled in."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from components.catalogue.version_pairs import VersionSetName
from components.model.environments import CloudIb, Environment, Esxi, Hypervisor, InfiniBandFabric
from components.model.fabric import OtherSwitch, Rail, Rdma, Switch
from components.model.guard_spec import Guards
from components.model.hosts import Host, HostDefaults, HostGroup, HostName
from components.model.infiniband import InfiniBand
from components.model.jobs import Acceptance, Containers, Jobs, Watch
from components.model.kubernetes import K3sPlane, Kubernetes, KubesprayPlane
from components.model.once import once
from components.model.operators import Operators, with_version_set
from components.model.pod_network import PodNetwork
from components.model.sources import EvidenceStore, JumpHost, Proxy, Sources
from components.model.switch_models import DescribedNic, DescribedSwitch
from components.model.texts import ModelName, Waivers
from components.model.units import DnsLabel, Frozen

Seconds = Annotated[float, Field(ge=1, le=86400)]
SPINES: Final = "spines"
"""The stack of a split site with all switches outside of its units."""
CLUSTER: Final = "cluster"
"""The stack with everything that runs on the hosts, and with the hosts outside of units."""
RESERVED: Final = (SPINES, CLUSTER)
"""Names that no unit can have."""


class SwitchWaves(Frozen):
    """How many switches an update changes at a time.

    Redundant switches are never in one wave: spines that join the same leaves, leaves of one host,
    the two of an MLAG pair, and a switch with its direct neighbour. See
    docs/howto/switch-waves.md.
    """

    max_unavailable: Annotated[int, Field(ge=1)] = 4
    """Most switches in one wave. Default 4: 64 leaves of 8 units take 17 waves (a choice)."""
    canary: Annotated[int, Field(ge=0)] = 1
    """How many switches go first, each in a separate wave."""
    settle_s: Annotated[int, Field(ge=0, le=3600)] = 120
    """Seconds that a changed switch has until its links, LLDP neighbours and BGP sessions are back;
    Railyard continues as soon as they are. Default 120: lldpd sends every 30 s, and FRR dials a BGP
    neighbour again after 120 s at most."""


class Disruption(Frozen):
    """What an update may interrupt. `deny` refuses at preview.

    If a device was not read, every difference from its last applied settings counts. The steps obey
    it too: they stop before they change anything. `destroy` always restores.
    """

    ports: Literal["allow", "deny", "drain"] = "deny"
    """Whether a switch port may lose traffic or its link, as a new MTU or another VLAN needs:
    [effects](effects.md). With `drain`, the nodes behind the ports leave service first, at most
    `max_unavailable` at a time; changes that only move traffic to another class are reported and
    never refused."""
    reboots: Literal["allow", "deny"] = "deny"
    """Whether hosts in service may be drained, rebooted, or have drivers reloaded."""
    max_unavailable: Annotated[int, Field(ge=1)] = 1
    """Most workers that may be out of service at once; control-plane hosts go one at a time."""
    drain_deadline_s: Annotated[int, Field(ge=10, le=86400)] = 600
    """Seconds for the pods of a node to leave it."""
    boot_deadline_s: Annotated[int, Field(ge=60, le=7200)] = 1800
    """Seconds until SSH answers: a GPU server's self-test takes many minutes."""
    switches: SwitchWaves | None = None
    """The waves in which switches change. With it and `ports: allow`, `wave-order` refuses a host
    on a single leaf."""

    @property
    def switch_waves(self) -> SwitchWaves:
        """The settings for waves, whether or not the file has `switches`."""
        return self.switches or SwitchWaves()


class SwitchDeadlines(Frozen):
    """How long the session with a switch may take: a base, and some time for each command."""

    read_s: Seconds = 60
    """Base of one reading, in seconds: the login and the first answers."""
    write_s: Seconds = 180
    """Base of a change, in seconds; some switches are slow to apply one."""
    command_s: Annotated[float, Field(gt=0, le=600)] = 0.75
    """Seconds that each command adds. SONiC starts a program for each line, which may take 0.5 to 2
    s (assumed, not measured)."""


class HostDeadlines(Frozen):
    """How long the work on one host may take; installations have longer deadlines."""

    look_s: Seconds = 60
    """Seconds for one reading; a busy host takes some ten."""
    converge_s: Seconds = 300
    """Seconds to set all settings; at least 900 if Docker is installed, and 1800 with a driver."""


class Deadlines(Frozen):
    """When Railyard gives a device up. An update warns once half of the time is used.

    `disruption` has the deadlines of draining and booting.
    """

    switch: SwitchDeadlines = SwitchDeadlines()
    """For each switch."""
    host: HostDeadlines = HostDeadlines()
    """For each host."""


class Unit(Frozen):
    """One unit of a split site: some leaves with all the hosts that are cabled to them."""

    leaves: Annotated[tuple[DnsLabel, ...], Field(min_length=1)]
    """Names of its switches: `[leaf-01, leaf-02]`."""


class Stacks(Frozen):
    """How a large site is split into several stacks. See docs/howto/several-stacks.md.

    They are named after the site's own: `prod-a` for the unit `a`, `prod-spines` for all other
    switches, and `prod-cluster` for Kubernetes, jobs, acceptance and hosts without a leaf.
    """

    units: Annotated[dict[DnsLabel, Unit], Field(min_length=1)]
    """The units by name, in the order of updates: `{a: {leaves: [leaf-01, leaf-02]}}`."""
    at_once: Annotated[int, Field(ge=1)] = 1
    """Most units that `railyard site up` updates at a time. Default 1: a fault stops the update in
    its first unit."""
    canary: Annotated[int, Field(ge=0)] = 1
    """How many units go first, each alone."""


class Renamed(Frozen):
    """Devices with another name that are still the same machines: new name to former name."""

    hosts: dict[HostName, HostName] = Field(default_factory=dict)
    """Hosts, for example `{mgmt02: mgmt01}`."""
    switches: dict[DnsLabel, DnsLabel] = Field(default_factory=dict)
    """Switches, for example `{leaf-02: leaf-01}`."""

    @property
    def all(self) -> Mapping[str, str]:
        """New name to former name of every device: a host and a switch never share a name."""
        return {**self.hosts, **self.switches}


class ClusterSpec(Frozen):
    """One site: the file that `railyard:site` names, or the value of `railyard:cluster`."""

    name: DnsLabel
    """Name of the site."""
    environment: Environment
    """The machines below the site, which decide the other possible keys."""
    rdma: Rdma = Rdma()
    """The RoCE intent, which every hop follows."""
    rails: tuple[Rail, ...] = ()
    """The networks for RDMA, one for each NIC of a worker."""
    switches: tuple[Switch, ...] = ()
    """The switches that carry the rails."""
    other_switches: tuple[OtherSwitch, ...] = ()
    """Switches of management and storage networks, at any site; Railyard neither reads nor sets
    them."""
    switch_models: dict[ModelName, DescribedSwitch] = Field(default_factory=dict)
    """Switch models that Railyard does not know:
    `{X100: {ports: 32, speeds_gbit_s: [400, 200], breakouts: [2x200]}}`."""
    nic_models: dict[ModelName, DescribedNic] = Field(default_factory=dict)
    """NVIDIA's card models that Railyard does not know:
    `{ConnectX-6 Lx: {pci_id: "101f", vf_limit: 127, speed_gbit_s: 50}}`."""
    infiniband: InfiniBand | None = None
    """The InfiniBand fabric of own switches; only with `rdma: {transport: infiniband}`."""
    jump_hosts: tuple[JumpHost, ...] = ()
    """SSH servers on the way to devices; `ssh.jump` and `host_defaults.jump` name them."""
    proxy: Proxy | None = None
    """The HTTP proxy by which hosts download; default none."""
    hosts: tuple[Host, ...] = ()
    """Control plane and workers; none if a cloud makes them."""
    host_defaults: HostDefaults = HostDefaults()
    """Settings that all hosts share."""
    renamed: Renamed = Renamed()
    """Devices that were renamed; `railyard rename` writes it."""
    host_groups: tuple[HostGroup, ...] = ()
    """Groups of hosts that differ from `host_defaults`."""
    kubernetes: Kubernetes | None = None
    """The control plane; write either this or `containers`."""
    containers: Containers | None = None
    """Jobs in containers, without Kubernetes."""
    disruption: Disruption = Disruption()
    """What an update may interrupt."""
    deadlines: Deadlines = Deadlines()
    """Deadlines of readings and changes of devices."""
    stacks: Stacks | None = None
    """The split of the site into several stacks; default one."""
    guards: Guards = Guards()
    """The reaction to foreign settings that break the rails' traffic."""
    operators: Operators = Operators()
    """Operators to install."""
    pod_network: PodNetwork = PodNetwork()
    """How pods connect to the rails."""
    jobs: Jobs
    """Image and settings of the jobs."""
    acceptance: Acceptance = Acceptance()
    """The required proofs, and the least numbers."""
    evidence_store: EvidenceStore | None = None
    """Where machines share evidence; default the folder `.railyard` of each."""
    watch: Watch | None = None
    """A CronJob that audits and proves the cluster; default none."""

    versions: VersionSetName | None = None
    """A maintained set of versions for K3s and the operators' charts, if the file leaves theirs
    out; `railyard versions` prints both sets. Default none: write K3s' version; charts have their
    own defaults."""
    sources: Sources = Sources()
    """Sources of everything that the site installs; default upstream itself."""
    waive: Waivers = Field(default_factory=dict)
    """Rules that are wrong for this site's hardware, by name, each with the reason:
    `{numa-leaf: "two leaves by the vendor's reference design"}`."""

    @model_validator(mode="before")
    @classmethod
    def _take_versions(cls, value: object) -> object:
        return with_version_set(value)

    @model_validator(mode="after")
    def _take_descriptions(self) -> Self:
        """Give switches and cards the capabilities of models that the file describes."""
        for switch in self.switches:
            if switch.model in self.switch_models:
                switch.describe(self.switch_models[switch.model])
        for host in self.hosts if self.nic_models else ():
            for nic in host.nics:
                if nic.model in self.nic_models:
                    nic.describe(self.nic_models[nic.model])
        return self

    def rail(self, name: str) -> Rail | None:
        """The rail with that name, or None."""
        return _by_name(self)[1].get(name)

    def host(self, name: str) -> Host | None:
        """The host with that name, or None."""
        return _by_name(self)[0].get(name)

    def settings_of(self, host: Host) -> HostDefaults:
        """Return the settings of one host: its group's, and `host_defaults` for the rest."""
        return _settings_by_group(self).get(host.group or "", self.host_defaults)

    @property
    def workers(self) -> tuple[Host, ...]:
        """The hosts that run jobs, in the order of the file."""
        return _hosts_by_role(self)["worker"]

    @property
    def reached(self) -> tuple[Host, ...]:
        """The hosts with a login, in the order of the file."""
        return tuple(host for host in self.hosts if host.ssh is not None)

    @property
    def unreached(self) -> tuple[Host, ...]:
        """The hosts without a login, in the order of the file."""
        return tuple(host for host in self.hosts if host.ssh is None)

    @property
    def servers(self) -> tuple[Host, ...]:
        """The control-plane hosts, in the order of the file; the first one starts the cluster."""
        return _hosts_by_role(self)["control_plane"]

    @property
    def balancers(self) -> tuple[Host, ...]:
        """The hosts before the API of several servers: none, one, or two with one address."""
        return _hosts_by_role(self)["balancer"]

    @property
    def k3s(self) -> K3sPlane | None:
        """The K3s that Railyard installs; None for an existing cluster, or without a cluster."""
        return self.kubernetes if isinstance(self.kubernetes, K3sPlane) else None

    @property
    def kubespray(self) -> KubesprayPlane | None:
        """The cluster that kubespray installs; None for every other one."""
        return self.kubernetes if isinstance(self.kubernetes, KubesprayPlane) else None

    @property
    def hypervisors(self) -> tuple[Hypervisor, ...]:
        """The ESXi hosts; none on other kinds of sites."""
        return self.environment.hypervisors if isinstance(self.environment, Esxi) else ()

    @property
    def cloud(self) -> CloudIb | None:
        """The cloud, or None on own machines."""
        return self.environment if isinstance(self.environment, CloudIb) else None

    @property
    def ib_fabric(self) -> InfiniBandFabric | None:
        """The InfiniBand that every worker must have, whoever owns the switches; None with RoCE."""
        return self.cloud.fabric if self.cloud else self.infiniband

    @property
    def sm_switches(self) -> tuple[Switch, ...]:
        """The switches that run a subnet manager, the intended master first."""
        running = (switch for switch in self.switches if switch.sm_priority is not None)
        return tuple(sorted(running, key=lambda switch: -(switch.sm_priority or 0)))


@once
def units_of_hosts(spec: ClusterSpec) -> Mapping[str, str]:
    """Map each host that is cabled to a leaf of a unit to that unit."""
    units = spec.stacks.units if spec.stacks else {}
    unit_of = {leaf: name for name, unit in units.items() for leaf in unit.leaves}
    return {
        port.to.partition("/")[0]: unit_of[switch.name]
        for switch in spec.switches
        if switch.name in unit_of
        for port in switch.ports.values()
        if port.peer is None
    }


@once
def _hosts_by_role(spec: ClusterSpec) -> Mapping[str, tuple[Host, ...]]:
    roles = ("worker", "control_plane", "balancer")
    return {role: tuple(host for host in spec.hosts if host.role == role) for role in roles}


@once
def _by_name(spec: ClusterSpec) -> tuple[Mapping[str, Host], Mapping[str, Rail]]:
    """Map names to hosts and rails, and a name of two to the first (`duplicate-name`)."""
    hosts = {host.name: host for host in reversed(spec.hosts)}
    return hosts, {rail.name: rail for rail in reversed(spec.rails)}


@once
def _settings_by_group(spec: ClusterSpec) -> Mapping[str, HostDefaults]:
    found: dict[str, HostDefaults] = {}
    for group in reversed(spec.host_groups):
        values = {key: getattr(group, key) for key in HostGroup.model_fields if key != "name"}
        own = {key: value for key, value in values.items() if value is not None}
        if group.peermem is not None:
            own.setdefault("gpu_direct", None)  # its short form wins over the general long one
        found[group.name] = spec.host_defaults.model_copy(update=own)
    return found


# The file itself has templates and ranges of hosts, which the reader expands to a `ClusterSpec`.
# The next classes describe it to the schema, the reference page and refusals; none is instantiated.


class HostTemplate(Host):
    """Keys that several hosts share: any of [HostEntry](#hostentry) but `name` and `each`.

    Cards are joined by `rail`, other mappings key by key; other lists replace the template's.
    """

    template: DnsLabel | None = None
    """Another template, which this one extends; its own keys win."""


class HostEntry(Host):
    """One Linux host, or a range of hosts: `name: gpu[01-16]`.

    In a range and its template, each text may have a range of as many values:
    `address: 192.168.2.[11-26]`. See docs/howto/many-hosts.md.
    """

    template: DnsLabel | None = None
    """The entry of `host_templates` that it takes; its own keys win."""
    each: dict[DnsLabel, HostTemplate] = Field(default_factory=dict)
    """What single hosts of a range have of their own, by name: `{gpu03: {machine_id: …}}`."""


class SiteFile(ClusterSpec):
    """One site: the file that `railyard:site` names, or the value of `railyard:cluster`."""

    host_templates: dict[DnsLabel, HostTemplate] = Field(default_factory=dict)
    """Keys that several hosts share, by the name that `hosts[].template` takes."""
    hosts: tuple[HostEntry, ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    """Control plane and workers; none if a cloud makes them."""

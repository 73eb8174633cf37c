"""What the physics is asked and what it answers: plain values and their JSON forms.

A request is what the node agent (or a tool of a lab host) knows when a probe would start: the pods
of the probe, the command of each, and the attachments that the pod network gave them. Nothing in
it says how the probe shall end; that is computed from the devices alone.

JSON of a request (the control socket's `run_probe`)::

    {"op": "run_probe", "kind": "perftest" | "nccl" | "mpirun" | "deepspeed_scan",
     "pods": [{"name": "...", "node": "gpu01", "env": {"NCCL_IB_TC": "104"},
               "command": ["ib_write_bw", "-R", "-T", "104"],
               "gpus": 8, "capabilities": ["IPC_LOCK"],
               "networks": [{"interface": "net1", "ip": "10.10.111.11", "vlan": 111,
                             "mtu_bytes": 9000, "pf": "enp5s0", "rdma": "mlx5_0", "pcp": 0,
                             "kind": "vf"}]}],
     "launcher": {"name": "...", "node": "...", "env": {}, "command": ["mpirun", ...]}}

`pf` is the PF's netdev, PCI address or RDMA device. `rdma` is the device's name inside the pod;
without it the PF's own name is shown. In a perftest the client is the launcher if there is
one, else the pod whose command names a server.

`mpirun` is a call on machines instead of pods. Each of `pods` is one machine of `-H`, in that
order: `name` what `hostname` prints there, `node` the lab host, `gpus` its slots.
`launcher.command` is the whole argument list, `mpirun` and its options included (`-np`,
`-x NAME=value`); nccl-tests, `tf_cnn_benchmarks.py` and Horovod's
benchmark are played. `deepspeed_scan` is the same
with `deepspeed ... all_reduce.py --scan`. Of `torchrun`, each node asks for itself: `pods` are all
nodes, `launcher` the one. The program decides what is played, not the kind.

A machine or pod in the host's network uses the cards themselves: leave `networks` out and set
`"host_network": true`, and every PF and HCA of `node` is in use.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from components.core.errors import UsageError
from components.core.record import record
from lab.views import GpuView

ProbeKind = Literal["perftest", "nccl", "mpirun", "deepspeed_scan"]
AttachmentKind = Literal["vf", "pf", "hca"]


@record
class Attachment:
    """One RDMA interface of a pod or machine."""

    interface: str
    ip: str
    pf: str
    vlan: int = 0
    """The VLAN tag that the VF puts on its frames; 0 for none."""
    mtu_bytes: int = 0
    """The MTU of the VF's netdev; 0 for the PF's."""
    rdma: str = ""
    pcp: int = 0
    """The 802.1p priority in the tag (the attachment's `vlanQoS`)."""
    prefix: int = 0
    """Length of the prefix of `ip`; 0 where all that is asked for is on the same subnet."""
    routes: tuple[tuple[str, str], ...] = ()
    """Networks behind a next hop, with that: `("10.10.0.0/16", "10.10.111.1")`."""
    has_node_guid: bool = True
    """Without one, RDMA-CM finds no device for its connections (sources.md#vfs)."""
    by_source: bool = False
    """Its routes are in a table that counts for its own address alone (the CNI plugin `sbr`)."""
    hidden_gids: bool = False
    """The driver hides IPv4 GIDs of the card from the pod: they are the host's or another pod's."""
    kind: AttachmentKind = "vf"
    """`vf`: a VF of the PF. `pf`: the PF itself, shared (macvlan, host network, passed through).
    `hca`: a whole InfiniBand HCA, whose name is `pf`; it has neither address nor VLAN."""

    @property
    def gid_text(self) -> str:
        """The GID of its IPv4 address, in decimal bytes as perftest prints it."""
        octets = ":".join(f"{int(part):02d}" for part in self.ip.split("."))
        return ":".join(["00"] * 10 + ["255", "255", octets])


@record
class ProbePod:
    """One pod of a probe."""

    name: str
    node: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    networks: tuple[Attachment, ...] = ()
    gpus: int = 8
    """GPUs that the pod holds; a DGX-1 has 8."""
    capabilities: tuple[str, ...] = ()
    """With IPC_LOCK the kernel does not apply the memlock limit to RDMA memory; a container whose
    own limit is unlimited (`--ulimit memlock=-1`) is named with it too."""
    host_network: bool = False
    """In the host's network: with no `networks`, all cards of the node are in use."""
    rank_env: dict[str, str] = field(default_factory=dict[str, str])
    """What a script before the program set in the ranks here, over all that was handed on."""
    files: tuple[str, ...] = ()
    """Files of the node that the pod has mounted, by their path in the pod."""
    nccl: str = ""
    """Release of NCCL in its image; empty for that of the recorded logs."""
    gpu_views: tuple[GpuView, ...] = ()
    """The GPUs that it holds; empty where only their number counts."""


@record
class ProbeRequest:
    """A probe to run."""

    kind: ProbeKind
    pods: tuple[ProbePod, ...]
    launcher: ProbePod | None = None


@record
class NicDelta:
    """What a probe adds to the counters of one PF (`ethtool -S`, RDMA hw_counters) or HCA."""

    host: str
    pci: str
    rx_bytes: dict[int, int] = field(default_factory=dict[int, int])
    """By priority: what `rx_prioN_bytes` grows by. InfiniBand has one entry, 0: what a quarter of
    `port_rcv_data` grows by."""
    tx_bytes: dict[int, int] = field(default_factory=dict[int, int])
    rx_pauses: dict[int, int] = field(default_factory=dict[int, int])
    """PFC frames by priority: its switch paused it."""
    out_of_sequence: int = 0
    local_ack_timeout_err: int = 0


@record
class PortDelta:
    """What a probe adds to the counters of one switch port."""

    switch: str
    port: str
    rx_bytes: dict[int, int] = field(default_factory=dict[int, int])
    """By switch priority, decided at ingress."""
    tx_bytes: dict[int, int] = field(default_factory=dict[int, int])
    """By traffic class, decided at egress."""
    ecn_marked: dict[int, int] = field(default_factory=dict[int, int])
    rx_pauses: dict[int, int] = field(default_factory=dict[int, int])
    """PFC frames by priority."""
    tx_pauses: dict[int, int] = field(default_factory=dict[int, int])
    tx_drops: dict[int, int] = field(default_factory=dict[int, int])
    """By traffic class: what its full queue threw away."""
    discards: int = 0
    """Frames that the port dropped, for example for their length."""


@record
class ProbeResult:
    """What a probe printed and what it did to the counters of the path."""

    log: str
    exit_code: int
    server_log: str = ""
    duration_s: float = 0.0
    """How long the probe would have taken; the lab may end the pod at once."""
    nic_deltas: tuple[NicDelta, ...] = ()
    port_deltas: tuple[PortDelta, ...] = ()


def parse_request(value: object) -> ProbeRequest:
    """Reads a request from decoded JSON; keys that the physics does not need are ignored.

    Raises:
        UsageError: A part is missing or of the wrong type; the text names it.
    """
    try:
        return _REQUEST.validate_python(value)
    except ValidationError as error:
        raise UsageError(f"this is no probe request: {error}") from error


def dump_result(result: ProbeResult) -> dict[str, object]:
    """The JSON form of a result, as the control socket answers it."""
    return asdict(result)


_REQUEST = TypeAdapter(ProbeRequest)

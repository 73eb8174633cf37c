"""Plan the container on each worker without Kubernetes, its steps, and how MPI starts over all.

Sources: NVIDIA AI Enterprise's multi-node guide (docs/explanation/esxi.md lists our corrections:
two pairs of keys, pinned host keys, a container's key that can only start MPI's daemon); the
documentation of Open MPI and NCCL.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from string import Template
from typing import Final, Literal

from components.core.errors import Bug
from components.core.key_values import HostState
from components.core.record import record, replace
from components.drift.device_drift import Watched
from components.jobs.templates import find_hcas, job_environment, job_script
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Containers, ImageBuild, RegistryLogin, registry_of
from components.model.once import once
from components.model.reach import as_ipv4
from components.remote import tools
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

FORCED_COMMAND: Final = "~/.ssh/mpicont.sh"
"""sshd hands it to the user's shell, which knows the home folder."""
BRIDGES: Final = "lo,docker0"
"""Interfaces that exist on every host with the same address: a program that picks one waits for
ever."""
Verb = Literal["observe", "converge", "undo", "build", "build_undo", "store", "store_undo"]
_PARTS: Final[Mapping[Verb, tuple[str, ...]]] = {
    "observe": ("input", "reading"),
    "converge": ("input", "reading", "registry", "writing"),
    "undo": ("input", "reading"),
    "build": ("input", "reading", "registry"),
    "build_undo": ("input", "reading"),
    "store": (),
    "store_undo": (),
}
"""Verb to the script parts at its beginning, in order."""
_NAME_LINE: Final = "container=mpicont #"
"""The line of the forced command that names its container."""
KEYS: Final = "payload_keys"
"""Name of the secret that the key step makes; it is in no configuration."""
STORE_DEADLINE_S: Final = 60.0
BUILD_DEADLINE_S: Final = 7200.0
"""Seconds: a base image of 10 GB, a driver archive, three compilations, a push."""
CONTAINER_DEADLINE_S: Final = 3600.0
"""Seconds: the pull of an image of 15 GB over 1 Gbit/s takes four minutes; links are slower."""
OPEN_FILES: Final = 1048576
"""Open files of a container, as in K3s' unit. With systemd's limit at the kernel's maximum, a
container has 1,073,741,816 (Docker 26 on Debian 13), and Open MPI 4 closes so many before each SSH:
`mpirun` then burns a processor for minutes and starts nothing."""
PARAMETERS: Final = frozenset({"registry", "registry_user", "peers"})
"""`peers` names the list with the data of all workers: their settings are its digests."""
_UNDO: Final[dict[Verb, Verb]] = {"store": "store_undo", "build": "build_undo", "converge": "undo"}
Lines = Mapping[str, str]


@once
def _peer_texts(spec: ClusterSpec) -> Mapping[str, str]:
    """The data about all workers for each worker: texts by the name of their setting, lines ended.

    They grow with the hosts; therefore they are written once, each host keeps one list, and the
    steps name them by their digests.

    Each worker reaches another one by its name or its address. `BindAddress` gives the own address
    (each host puts it in), because `from=` of the other side checks it and a host has several
    addresses. In a host's ~/.ssh/config our part comes first, because the first value of an option
    wins; `Match all` ends it for the rest of the user's own file.
    """
    found = {address for host in spec.workers for address in (host.address, host.way.address)}
    order = sorted(found, key=lambda text: (int(as_ipv4(text) or 1 << 32), text))  # names last
    sources = f'restrict,from="{",".join(order)}"'
    port = spec.containers.ssh_port if spec.containers else None
    entries = "".join(
        _ssh(
            "entry",
            name=host.name,
            address=host.address,
            port=port or host.way.port,
            user=host.way.user,
        )
        for host in spec.workers
    )
    everyone = " ".join(f"{host.name} {host.address}" for host in spec.workers)
    # Under its name alone: address and port of a worker do not matter to it.
    known = (f"{host.name} {host.way.host_key or ''}".strip() for host in spec.workers)
    return {
        # Pair of keys to the options of its line in authorized_keys.
        "authorized_keys.host": f"{sources}\n",
        "authorized_keys.container": f'{sources},command="{FORCED_COMMAND}"\n',
        "container_config": entries + _ssh("container"),
        "host_config": entries + _ssh("host", everyone=everyone),
        "known_hosts": "".join(f"{line}\n" for line in known),
    }


def _ssh(name: str, /, **words: object) -> str:
    return Template(_file("ssh", name)).substitute(words)


@once
def peer_list(spec: ClusterSpec) -> tools.Tool:
    """The list: each line with the name of its text before it."""
    lines = (f"{key} {it}\n" for key, text in _peer_texts(spec).items() for it in text.splitlines())
    return tools.make_tool("peers", "".join(lines))


def mpirun(hosts: tuple[Host, ...], ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """Call `mpirun` over hosts: one rank on each, or one per GPU on hosts with the same number."""
    slots = max(1, ranks // max(1, len(hosts)))
    places = (host.address if slots == 1 else f"{host.address}:{slots}" for host in hosts)
    return (
        "mpirun", "--allow-run-as-root", "-H", ",".join(places), "-np", str(ranks),
        "--mca", "oob_tcp_if_exclude", BRIDGES, "--mca", "btl_tcp_if_exclude", BRIDGES, *program,
    )  # fmt: skip


def nccl_exports(spec: ClusterSpec) -> tuple[str, ...]:
    """`-x NAME=value` for the NCCL variables all hosts share; `on_own_devices` finds others."""
    values = job_environment(spec) | {"NCCL_SOCKET_IFNAME": f"^{BRIDGES}"}
    return tuple(part for pair in sorted(values.items()) for part in ("-x", "=".join(pair)))


def on_own_devices(spec: ClusterSpec, program: tuple[str, ...]) -> tuple[str, ...]:
    """A program behind the search for the RDMA devices of the host that its rank runs on."""
    if spec.rdma.transport == "infiniband":
        return find_hcas(program)
    hosts: dict[str, list[str]] = {}
    for host in spec.workers:
        hosts.setdefault(" ".join(nic.netdev for nic in host.nics), []).append(host.name)
    lines = [_netdevs_line(each) for each in hosts]
    if len(hosts) != 1:  # hosts that differ choose by their names
        cases = [f"{' | '.join(names)}) {_netdevs_line(each)} ;;" for each, names in hosts.items()]
        unknown = '*) echo "railyard: $(uname -n) is not a worker of this site" >&2 && exit 1 ;;'
        lines = ["case $(uname -n) in", *cases, unknown, "esac"]
    return ("/bin/sh", "-c", "\n".join([*lines, _search() + _script("rank")]), "rank", *program)


def _netdevs_line(netdevs: str) -> str:
    return f"netdevs={shlex.quote(netdevs)}"


def in_container(containers: Containers, script: str) -> str:
    """The text that runs a script in a host's container, its errors in the same stream."""
    words = ("docker", "exec", containers.name, "/bin/bash", "-c", f"exec 2>&1\n{script}")
    return shlex.join(words) + "\n"


def shell_words(command: tuple[str, ...]) -> str:
    """The command for a shell; a word with a variable is expanded, and stays one word."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in command)


@cache
def _file(folder: str, name: str) -> str:
    return resources.files("components.containers").joinpath(folder, name).read_text("utf-8")


def _script(name: str) -> str:
    return tools.strip_comments(_file("scripts", f"{name}.sh"))


def _search() -> str:
    return job_script("find_gid") + _script("rdma_device")


def find_devices(netdevs: tuple[str, ...]) -> str:
    """The lines that set `$hca`, `$gid` and `$hcas` from the interfaces of a host's rails."""
    return f"{_netdevs_line(' '.join(netdevs))}\n{_search()}"


def dockerfile_text() -> str:
    """The multi-node image; its build arguments differ from site to site."""
    return _file("image", "Dockerfile")


@cache
def _mpicont() -> str:
    text = _file("scripts", "mpicont.sh")
    if text.count(_NAME_LINE) != 1:
        raise Bug(f"mpicont.sh must hold {_NAME_LINE!r} once")
    return text


def mpicont_text(container: str) -> str:
    """The forced command for one container, as it is installed, comments included."""
    return _mpicont().replace(_NAME_LINE, f"container={container} #")


def _short_digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256, as the scripts print it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def containers_tool() -> tools.Tool:
    """Assemble all scripts that run on a host for its containers."""
    verbs = {
        verb: "".join(_file("scripts", f"{part}.sh") for part in (*parts, verb))
        for verb, parts in _PARTS.items()
    }
    return tools.assemble(
        "containers",
        (
            tools.linux_text(),
            tools.shell_lines("mpicont_lines", _mpicont()),
            tools.shell_lines("dockerfile_lines", dockerfile_text()),
        ),
        verbs,
    )


def _containers_call(verb: Verb, **arguments: str) -> tools.ToolCall:
    """One verb of the tool of this room."""
    words = tuple(f"{key}={value}" for key, value in sorted(arguments.items()))
    return tools.ToolCall(containers_tool(), verb, words)


@record
class HostPayload:
    """One worker: its secrets, then its container."""

    stores: tuple[RemoteStep, ...]
    """Each writes one secret to a file that only root reads."""
    container: RemoteStep


@record
class PayloadPlan:
    """The containers of all workers. Order: secrets, then the image, then the containers."""

    keys: str
    """Arguments of `railyard` that print the keys."""
    base_login: RemoteStep | None
    """On the first worker: stores the password of the base image's registry."""
    image: RemoteStep | None
    hosts: tuple[HostPayload, ...]
    watched: tuple[Watched, ...]

    @property
    def build(self) -> tuple[RemoteStep, ...]:
        """The steps of the image, one after the other."""
        return tuple(step for step in (self.base_login, self.image) if step is not None)

    @property
    def steps(self) -> tuple[RemoteStep, ...]:
        """All steps in an order in which they may run."""
        stores = tuple(step for host in self.hosts for step in host.stores)
        return (*stores, *self.build, *(host.container for host in self.hosts))


def plan_payload(spec: ClusterSpec, stack: str | None = None) -> PayloadPlan | None:
    """Plan the containers of a site without Kubernetes; None for a site with it.

    The stack, by default the cluster's name, names the folder of the records on the hosts.
    """
    containers = spec.containers
    if containers is None:
        return None
    if not spec.workers:
        raise Bug("a payload needs a worker")  # the check `worker-count` refuses that before
    stack = stack or spec.name
    logins = [containers.login] if containers.login else []
    planned = [_container(spec, containers, host, stack) for host in spec.workers]
    first = spec.workers[0]
    build = containers.build
    base = build.login if build else None
    image: RemoteStep | None = None
    if build:
        lines = _arguments(build) | _registry(containers.image, containers.login)
        lines |= _registry(build.base, build.login, "base_")
        lines |= {"stack": stack, "image": containers.image, "build": build_digest(build)}
        head = _head(containers, first, stack)
        image = _step(first, "image", "build", head, lines, BUILD_DEADLINE_S)
    return PayloadPlan(
        keys=f"payload keys --stack {stack}",
        base_login=_login_store(first, stack, "base_registry", base) if base else None,
        image=image,
        hosts=tuple(
            HostPayload(
                (
                    _store(host, stack, "payload-keys", "keys", KEYS),
                    *(_login_store(host, stack, "registry", each) for each in logins),
                ),
                watched.step,
            )
            for host, watched in zip(spec.workers, planned, strict=True)
        ),
        watched=tuple(planned),
    )


def _login_store(host: Host, stack: str, registry: str, login: RegistryLogin) -> RemoteStep:
    work = f"{registry.replace('_', '-')}-password"
    return _store(host, stack, work, f"{registry}-password", login.password.name)


def _store(host: Host, stack: str, work: str, file: str, secret: str) -> RemoteStep:
    made = _step(host, work, "store", {"stack": stack, "file": file}, {}, STORE_DEADLINE_S)
    return replace(made, secret_stdin=secret)


def _step(
    host: Host, work: str, verb: Verb, head: Lines, desired: Lines, deadline_s: float
) -> RemoteStep:
    return RemoteStep(
        name=f"{host.name}-{work}",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState(desired).render(),
        apply=_containers_call(verb, **head),
        undo=_containers_call(_UNDO[verb], **head),
        deadline_s=deadline_s,
    )


def _registry(image: str, login: RegistryLogin | None, prefix: str = "") -> dict[str, str]:
    if login is None:
        return {}
    return {f"{prefix}registry": registry_of(image), f"{prefix}registry_user": login.user}


def _head(containers: Containers, host: Host, stack: str) -> dict[str, str]:
    return {"stack": stack, "login": host.way.user, "name": containers.name}


def _arguments(build: ImageBuild) -> dict[str, str]:
    """The arguments of the Dockerfile; it explains the empty ones."""
    return {
        "arg.BASE": build.base,
        "arg.MOFED_VERSION": build.mofed_version or "",
        "arg.MOFED_SHA256": build.mofed_sha256 or "",
        "arg.OS_VERSION": build.os_version,
    }


def build_digest(build: ImageBuild) -> str:
    """The fingerprint of a build: the image carries it as its label `railyard.build`."""
    lines = enumerate(dockerfile_text().splitlines(), 1)
    file = {f"dockerfile.line_{number:03}": line for number, line in lines}
    return _short_digest(HostState(_arguments(build) | file).render())


def container_flags(containers: Containers) -> str:
    """The guide's `docker run` flags; `~` is the login user's home.

    The guide's container ends with a reboot of its machine; ours starts again after a reboot,
    because an update that changes nothing in the container may reboot a hypervisor.
    """
    return (
        "--gpus=all --net=host --uts=host --ipc=host"
        f" --ulimit stack={containers.stack_bytes} --ulimit memlock=-1 --ulimit nofile={OPEN_FILES}"
        f" --shm-size={containers.shm_size_gib}g --name={containers.name}"
        " --device=/dev/infiniband -v ~/.ssh/ssh_container:/root/.ssh --restart=unless-stopped"
    )


def desired_state(spec: ClusterSpec, containers: Containers, host: Host) -> HostState:
    """All settings that one worker should have."""
    user = host.way.user
    state = {
        "key.stored": "yes",
        "key.host": f"600 {user}",
        "key.host_public": f"644 {user}",
        # Only root in the container uses the other pair: the login user need not read it.
        "key.container": "600 root",
        "key.container_public": "600 root",
        "folder.host": f"700 {user}",
        "folder.container": "700 root",
        # Only the own address makes these differ from host to host.
        "host_config.bind": host.address,
        "container_config.bind": host.address,
        "mpicont.digest": _short_digest(mpicont_text(containers.name)),
        "mpicont.mode": "755 root",
        "container.image": containers.image,
        "container.flags": container_flags(containers),
        "container.state": "running",
    }
    if containers.build is not None:
        state["container.build"] = build_digest(containers.build)
    return HostState({**state, **_peer_digests(spec)})


@once
def _peer_digests(spec: ClusterSpec) -> dict[str, str]:
    return {f"{name}.digest": _short_digest(text) for name, text in _peer_texts(spec).items()}


def _container(spec: ClusterSpec, containers: Containers, host: Host, stack: str) -> Watched:
    desired = desired_state(spec, containers, host)
    head, peers = _head(containers, host, stack), peer_list(spec)
    more = {**_registry(containers.image, containers.login), "peers": peers.digest, "stack": stack}
    lines = {**desired.values, **more}
    step = _step(host, "container", "converge", head, lines, CONTAINER_DEADLINE_S)
    return Watched(
        device=f"{host.name} container",
        step=replace(step, reads=(peers,)),
        desired=desired,
        observe=_containers_call("observe", **head),
        parameters=PARAMETERS,
    )

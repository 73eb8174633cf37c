"""K3s' configuration as K3s reads it: config.yaml, its drop-ins, flags and the environment.

Source: K3s docs, installation/configuration.md (sources.md#k3s): the keys are the flag
names, drop-ins follow in alphabetical order, the last value wins, `key+` appends to a list, and
flags on the command line win over files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast

import yaml

from components.core.errors import DeviceError
from components.core.record import field, record
from lab.cluster.document import Json, as_doc
from lab.cluster.release import K3S_VERSION, RELEASE_VARIABLE

Role = Literal["server", "agent"]
Flags: TypeAlias = "dict[str, list[str]]"

_FLAGS_FILE = Path(__file__).with_name("k3s_flags.txt")
_MODE = re.compile(r"0?[0-7]{3}")


@record
class HostPaths:
    """Where K3s keeps things on a host; `root` is `/` save in trials."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """Place an absolute path of the host under its root."""
        return self.root / path.lstrip("/")

    @property
    def etc(self) -> Path:
        """K3s' configuration."""
        return self.at("/etc/rancher/k3s")

    @property
    def server(self) -> Path:
        """The server's data."""
        return self.at("/var/lib/rancher/k3s/server")

    @property
    def agent(self) -> Path:
        """The agent's data."""
        return self.at("/var/lib/rancher/k3s/agent")


@record
class K3sConfig:
    """What the lab's K3s honours of the configuration."""

    role: Role
    node_name: str
    node_ip: str
    token: str = ""
    server: str = ""
    api_port: int = 6443
    cluster_init: bool = False
    tls_sans: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    api_args: tuple[str, ...] = ()
    kubeconfig_mode: int = 0o600
    node_args: tuple[str, ...] = ()
    agent_token: str = ""
    """What a server lets agents in with, beside its own token."""


def own_release() -> str:
    """The release that this program plays; a later artefact of the mirror names its own."""
    return os.environ.get(RELEASE_VARIABLE, K3S_VERSION)


def read_hostname(paths: HostPaths) -> str:
    """Give the host's name: its own file first, then the kernel's."""
    file = paths.at("/etc/hostname")
    return file.read_text().strip() if file.is_file() else os.uname().nodename


def load_flags(paths: HostPaths) -> Flags:
    """Read config.yaml and its drop-ins; neither needs to exist.

    Raises:
        DeviceError: a file is no YAML mapping.
    """
    flags: Flags = {}
    files = [paths.etc / "config.yaml", *sorted((paths.etc / "config.yaml.d").glob("*.yaml"))]
    for file in files:
        if file.is_file():
            _merge(flags, file)
    return flags


def _merge(flags: Flags, file: Path) -> None:
    try:
        document = cast("Json", yaml.safe_load(file.read_text()))
    except yaml.YAMLError as error:
        raise DeviceError(f"yaml: {error}") from error
    if document is not None and not isinstance(document, dict):
        raise DeviceError(f"yaml: {file}: a mapping of flags is expected")
    for key, value in as_doc(document).items():
        texts = [_text(item) for item in (value if isinstance(value, list) else [value])]
        if key.endswith("+"):
            flags.setdefault(key[:-1], []).extend(texts)
        else:
            flags[key] = texts


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_flags(args: Sequence[str]) -> Flags:
    """Read the flags of a command line: `--key=value`, `--key value` or a bare `--key`."""
    flags: Flags = {}
    rest = list(args)
    while rest:
        key, equals, value = rest.pop(0).lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        flags.setdefault(key, []).append(value)
    return flags


def _known_flags(role: Role) -> frozenset[str]:
    lines = [line.split() for line in _FLAGS_FILE.read_text().splitlines() if line[0] != "#"]
    return frozenset(flag for owner, flag in lines if owner in {"both", role})


def check_flags(role: Role, flags: Flags) -> None:
    """Refuse a flag that K3s does not have, in the words of its command line parser.

    Newer servers only warn about an unknown key of config.yaml and go on; the lab is as strict as
    the agent and the older servers are, so that a spelling mistake cannot hide.

    Raises:
        DeviceError: a flag is unknown for the role.
    """
    known = _known_flags(role)
    for key in flags:
        if key not in known:
            raise DeviceError(f"flag provided but not defined: -{key}")


def make_config(
    role: Role, flags: Flags, env: Mapping[str, str], paths: HostPaths, hostname: str
) -> K3sConfig:
    """Make the configuration of a role out of its flags and the environment.

    Raises:
        DeviceError: a value is missing or cannot be used.
    """
    check_flags(role, flags)

    def last(key: str, default: str = "") -> str:
        return flags[key][-1] if flags.get(key) else default

    node_ip = last("node-ip") or last("advertise-address") or last("bind-address")
    if not node_ip.startswith("127."):
        raise DeviceError(
            f"node-ip is {node_ip or 'not set'}; in the lab a node lives on one loopback address: "
            "set node-ip to the host's 127.x address in /etc/rancher/k3s/config.yaml"
        )
    mode = last("write-kubeconfig-mode", "600")
    if not _MODE.fullmatch(mode):
        raise DeviceError(f'invalid value "{mode}" for flag -write-kubeconfig-mode')
    server = last("server") or env.get("K3S_URL", "")
    if role == "agent" and not server:
        raise DeviceError("--server is required")
    return K3sConfig(
        role=role,
        node_name=(last("node-name") or hostname).lower(),
        node_ip=node_ip,
        token=_read_token(last("token"), last("token-file"), env, paths),
        agent_token=_read_agent_token(last("agent-token"), last("agent-token-file"), env, paths),
        server=server,
        api_port=int(last("https-listen-port", "6443")),
        cluster_init=last("cluster-init") == "true",
        tls_sans=_split(flags.get("tls-san", [])),
        labels=dict(label.split("=", 1) for label in _split(flags.get("node-label", []))),
        taints=_split(flags.get("node-taint", [])),
        disable=_split(flags.get("disable", [])),
        api_args=tuple(flags.get("kube-apiserver-arg", [])),
        kubeconfig_mode=int(mode, 8),
        node_args=(role, *_node_args(flags)),
    )


def _node_args(flags: Flags) -> list[str]:
    # K3s publishes its arguments in an annotation of the node, with the secret ones starred out.
    secret = {"token", "agent-token"}
    pairs = [(key, "********" if key in secret else v) for key, vs in flags.items() for v in vs]
    return [part for key, value in pairs for part in (f"--{key}", value)]


def _split(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _read_token(token: str, file: str, env: Mapping[str, str], paths: HostPaths) -> str:
    return _of_file(token or env.get("K3S_TOKEN", ""), file or env.get("K3S_TOKEN_FILE", ""), paths)


def _read_agent_token(token: str, file: str, env: Mapping[str, str], paths: HostPaths) -> str:
    return _of_file(
        token or env.get("K3S_AGENT_TOKEN", ""), file or env.get("K3S_AGENT_TOKEN_FILE", ""), paths
    )


def _of_file(token: str, file: str, paths: HostPaths) -> str:
    if token or not file:
        return token
    try:
        return paths.at(file).read_text().strip()
    except OSError as error:
        raise DeviceError(f"open {file}: {(error.strerror or '').lower()}") from error
